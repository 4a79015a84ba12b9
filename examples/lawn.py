"""A task of your own: mow the lawn, a strip of markers along the bottom row.

    pomp run lawn:LAWN "DEF run m( WHILE c( frontIsClear c) w( pickMarker move w) pickMarker m)"

run in this folder, or with it on PYTHONPATH. Compiled code checks no array bounds; while writing a
task, `POMP_CACHE_DIR=$(mktemp -d) NUMBA_BOUNDSCHECK=1 pomp run ...` does.
"""

from fractions import Fraction

from pomp.core.compiling import scalar
from pomp.karel.dynamics import (
    DONE,
    EAST,
    HEIGHT,
    SCORE,
    UNIT,
    WIDTH,
    Facing,
    handle,
    is_moving,
    pose_at,
    travel,
)  # fmt: skip
from pomp.karel.world import Map
from pomp.tasks import layouts
from pomp.tasks.task import Constants, Start, Task


@scalar
def draw_start(cells, constants, memory, stream):
    """An empty room with markers along the bottom row; the agent at its left end."""
    layouts.wall_in(cells, constants)
    layouts.fill(cells, constants, constants[HEIGHT] - 2, 1, 1, constants[WIDTH] - 2, 1)
    return pose_at(constants[HEIGHT] - 2, 1, constants[WIDTH], EAST)


@scalar
def begin(cells, constants, pose, memory):
    """Every marker is to be picked."""
    memory[UNIT] = layouts.count_marked(cells)
    return memory[UNIT] > 0


@scalar
def step(cells, constants, pose, memory, stream, action):
    """Each picked marker pays its share; putting one back takes it away again."""
    if is_moving(action):
        return travel(cells, constants, pose, action)
    if not memory[DONE]:
        memory[SCORE] -= handle(cells, constants, pose, action)
        memory[DONE] = memory[SCORE] == memory[UNIT]
    return pose


def _starts(setting):
    grid = layouts.room(setting.height, setting.width)
    grid[-2, 1:-1] = 1
    yield Start(probability=Fraction(1), map=Map(grid, setting.height - 2, 1, Facing.EAST))


LAWN = Task(
    name="Lawn",
    suite="Mine",
    summary="mow the bottom row",
    size=(6, 10),
    ceiling=1.0,
    draw_start=draw_start,
    begin=begin,
    step=step,
    needs="at least one marker",
    constants=lambda setting: Constants(),
    wrong_size=layouts.any_size,
    starts=_starts,
)
