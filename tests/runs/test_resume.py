"""Runs taken up from their folder alone, extended, and kept from two processes at once."""

import json
import shutil
import signal
import sys
from pathlib import Path

import pytest

import pomp
from edited import edit_json, read_values
from pomp.cli.main import main
from pomp.core import ConfigError, DataFileError, OutputError
from pomp.core.locks import locked
from pomp.evolution.config import EvolveConfig
from pomp.modes.methods import METHODS, configure
from pomp.runs.evolve_plan import EvolvePlan
from pomp.runs.folder import RunFolder
from pomp.runs.plan import TrainPlan, make_plan
from pomp.runs.search_plan import SearchPlan
from pomp.runs.searches import SearchRun
from pomp.tasks import find_task
from processes import run_pomp, run_until

EXAMPLES = Path(__file__).parents[2] / "examples"
EVOLVE = {"chains": 8, "starts": 4, "validation_starts": 8, "steps": 30}
SEARCH = {"method": "hill-climbing", "settings": {"proposer.candidates": 600}}
MODES = ("DEF run m( move m)", "DEF run m( turnLeft m)")
PPO = {
    "ppo.total": 256,
    "ppo.actors": 8,
    "ppo.steps": 16,
    "ppo.minibatch": 32,
    "validation.every": 1,
    "validation.episodes": 4,
}


def call(capsys, *given):
    with pytest.raises(SystemExit) as caught:
        main([str(part) for part in given])
    captured = capsys.readouterr()
    return caught.value.code, captured.out, captured.err


