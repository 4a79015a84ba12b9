"""Searches as a user runs them: the same bytes however they are cut, and nothing lost."""

import json
import re
import resource
import signal
import subprocess
import sys

import pytest

from pomp.cli.main import main
from pomp.core.errors import ConfigError
from pomp.dsl.vocabulary import HPRL
from pomp.embedding.space import Embedding
from pomp.modes.batch import Batch
from pomp.modes.jobs import Job
from pomp.modes.methods import METHODS, configure
from pomp.modes.scoring import Scorer
from pomp.runs.folder import STATE_FILE, RunFolder
from pomp.runs.searches import SearchRun, read_modes
from pomp.tasks.catalog import find_task
from processes import PATIENCE, run_until

SMALL = ("proposer.iterations=12", "proposer.population=8", "mode.runs=2", "proposer.window=6")
CHANGES = {name: int(value) for name, _, value in (text.partition("=") for text in SMALL)}
CLIMBS = ("hill-climbing", "cebs", "annealing", "pomp-program-space", "annealing-modes")


@pytest.fixture(scope="module")
def embedding():
    return Embedding.load()


def settings_of(method):
    """A method, made small."""
    if method in CLIMBS:
        several = method.startswith("pomp") or method.endswith("-modes")
        changes = {"proposer.candidates": 200, "mode.modes": 2 if several else 1}
        changes["proposer.population" if method == "cebs" else "proposer.chains"] = 16
        return changes | ({"mode.runs": 2} if method.startswith("pomp") else {})
    if method == "leaps-grid":
        return {"proposer.iterations": 2, "score.starts": 1}
    if method == "leaps":
        return CHANGES | {"mode.grid": False}
    return CHANGES | ({} if method in ("cem", "cem-diversity") else {"mode.modes": 2})


def job_of(method, task="Seesaw", seed=0, **changes):
    setting = find_task(task).configure()
    return Job(setting, seed, configure(method, "paper", setting, settings_of(method) | changes))


def search(folder, jobs, steps=None):
    """Run jobs in a folder, from its checkpoint if it has one; save after so many steps."""
    run = SearchRun(jobs, "cpu", RunFolder(folder))
    run.folder.open("search", run.describe, resume=folder.exists())
    run.open()
    while not run.is_finished and steps != 0:
        run.advance(lambda: False)
        steps = None if steps is None else steps - 1
    if run.is_finished:
        run.finish()
    else:
        run.save()


