"""The machines that come with the package."""

from dataclasses import replace

import numpy as np
import pytest

from pomp.core.errors import DataFileError, UnknownNameError
from pomp.machine.config import EpisodeConfig, NetworkConfig
from pomp.machine.evaluation import evaluate
from pomp.machine.network import Shape, draw_weights
from pomp.machine.text import parse_machine
from pomp.machine.transitions import DecisionList, NetworkTransition
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
def test_a_machine_of_the_zoo_earns_the_same_under_every_budget_and_ends_by_itself(task):
    """It is clean: no program is cut by its budget."""
    machine = load_machine(f"zoo:{task}")
    found = [
        evaluate(replace(machine, episode=replace(machine.episode, cap=cap)), episodes=16, seed=5)
        for cap in ("calls217", "calls219", "calls222", "calls500", "calls10000")
    ]
    assert all(one.ended.all() for one in found)
    assert len({one.returns.tobytes() for one in found}) == 1


@pytest.mark.parametrize("task", ["StairClimber", "TopOff", "FourCorner", "Harvester"])
def test_a_machine_of_the_zoo_solves_a_hundred_rows_and_columns(task):
    episode = EpisodeConfig(most_steps=300_000)
    machine = replace(load_machine(f"zoo:{task}"), size=(100, 100), episode=episode)
    found = evaluate(machine, episodes=2, seed=5)
    assert (found.mean, found.ended.all()) == (1.0, True)


def test_a_machine_of_each_kind_can_be_named():
    text, network = (load_machine(f"zoo:Snake/{kind}") for kind in ("text", "network"))
    assert isinstance(text.transition, DecisionList)
    assert isinstance(network.transition, NetworkTransition)
    assert load_machine("zoo:up-n-down").sensors == "with compass"
    with pytest.raises(UnknownNameError, match="Did you mean 'text'"):
        load_machine("zoo:Snake/texts")


def test_the_zoo_is_small():
    assert sum(path.stat().st_size for path in ZOO.rglob("*")) < 10_000_000


def put_into_zoo(zoo, kind, validation, weights=b"no weights"):
    """A machine of StairClimber whose file says what it earned; a network's weights are damaged."""
    machine = parse_machine(CLIMB)
    if kind == "network":
        config = NetworkConfig(hidden=8)
        size = (machine.configure().height, machine.configure().width)
        arrays = draw_weights(Shape(config, *size, 1), np.uint64(1))
        machine = replace(machine, transition=NetworkTransition(config, size, 1, arrays))
    machine.provenance = {"validation": validation}
    machine.save(zoo / "StairClimber" / kind)
    for path in (zoo / "StairClimber" / kind).glob("*.safetensors"):
        path.write_bytes(weights)


def test_the_one_with_rules_is_taken_whatever_a_network_earns(tmp_path, monkeypatch):
    """A network's weights are read only if it is asked for, or if there is nothing else."""
    monkeypatch.setattr("pomp.machine.zoo.ZOO", tmp_path)
    put_into_zoo(tmp_path, "network", 0.75)
    with pytest.raises(DataFileError, match=r"network.*safetensors"):
        load_machine("zoo:StairClimber")
    put_into_zoo(tmp_path, "text", 0.5)
    for name in ("zoo:StairClimber", "zoo:stair-climber", "StairClimber", "zoo:StairClimber/text"):
        machine = load_machine(name)
        assert isinstance(machine.transition, DecisionList)
        assert machine.provenance["validation"] == 0.5
