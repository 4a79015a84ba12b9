"""Training: the same bytes however it is cut, and nothing lost when something goes wrong."""

import importlib
import json
import resource
import signal
from dataclasses import replace

import numpy as np
import pytest

from pomp.cli.main import main
from pomp.core.errors import ConfigError, DataFileError, OutputError
from pomp.core.storage import read_arrays
from pomp.embedding.config import DatasetConfig, ModelConfig, ReinforceConfig, TrainingConfig
from pomp.embedding.dataset import make_dataset
from pomp.runs.embeddings import WEIGHTS_FILE, EmbeddingRun, read_epochs
from pomp.runs.event_files import EVENTS_FILE
from pomp.runs.folder import METRICS_FILE, STATE_FILE
from processes import run_pomp, run_until

SMALL = ModelConfig(latent=16, width=16, policy_width=16)
CONFIG = TrainingConfig(
    epochs=2,
    batch=32,
    demonstrations=2,
    model=SMALL,
    reinforce=ReinforceConfig(start_accuracy=0.0, batch=32, states=3),
)
CONFIG_DATA = DatasetConfig(train=128, validation=32, test=16, seed=5)
STEPS = 2 * (4 + 1 + 4 + 1)  # of all of CONFIG: steps, judging, updates, the end of the epoch
ARGUMENTS = [
    *("paper", "--dataset.train", "128", "--dataset.validation", "32", "--dataset.test", "16"),
    *("--dataset.seed", "5", "--training.epochs", "2", "--training.batch", "32"),
    *("--training.demonstrations", "2", "--training.model.latent", "16"),
    *("--training.model.width", "16", "--training.model.policy-width", "16"),
    *("--training.reinforce.start-accuracy", "0", "--training.reinforce.batch", "32"),
    *("--training.reinforce.states", "3"),
]


@pytest.fixture(scope="module")
def dataset():
    return make_dataset(CONFIG_DATA)


def training_of(folder, dataset, config=CONFIG, *, resume=False):
    run = EmbeddingRun(config, dataset, folder)
    run.folder.open("embedding", run.describe, resume=resume)
    training = run.train_on(dataset)
    training.open()
    return training


def advance(training, steps=None):
    """Some steps, or all that are left; returns whether the training is finished."""
    taken = iter(range(10**9))
    return advance_until(training, lambda: steps is not None and next(taken) >= steps)


def advance_until(training, stop):
    stops = []
    while not training.is_finished and not stops:
        training.advance(lambda: bool(stops) or (stop() and not stops.append(True)))
    training.save()
    return training.is_finished


def weights_of(folder):
    return read_arrays(folder / WEIGHTS_FILE, "embedding")[0]


def state_of(folder):
    return read_arrays(folder / STATE_FILE, "training state")[0]


def assert_equal(one, two):
    assert one.keys() == two.keys()
    for name, array in one.items():
        np.testing.assert_array_equal(array, two[name], err_msg=name)


@pytest.fixture(scope="module")
def straight(tmp_path_factory, dataset):
    folder = tmp_path_factory.mktemp("runs") / "straight"
    assert advance(training_of(folder, dataset))
    return folder


@pytest.mark.parametrize("stops", [[1], [4], [5], [7, 2], [10], [13, 1, 1], [STEPS - 1]])
def test_a_training_that_was_cut_ends_in_the_same_bytes(tmp_path, dataset, straight, stops):
    folder = tmp_path / "cut"
    assert not advance(training_of(folder, dataset), stops[0])
    for steps in stops[1:]:
        assert not advance(training_of(folder, dataset, resume=True), steps)
    assert advance(training_of(folder, dataset, resume=True))
    assert_equal(weights_of(folder), weights_of(straight))
    assert_equal(state_of(folder), state_of(straight))
    kept = [{**line, "seconds": 0} for line in read_epochs(folder)]
    assert kept == [{**line, "seconds": 0} for line in read_epochs(straight)]


def test_another_seed_gives_other_weights(tmp_path, dataset, straight):
    folder = tmp_path / "other"
    advance(training_of(folder, dataset, replace(CONFIG, seed=1)))
    assert any(
        (weights_of(folder)[name] != array).any() for name, array in weights_of(straight).items()
    )


def test_training_lowers_the_loss(tmp_path, dataset):
    config = replace(CONFIG, epochs=12, reinforce=ReinforceConfig(start_accuracy=2.0))
    advance(training_of(tmp_path / "run", dataset, config))
    losses = [line["train"]["total"] for line in read_epochs(tmp_path / "run")]
    assert losses[-1] < 0.85 * losses[0]


def test_the_reinforce_pass_waits_for_its_accuracy(tmp_path, dataset, straight):
    assert all("reward" in line for line in read_epochs(straight))
    config = replace(CONFIG, reinforce=replace(CONFIG.reinforce, start_accuracy=0.8))
    advance(training_of(tmp_path / "gated", dataset, config))
    assert not any("reward" in line for line in read_epochs(tmp_path / "gated"))


