"""The machines that come with the package."""

import pytest

from pomp.machine.evaluate import evaluate
from pomp.machine.zoo import ZOO, find_machine, zoo_tasks
from pomp.published import published


@pytest.mark.parametrize("task", zoo_tasks())
def test_a_machine_of_the_zoo_is_no_worse_than_the_papers(task):
    machine = find_machine(f"zoo:{task}")
    assert machine.task == task
    assert {"seed", "validation", "search", "preset"} <= set(machine.provenance)
    found = evaluate(machine, episodes=64, seed=3)
    assert found.mean > published("pomp", task)["mean"] - 0.02
    assert found.ended.any()


def test_the_zoo_is_small():
    assert sum(path.stat().st_size for path in ZOO.rglob("*")) < 10_000_000
