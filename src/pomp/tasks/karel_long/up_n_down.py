"""Up-N-Down: collect loads above and below by climbing the stairs up and down."""

from collections.abc import Iterator
from fractions import Fraction

from pomp.core.compiling import scalar
from pomp.core.streams import below
from pomp.karel.dynamics import (
    DONE,
    EAST,
    FIRST_CONSTANT,
    FIRST_SLOT,
    FLAG,
    HEIGHT,
    NO_FLAG,
    SCORE,
    TALLY,
    UNIT,
    WIDTH,
    Facing,
    act,
    pose_at,
    write_count,
)
from pomp.karel.world import Map, WorldBatch, memory_of
from pomp.tasks import layouts
from pomp.tasks.karel.stair_climber import square_size
from pomp.tasks.karel_long.economy import MAX_STEPS, forget_zero_flags, long_rules
from pomp.tasks.task import LONG, Constants, EventCount, Option, Setting, Start, Task

LOADS = 100
UP, DOWN, _SLOTS = range(FIRST_SLOT, FIRST_SLOT + 3)  # the latest goals of either kind
LAST_LOAD = FIRST_CONSTANT


@scalar
def draw_start(cells, constants, memory, stream):
    """Stairs; the agent on the second step, the first load at the top."""
    layouts.build_stairs(cells, constants)
    height, width = constants[HEIGHT], constants[WIDTH]
    write_count(cells, width + width - 2, 1)
    return pose_at(height - 3, 2, width, EAST)


@scalar
def begin(cells, constants, pose, memory):
    """The marked cell is the first goal; the bottom stair stands in for the last one below.

    Cells above the stairs' band are flagged: time spent there is fined.
    """
    layouts.set_zero_flags(cells)
    height, width = constants[HEIGHT], constants[WIDTH]
    for row in range(1, height - 1):
        for col in range(1, width - 1):
            is_fined = row + col < height - 2
            cells[row * width + col] &= NO_FLAG
            cells[row * width + col] |= FLAG if is_fined else 0
    memory[UP] = layouts.find_only_marked(cells, constants)
    memory[DOWN] = (height - 2) * width + 1
    memory[UNIT] = 1
    row, col = memory[UP] // width, memory[UP] % width
    is_on_band = row + col == height - 1 or row + col == height - 2
    return memory[UP] >= 0 and is_on_band and row < height - 2


@scalar
def draw_goal(constants, stream, row, is_down):
    """A random cell of the stairs' band below or above a row.

    Every row of the band has two cells, the left one above a stair; the bottom row has only one.
    """
    height, width = constants[HEIGHT], constants[WIDTH]
    if is_down:
        k = below(stream, 2 * (height - 2 - row) - 1)
        row += 1 + k // 2
    else:
        k = below(stream, 2 * (row - 1))
        row = 1 + k // 2
    left = height - 2 - row
    col = left + k % 2 if row < height - 2 else 1
    return row * width + col


@scalar
def step(cells, constants, pose, memory, stream, action):
    """Standing on the load collects it; time above the stairs' band is fined."""
    pose = act(cells, constants, pose, action)
    if memory[DONE]:
        return pose
    cell = pose >> 2
    memory[TALLY] += cells[cell] & FLAG != 0
    is_up = memory[SCORE] % 2 == 0
    if cell == (memory[UP] if is_up else memory[DOWN]):
        memory[SCORE] += 1
        memory[DONE] = memory[SCORE] == constants[LAST_LOAD]
        goal = draw_goal(constants, stream, cell // constants[WIDTH], is_up)
        write_count(cells, cell, 0)
        write_count(cells, goal, 1 - memory[DONE])  # the last load is drawn too, but not shown
        memory[DOWN if is_up else UP] = goal
    return pose


def _constants(setting: Setting) -> Constants:
    return long_rules(setting, LOADS, LOADS * setting.scale, fine=setting.number("psi"))


def _starts(setting: Setting) -> Iterator[Start]:
    grid = layouts.stairs(setting.height, setting.width)
    grid[1, -2] = 1
    yield Start(probability=Fraction(1), map=Map(grid, setting.height - 3, 2, Facing.EAST))


def _forget(worlds: WorldBatch) -> None:
    """The goal that is not the current one will be drawn anew."""
    forget_zero_flags(worlds)
    is_up = worlds.memory[:, SCORE] % 2 == 0
    memory_of(worlds).memory[is_up, DOWN] = 0
    memory_of(worlds).memory[~is_up, UP] = 0


UP_N_DOWN = Task(
    name="UpNDown",
    suite="KarelLong",
    summary="collect 100 loads that appear above and below on the stairs in turn",
    size=(8, 8),
    ceiling=lambda setting: 0.910 if setting.is_own_size else None,
    draw_start=draw_start,
    begin=begin,
    step=step,
    needs="exactly one marker, on the stairs or right above them, not in the bottom row",
    constants=_constants,
    slots=lambda height, width: _SLOTS - FIRST_SLOT,
    wrong_size=square_size,
    scales=LONG,
    max_steps=MAX_STEPS,
    starts=_starts,
    draws=lambda setting: True,
    event_count=lambda setting: EventCount(last=int(setting.constants[LAST_LOAD]), phases=2),
    forget=_forget,
    variants={"hipo": {"psi": "0.0005"}, "paper": {"psi": "0.005"}},
    options={"psi": Option("fine for every action off the stairs")},
    modes=3,
)
