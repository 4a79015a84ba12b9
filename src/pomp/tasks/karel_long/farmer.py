"""Farmer: sow the whole field, harvest it all, and again."""

from collections.abc import Iterator
from fractions import Fraction

from pomp.core.compiling import scalar
from pomp.karel.dynamics import (
    COUNT,
    DONE,
    EAST,
    FIRST_CONSTANT,
    FIRST_SLOT,
    HEIGHT,
    NO_COUNT,
    NO_ZERO,
    PICK,
    SCORE,
    UNIT,
    WIDTH,
    Facing,
    change,
    handle,
    is_moving,
    pose_at,
    travel,
    usable,
    write_count,
)
from pomp.karel.world import Map, WorldBatch, memory_of
from pomp.tasks import layouts
from pomp.tasks.karel_long.economy import MAX_STEPS, forget_zero_flags, long_rules
from pomp.tasks.task import LONG, SWITCH, Constants, Option, Setting, Start, Task

ROUNDS_AT_SCALE_1 = 10
ACTIONS_AT_SCALE_1 = 1638  # of ten rounds row by row, at the task's own size
HARVESTING, QUOTA, ROUNDS, PICKED, PLACED, MARKED, _SLOTS = range(FIRST_SLOT, FIRST_SLOT + 7)
LAST_ROUND, CELLS, CLEAN_SIGNAL = range(FIRST_CONSTANT, FIRST_CONSTANT + 3)


@scalar
def draw_start(cells, constants, memory, stream):
    """An empty field; the signal marker in the upper right corner, the agent in the lower left."""
    layouts.wall_in(cells, constants)
    cells[2 * constants[WIDTH] - 2] = 1
    return pose_at(constants[HEIGHT] - 2, 1, constants[WIDTH], EAST)


@scalar
def begin(cells, constants, pose, memory):
    """Sowing; the signal counts as sown."""
    memory[MARKED] = layouts.count_marked(cells)
    memory[QUOTA] = 1
    memory[UNIT] = 1
    return memory[MARKED] > 0


@scalar
def is_allowed(constants, memory, action):
    """Whether pick or put works now; at the thresholds trying it switches the season."""
    if memory[DONE]:
        return False
    if action == PICK:
        if not memory[HARVESTING] and 6 * memory[QUOTA] >= 5 * constants[CELLS]:
            memory[HARVESTING] = 1
            memory[QUOTA] = 0
        return memory[HARVESTING] == 1
    if memory[HARVESTING] and memory[QUOTA] >= constants[CELLS]:
        memory[HARVESTING] = 0
        memory[QUOTA] = 1
    return memory[HARVESTING] == 0


@scalar
def step(cells, constants, pose, memory, stream, action):
    """Puts pay while sowing, picks while harvesting; an empty field ends the round."""
    if is_moving(action):
        pose = travel(cells, constants, pose, action)
    else:
        cell = pose >> 2
        before = cells[cell] & COUNT
        counted = 0
        if is_allowed(constants, memory, action):
            counted = handle(cells, constants, pose, action)
        else:
            write_count(cells, cell, usable(cells[cell]))
        memory[MARKED] += change(before > 0, cells[cell] & COUNT > 0)
        memory[PICKED] += counted < 0
        memory[PLACED] += counted > 0
        memory[QUOTA] += counted != 0
        memory[SCORE] = memory[PICKED] + memory[PLACED]
    if memory[MARKED] == 0 and not memory[DONE]:
        memory[ROUNDS] += 1
        if memory[ROUNDS] == constants[LAST_ROUND]:
            memory[DONE] = 1
        else:
            # The signal shows, but the zero flag stays: a put there will count as a new marker.
            signal = 2 * constants[WIDTH] - 2
            cells[signal] = (cells[signal] & NO_COUNT) | 1
            if constants[CLEAN_SIGNAL]:
                cells[signal] &= NO_ZERO
            memory[MARKED] = 1
            memory[HARVESTING] = 0
            memory[QUOTA] = 1
    return pose


def _constants(setting: Setting) -> Constants:
    cells = (setting.height - 2) * (setting.width - 2)
    rounds = ROUNDS_AT_SCALE_1 * setting.scale
    clean = int(setting.flag("clean_signal"))
    return long_rules(setting, 2 * cells * ROUNDS_AT_SCALE_1, rounds, cells, clean)


def _ceiling(setting: Setting) -> float | None:
    """All fields are sown and harvested row by row; the signal of the first counts as sown."""
    if not setting.is_own_size or setting.flag("clean_signal"):
        return None
    constants = _constants(setting)
    return round(float(1 - constants.pay - ACTIONS_AT_SCALE_1 * setting.scale * constants.cost), 3)


def _starts(setting: Setting) -> Iterator[Start]:
    grid = layouts.room(setting.height, setting.width)
    grid[1, -2] = 1
    yield Start(probability=Fraction(1), map=Map(grid, setting.height - 2, 1, Facing.EAST))


def _forget(worlds: WorldBatch) -> None:
    """What was picked and placed matters through the quota alone; the signal may cover a flag."""
    forget_zero_flags(worlds, 2 * worlds.width - 2)
    memory_of(worlds).memory[:, [SCORE, PICKED, PLACED]] = 0


_CLEAN_SIGNAL = Option("re-mark cells cleanly, without the reference's leftover flag", SWITCH)

FARMER = Task(
    name="Farmer",
    suite="KarelLong",
    summary="sow the whole field, harvest it all, ten times over",
    size=(8, 8),
    ceiling=_ceiling,
    draw_start=draw_start,
    begin=begin,
    step=step,
    needs="at least one marker (the signal)",
    constants=_constants,
    slots=lambda height, width: _SLOTS - FIRST_SLOT,
    wrong_size=lambda height, width: layouts.any_size(height, width, (4, 4)),
    scales=LONG,
    max_steps=MAX_STEPS,
    starts=_starts,
    forget=_forget,
    variants={"hipo": {"clean_signal": "off"}, "paper": {"clean_signal": "off"}},
    options={"clean_signal": _CLEAN_SIGNAL},
)
