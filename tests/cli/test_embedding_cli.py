"""`pomp embedding` and the plots of embeddings, as a user types them."""

import json

import pytest

from pomp.cli.main import main
from pomp.core.errors import ConfigError, UnknownNameError
from pomp.embedding.config import ModelConfig, ReinforceConfig, TrainingConfig
from pomp.embedding.weights import find_weights, load_weights


def call(capsys, *arguments):
    """Exit status, standard output and standard error of a command."""
    with pytest.raises(SystemExit) as caught:
        main(list(arguments))
    output, errors = capsys.readouterr()
    return caught.value.code, output, errors


def test_info_describes_what_is_shipped(capsys):
    status, output, _ = call(capsys, "embedding", "info", "--json")
    cards = json.loads(output)
    assert status == 0
    assert {"best", "paper"} <= set(cards) <= {"best", "paper", "hprl"}
    assert cards["paper"]["parameters"]["total"] == 1_839_855
    status, output, _ = call(capsys, "embedding", "info")
    assert status == 0
    assert "best (the default)" in output


def test_eval_prints_the_measures_and_the_same_ones_again(capsys):
    arguments = ("embedding", "eval", "paper", "--programs", "40", "--seed", "2", "--json")
    status, output, _ = call(capsys, *arguments)
    found = json.loads(output)
    assert status == 0
    assert set(found) == {
        *("program_accuracy", "token_accuracy", "action_accuracy", "demo_accuracy"),
        *("parse_rate", "smoothness", "programs", "split"),
    }
    assert json.loads(call(capsys, *arguments)[1]) == found