def files_of(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("method", [name for name in METHODS if name != "leaps-grid"])
def test_a_search_cut_anywhere_ends_with_the_same_bytes(method, tmp_path, embedding):
    search(tmp_path / "whole", [job_of(method, seed=3)])
    for steps in (1, 5, 7, 3):
        search(tmp_path / "cut", [job_of(method, seed=3)], steps)
    search(tmp_path / "cut", [job_of(method, seed=3)])
    whole = files_of(tmp_path / "whole")
    assert whole == files_of(tmp_path / "cut")
    modes = json.loads(whole["Seesaw/seed3/modes.json"])["modes"]
    assert len(modes) == job_of(method).config.mode.modes
    assert all(mode["program"].startswith("DEF run m(") for mode in modes)


def test_every_method_in_one_batch_finds_what_it_finds_alone(embedding):
    def jobs():
        methods = [name for name in METHODS if name != "leaps-grid"]  # 216 runs of leaps
        return [job_of(method, task) for method in methods for task in ("Seesaw", "Farmer")]

    together = Batch(jobs(), embedding)
    while not together.is_finished:
        together.step()
    for number in (0, 3, 5, 12, 15, 18, 21):
        alone = Batch([jobs()[number]], embedding)
        while not alone.is_finished:
            alone.step()
        assert alone.jobs[0].result() == together.jobs[number].result()


def test_seeds_and_tasks_search_differently(embedding):
    batch = Batch([job_of("cem", task, seed) for task in ("Maze", "Seesaw") for seed in (0, 1)],
                  embedding)  # fmt: skip
    while not batch.is_finished:
        batch.step()
    latents = {tuple(job.result()["modes"][0]["latent"]) for job in batch.jobs}
    assert len(latents) == 4


def test_a_grid_runs_all_its_settings_and_keeps_the_best(embedding):
    changes = {"proposer.iterations": 1, "score.starts": 1, "mode.grid": True}
    job = job_of("leaps", "Seesaw", **changes)
    batch = Batch([job], embedding)
    while not batch.is_finished:
        batch.step()
    assert len(job.records) == 216
    assert job.records[job.modes[0]].score == max(record.score for record in job.records)
    assert {record.candidates for record in job.records} == {8, 16, 32, 64}


def test_a_killed_search_goes_on_to_the_same_modes(tmp_path, capsys):
    """SIGKILL before the first step, SIGINT and SIGKILL in the middle; then to the end."""
    arguments = ["search", "Seesaw", "--method", "pomp", "--modes", "2", "--seeds", "0,2"]
    for change in ("mode.runs=3", "proposer.iterations=16", "proposer.population=8"):
        arguments += ["--set", change]
    whole, cut = ([*arguments, "--out", str(tmp_path / name)] for name in ("whole", "cut"))
    state = tmp_path / "cut" / STATE_FILE
    resumed = ["search", "--out", str(tmp_path / "cut"), "--resume"]
    assert call(capsys, *whole)[0] == 0
    assert run_until(("seed2/metrics.jsonl", 1), signal.SIGKILL, *cut)[0] == -signal.SIGKILL
    assert not state.exists()
    status, output, errors = run_until(("seed2/metrics.jsonl", 2), signal.SIGINT, *resumed)
    assert status == 130, errors
    assert f"go on with: pomp search --out {tmp_path / 'cut'} --resume" in output
    interrupted = state.read_bytes()
    hasty = run_until((STATE_FILE, 2), signal.SIGKILL, *resumed, is_hasty=True)
    assert hasty[0] == -signal.SIGKILL
    assert state.read_bytes() != interrupted
    assert call(capsys, *resumed)[0] == 0
    assert files_of(tmp_path / "cut") == files_of(tmp_path / "whole")
    status, output, _ = call(capsys, *resumed)
    assert status == 0
    assert "was finished before" in output


def call(capsys, *arguments):
    with pytest.raises(SystemExit) as caught:
        main(list(arguments))
    output, errors = capsys.readouterr()
    return caught.value.code, output, errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("Seesaw", "--modes", "0"), "mode.modes must be a whole number from 1"),
        (("Seesaw", "--modes", "30"), "mode.modes must be a whole number from 1 to 12"),
        (("Maze", "--modes", "2", "--method", "cem"), "--modes goes with pomp, cem-xm"),
        (("Seesaw", "--set", "method=mine"), "a method is chosen by its name"),
        (("Seesaw", "--set", "foo"), "as in proposer.sigma=0.25"),
        (("Seesaw", "--set", "proposer.decay=False"), "decay must be true or false"),
        (("Seesaw", "--set", "proposer.elite_fraction=2"), "smaller than its 128 elites"),
        (("Seesaw", "--method", "hillclimbing"), "Did you mean 'hill-climbing'?"),
        (("Sesaw",), "Did you mean 'Seesaw'?"),
        (("Seesaw", "--seeds", "4-1"), "a range of seeds goes up"),
        (("Seesaw", "--seeds", "one"), "seeds are a number, a list"),
        (("Seesaw", "--seeds", "1,1"), "a seed comes twice"),
        (("Seesaw", "seesaw"), "a task is named twice"),
        (("Seesaw", "--set", "proposer.sigm=1"), "Did you mean 'sigma'?"),
        (("Seesaw", "--set", "proposer.sigma=wide"), "sigma must be from"),
        (("Seesaw", "--set", "proposer=1"), "proposer has fields"),
        (("Seesaw", "--set", "score.cap=220"), "unknown cap '220'"),
        (("Seesaw", "--set", "embedding=nothing"), "nothing"),
        (("Seesaw", "--variant", "leaps"), "unknown variant"),
        (("Seesaw", "--minutes", "0"), "--minutes must be positive"),
        (("Seesaw", "--resume"), "holds no run that could be resumed"),
    ],
)
def test_bad_input_is_refused_in_one_line_and_nothing_is_made(
    arguments, message, capsys, tmp_path
):  # fmt: skip
    out = tmp_path / "out"
    status, output, errors = call(capsys, "search", *arguments, "--out", str(out))
    lines = [line for line in errors.splitlines() if not line.startswith("pomp: compiling")]
    assert (status, output, len(lines)) == (2, "", 1), errors
    assert message in lines[0]
    assert not out.exists()


def test_a_folder_that_exists_and_another_config_are_refused(tmp_path, capsys, embedding):
    folder = tmp_path / "search"
    search(folder, [job_of("cem")], 2)
    before = files_of(folder)
    status, _, errors = call(capsys, "search", "Seesaw", "--method", "cem", "--out", str(folder))
    assert status == 2
    assert "exists; name a new folder, or --resume it" in errors
    status, _, errors = call(
        capsys, "search", "Seesaw", "--method", "cem", "--out", str(folder), "--resume",
        *("--set", "proposer.sigma=0.3"),
    )  # fmt: skip
    assert status == 2
    assert "searches.Seesaw/seed0.proposer.sigma (0.5 before, 0.3 now)" in errors
    assert files_of(folder) == before


def test_an_embedding_of_another_vocabulary_is_refused():
    class Hprl:
        vocabulary = HPRL

    with pytest.raises(ConfigError, match="leaps vocabulary, got hprl"):
        Batch([job_of("cem")], Hprl())