def files_of(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def stop(event):
    return True


def through_json(value):
    return json.loads(json.dumps(value))


# A config and the plan it came from


def test_an_evolution_is_planned_again_from_its_config():
    settings = (find_task("Farmer").configure(), find_task("Harvester").configure(size=(10, 10)))
    plan = EvolvePlan(settings, (0, 3), EvolveConfig(chains=5), 2.5, 7)
    read = EvolvePlan.from_json(through_json(plan.describe()), ())
    assert read.describe() == plan.describe()
    assert (read.settings[1].height, read.settings[1].width) == (10, 10)


@pytest.mark.parametrize("method", METHODS)
def test_a_search_is_planned_again_from_its_config(method):
    settings = (find_task("Farmer").configure(), find_task("Maze").configure())
    configs = tuple(configure(method, "best", one) for one in settings)
    plan = SearchPlan(settings, configs, (1, 2))
    described = SearchRun(plan.jobs(), "cpu", RunFolder(None)).describe()
    read = SearchPlan.from_json(through_json(described), ())
    assert (read.configs, read.seeds, read.device) == (configs, (1, 2), "cpu")
    assert SearchRun(read.jobs(), "cpu", RunFolder(None)).describe() == described


@pytest.mark.parametrize(
    ("preset", "method", "modes", "changes"),
    [
        ("best", "text", None, {}),
        ("best", "text-modes", None, {"search.rounds": 3, "learning_rates": (1e-2, 1e-3)}),
        ("paper", None, None, {"search.mode.runs": 5, "ppo.entropy": 0.2}),
        ("code", "psmp", None, {}),
        ("paper", None, MODES, {"ppo.total": 99}),
        ("best", None, EXAMPLES / "before", {}),
    ],
)
def test_a_training_is_planned_again_from_its_config(tmp_path, preset, method, modes, changes):
    if isinstance(modes, Path):
        file = tmp_path / "UpNDown" / "seed0" / "UpNDown.machine"
        file.parent.mkdir(parents=True)
        shutil.copy(EXAMPLES / "machines" / "up_n_down.machine", file)
        modes = tmp_path
    plan = make_plan([find_task("UpNDown").configure()], [0], preset, method, modes, changes)
    config = {"device": "cpu", "threads": 2, **through_json(plan.describe())}
    assert TrainPlan.from_json(config, ()).describe() == plan.describe()


# The folder alone


def test_a_folder_is_enough_to_go_on(tmp_path, capsys):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    asked = {"sensors": "compass", "seeds": (0, 2), "rounds": 2, "settings": EVOLVE}
    pomp.evolve("Farmer", **asked, out=whole)
    assert not pomp.evolve("Farmer", **asked, out=cut, on_event=stop).is_finished
    assert pomp.evolve(out=cut, resume=True).is_finished
    assert files_of(cut) == files_of(whole)
    status, output, _ = call(capsys, "evolve", "--out", cut, "--resume")
    assert (status, "was finished before" in output) == (0, True)
    status, output, _ = call(capsys, "evolve", "--out", cut, "--resume", "--seeds", "0,2")
    assert status == 0


def test_a_search_and_a_training_go_on_from_their_folders(tmp_path):
    pomp.search("Seesaw", **SEARCH, out=tmp_path / "searched", on_event=stop)
    found = pomp.search(out=tmp_path / "searched", resume=True)
    assert found.searches == pomp.search("Seesaw", **SEARCH).searches
    asked = {"preset": "paper", "modes": MODES, "settings": PPO}
    pomp.train("UpNDown", **asked, out=tmp_path / "trained", on_event=stop)
    again = pomp.train(out=tmp_path / "trained", resume=True)
    assert again.summary == pomp.train("UpNDown", **asked).summary


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"tasks": "Farmer"}, r"tasks\.Farmer \(only now\); tasks\.UpNDown \(only before\)"),
        ({"seeds": 3}, r"seeds \(\[0\] before, \[3\] now\)"),
        ({"preset": "best"}, r"preset \(paper before, best now\)"),
        ({"method": "drl"}, "begun with given modes, not with the method drl"),
        ({"method": "pomp"}, "begun with given modes, not with the method pomp"),
        ({"modes": MODES[:1]}, r"modes\.UpNDown/seed0"),
        ({"settings": {"ppo.entropy": 0.5}}, r": ppo\.entropy \(0\.01 before, 0\.5 now\)"),
        ({"settings": {"search.rounds": 5}}, "the modes are given"),
        ({"settings": {"ppo.total": 128}}, r"cannot be extended backwards: ppo\.total"),
        ({"settings": {"ppo.totl": 128}}, "unknown setting 'totl'"),
    ],
)
def test_what_is_given_beside_a_folder_must_agree(tmp_path, given, says):
    out = tmp_path / "run"
    pomp.train("UpNDown", preset="paper", modes=MODES, settings=PPO, out=out, on_event=stop)
    before = files_of(out)
    with pytest.raises((ConfigError, LookupError), match=says):
        pomp.train(**given, out=out, resume=True)
    assert files_of(out) == before


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"rounds": "many"}, "rounds must be a whole number"),
        ({"surprise": 1}, "missing or unknown fields: surprise"),
        ({"seeds": None}, "is damaged, or of another version"),
        ({"evolve": {"chains": 8}}, "EvolveConfig needs its fields"),
        ({"tasks": {"Farmer": {}}}, "tasks.Farmer.task must be there"),
        ({"kind": "search"}, "a run of pomp search, not of pomp evolve"),
        ({"kind": "9" * 5000}, f"a run of pomp {'9' * 37}..., not of pomp evolve"),
        ({"format": 1}, "another version of pomp"),
    ],
)
def test_a_damaged_config_is_told_in_a_line(tmp_path, capsys, change, says):
    out = tmp_path / "run"
    pomp.evolve("Farmer", rounds=2, settings=EVOLVE, out=out, on_event=stop)
    edit_json(out / "config.json", **change)
    status, _, errors = call(capsys, "evolve", "--out", out, "--resume")
    assert (status, len(errors.splitlines())) == (2, 1), errors
    assert says in errors
    (out / "config.json").write_text('{"kind": "evolve", "tas')
    status, _, errors = call(capsys, "evolve", "--out", out, "--resume")
    assert (status, "no readable config.json" in errors) == (2, True)