def test_a_dataset_is_the_same_file_every_time(capsys, tmp_path):
    sizes = ("--train", "300", "--validation", "20", "--test", "20", "--seed", "4")
    for name in ("one", "two"):
        status, output, _ = call(
            capsys, "embedding", "dataset", "--out", str(tmp_path / name), *sizes, "--stats"
        )
        assert status == 0
        assert "mean_tokens" in output
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("embedding", "eval", "nobody"), "unknown embedding 'nobody'"),
        (("embedding", "eval", "--programs", "0"), "--programs must be from 1 to 1,000,000, got 0"),
        (("embedding", "eval", "--seed", "-1"), "--seed must not be negative, got -1"),
        (("embedding", "info", "missing.safetensors"), "does not exist"),
        (("embedding", "dataset", "--out", "no/such/file"), "there is no folder"),
        (
            ("embedding", "dataset", "--out", "x", "--train", "-5"),
            "train must be a whole number from 0",
        ),
        (
            ("embedding", "dataset", "--out", "x", "--max-tokens", "99"),
            "max_tokens must be a whole number from 5 to 45",
        ),
        (
            ("embedding", "dataset", "--out", "x", "--walls", "2"),
            "walls must be from 0 to 1, got 2",
        ),
        (("embedding", "train", "--out", "x", "--minutes", "0"), "--minutes must be positive"),
        (("embedding", "train", "--out", "x", "--data", "missing"), "does not exist"),
        (("embedding", "train", "--out", "x", "--resume"), "holds no run"),
        (("embedding", "train", "--out", "x", "--device", "cuda"), "cuda"),
        (("embedding", "dataset", "--out", "/dev/full"), "no regular file"),
        (("embedding", "train", "--out", "x", "--minutes", "nan"), "--minutes must be positive"),
        (("embedding", "space", "--out", "picture"), "a picture's name ends in"),
        (("embedding", "space", "--programs", "1"), "--programs must be from 3"),
        (("embedding", "interpolation", "--steps", "1"), "--steps must be from 2"),
        (("embedding", "interpolation", "--between", "DEF run", "DEF"), "expected"),
        (("plot", "nowhere"), "'nowhere' holds no run: no readable config.json; expected the"),
    ],
)
def test_bad_input_is_told_and_changes_nothing(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    status, _, errors = call(capsys, *arguments)
    assert status == 2
    assert message in errors
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


def test_pictures_are_drawn(capsys, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    config = {"kind": "embedding", "training": {"epochs": 5}}
    (run / "config.json").write_text(json.dumps(config))
    losses = {"reconstruction": 1.0, "kl": 0.5, "behaviour": 0.25, "total": 1.3}
    lines = [
        {"epoch": epoch, "train": losses, "validation": losses, "greedy_program_accuracy": 0.1}
        for epoch in range(3)
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (run / "metrics.jsonl").open("a").write('{"epoch": 3, "train": 1, "validation": {}}\n')
    for arguments in (("plot", run), ("embedding", "space", "paper", "--programs", "60")):
        out = tmp_path / f"{arguments[0]}.png"
        status, _, _ = call(capsys, *map(str, arguments), "--out", str(out))
        assert status == 0
        assert out.read_bytes().startswith(b"\x89PNG")
    status, output, _ = call(capsys, "report", str(run))
    assert (status, output.splitlines()) == (
        0,
        [
            "embedding, 3 of 5 epochs",
            "best epoch 1: loss 1.3000, programs right 10.0%",
            "not finished; go on with --resume",
        ],
    )


def test_an_interpolation_is_printed(capsys):
    status, output, _ = call(capsys, "embedding", "interpolation", "--steps", "4", "--json")
    points = json.loads(output)
    assert status == 0
    assert [round(point["share"], 2) for point in points] == [0, 0.33, 0.67, 1]


@pytest.mark.parametrize(
    "values",
    [
        {"learning_rate": float("nan")},
        {"learning_rate": -1.0},
        {"epochs": 0},
        {"epochs": 1.5},
        {"seed": -1},
        {"reinforce": {"decay_updates": 0}},
        {"reinforce": {"gradient_norm": -1.0}},
        {"reinforce": {"batch": 10, "minibatches": 3}},
        {"model": {"width": 10_000_000}},
        {"model": {"vocabulary": "klingon"}},
        {"model": {"noise": float("nan")}},
    ],
)
def test_settings_that_cannot_be_are_refused_with_name_and_value(values):
    nested = {"reinforce": ReinforceConfig, "model": ModelConfig}
    with pytest.raises((ConfigError, UnknownNameError), match=r"got|multiple|unknown"):
        TrainingConfig(
            **{
                name: nested[name](**value) if name in nested else value
                for name, value in values.items()
            }
        )


def test_the_weights_folder_can_be_named(capsys, tmp_path):
    (tmp_path / "weights.safetensors").write_bytes(find_weights("paper").read_bytes())
    status, output, _ = call(capsys, "embedding", "info", str(tmp_path))
    assert status == 0
    assert "35,000 of" in output


def test_what_is_not_given_beside_resume_is_as_it_was(capsys, tmp_path):
    out = tmp_path / "run"
    sizes = ("--dataset.train", "40", "--dataset.validation", "8", "--dataset.test", "8")
    train = ("embedding", "train", "--out", str(out))
    small = ("--training.batch", "20", "--training.reinforce.batch", "20")
    parts = ("latent", "width", "policy-width")
    narrow = [one for part in parts for one in (f"--training.model.{part}", "16")]
    begun = (*train, "paper", *sizes, *small, *narrow, "--training.epochs", "1")
    assert call(capsys, *begun)[0] == 0
    status, output, errors = call(capsys, *train, "--resume", "paper")
    assert (status, "was finished before" in output) == (0, True), errors
    status, output, errors = call(capsys, *train, "--resume", "paper", "--training.epochs=2")
    assert (status, ": finished" in output) == (0, True), errors
    config = json.loads((out / "config.json").read_text())
    assert (config["dataset"]["train"], config["training"]["epochs"]) == (40, 2)
    _, _, errors = call(capsys, *train, "--resume", "paper", "--dataset.train", "35000")
    assert "begun otherwise: dataset.train (40 before, 35000 now)" in errors
    _, _, errors = call(capsys, *train, "--resume", "best")
    assert "was begun with another recipe" in errors


def test_the_embedding_of_hprl_is_trained_by_its_recipe(capsys, tmp_path):
    out = tmp_path / "run"
    sizes = ("--dataset.train", "40", "--dataset.validation", "8", "--dataset.test", "8")
    train = ("embedding", "train", "--out", str(out))
    small = (*sizes, "--training.batch", "20", "--training.epochs", "1")
    assert call(capsys, *train, "hprl", *small)[0] == 0
    trained = load_weights(out / "weights.safetensors")
    assert trained.model.parameter_counts()["total"] == 931_359
    config = json.loads((out / "config.json").read_text())
    data, training = config["dataset"], config["training"]
    assert (data["vocabulary"], data["walls"], data["max_tokens"]) == ("hprl", 0.15, 40)
    assert (data["least_states"], data["most_states"], data["demonstrations"]) == (2, 50, 10)
    assert (training["behaviour"], training["reinforce"]["start_accuracy"]) == (1.0, 2.0)
    _, _, errors = call(capsys, *train, "--resume", "best")
    assert "another recipe: training.model.vocabulary is hprl, not leaps" in errors
