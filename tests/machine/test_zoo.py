"""The machines that come with the package."""

import json
from dataclasses import replace

import numpy as np
import pytest

from pomp.core.errors import DataFileError, UnknownNameError
from pomp.machine.config import NetworkConfig
from pomp.machine.evaluation import evaluate
from pomp.machine.layers import Shape, draw_weights
from pomp.machine.text import parse_machine
from pomp.machine.transitions import DecisionList, NetworkTransition
from pomp.machine.verification import BUDGETS, verify
from pomp.machine.zoo import ZOO, load_machine, zoo_tasks
from pomp.runs.published import published
from pomp.tasks.catalog import TASKS

CLIMB = """\
machine StairClimber
start climb
mode climb: DEF run m( turnLeft move turnRight move m)
  if markersPresent -> stop
  else -> climb
"""


def test_the_zoo_has_a_machine_for_every_task():
    assert zoo_tasks() == [task.name for task in TASKS]


@pytest.mark.parametrize("task", zoo_tasks())
def test_a_machine_of_the_zoo_is_no_worse_than_the_papers(task):
    machine = load_machine(f"zoo:{task}")
    assert machine.task.name == task
    assert {"seed", "validation", "search"} <= set(machine.provenance)
    found = evaluate(machine, episodes=64, seed=3)
    assert found.mean > published("pomp", task)["mean"] - 1e-9
    if found.setting.task.suite == "KarelLong":  # elsewhere it costs nothing to go on
        assert found.ended.mean() > 0.9


@pytest.mark.parametrize("task", zoo_tasks())
def test_a_machine_of_the_zoo_is_clean(task):
    machine = load_machine(f"zoo:{task}")
    found = [evaluate(machine, cap=cap) for cap in (None, *BUDGETS)]
    assert all(one.is_clean and one.mean == found[0].mean for one in found)


@pytest.mark.parametrize("task", ["DoorKey", "InfDoorKey", "OneStroke"])
def test_a_machine_of_the_zoo_is_proved_to_hold_from_all_starts(task):
    found = verify(f"zoo:{task}", exact=True)
    assert found.holds
    assert len(found.found.returns) == {"DoorKey": 3888, "InfDoorKey": 5184, "OneStroke": 36}[task]


def test_a_machine_of_each_kind_can_be_named():
    text, network = (load_machine(f"zoo:Snake/{kind}") for kind in ("text", "network"))
    assert isinstance(text.transition, DecisionList)
    assert isinstance(network.transition, NetworkTransition)
    assert load_machine("zoo:up-n-down").sensors == "with compass"
    with pytest.raises(UnknownNameError, match="Did you mean 'text'"):
        load_machine("zoo:Snake/texts")


def test_the_zoo_is_small():
    assert sum(path.stat().st_size for path in ZOO.rglob("*")) < 10_000_000


def put_into_zoo(zoo, kind, validation, weights=b"no weights", *, is_clean=False):
    """A machine of StairClimber whose file says what it earned; a network's weights are damaged."""
    machine = parse_machine(CLIMB)
    if kind == "network":
        config = NetworkConfig(hidden=8)
        size = (machine.configure().height, machine.configure().width)
        arrays = draw_weights(Shape(config, *size, 1), np.uint64(1))
        machine = replace(machine, transition=NetworkTransition(config, size, 1, arrays))
    machine.provenance = {"validation": validation, **({"clean": True} if is_clean else {})}
    machine.save(zoo / "StairClimber" / kind)
    for path in (zoo / "StairClimber" / kind).glob("*.safetensors"):
        path.write_bytes(weights)


@pytest.mark.parametrize(
    ("text", "network", "is_text"),
    [(0.75, 0.5, True), (0.5, 0.75, False), (0.5, 0.5, True), (-0.25, -0.5, True)],
)
def test_the_better_kind_by_validation_is_taken(text, network, is_text, tmp_path, monkeypatch):
    """Which one that is, the machines' files say: a network's weights are read only if it is."""
    monkeypatch.setattr("pomp.machine.zoo.ZOO", tmp_path)
    put_into_zoo(tmp_path, "text", text)
    put_into_zoo(tmp_path, "network", network)
    for name in ("zoo:StairClimber", "zoo:stair-climber", "StairClimber"):
        if is_text:
            machine = load_machine(name)
            assert isinstance(machine.transition, DecisionList)
            assert machine.provenance["validation"] == text
        else:
            with pytest.raises(DataFileError, match=r"network.*safetensors"):
                load_machine(name)
    assert load_machine("zoo:StairClimber/text").provenance["validation"] == text


def test_the_shipped_machines_are_chosen_by_what_their_files_say():
    for task in zoo_tasks():
        files = ZOO.glob(f"{task}/*/machine.json")
        told = [json.loads(file.read_text())["provenance"] for file in files]
        best = max(told, key=lambda one: (one.get("clean", False), one["validation"]))
        assert load_machine(f"zoo:{task}").provenance["validation"] == best["validation"]


@pytest.mark.parametrize(("text", "network"), [(0.5, 0.75), (-0.25, 1.0)])
def test_a_clean_machine_is_taken_before_one_that_earns_more(text, network, tmp_path, monkeypatch):
    monkeypatch.setattr("pomp.machine.zoo.ZOO", tmp_path)
    put_into_zoo(tmp_path, "text", text, is_clean=True)
    put_into_zoo(tmp_path, "network", network)
    assert load_machine("zoo:StairClimber").provenance["validation"] == text


SIZED = ("StairClimber", "Maze", "TopOff", "FourCorner", "Harvester")


@pytest.mark.parametrize("task", SIZED)
def test_machines_of_the_zoo_hold_on_a_hundred_times_a_hundred_cells(task):
    found = verify(f"zoo:{task}", size=(100, 100), episodes=5 if task == "Maze" else None, least=1)
    assert found.holds
    assert found.is_proof == (task not in ("Maze", "TopOff"))
