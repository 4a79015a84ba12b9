"""Maze: find the marker in a random maze."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from pomp.core.compiling import scalar
from pomp.core.errors import ConfigError
from pomp.core.streams import below
from pomp.karel.dynamics import (
    DONE,
    EAST,
    FIRST_CONSTANT,
    FIRST_SLOT,
    HEIGHT,
    LAST,
    SCORE,
    SUM,
    UNIT,
    VALUE,
    WALL,
    WIDTH,
    Facing,
    act,
    write_count,
)
from pomp.karel.world import Map
from pomp.tasks import layouts
from pomp.tasks.task import Constants, Option, Setting, Start, Task

GOAL = FIRST_SLOT
RANDOM_START, MARKER_ANYWHERE = FIRST_CONSTANT, FIRST_CONSTANT + 1
_NEIGHBOURS = 4
_MOST_GROWING = 1 << 24
"""Cells of mazes that are listed at once; if there are more, there are too many mazes."""


@scalar
def neighbour(constants, cell, k):
    """The k-th lattice neighbour of a node (up, down, left, right), or -1 outside."""
    height, width = constants[HEIGHT], constants[WIDTH]
    row = cell // width + (-2, 2, 0, 0)[k]
    col = cell % width + (0, 0, -2, 2)[k]
    inside = 0 < row < height - 1 and 0 < col < width - 1
    return row * width + col if inside else -1


@scalar
def carve(cells, constants, memory, stream):
    """Cut a spanning tree into solid wall; the task's memory serves as the stack of nodes.

    A node connects all its unvisited neighbours at once, in random order; the one connected last is
    taken up next.
    """
    width = constants[WIDTH]
    for cell in range(len(cells)):
        cells[cell] = WALL
    height = 1
    memory[FIRST_SLOT] = (constants[HEIGHT] - 2) * width + 1
    cells[memory[FIRST_SLOT]] = 0
    while height > 0:
        height -= 1
        node = memory[FIRST_SLOT + height]
        found = 0
        for k in range(_NEIGHBOURS):
            other = neighbour(constants, node, k)
            if other >= 0 and cells[other] & WALL:
                memory[FIRST_SLOT + height + found] = other
                found += 1
        for i in range(found - 1, 0, -1):
            j = below(stream, i + 1)
            one, other = FIRST_SLOT + height + i, FIRST_SLOT + height + j
            kept = memory[one]
            memory[one] = memory[other]
            memory[other] = kept
        for i in range(found):
            other = memory[FIRST_SLOT + height + i]
            cells[(node + other) // 2] = 0
            cells[other] = 0
        height += found


@scalar
def draw_start(cells, constants, memory, stream):
    """A maze, the agent in its lower left corner, the marker anywhere else."""
    carve(cells, constants, memory, stream)
    free = layouts.count_free(cells)
    start = (constants[HEIGHT] - 2) * constants[WIDTH] + 1
    if constants[RANDOM_START]:
        start = layouts.kth_free(cells, below(stream, free))
    if constants[MARKER_ANYWHERE]:
        goal = layouts.kth_free(cells, below(stream, free))
    else:
        cells[start] = WALL  # for the moment: the marker must not lie there
        goal = layouts.kth_free(cells, below(stream, free - 1))
        cells[start] = 0
    write_count(cells, goal, 1)
    return start << 2 | EAST


@scalar
def begin(cells, constants, pose, memory):
    """The goal is the marked cell, whatever happens to the marker later."""
    layouts.set_zero_flags(cells)
    for slot in range(FIRST_SLOT, len(memory)):
        memory[slot] = 0
    memory[GOAL] = layouts.find_only_marked(cells, constants)
    memory[UNIT] = 1
    return memory[GOAL] >= 0


@scalar
def step(cells, constants, pose, memory, stream, action):
    """Pay for arriving; LEAPS pays for being there."""
    pose = act(cells, constants, pose, action)
    is_there = pose >> 2 == memory[GOAL]
    if constants[VALUE] == LAST:
        memory[SCORE] = is_there
    elif is_there:
        memory[SCORE] = 1
    if is_there:
        memory[DONE] = 1
    return pose


def _constants(setting: Setting) -> Constants:
    is_leaps = setting.variant == "leaps"
    own = (int(setting.options["start"] == "random"), int(is_leaps))
    return Constants(cap=9 if is_leaps else 1, value=LAST if is_leaps else SUM, own=own)


def _mazes(height: int, width: int) -> dict[bytes, Fraction]:
    """Every maze with its probability: all orders of the shuffles, merged where they agree.

    Raises:
        ConfigError: there are too many.
    """
    solid = np.full((height, width), WALL, np.uint8)
    solid[height - 2, 1] = 0
    finished: dict[bytes, Fraction] = {}
    growing: dict[tuple[bytes, tuple[tuple[int, int], ...]], Fraction]
    growing = {(solid.tobytes(), ((height - 2, 1),)): Fraction(1)}
    while growing:
        grown: dict[tuple[bytes, tuple[tuple[int, int], ...]], Fraction] = {}
        for (cells, stack), probability in growing.items():
            if not stack:
                finished[cells] = finished.get(cells, Fraction(0)) + probability
                continue
            grid: NDArray[np.uint8] = np.frombuffer(cells, np.uint8).reshape(height, width).copy()
            row, col = stack[-1]
            near = [(row - 2, col), (row + 2, col), (row, col - 2), (row, col + 2)]
            fresh = [
                (r, c) for r, c in near if 0 < r < height - 1 and 0 < c < width - 1 and grid[r, c]
            ]
            for r, c in fresh:
                grid[r, c] = grid[(row + r) // 2, (col + c) // 2] = 0
            orders = list(permutations(fresh))
            for order in orders:
                key = (grid.tobytes(), (*stack[:-1], *order))
                grown[key] = grown.get(key, Fraction(0)) + probability / len(orders)
        growing = grown
        if len(growing) * height * width > _MOST_GROWING:
            raise ConfigError(f"Maze at {height}x{width} has too many starts to list")
    return finished


def _starts(setting: Setting) -> Iterator[Start]:
    for cells, likely in _mazes(setting.height, setting.width).items():
        maze = np.frombuffer(cells, np.uint8).reshape(setting.height, setting.width)
        free = [(int(row), int(col)) for row, col in np.argwhere(maze == 0)]
        is_random = setting.options["start"] == "random"
        agents = free if is_random else [(setting.height - 2, 1)]
        for agent in agents:
            goals = [cell for cell in free if cell != agent or setting.variant == "leaps"]
            for goal in goals:
                grid = maze.copy()
                grid[goal] = 1
                probability = likely / (len(agents) * len(goals))
                yield Start(probability=probability, map=Map(grid, *agent, Facing.EAST))


def _wrong_size(height: int, width: int) -> str:
    """What is wrong with a size ("": nothing): a maze of one node has no cell for the marker."""
    expected = layouts.any_size(height, width, (4, 4))
    return expected or ("at least 4x5 or 5x4" if (height, width) == (4, 4) else "")


MAZE = Task(
    name="Maze",
    suite="Karel",
    summary="find the marker in a random maze",
    size=(8, 8),
    ceiling=1.0,
    episodes=32,
    draw_start=draw_start,
    begin=begin,
    step=step,
    needs="exactly one marker",
    constants=_constants,
    slots=lambda height, width: (height // 2) * (width // 2) + _NEIGHBOURS,
    wrong_size=_wrong_size,
    starts=_starts,
    variants={
        "hprl": {"start": "fixed"},
        "leaps": {"start": "fixed"},
        "paper": {"start": "random"},
    },
    options={"start": Option("where the agent starts", ("fixed", "random"))},
)
