"""DoorKey: pick the key in the left room, which opens the door; put it on the target."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import numpy as np
from numpy.typing import NDArray

from pomp.core.compiling import scalar
from pomp.core.streams import below
from pomp.karel.dynamics import (
    COUNT,
    DONE,
    EAST,
    FIRST_CONSTANT,
    FIRST_SLOT,
    HEIGHT,
    NO_WALL,
    SCORE,
    UNIT,
    WALL,
    WIDTH,
    ZERO,
    Facing,
    change,
    handle,
    is_moving,
    pose_at,
    travel,
    write_count,
)
from pomp.karel.world import Map, WorldBatch
from pomp.tasks import layouts
from pomp.tasks.task import Constants, Setting, Start, Task

KEY, TARGET, MARKED, _SLOTS = range(FIRST_SLOT, FIRST_SLOT + 4)
STRAY_COSTS = FIRST_CONSTANT
LEFT, MIDDLE, RIGHT = 3, 4, 2  # columns of the left room; the wall's column; columns of the right
DOORS = (2, 3)  # rows of the two door cells
WHOLE, HALF = 10_000, 5_000  # the score counts in the cost of one stray marker


@scalar
def draw_start(cells, constants, memory, stream):
    """Two rooms; agent and key anywhere in the left one, the target anywhere in the right one."""
    layouts.wall_in(cells, constants)
    rows, width = constants[HEIGHT] - 2, constants[WIDTH]
    layouts.fill(cells, constants, 1, MIDDLE, rows, 1, WALL)
    row, col = 1 + below(stream, rows), 1 + below(stream, LEFT)
    key_row, key_col = 1 + below(stream, rows), 1 + below(stream, LEFT)
    target_row, target_col = 1 + below(stream, rows), MIDDLE + 1 + below(stream, RIGHT)
    write_count(cells, key_row * width + key_col, 1)
    write_count(cells, target_row * width + target_col, 1)
    return pose_at(row, col, width, EAST)


@scalar
def begin(cells, constants, pose, memory):
    """The marker of the left room is the key, that of the right room the target."""
    layouts.set_zero_flags(cells)
    rows = constants[HEIGHT] - 2
    memory[KEY] = layouts.find_marked(cells, constants, 1, 1, rows, LEFT)
    memory[TARGET] = layouts.find_marked(cells, constants, 1, MIDDLE + 1, rows, RIGHT)
    memory[MARKED] = layouts.count_marked(cells)
    memory[UNIT] = WHOLE
    return memory[KEY] >= 0 and memory[TARGET] >= 0 and memory[MARKED] == 2


@scalar
def step(cells, constants, pose, memory, stream, action):
    """Half for the taken key, half for the topped target; stray markers cost a little."""
    if is_moving(action):
        return travel(cells, constants, pose, action)
    cell = pose >> 2
    before = cells[cell] & COUNT
    handle(cells, constants, pose, action)
    memory[MARKED] += change(before > 0, cells[cell] & COUNT > 0)
    is_taken = cells[memory[KEY]] & ZERO != 0
    if is_taken:
        for row in DOORS:
            cells[row * constants[WIDTH] + MIDDLE] &= NO_WALL
    if not memory[DONE]:
        is_delivered = is_taken and cells[memory[TARGET]] & COUNT == 2
        stray = max(memory[MARKED] - 2, 0) * constants[STRAY_COSTS]
        memory[SCORE] = HALF * is_taken + HALF * is_delivered - stray
        if memory[SCORE] == WHOLE:
            memory[DONE] = 1
    return pose


def _is_sound(worlds: WorldBatch) -> NDArray[np.bool_]:
    """Whether key and target are cells: `[B]` bool."""
    places = worlds.memory[:, [KEY, TARGET]]
    return ((places >= 0) & (places < worlds.cells.shape[1])).all(1)


def _constants(setting: Setting) -> Constants:
    # Paper: stray markers are not mentioned.
    return Constants(cap=2, own=(int(setting.variant != "paper"),))


def _starts(setting: Setting) -> Iterator[Start]:
    left = list(product(range(1, setting.height - 1), range(1, LEFT + 1)))
    right = list(product(range(1, setting.height - 1), range(MIDDLE + 1, MIDDLE + 1 + RIGHT)))
    probability = Fraction(1, len(left) ** 2 * len(right))
    for agent, key, target in product(left, left, right):
        grid = layouts.room(setting.height, setting.width)
        grid[1:-1, MIDDLE] = WALL
        grid[key] = grid[target] = 1
        yield Start(probability=probability, map=Map(grid, *agent, Facing.EAST))


DOOR_KEY = Task(
    name="DoorKey",
    suite="KarelHard",
    summary="pick the key to open the door, then put it on the target behind it",
    size=(8, 8),
    ceiling=1.0,
    episodes=32,
    draw_start=draw_start,
    begin=begin,
    step=step,
    needs="one marker in columns 1-3 (the key) and one in columns 5-6 (the target), no others",
    constants=_constants,
    slots=lambda height, width: _SLOTS - FIRST_SLOT,
    wrong_size=lambda height, width: "" if (height, width) == (8, 8) else "8x8, its map",
    starts=_starts,
    is_sound=_is_sound,
    variants={"hprl": {}, "paper": {}},
)
