"""TopOff: put a second marker on every marked cell of the bottom row and go to its right end."""

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
    FLAG,
    HEIGHT,
    LAST,
    SCORE,
    SUM,
    UNIT,
    VALUE,
    WEST,
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
from pomp.tasks.task import SWITCH, Constants, Option, Setting, Start, Task

FIRST_WRONG, COLUMN, _SLOTS = range(FIRST_SLOT, FIRST_SLOT + 3)
DENSE, LAST_MARKER = FIRST_CONSTANT, FIRST_CONSTANT + 1
MARKED_ONE_IN = 4  # a bottom cell is marked with probability 1/4


@scalar
def draw_start(cells, constants, memory, stream):
    """An empty room; random markers on the bottom row, the agent at its left end."""
    layouts.wall_in(cells, constants)
    height, width = constants[HEIGHT], constants[WIDTH]
    bottom = (height - 2) * width
    for col in range(1, width - 2):
        if below(stream, MARKED_ONE_IN) == 0:
            write_count(cells, bottom + col, 1)
    if constants[LAST_MARKER]:
        write_count(cells, bottom + width - 2, 1)
    return pose_at(height - 2, 1, width, EAST)


@scalar
def is_right(cells, cell):
    """A target holds exactly two markers, any other cell none."""
    if cells[cell] & FLAG:
        return cells[cell] & COUNT == 2
    return cells[cell] & ZERO != 0


@scalar
def first_wrong(cells, constants, col):
    """The first wrong column of the bottom row from `col` on; width - 1 if there is none."""
    bottom = (constants[HEIGHT] - 2) * constants[WIDTH]
    while col < constants[WIDTH] - 1 and is_right(cells, bottom + col):
        col += 1
    return col


@scalar
def begin(cells, constants, pose, memory):
    """The marked cells of the bottom row are the targets."""
    layouts.set_zero_flags(cells)
    width = constants[WIDTH]
    bottom = (constants[HEIGHT] - 2) * width
    for col in range(1, width - 1):
        if cells[bottom + col] & COUNT:
            cells[bottom + col] |= FLAG
    memory[FIRST_WRONG] = first_wrong(cells, constants, 1)
    memory[COLUMN] = (pose >> 2) % width
    memory[UNIT] = width - 1 if constants[DENSE] else 1
    return True


@scalar
def step(cells, constants, pose, memory, stream, action):
    """Count right cells from the left end to the agent's column, up to the first wrong one."""
    width = constants[WIDTH]
    bottom = (constants[HEIGHT] - 2) * width
    if is_moving(action):
        before = pose >> 2
        pose = travel(cells, constants, pose, action)
        if pose >> 2 != before:
            memory[COLUMN] += change(pose & 3 == WEST, pose & 3 == EAST)
    else:
        handle(cells, constants, pose, action)
        col = memory[COLUMN]
        if pose >> 2 >= bottom and col <= memory[FIRST_WRONG]:
            if not is_right(cells, pose >> 2):
                memory[FIRST_WRONG] = col
            elif col == memory[FIRST_WRONG]:
                memory[FIRST_WRONG] = first_wrong(cells, constants, col)
    right = min(memory[FIRST_WRONG] - 1, memory[COLUMN])
    if right == width - 2 and pose >> 2 == bottom + width - 2:
        right += 1
    if constants[VALUE] == LAST or not memory[DONE]:
        if right == width - 1:
            memory[DONE] = 1
        memory[SCORE] = right if constants[DENSE] else memory[DONE]
    return pose


def _constants(setting: Setting) -> Constants:
    is_leaps = setting.variant == "leaps"
    is_dense = is_leaps or setting.flag("dense")
    own = (int(is_dense), int(setting.options["last_marker"] == "always"))
    return Constants(cap=9 if is_leaps else 2, value=LAST if is_leaps else SUM, own=own)


def _starts(setting: Setting) -> Iterator[Start]:
    always = int(setting.options["last_marker"] == "always")
    for marks in product((0, 1), repeat=setting.width - 3):
        grid = layouts.room(setting.height, setting.width)
        grid[-2, 1:-1] = (*marks, always)
        empty = len(marks) - sum(marks)
        probability = Fraction((MARKED_ONE_IN - 1) ** empty, MARKED_ONE_IN ** len(marks))
        start = Map(grid, setting.height - 2, 1, Facing.EAST)
        yield Start(probability=probability, map=start)


def _is_sound(worlds: WorldBatch) -> NDArray[np.bool_]:
    """Whether memory has the agent's column, and the first wrong one is a column: `[B]` bool."""
    wrong = worlds.memory[:, FIRST_WRONG]
    return (worlds.memory[:, COLUMN] == worlds.col) & (wrong >= 0) & (wrong < worlds.width)


_LAST_MARKER = Option("a marker in the last column; LEAPS's searches had it", ("never", "always"))

TOP_OFF = Task(
    name="TopOff",
    suite="Karel",
    summary="top off every marked cell of the bottom row and stop at its right end",
    size=(12, 12),
    ceiling=1.0,
    episodes=32,
    draw_start=draw_start,
    begin=begin,
    step=step,
    needs="nothing in particular",
    constants=_constants,
    slots=lambda height, width: _SLOTS - FIRST_SLOT,
    wrong_size=lambda height, width: layouts.any_size(height, width, (3, 4)),
    starts=_starts,
    is_sound=_is_sound,
    variants={
        "hprl": {"dense": "on", "last_marker": "never"},
        "leaps": {"last_marker": "never"},
        "paper": {"dense": "on", "last_marker": "never"},
    },
    options={
        "dense": Option("pay for every right column; off: only for the finished row", SWITCH),
        "last_marker": _LAST_MARKER,
    },
)