def test_the_kept_weights_are_those_of_the_lowest_validation_loss(straight):
    losses = [line["validation"]["total"] for line in read_epochs(straight)]
    _, header = read_arrays(straight / WEIGHTS_FILE, "embedding")
    assert header["card"]["metrics"]["epoch"] == int(np.argmin(losses))


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"seed": 3}, "training.seed (0 before, 3 now)"),
        ({"model": replace(SMALL, latent=8)}, "training.model.latent (16 before, 8 now)"),
        ({"reinforce": replace(CONFIG.reinforce, states=4)}, "training.reinforce.states"),
    ],
)
def test_resuming_with_another_config_names_the_field(tmp_path, dataset, change, name):
    folder = tmp_path / "run"
    advance(training_of(folder, dataset), 3)
    before = (folder / STATE_FILE).read_bytes()
    with pytest.raises(ConfigError) as caught:
        training_of(folder, dataset, replace(CONFIG, **change), resume=True)
    assert name in str(caught.value)
    assert (folder / STATE_FILE).read_bytes() == before


def test_a_folder_in_which_something_is_is_refused(tmp_path, dataset):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match="exists"):
        training_of(tmp_path, dataset)


def test_resuming_what_was_never_begun_is_refused(tmp_path, dataset):
    with pytest.raises(DataFileError, match="holds no run"):
        training_of(tmp_path / "nothing", dataset, resume=True)


def test_a_run_stopped_before_its_first_checkpoint_begins_again(tmp_path, dataset, straight):
    folder = tmp_path / "run"
    training_of(folder, dataset)
    (folder / METRICS_FILE).write_text('{"epoch": 0}\n{"cut sho')
    assert advance(training_of(folder, dataset, resume=True))
    assert_equal(weights_of(folder), weights_of(straight))


def test_a_damaged_checkpoint_is_refused(tmp_path, dataset):
    folder = tmp_path / "run"
    advance(training_of(folder, dataset), 3)
    content = (folder / STATE_FILE).read_bytes()
    (folder / STATE_FILE).write_bytes(content[: len(content) // 2])
    with pytest.raises(DataFileError, match="is damaged"):
        training_of(folder, dataset, resume=True)


def test_a_full_disk_leaves_the_checkpoint_before(tmp_path, dataset, monkeypatch):
    folder = tmp_path / "run"
    training = training_of(folder, dataset)
    advance(training, 3)
    before = (folder / STATE_FILE).read_bytes()
    monkeypatch.setattr(
        "pathlib.Path.write_bytes", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left"))
    )
    with pytest.raises(OutputError, match="No space left"):
        training.save()
    assert (folder / STATE_FILE).read_bytes() == before
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == [".lock"]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (replace(CONFIG, model=replace(SMALL, vocabulary="hprl")), "vocabulary"),
        (replace(CONFIG, batch=500), "batch is 500, but there are 128"),
        (replace(CONFIG, reinforce=ReinforceConfig()), "reinforce.batch is 512"),
        (replace(CONFIG, demonstrations=11), "demonstrations is 11"),
    ],
)
def test_a_training_the_dataset_is_not_made_for_is_refused(tmp_path, dataset, config, message):
    with pytest.raises(ConfigError, match=message):
        training_of(tmp_path / "run", dataset, config)


def test_a_training_that_diverges_says_so(tmp_path, dataset):
    training = training_of(tmp_path / "run", dataset)
    for weight in training.trainer.model.parameters():
        weight.data.fill_(np.nan)
    with pytest.raises(ConfigError, match="diverged in epoch 1"):
        advance(training)


def test_a_stop_during_validation_is_heeded(tmp_path, dataset, straight):
    folder = tmp_path / "run"
    training = training_of(folder, dataset)
    advance(training, 4)
    asked = iter([False, True])
    assert not advance_until(training, lambda: next(asked))
    assert training.trainer.position.epoch == 0
    training._run.folder.close()
    assert advance(training_of(folder, dataset, resume=True))
    assert_equal(weights_of(folder), weights_of(straight))


def test_the_learning_rate_falls_in_steps_or_like_a_cosine(tmp_path, dataset):
    trainer = training_of(tmp_path / "run", dataset, replace(CONFIG, epochs=100)).trainer
    rates = []
    for epoch in (0, 9, 10, 25):
        trainer.position = replace(trainer.position, epoch=epoch)
        rates.append(trainer._learning_rate())
    assert rates == pytest.approx([1e-3, 1e-3, 0.95e-3, 0.95**2 * 1e-3])
    trainer.config = replace(trainer.config, schedule="cosine")
    trainer.position = replace(trainer.position, epoch=50)
    assert trainer._learning_rate() == pytest.approx(0.5e-3)


