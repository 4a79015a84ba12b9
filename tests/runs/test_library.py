"""The library's own calls: in memory and in a folder the same, with progress, and stopped."""

import importlib
import pkgutil
import subprocess
import sys

import pytest

import pomp
from pomp.core import ConfigError, DataFileError, OutputError
from pomp.machine import print_machine

EVOLVE = {"chains": 8, "starts": 4, "validation_starts": 8, "steps": 40}
SEARCH = {"method": "hill-climbing", "settings": {"proposer.candidates": 600}}
TRAIN = {
    "preset": "paper",
    "modes": ("DEF run m( move m)", "DEF run m( turnLeft m)"),
    "settings": {
        "ppo.total": 256,
        "ppo.actors": 8,
        "ppo.steps": 16,
        "ppo.minibatch": 32,
        "validation.every": 1,
        "validation.episodes": 4,
    },
}


def test_every_module_can_be_imported_and_the_public_calls_stay_calls():
    for found in pkgutil.walk_packages(pomp.__path__, "pomp."):
        if not found.name.endswith(("__main__", "_cuda")):
            importlib.import_module(found.name)
    for name in ("search", "evolve", "train", "evaluate", "load_machine", "rollout", "record"):
        assert callable(getattr(pomp, name)), name


def test_every_package_lists_what_it_exports():
    for found in pkgutil.iter_modules(pomp.__path__, "pomp."):
        package = importlib.import_module(found.name)
        if not found.ispkg or not hasattr(package, "__all__"):
            continue
        assert list(dir(package)) == list(package.__all__)
        for name in package.__all__:
            if name == "KarelTorchEnv":
                continue  # brings torch with it; tested with the environments
            exported = getattr(package, name)
            assert type(exported).__name__ != "module", f"{found.name}.{name}"


def test_evolving_in_memory_is_evolving_in_a_folder(tmp_path):
    events = []
    kept = pomp.evolve(
        "Farmer", rounds=2, settings=EVOLVE, out=tmp_path / "run", on_event=events.append
    )
    found = pomp.evolve("Farmer", rounds=2, settings=EVOLVE)
    assert found.is_finished
    assert (found.path, kept.path) == (None, tmp_path / "run")
    assert print_machine(found.machine) == print_machine(kept.machine)
    assert found.best.row == kept.best.row
    assert found.best.text == (tmp_path / "run/Farmer/seed0/machine.txt").read_text()
    assert "data:image/svg+xml;base64," in found._repr_html_()
    assert events[0].stage == "Farmer, seed 0"
    shares = [event.progress.share for event in events]
    assert shares == sorted(shares)
    assert "machines/s" in events[-1].note
    again = pomp.evolve("Farmer", rounds=2, settings=EVOLVE, out=tmp_path / "run", resume=True)
    assert again.was_finished
    assert print_machine(again.machine) == print_machine(kept.machine)
    assert pomp.load_machine(tmp_path / "run/Farmer/seed0/machine").modes == kept.machine.modes
    worth = pomp.evaluate(kept.machine, episodes=100, seed=0)
    assert worth.mean == kept.best.mean


def test_a_search_that_is_stopped_goes_on_to_the_same_modes(tmp_path):
    whole = pomp.search("Seesaw", **SEARCH)
    assert whole._repr_html_().count("<code>DEF run") == len(whole.modes)
    assert (whole.is_finished, len(whole.modes)) == (True, 1)
    out, asked = tmp_path / "run", []

    def stop_soon(event):
        asked.append(event.seconds)
        return len(asked) > 3

    found = pomp.search("Seesaw", **SEARCH, out=out, on_event=stop_soon)
    assert (found.is_finished, found.searches) == (False, ())
    with pytest.raises(ConfigError, match="resume it"):
        _ = found.modes
    with pytest.raises(OutputError, match="exists"):
        pomp.search("Seesaw", **SEARCH, out=out)
    assert pomp.search("Seesaw", **SEARCH, out=out, resume=True).searches == whole.searches
    assert asked == sorted(asked)


