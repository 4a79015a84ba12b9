"""The machines that come with the package."""

import pytest

from pomp.core.errors import UnknownNameError
from pomp.machine.evaluation import evaluate
from pomp.machine.transitions import DecisionList, NetworkTransition
from pomp.machine.zoo import ZOO, load_machine, zoo_tasks
from pomp.runs.published import published
from pomp.tasks.catalog import TASKS


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


def test_a_machine_of_each_kind_can_be_named():
    text, network = (load_machine(f"zoo:Snake/{kind}") for kind in ("text", "network"))
    assert isinstance(text.transition, DecisionList)
    assert isinstance(network.transition, NetworkTransition)
    assert load_machine("zoo:up-n-down").sensors == "with compass"
    with pytest.raises(UnknownNameError, match="Did you mean 'text'"):
        load_machine("zoo:Snake/texts")


def test_the_zoo_is_small():
    assert sum(path.stat().st_size for path in ZOO.rglob("*")) < 10_000_000
