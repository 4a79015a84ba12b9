"""Snake: eat twenty markers without biting the growing body."""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pomp.core.compiling import scalar
from pomp.karel.dynamics import (
    ACTIONS,
    COUNT,
    DONE,
    EAST,
    FIRST_SLOT,
    MOVE,
    SCORE,
    UNIT,
    WALL,
    WIDTH,
    Facing,
    act,
    ahead,
    pose_at,
)
from pomp.karel.world import Map, WorldBatch
from pomp.tasks import layouts
from pomp.tasks.task import Constants, Setting, Start, Task

FOOD, BODY = 1, 2  # marker counts
START_LENGTH, MEALS = 2, 20
RING = 24  # room for the body: the final length, one more while moving, one spare

# The body is a queue in a ring: its oldest cell stands at slot BODY_CELLS + OLDEST.
LENGTH, SIZE, OLDEST, POINTER, BODY_CELLS = range(FIRST_SLOT, FIRST_SLOT + 5)

_FOOD_PLACES = (  # row and column, a digit each
    "66 61 11 22 25 55 52 33 53 44 64 32 14 62 26 41 13 21 36 43 51 24 54 15 35 46 56 31 42 65 23 "
    "12 45 34 63"
)
FOOD_CELLS = np.array(
    [8 * int(place[0]) + int(place[1]) for place in _FOOD_PLACES.split()], np.int32
)
"""Where food appears, one after the other, and from the start again."""


@scalar
def draw_start(cells, constants, memory, stream):
    """The head in the top row, two body cells behind it, food at the row's end."""
    layouts.wall_in(cells, constants)
    width = constants[WIDTH]
    cells[width + 1] = BODY
    cells[width + 2] = BODY
    cells[2 * width - 2] = FOOD
    return pose_at(1, 3, width, EAST)


@scalar
def begin(cells, constants, pose, memory):
    """Two body cells, the newer beside the head, and one piece of food."""
    found, food = 0, 0
    for cell in range(len(cells)):
        food += cells[cell] & COUNT == FOOD
        if cells[cell] & COUNT == BODY:
            if found < START_LENGTH:
                memory[BODY_CELLS + found] = cell
            found += 1
    first, second = memory[BODY_CELLS], memory[BODY_CELLS + 1]
    is_first_newer = False
    for direction in range(4):
        is_first_newer |= (pose >> 2) + constants[direction] == first
    if is_first_newer:
        memory[BODY_CELLS], memory[BODY_CELLS + 1] = second, first
    memory[LENGTH] = START_LENGTH
    memory[SIZE] = START_LENGTH
    memory[UNIT] = MEALS
    return found == START_LENGTH and food == 1


@scalar
def feed(cells, head, memory):
    """Put food on the next listed cell that has nothing on it."""
    for _ in range(len(FOOD_CELLS)):
        cell = FOOD_CELLS[memory[POINTER]]
        memory[POINTER] = (memory[POINTER] + 1) % len(FOOD_CELLS)
        if cells[cell] == 0 and cell != head:
            cells[cell] = FOOD
            return


@scalar
def step(cells, constants, pose, memory, stream, action):
    """Move the head, drag the body; a bite ends it and does not count as an action."""
    target = ahead(constants, pose)
    if action != MOVE or memory[DONE] or cells[target] & WALL:
        return act(cells, constants, pose, action)
    is_bite = cells[target] & COUNT == BODY
    is_meal = cells[target] & COUNT == FOOD and memory[LENGTH] < START_LENGTH + MEALS
    left = pose >> 2
    cells[left] = BODY
    pose = target << 2 | (pose & 3)
    if is_bite:
        memory[DONE] = 1
        memory[ACTIONS] -= 1
        return pose
    newest = memory[OLDEST] + memory[SIZE]
    memory[BODY_CELLS + (newest if newest < RING else newest - RING)] = left
    memory[SIZE] += 1
    if is_meal:
        cells[target] = 0
        memory[LENGTH] += 1
        feed(cells, target, memory)
    if memory[SIZE] > memory[LENGTH]:
        cells[memory[BODY_CELLS + memory[OLDEST]]] = 0
        memory[OLDEST] = memory[OLDEST] + 1 if memory[OLDEST] + 1 < RING else 0
        memory[SIZE] -= 1
    memory[SCORE] = memory[LENGTH] - START_LENGTH
    memory[DONE] = memory[SCORE] == MEALS
    return pose


def _is_sound(worlds: WorldBatch) -> NDArray[np.bool_]:
    """Whether the ring holds cells, and its numbers are within it: `[B]` bool."""
    memory, body = worlds.memory, worlds.memory[:, BODY_CELLS:]
    length, size = memory[:, LENGTH], memory[:, SIZE]
    is_long = (length >= START_LENGTH) & (length <= START_LENGTH + MEALS)
    is_ring = (memory[:, OLDEST] >= 0) & (memory[:, OLDEST] < RING) & (size >= 0)
    is_fed = (memory[:, POINTER] >= 0) & (memory[:, POINTER] < len(FOOD_CELLS))
    is_cell = ((body >= 0) & (body < worlds.cells.shape[1])).all(1)
    return is_long & is_ring & is_fed & is_cell & (size <= length)


def _constants(setting: Setting) -> Constants:
    return Constants()


def _starts(setting: Setting) -> Iterator[Start]:
    grid = layouts.room(setting.height, setting.width)
    grid[1, 1] = grid[1, 2] = BODY
    grid[1, -2] = FOOD
    yield Start(probability=Fraction(1), map=Map(grid, 1, 3, Facing.EAST))


SNAKE = Task(
    name="Snake",
    suite="KarelHard",
    summary="eat twenty markers without biting the growing body",
    size=(8, 8),
    ceiling=1.0,
    episodes=32,
    draw_start=draw_start,
    begin=begin,
    step=step,
    needs="two cells of two markers (the body) and one marker (the food)",
    most_shown=BODY,
    constants=_constants,
    slots=lambda height, width: BODY_CELLS - FIRST_SLOT + RING,
    wrong_size=lambda height, width: "" if (height, width) == (8, 8) else "8x8, its food list",
    starts=_starts,
    is_sound=_is_sound,
    variants={"hprl": {}, "paper": {}},
)