def test_training_in_memory_is_training_in_a_folder(tmp_path):
    kept = pomp.train("UpNDown", **TRAIN, seeds=(0, 1), out=tmp_path / "run")
    found = pomp.train("UpNDown", **TRAIN, seeds=(0, 1))
    assert [one.row for one in found.learned] == [one.row for one in kept.learned]
    assert found.summary == kept.summary
    assert found.machine.modes == TRAIN["modes"]
    again = pomp.train("UpNDown", **TRAIN, seeds=(0, 1), out=tmp_path / "run", resume=True)
    assert again.was_finished
    arrays = again.machine.transition.to_arrays()
    assert all((arrays[name] == array).all()
               for name, array in found.machine.transition.to_arrays().items())  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"tasks": []}, "name a task"),
        ({"tasks": ["Farmer", "farmer"]}, "named twice"),
        ({"tasks": "Farmer", "seeds": ()}, "one or more different numbers"),
        ({"tasks": "Farmer", "seeds": (1, 1)}, "one or more different numbers"),
        ({"tasks": "Farmer", "seeds": -1}, "not negative"),
        ({"tasks": "Farmer", "seeds": 0.5}, "not iterable|whole number"),
        ({"tasks": "Farmer", "rounds": 0}, "at least 1"),
        ({"tasks": "Farmer", "minutes": 0}, "positive"),
        ({"tasks": "Farmer", "resume": True}, "in memory cannot be resumed"),
    ],
)
def test_what_does_not_fit_is_told_before_any_work(asked, says):
    with pytest.raises((ConfigError, TypeError), match=says):
        pomp.evolve(**asked)


def test_folders_of_other_versions_and_kinds_are_refused(tmp_path):
    old = tmp_path / "old"
    old.mkdir()
    (old / "config.json").write_text('{"pomp": "0.1.0", "seeds": [0]}')
    with pytest.raises(DataFileError, match="another version of pomp"):
        pomp.evolve("Farmer", rounds=1, out=old, resume=True)
    pomp.search("Seesaw", **SEARCH, out=tmp_path / "run")
    with pytest.raises(DataFileError, match="a run of pomp search, not of pomp evolve"):
        pomp.evolve("Farmer", rounds=1, out=tmp_path / "run", resume=True)


def test_text_machines_need_no_torch():
    code = """
import sys, pomp
machine = pomp.load_machine("zoo:StairClimber")
assert pomp.evaluate(machine, episodes=2).mean == 1.0
pomp.evolve("StairClimber", rounds=1, settings={settings}, on_event=lambda event: True)
assert "torch" not in sys.modules, "torch"
""".replace("{settings}", repr(EVOLVE))
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pomp.evolve(3), "a task is a name, .* got 3"),
        (lambda: pomp.evaluate(3), "a machine, or its folder, .* got 3"),
        (lambda: pomp.evaluate("zoo:Mazes"), "Did you mean"),
    ],
)
def test_what_is_no_task_or_no_machine_is_told_in_a_line(call, message):
    with pytest.raises(pomp.PompError, match=message):
        call()


def test_a_machine_is_evaluated_by_its_name():
    assert pomp.evaluate("zoo:OneStroke/text").is_exact


def test_tasks_machines_and_results_show_themselves_in_a_line():
    machine = pomp.load_machine("zoo:OneStroke/text")
    assert repr(machine).startswith("ProgramMachine(OneStroke: ")
    assert repr(machine.task) == "Task(OneStroke of KarelHard)"
    setting = pomp.find_task("Harvester").configure("leaps", {"lag": "off"}, size=(6, 9))
    assert repr(setting) == "Setting(Harvester, leaps, lag=False, 6x9)"
    assert str(pomp.evaluate(machine)) == "Evaluation(OneStroke: exact return 0.9985, starts 36)"
    found = pomp.evolve("Farmer", rounds=1, settings=EVOLVE)
    mean = f"LearnedMachine(Farmer, seed 0: {found.best.mean:.4f})"
    assert repr(found) == f"LearningResult(finished, text: [{mean}])"
