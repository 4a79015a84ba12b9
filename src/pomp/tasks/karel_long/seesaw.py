"""Seesaw: fetch markers that appear in the left and the right chamber in turn."""

from collections.abc import Iterator
from fractions import Fraction

from pomp.core.compiling import scalar
from pomp.core.streams import below
from pomp.karel.dynamics import (
    DONE,
    EAST,
    FIRST_CONSTANT,
    HEIGHT,
    PICK,
    SCORE,
    UNIT,
    WALL,
    WIDTH,
    Facing,
    handle,
    is_moving,
    pose_at,
    travel,
    usable,
    write_count,
)
from pomp.karel.world import Map
from pomp.tasks import layouts
from pomp.tasks.karel_long.economy import MAX_STEPS, forget_zero_flags, long_rules
from pomp.tasks.task import LONG, Constants, EventCount, Option, Setting, Start, Task

PICKS = 64
ROOM_HEIGHT, CORRIDOR_HEIGHT = 4, 2
ROOM_LENGTH, LAST_PICK, RANDOM_FIRST = range(FIRST_CONSTANT, FIRST_CONSTANT + 3)


@scalar
def draw_start(cells, constants, memory, stream):
    """Two chambers and a corridor; a marker in the left chamber."""
    height, width, length = constants[HEIGHT], constants[WIDTH], constants[ROOM_LENGTH]
    top = height // 2 - 2
    layouts.fill(cells, constants, 0, 0, height, width, WALL)
    layouts.fill(cells, constants, top, 1, ROOM_HEIGHT, length, 0)
    layouts.fill(cells, constants, top + 1, 1, CORRIDOR_HEIGHT, width - 2, 0)
    layouts.fill(cells, constants, top, width - 1 - length, ROOM_HEIGHT, length, 0)
    marker = top * width + 3
    if constants[RANDOM_FIRST]:
        marker = draw_cell(constants, stream, 1)
    cells[marker] = 1
    return pose_at(top + 2, 1, width, EAST)


@scalar
def draw_cell(constants, stream, left):
    """A random cell of the chamber whose first column is `left`."""
    k = below(stream, ROOM_HEIGHT * constants[ROOM_LENGTH])
    row = constants[HEIGHT] // 2 - 2 + k // constants[ROOM_LENGTH]
    return row * constants[WIDTH] + left + k % constants[ROOM_LENGTH]


@scalar
def begin(cells, constants, pose, memory):
    """One marker to start with."""
    memory[UNIT] = 1
    return layouts.find_only_marked(cells, constants) >= 0


@scalar
def step(cells, constants, pose, memory, stream, action):
    """A pick makes a marker appear in the other chamber; putting does nothing."""
    if is_moving(action):
        return travel(cells, constants, pose, action)
    cell = pose >> 2
    if action != PICK:
        write_count(cells, cell, usable(cells[cell]))
        return pose
    if handle(cells, constants, pose, action) < 0 and not memory[DONE]:
        memory[SCORE] += 1
        col, width, length = cell % constants[WIDTH], constants[WIDTH], constants[ROOM_LENGTH]
        left = width - 1 - length if col <= length else (1 if col >= width - 1 - length else 0)
        memory[DONE] = memory[SCORE] == constants[LAST_PICK]
        if left:
            # The last marker is drawn too, but not shown.
            write_count(cells, draw_cell(constants, stream, left), 1 - memory[DONE])
    return pose


def _constants(setting: Setting) -> Constants:
    is_random = int(setting.options["start"] == "random")
    length = (setting.width - 2) // 3
    return long_rules(setting, PICKS, length, PICKS * setting.scale, is_random)


def _starts(setting: Setting) -> Iterator[Start]:
    top, length = setting.height // 2 - 2, (setting.width - 2) // 3
    cells = [(top, 3)]
    if setting.options["start"] == "random":
        cells = [(top + k // length, 1 + k % length) for k in range(ROOM_HEIGHT * length)]
    for cell in cells:
        grid = layouts.room(setting.height, setting.width)
        grid[:] = WALL
        grid[top : top + ROOM_HEIGHT, 1 : 1 + length] = 0
        grid[top : top + ROOM_HEIGHT, -1 - length : -1] = 0
        grid[top + 1 : top + 1 + CORRIDOR_HEIGHT, 1:-1] = 0
        grid[cell] = 1
        start = Map(grid, top + 2, 1, Facing.EAST)
        yield Start(probability=Fraction(1, len(cells)), map=start)


SEESAW = Task(
    name="Seesaw",
    suite="KarelLong",
    summary="fetch 64 markers that appear in the left and the right chamber in turn",
    size=(16, 16),
    ceiling=lambda setting: 0.905 if setting.is_own_size else None,
    draw_start=draw_start,
    begin=begin,
    step=step,
    needs="exactly one marker",
    constants=_constants,
    wrong_size=lambda height, width: layouts.any_size(height, width, (6, 11)),
    scales=LONG,
    max_steps=MAX_STEPS,
    starts=_starts,
    draws=lambda setting: True,
    event_count=lambda setting: EventCount(last=int(setting.constants[LAST_PICK]), phases=2),
    forget=forget_zero_flags,
    variants={"hipo": {"start": "fixed"}, "paper": {"start": "random"}},
    options={"start": Option("where the first marker lies", ("fixed", "random"))},
    modes=3,
)
