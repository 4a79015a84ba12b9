"""Inf-Harvester: pick markers that may appear again, until none are left."""

from collections.abc import Iterator
from fractions import Fraction

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
    NO_FLAG,
    SCALE,
    SCORE,
    UNIT,
    WIDTH,
    ZERO,
    Facing,
    handle,
    is_moving,
    pose_at,
    travel,
)
from pomp.karel.world import Map, WorldBatch
from pomp.tasks import layouts
from pomp.tasks.karel_long.economy import MAX_STEPS, long_rules
from pomp.tasks.task import LONG, Constants, Setting, Start, Task

EMPTY, EMPTY_IN_ROW = FIRST_SLOT, FIRST_SLOT + 1  # cells with the zero flag: in all, in each row
EXPECTED = FIRST_CONSTANT


@scalar
def draw_start(cells, constants, memory, stream):
    """A room with a marker on every cell; the agent in the lower left corner."""
    layouts.wall_in(cells, constants)
    layouts.fill(cells, constants, 1, 1, constants[HEIGHT] - 2, constants[WIDTH] - 2, 1)
    return pose_at(constants[HEIGHT] - 2, 1, constants[WIDTH], EAST)


@scalar
def begin(cells, constants, pose, memory):
    """Every marker present counts when picked; one the agent puts will not."""
    for cell in range(len(cells)):
        if cells[cell] & COUNT:
            cells[cell] |= FLAG
        elif cells[cell] & ZERO:
            count_empty(constants, memory, cell, 1)
    memory[UNIT] = 1
    return layouts.count_marked(cells) > 0


@scalar
def count_empty(constants, memory, cell, change):
    """A cell gained (1) or lost (-1) its zero flag."""
    memory[EMPTY] += change
    memory[EMPTY_IN_ROW + cell // constants[WIDTH]] += change


@scalar
def kth_empty(cells, constants, memory, k):
    """The k-th cell with the zero flag, in row-major order."""
    row = 0
    while k >= memory[EMPTY_IN_ROW + row]:
        k -= memory[EMPTY_IN_ROW + row]
        row += 1
    cell = row * constants[WIDTH]
    while True:
        if cells[cell] & ZERO:
            if k == 0:
                return cell
            k -= 1
        cell += 1


@scalar
def step(cells, constants, pose, memory, stream, action):
    """A counted pick marks a random empty cell again, with probability 1 - 1 / (2 scale)."""
    if is_moving(action):
        return travel(cells, constants, pose, action)
    cell = pose >> 2
    before = cells[cell] & ZERO != 0
    change = handle(cells, constants, pose, action)
    after = cells[cell] & ZERO != 0
    if after != before:
        count_empty(constants, memory, cell, 1 if after else -1)
    if change < 0 and cells[cell] & FLAG:
        cells[cell] &= NO_FLAG
        memory[SCORE] += 1
        if memory[SCORE] >= constants[EXPECTED]:
            memory[DONE] = 1
        # Whether it grows again depends on the draw alone, so worlds alike are equally lucky
        # whatever the agent does; where it does, on the cells that are empty.
        k = below(stream, memory[EMPTY] * 2 * constants[SCALE])
        if k >= memory[EMPTY]:
            spot = kth_empty(cells, constants, memory, k % memory[EMPTY])
            cells[spot] = FLAG | 1
            count_empty(constants, memory, spot, -1)
    return pose


def _constants(setting: Setting) -> Constants:
    expected = 2 * (setting.height - 2) * (setting.width - 2)
    return long_rules(setting, expected, expected * setting.scale)


def _ceiling(setting: Setting) -> float:
    """What one sweep returns on average, to two digits, if it leaves no cell empty behind it.

    Whoever puts a marker on every cell that stays empty makes the next one grow again where the
    agent stands: it picks there until nothing grows, 2 * scale times on average, and goes on.
    """
    rows, cols = setting.height - 2, setting.width - 2
    picks = 2 * rows * cols * setting.scale
    moves = puts = rows * cols - 1
    turns = min(2 * (rows - 1), 1 + 2 * (cols - 1))
    actions = picks + moves + puts + turns
    return round(float(1 - actions * _constants(setting).cost), 2)


def _starts(setting: Setting) -> Iterator[Start]:
    grid = layouts.room(setting.height, setting.width)
    grid[1:-1, 1:-1] = 1
    yield Start(probability=Fraction(1), map=Map(grid, setting.height - 2, 1, Facing.EAST))


def _is_sound(worlds: WorldBatch) -> NDArray[np.bool_]:
    """Whether the empty cells are as many as memory says, in all and in each row: `[B]` bool.

    A pick must leave an empty cell, among which the next marker's is drawn: none has two markers.
    """
    empty = (worlds.grid & ZERO != 0).sum(axis=2)  # [B, H]
    is_in_rows = (worlds.memory[:, EMPTY_IN_ROW:] == empty).all(1)
    is_single = (worlds.markers <= 1).all(1)
    return is_in_rows & is_single & (worlds.memory[:, EMPTY] == empty.sum(1))


INF_HARVESTER = Task(
    name="InfHarvester",
    suite="KarelLong",
    summary="pick markers that may appear again, until none are left",
    size=(16, 16),
    ceiling=_ceiling,
    draw_start=draw_start,
    begin=begin,
    step=step,
    needs="at least one marker",
    constants=_constants,
    slots=lambda height, width: 1 + height,
    wrong_size=layouts.any_size,
    scales=LONG,
    max_steps=MAX_STEPS,
    starts=_starts,
    is_sound=_is_sound,
    draws=lambda setting: True,
    is_restless=True,
    variants={"hipo": {}, "paper": {}},
    modes=3,
)
