"""A task of your own: mow the lawn, a strip of markers along the bottom row.

    pomp run lawn:LAWN "DEF run m( WHILE c( frontIsClear c) w( pickMarker move w) pickMarker m)"

    pomp evolve lawn:LAWN --out runs/lawn
    pomp eval runs/lawn/Lawn/seed0/machine --allow lawn

run in this folder, or with it on PYTHONPATH; `--allow` says that the machine's file may name this
module. Everything a task needs comes from `pomp.tasks`. Compiled code checks no array bounds; while
writing a task, `POMP_CACHE_DIR=$(mktemp -d) NUMBA_BOUNDSCHECK=1 pomp run ...` does.
"""

from fractions import Fraction

from pomp.tasks import (
    DONE,
    EAST,
    HEIGHT,
    SCORE,
    UNIT,
    WIDTH,
    Constants,
    Facing,
    Map,
    Start,
    Task,
    any_size,
    count_marked,
    fill,
    handle,
    is_moving,
    pose_at,
    room,
    scalar,
    travel,
    wall_in,
)


@scalar
def draw_start(cells, constants, memory, stream):
    """An empty room with markers along the bottom row; the agent at its left end."""
    wall_in(cells, constants)
    fill(cells, constants, constants[HEIGHT] - 2, 1, 1, constants[WIDTH] - 2, 1)
    return pose_at(constants[HEIGHT] - 2, 1, constants[WIDTH], EAST)


@scalar
def begin(cells, constants, pose, memory):
    """Every marker is to be picked."""
    memory[UNIT] = count_marked(cells)
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
    grid = room(setting.height, setting.width)
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
    wrong_size=any_size,
    starts=_starts,
)