# As a command: signals, and a limit on the size of files.


def command(folder, *flags):
    return ["embedding", "train", "--out", str(folder), *flags, *ARGUMENTS]


def call(capsys, *arguments):
    with pytest.raises(SystemExit) as caught:
        main(list(arguments))
    return caught.value.code, *capsys.readouterr()


def test_ctrl_c_and_kill_lose_nothing(tmp_path, capsys, straight):
    folder = tmp_path / "run"
    resumed = command(folder, "--resume")
    status, output, errors = run_until((STATE_FILE, 1), signal.SIGINT, *command(folder))
    assert status == 130, errors
    assert "--resume" in output
    status, _, errors = run_until((STATE_FILE, 1), signal.SIGKILL, *resumed)
    assert status == -signal.SIGKILL, errors
    status, _, errors = call(capsys, *resumed)
    assert status == 0, errors
    assert_equal(weights_of(folder), weights_of(straight))
    card = EmbeddingRun(CONFIG, CONFIG_DATA, folder).card()
    assert set(card["test"]) >= {"program_accuracy", "demo_accuracy", "smoothness"}
    status, output, _ = call(capsys, *resumed)
    assert status == 0
    assert "was finished before" in output
    status, _, errors = call(capsys, *resumed, "--training.seed", "7")
    assert status == 2
    assert "training.seed (0 before, 7 now)" in errors


def test_a_file_too_large_for_the_disk_is_told_in_the_last_line(tmp_path):
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    status, _, errors = run_pomp(*command(tmp_path / "run"), preexec_fn=limit)
    assert status == 2, errors
    assert errors.splitlines()[-1].startswith("pomp: cannot write")
    assert "Traceback" not in errors


def test_tensorboard_gets_the_metrics(tmp_path, capsys):
    pytest.importorskip("tensorboard")
    arguments = command(tmp_path / "run", "--tensorboard", "--json")
    status, output, errors = call(capsys, *arguments)
    assert status == 0, errors
    assert json.loads(output)["recipe"]["epochs"] == 2
    accumulator = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(tmp_path / "run" / EVENTS_FILE))
    events.Reload()
    for tag, read in (
        ("validation/total", lambda epoch: epoch["validation"]["total"]),
        ("greedy_program_accuracy", lambda epoch: epoch["greedy_program_accuracy"]),
    ):
        found = [(event.step, event.value) for event in events.Scalars(tag)]
        epochs = read_epochs(tmp_path / "run")
        assert found == [(epoch["epoch"], pytest.approx(read(epoch))) for epoch in epochs]


def test_more_epochs_give_what_a_longer_training_gives(tmp_path, dataset):
    config = replace(CONFIG, epochs=1)
    assert EmbeddingRun(config, dataset, tmp_path / "run").run({})
    assert EmbeddingRun(CONFIG, dataset, tmp_path / "run").run({}, resume=True)
    assert EmbeddingRun(CONFIG, dataset, tmp_path / "longer").run({})
    assert_equal(weights_of(tmp_path / "run"), weights_of(tmp_path / "longer"))
    assert_equal(state_of(tmp_path / "run"), state_of(tmp_path / "longer"))
    files = [(tmp_path / name / "config.json").read_bytes() for name in ("run", "longer")]
    assert files[0] == files[1]
    with pytest.raises(ConfigError, match=r"backwards: training.epochs \(2 before, 1 now\)"):
        EmbeddingRun(config, dataset, tmp_path / "run").run({}, resume=True)


def test_more_epochs_of_a_rate_that_falls_to_zero_are_noted(tmp_path, dataset):
    config = replace(CONFIG, epochs=1, schedule="cosine")
    assert EmbeddingRun(config, dataset, tmp_path / "run").run({})
    assert EmbeddingRun(replace(config, epochs=2), dataset, tmp_path / "run").run({}, resume=True)
    kept = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (kept["training"]["epochs"], kept["extended"]) == (2, {"training.epochs": [1]})


def test_a_folder_is_enough_to_go_on_with_an_embedding(tmp_path, capsys, dataset, straight):
    folder = tmp_path / "run"
    assert not advance(training_of(folder, dataset), 3)
    with pytest.raises(SystemExit) as ended:
        main(["embedding", "train", "--out", str(folder), "--resume"])
    assert ended.value.code == 0
    assert "finished, best epoch" in capsys.readouterr().out
    assert_equal(weights_of(folder), weights_of(straight))
    again = ("--resume", "paper", "--training.batch", "64")
    with pytest.raises(SystemExit) as ended:
        main(["embedding", "train", "--out", str(folder), *again])
    assert ended.value.code == 2
    assert "training.batch (32 before, 64 now)" in capsys.readouterr().err