def test_a_folder_of_nothing_cannot_be_resumed(tmp_path, capsys):
    for command in (("evolve",), ("search",), ("train",), ("embedding", "train")):
        status, _, errors = call(capsys, *command, "--out", tmp_path / "none", "--resume")
        assert (status, "no run that could be resumed" in errors) == (2, True), command
    for command in ("evolve", "search", "train"):
        status, _, errors = call(capsys, command, "--out", tmp_path / "none")
        assert (status, "name a task" in errors) == (2, True), command
    assert not (tmp_path / "none").exists()


def test_a_folder_does_not_choose_what_is_imported(tmp_path, capsys, monkeypatch):
    shutil.copy(EXAMPLES / "lawn.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one])
    monkeypatch.delitem(sys.modules, "lawn", raising=False)
    settings = {"chains": 4, "starts": 2, "validation_starts": 2, "steps": 10, "teams": 1}
    pomp.evolve("lawn:LAWN", rounds=1, settings=settings, out="run", on_event=stop)
    status, _, errors = call(capsys, "evolve", "--out", "run", "--resume")
    assert (status, len(errors.splitlines())) == (2, 1)
    assert "--allow lawn (in Python out=pomp.runs.RunFolder(path, allow=['lawn']))" in errors
    assert pomp.evolve(resume=True, out=RunFolder("run", allow=["lawn"])).is_finished
    status, _, errors = call(capsys, "evolve", "--out", "run", "--resume", "--allow", "lawn")
    assert status == 0, errors
    assert call(capsys, "evolve", "lawn:LAWN", "--out", "run", "--resume")[0] == 0


# Extended


def test_more_rounds_give_what_a_longer_run_gives(tmp_path):
    longer, cut = tmp_path / "longer", tmp_path / "cut"
    pomp.evolve("Farmer", rounds=3, settings=EVOLVE, out=longer)
    assert pomp.evolve("Farmer", rounds=1, settings=EVOLVE, out=cut).is_finished
    found = pomp.evolve(rounds=3, out=cut, resume=True)
    assert (found.is_finished, found.was_finished) == (True, False)
    assert files_of(cut) == files_of(longer)
    with pytest.raises(ConfigError, match=r"backwards: rounds \(3 before, 2 now\)"):
        pomp.evolve(rounds=2, out=cut, resume=True)
    with pytest.raises(ConfigError, match=r"minutes \(5.0 before, 9 now\)"):
        pomp.evolve(minutes=9, out=cut, resume=True)
    assert files_of(cut) == files_of(longer)


def test_more_minutes_go_on_where_the_time_was_over(tmp_path):
    out = tmp_path / "run"
    found = pomp.evolve("Farmer", minutes=1e-6, settings=EVOLVE, out=out)
    rounds = found.best.row["search"]["rounds"]
    found = pomp.evolve(minutes=0.02, out=out, resume=True)
    assert found.is_finished
    assert found.best.row["search"]["rounds"] > rounds
    assert json.loads((out / "config.json").read_text())["minutes"] == 0.02


def test_more_steps_of_a_constant_learning_rate_are_what_a_longer_training_is(tmp_path):
    settings = {**PPO, "ppo.decay": False}
    asked = {"preset": "paper", "modes": MODES, "out": tmp_path / "run"}
    assert pomp.train("UpNDown", settings=settings, **asked).is_finished
    found = pomp.train(settings={"ppo.total": 512}, out=tmp_path / "run", resume=True)
    longer = {**asked, "settings": {**settings, "ppo.total": 512}, "out": tmp_path / "longer"}
    whole = pomp.train("UpNDown", **longer)
    assert found.summary == whole.summary
    one, two = (read_values(tmp_path / name / "config.json") for name in ("run", "longer"))
    assert one.pop("extended") == {"learning.ppo.total": [256]}
    assert one == two
    lines = (tmp_path / "run/UpNDown/seed0/metrics.jsonl").read_text()
    assert lines == (tmp_path / "longer/UpNDown/seed0/metrics.jsonl").read_text()
    assert pomp.train(out=tmp_path / "run", resume=True).was_finished


def test_more_rounds_of_a_training_learn_on_the_new_modes(tmp_path):
    settings = {f"search.{name}": value for name, value in EVOLVE.items()} | PPO
    asked = {"method": "text-modes"}
    short, longer = tmp_path / "short", tmp_path / "longer"
    pomp.train("Farmer", **asked, settings={**settings, "search.rounds": 1}, out=short)
    pomp.train(settings={"search.rounds": 2}, out=short, resume=True)
    pomp.train("Farmer", **asked, settings={**settings, "search.rounds": 2}, out=longer)
    assert files_of(short) == files_of(longer)


def test_an_extension_that_is_killed_goes_on(tmp_path, capsys):
    out, longer = tmp_path / "run", tmp_path / "longer"
    pomp.evolve("Farmer", rounds=1, settings=EVOLVE, out=out)
    extend = ("evolve", "--out", out, "--resume", "--rounds", "3")
    assert run_until(("config.json", 1), signal.SIGKILL, *extend)[0] == -signal.SIGKILL
    assert json.loads((out / "config.json").read_text())["rounds"] == 1
    assert call(capsys, *extend)[0] == 0
    pomp.evolve("Farmer", rounds=3, settings=EVOLVE, out=longer)
    assert files_of(out) == files_of(longer)


# One process at a time


def test_a_folder_in_use_is_refused(tmp_path, capsys):
    out, told = tmp_path / "run", []

    def resume_too(event):
        status, _, errors = run_pomp("evolve", "--out", out, "--resume")
        told.append((status, errors))
        with pytest.raises(OutputError, match="is in use by another process"):
            pomp.evolve(out=out, resume=True)
        return True

    pomp.evolve("Farmer", rounds=2, settings=EVOLVE, out=out, on_event=resume_too)
    [(status, errors)] = told
    assert (status, len(errors.splitlines())) == (2, 1), errors
    assert f"'{out}' is in use by another process" in errors
    assert pomp.evolve(out=out, resume=True).is_finished


def test_a_lock_ends_with_an_error_and_with_its_process(tmp_path):
    with pytest.raises(KeyError), locked(tmp_path):
        raise KeyError
    with locked(tmp_path), pytest.raises(OutputError, match="in use"), locked(tmp_path):
        pass
    out = tmp_path / "run"

    def fail(event):
        raise DataFileError("a disk is gone")

    with pytest.raises(DataFileError) as kept:  # whose traceback still knows the run
        pomp.evolve("Farmer", rounds=1, settings=EVOLVE, out=out, on_event=fail)
    assert pomp.evolve(out=out, resume=True).is_finished
    assert kept.traceback


def test_the_search_of_a_training_is_in_use_with_it(tmp_path):
    out, seen = tmp_path / "run", []

    def look(event):
        with pytest.raises(OutputError, match="in use"), locked(out / "search"):
            seen.append("nobody")
        return True

    settings = {f"search.{name}": value for name, value in EVOLVE.items()}
    pomp.train("Farmer", method="text", settings=settings, out=out, on_event=look)
    assert not seen
    with locked(out / "search"):
        seen.append("free again")


def test_a_run_killed_before_its_config_leaves_a_folder_to_begin_in(tmp_path):
    for name in (".lock", ".config.json.12.34"):
        (tmp_path / name).touch()
    folder = RunFolder(tmp_path)
    folder.open("search", dict, resume=False)
    folder.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "config.json"]
    (tmp_path / "config.json").rename(tmp_path / "notes.txt")
    with pytest.raises(OutputError, match="exists; name a new folder"):
        RunFolder(tmp_path).open("search", dict, resume=False)
