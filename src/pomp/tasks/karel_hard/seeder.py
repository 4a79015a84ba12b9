"""Seeder: an empty field; put exactly one marker on every cell."""

from collections.abc import Iterator
from fractions import Fraction

from pomp.core.compiling import scalar
from pomp.karel.dynamics import (
    COUNT,
    DONE,
    EAST,
    FIRST_SLOT,
    HEIGHT,
    SCORE,
    UNIT,
    WIDTH,
    Facing,
    change,
    handle,
    is_moving,
    pose_at,
    travel,
)
from pomp.karel.world import Map
from pomp.tasks import layouts
from pomp.tasks.task import Constants, Setting, Start, Task

SINGLES, DOUBLES, _SLOTS = range(FIRST_SLOT, FIRST_SLOT + 3)


@scalar
def draw_start(cells, constants, memory, stream):
    """An empty room; the agent in the lower left corner."""
    layouts.wall_in(cells, constants)
    return pose_at(constants[HEIGHT] - 2, 1, constants[WIDTH], EAST)


@scalar
def begin(cells, constants, pose, memory):
    """Every free cell is to be sown; count what is there already."""
    for cell in range(len(cells)):
        memory[SINGLES] += cells[cell] & COUNT == 1
        memory[DOUBLES] += cells[cell] & COUNT > 1
    memory[UNIT] = layouts.count_free(cells)
    return True


@scalar
def step(cells, constants, pose, memory, stream, action):
    """Count cells holding one marker; done when all do, or at the first double."""
    if is_moving(action):
        pose = travel(cells, constants, pose, action)
    else:
        before = cells[pose >> 2] & COUNT
        handle(cells, constants, pose, action)
        after = cells[pose >> 2] & COUNT
        memory[SINGLES] += change(before == 1, after == 1)
        memory[DOUBLES] += change(before > 1, after > 1)
    if not memory[DONE]:
        memory[SCORE] = memory[SINGLES]
        memory[DONE] = memory[DOUBLES] > 0 or memory[SINGLES] == memory[UNIT]
    return pose


def _constants(setting: Setting) -> Constants:
    return Constants(cap=2)


def _starts(setting: Setting) -> Iterator[Start]:
    start = Map(layouts.room(setting.height, setting.width), setting.height - 2, 1, Facing.EAST)
    yield Start(probability=Fraction(1), map=start)


SEEDER = Task(
    name="Seeder",
    suite="KarelHard",
    summary="put exactly one marker on every cell",
    size=(8, 8),
    ceiling=1.0,
    episodes=32,
    draw_start=draw_start,
    begin=begin,
    step=step,
    needs="nothing in particular",
    constants=_constants,
    slots=lambda height, width: _SLOTS - FIRST_SLOT,
    wrong_size=layouts.any_size,
    starts=_starts,
    variants={"hprl": {}, "paper": {}},
)