def test_a_finished_search_is_left_alone(tmp_path, capsys, embedding):
    """Also if the last checkpoint is older than the last modes.json: then the rest is repeated."""
    folder = tmp_path / "search"
    changes = [argument for change in SMALL for argument in ("--set", change)]
    arguments = ("search", "Seesaw", "--method", "cem", *changes, "--out", str(folder), "--resume")
    search(folder, [job_of("cem")], 2)
    state = (folder / STATE_FILE).read_bytes()
    assert call(capsys, *arguments)[0] == 0
    finished = files_of(folder)
    status, output, _ = call(capsys, *arguments)
    assert status == 0
    assert "was finished before" in output
    assert files_of(folder) == finished
    (folder / STATE_FILE).write_bytes(state)
    (folder / ".config.json.swp").write_text("an editor's")
    assert call(capsys, *arguments)[0] == 0
    (folder / ".config.json.swp").unlink()
    assert files_of(folder) == finished


def test_an_error_inside_a_step_is_no_place_to_go_on_from(tmp_path, capsys, monkeypatch):
    folder = tmp_path / "search"
    arguments = ["search", "Seesaw", "--method", "hill-climbing", "--out", str(folder)]
    arguments += ["--set", "proposer.candidates=3000"]
    whole = tmp_path / "whole"
    assert call(capsys, *[str(whole) if a == str(folder) else a for a in arguments])[0] == 0
    score, calls = Scorer.score, []

    def fail(self, trials):
        calls.append(1)
        if len(calls) == 20:
            raise KeyboardInterrupt
        score(self, trials)

    with monkeypatch.context() as patch:
        patch.setattr(Scorer, "score", fail)
        assert call(capsys, *arguments)[0] == 130
    assert call(capsys, *arguments, "--resume")[0] == 0
    assert files_of(folder) == files_of(whole)


def test_a_damaged_checkpoint_is_refused_and_kept(tmp_path, capsys, embedding):
    folder = tmp_path / "search"
    search(folder, [job_of("cem")], 2)
    state = folder / STATE_FILE
    state.write_bytes(state.read_bytes()[:100])
    changes = [argument for change in SMALL for argument in ("--set", change)]
    status, _, errors = call(
        capsys, "search", "Seesaw", "--method", "cem", "--out", str(folder), "--resume", *changes
    )
    assert status == 2
    assert "is damaged, or no checkpoint of this run; delete it to begin anew" in errors


def test_a_full_disk_loses_nothing(tmp_path, embedding):
    """A limit on the size of files stands in for the disk's end."""
    folder = tmp_path / "search"
    search(folder, [job_of("pomp")], 4)
    before = (folder / STATE_FILE).read_bytes()
    code = (
        "import resource, sys; from pomp.cli.main import main;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)); main(sys.argv[1:])"
    )
    arguments = ["search", "Seesaw", "--out", str(folder), "--resume", "--modes", "2"]
    for change in SMALL:
        arguments += ["--set", change]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True, text=True, timeout=PATIENCE, check=False,
        preexec_fn=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "cannot write" in done.stderr.splitlines()[-1]
    assert (folder / STATE_FILE).read_bytes() == before
    search(folder, [job_of("pomp")])
    search(tmp_path / "whole", [job_of("pomp")])
    assert files_of(folder) == files_of(tmp_path / "whole")
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 2000


def test_fresh_noise_scores_equal_programs_differently(embedding):
    job = job_of("annealing", "InfHarvester", **{"score.fresh_draws": True})
    batch = Batch([job], embedding)
    while not batch.is_finished:
        batch.step()
    assert read_like(job)["executions"] == job.records[0].executions > 0


def read_like(job):
    return job.result()["modes"][0]


def test_help_lists_every_method(capsys):
    status, output, _ = call(capsys, "search", "--help")
    assert status == 0
    words = re.findall(r"[a-z-]+", output)
    assert set(METHODS) <= set(words)


def test_plots_show_a_search(tmp_path, capsys, embedding):
    search(tmp_path / "search", [job_of("cem-diversity"), job_of("cem", "Maze")])
    out = tmp_path / "picture.png"
    status, _, _ = call(capsys, "plot", str(tmp_path / "search"), "--out", str(out))
    assert status == 0
    assert out.read_bytes().startswith(b"\x89PNG")
    assert read_modes(tmp_path / "search" / "Maze" / "seed0")["task"] == "Maze"
    for arguments, message in (
        ((str(tmp_path), "--out", str(out)), "holds no run: no readable config.json"),
        ((str(tmp_path / "search"), "--task", "Farmer", "--out", str(out)), "holds no paths"),
        ((str(tmp_path / "search"), "--out", str(tmp_path / "x.txt")), "a picture's name ends in"),
    ):
        status, _, errors = call(capsys, "plot", *arguments)
        assert status == 2
        assert message in errors
