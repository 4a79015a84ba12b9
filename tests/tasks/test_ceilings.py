"""Ceilings: what the best play that is known returns, where it is known."""

from dataclasses import replace

import pytest

from pomp.cli.shares import in_brackets, tell_share
from pomp.core.errors import ConfigError
from pomp.engine import draw_starts, rollout
from pomp.tasks import TASKS, find_task


@pytest.mark.parametrize(
    ("task", "scale", "ceiling"),
    [
        ("Seesaw", 16, 0.905),
        ("UpNDown", 16, 0.910),
        ("InfDoorKey", 16, 0.915),
        ("Farmer", 1, 0.835),
        ("Farmer", 16, 0.836),
        ("InfHarvester", 1, 0.92),
        ("InfHarvester", 2, 0.94),
        ("InfHarvester", 4, 0.95),
        ("InfHarvester", 16, 0.96),
    ],
)
def test_the_ceiling_depends_on_the_scale(task, scale, ceiling):
    assert find_task(task).configure(scale=scale).ceiling == ceiling


def test_the_ceiling_of_inf_harvester_depends_on_the_size():
    ceilings = [find_task("InfHarvester").configure(size=(n, n)).ceiling for n in (4, 8, 16, 24)]
    assert ceilings == sorted(ceilings, reverse=True)
    assert len(set(ceilings)) == 4


@pytest.mark.parametrize("scale", [1, 4, 16])
def test_a_sweep_that_leaves_no_cell_empty_earns_the_ceiling(scale):
    harvest = "WHILE c( markersPresent c) w( pickMarker w) putMarker"
    row = f"WHILE c( frontIsClear c) w( {harvest} move w) {harvest}"
    there, back = "turnLeft move turnLeft", "turnRight move turnRight"
    sweep = f"DEF run m( REPEAT R=7 r( {row} {there} {row} {back} r) m)"
    setting = find_task("InfHarvester").configure(scale=scale)
    found = rollout(setting, [sweep], draw_starts(setting, 2048, 0), cap="actions20000")
    assert found.completed.all()
    assert found.returns.mean() == pytest.approx(setting.ceiling, abs=0.007)


@pytest.mark.parametrize(
    ("task", "chosen"),
    [
        ("Seesaw", {"size": (12, 16)}),
        ("UpNDown", {"size": (10, 10)}),
        ("Farmer", {"size": (6, 6)}),
        ("Farmer", {"options": {"clean_signal": "on"}}),
        ("InfDoorKey", {"variant": "paper"}),
        ("OneStroke", {"size": (7, 7)}),
        ("StairClimber", {"variant": "leaps", "options": {"dense": "on"}}),
    ],
)
def test_a_ceiling_that_is_not_known_is_none(task, chosen):
    setting = find_task(task).configure(**chosen)
    assert (setting.ceiling, setting.goal) == (None, 1.0)


def test_the_short_tasks_pay_one_in_all_at_every_size():
    for task in TASKS[:10]:
        assert task.configure().ceiling == 1.0
    assert find_task("Harvester").configure(size=(20, 20)).ceiling == 1.0
    assert find_task("OneStroke").configure(size=(7, 8)).ceiling == 1.0


def test_a_ceiling_is_a_number_or_a_function():
    with pytest.raises(ConfigError, match="ceiling of task Maze is a number, or a function"):
        replace(find_task("Maze"), ceiling="1")


def test_a_share_is_told_where_the_ceiling_is_known():
    assert in_brackets("exact", tell_share(0.46, 0.92)) == " (exact; 50.0% of the ceiling 0.92)"
    assert tell_share(0.942, 0.92) == (
        "102.4% of the ceiling 0.92, a known strategy's mean and no bound"
    )
    assert in_brackets(tell_share(0.5, None)) == ""
    assert tell_share(-1e-9, 1.0, digits=0) == "0% of the ceiling 1"
