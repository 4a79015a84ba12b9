"""Inf-DoorKey: four chambers in a ring; pick a key, deliver it next door, pick, deliver, ..."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import ceil

import numpy as np
from numpy.typing import NDArray

from pomp.core.compiling import scalar
from pomp.core.streams import below
from pomp.karel.dynamics import (
    DONE,
    EAST,
    FIRST_CONSTANT,
    FIRST_SLOT,
    NO_COUNT,
    NO_WALL,
    NO_ZERO,
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
from pomp.karel.world import Map, WorldBatch
from pomp.tasks import layouts
from pomp.tasks.karel_long.economy import MAX_STEPS, forget_zero_flags, long_rules
from pomp.tasks.task import LONG, SWITCH, Constants, EventCount, Option, Setting, Start, Task

EVENTS = 100
STAGE, PLACES = FIRST_SLOT, FIRST_SLOT + 1  # PLACES: the cells of key 1, target 1, key 2, target 2
LAST_EVENT, CLEAN_SIGNAL, REDRAW = range(FIRST_CONSTANT, FIRST_CONSTANT + 3)

# The chambers of key 1, target 1, key 2, target 2, and the door each stage opens.
TOPS, LEFTS, ROWS, COLS = (1, 1, 5, 5), (1, 5, 5, 1), (3, 3, 2, 2), (3, 2, 2, 3)
DOOR_ROWS, DOOR_COLS = (2, 4, 6, 4), (4, 6, 4, 2)
STAGES = 4
AGENT_SQUARE = 2  # the agent starts in the first rows and columns of the first chamber
_LAYOUTS = 1
for _rows, _cols in zip(ROWS, COLS, strict=True):
    _LAYOUTS *= _rows * _cols


@scalar
def draw_start(cells, constants, memory, stream):
    """Four closed chambers with one marker each; the agent in the first."""
    width = constants[WIDTH]
    layouts.fill(cells, constants, 0, 0, width, width, WALL)
    row, col = 1 + below(stream, AGENT_SQUARE), 1 + below(stream, AGENT_SQUARE)
    for stage in range(STAGES):
        top, left = TOPS[stage], LEFTS[stage]
        layouts.fill(cells, constants, top, left, ROWS[stage], COLS[stage], 0)
        marker_row = top + below(stream, ROWS[stage])
        cells[marker_row * width + left + below(stream, COLS[stage])] = 1
    return pose_at(row, col, width, EAST)


@scalar
def begin(cells, constants, pose, memory):
    """One marker per chamber: key 1, target 1, key 2, target 2 clockwise from the upper left."""
    is_complete = True
    for stage in range(STAGES):
        rows, cols = ROWS[stage], COLS[stage]
        place = layouts.find_marked(cells, constants, TOPS[stage], LEFTS[stage], rows, cols)
        memory[PLACES + stage] = place
        is_complete = is_complete and place >= 0
    memory[UNIT] = 1
    return is_complete


@scalar
def redraw(constants, memory, stream):
    """New cells for keys and targets; one draw."""
    k = below(stream, _LAYOUTS)
    for stage in range(STAGES):
        cols = COLS[stage]
        place = k % (ROWS[stage] * cols)
        k //= ROWS[stage] * cols
        row, col = TOPS[stage] + place // cols, LEFTS[stage] + place % cols
        memory[PLACES + stage] = row * constants[WIDTH] + col


@scalar
def step(cells, constants, pose, memory, stream, action):
    """The right action on the right cell passes a stage: a door opens, the last one closes."""
    if is_moving(action):
        return travel(cells, constants, pose, action)
    cell = pose >> 2
    if action == PICK:
        handle(cells, constants, pose, action)
    else:
        write_count(cells, cell, usable(cells[cell]))
    stage = memory[STAGE]
    is_key = stage % 2 == 0
    if memory[DONE] or cell != memory[PLACES + stage] or (action == PICK) != is_key:
        return pose
    memory[SCORE] += 1
    memory[DONE] = memory[SCORE] == constants[LAST_EVENT]
    following = (stage + 1) % STAGES
    before = (stage + STAGES - 1) % STAGES
    memory[STAGE] = following
    cells[DOOR_ROWS[stage] * constants[WIDTH] + DOOR_COLS[stage]] &= NO_WALL
    cells[DOOR_ROWS[before] * constants[WIDTH] + DOOR_COLS[before]] |= WALL
    if not is_key:
        cells[cell] &= NO_COUNT
    if following == 0 and constants[REDRAW] and not memory[DONE]:
        redraw(constants, memory, stream)
    # The marker shows, but the zero flag stays: a put there would erase it.
    shown = memory[PLACES + following]
    cells[shown] = (cells[shown] & NO_COUNT) | (1 - memory[DONE])
    if constants[CLEAN_SIGNAL]:
        cells[shown] &= NO_ZERO
    return pose


def _constants(setting: Setting) -> Constants:
    last = max(1, ceil(setting.number("done_ratio") * EVENTS * setting.scale))
    switches = (int(setting.flag("clean_signal")), int(setting.flag("redraw_per_lap")))
    return long_rules(setting, EVENTS, last, *switches)


def _starts(setting: Setting) -> Iterator[Start]:
    chambers = [
        list(product(range(top, top + rows), range(left, left + cols)))
        for top, left, rows, cols in zip(TOPS, LEFTS, ROWS, COLS, strict=True)
    ]
    agents = list(product(range(1, 1 + AGENT_SQUARE), repeat=2))
    probability = Fraction(1, len(agents) * _LAYOUTS)
    for agent, *places in product(agents, *chambers):
        grid = layouts.room(setting.height, setting.width)
        grid[4] = grid[:, 4] = WALL
        for place in places:
            grid[place] = 1
        start = Map(grid, agent[0], agent[1], Facing.EAST)
        yield Start(probability=probability, map=start)


def _ceiling(setting: Setting) -> float | None:
    """Shortest ways from key to target and back, planned leg by leg, up to event 99 of 100."""
    return 0.915 if setting.number("done_ratio") == Fraction(99, 100) else None


def _event_count(setting: Setting) -> EventCount | None:
    """None if every lap draws among all layouts, which are too many to follow up."""
    if setting.flag("redraw_per_lap"):
        return None
    return EventCount(last=int(setting.constants[LAST_EVENT]), phases=STAGES)


def _is_sound(worlds: WorldBatch) -> NDArray[np.bool_]:
    """Whether there is such a stage, and keys and targets are cells: `[B]` bool."""
    stage, places = worlds.memory[:, STAGE], worlds.memory[:, PLACES:]
    is_cell = ((places >= 0) & (places < worlds.cells.shape[1])).all(1)
    return is_cell & (stage >= 0) & (stage < STAGES)


def _forget(worlds: WorldBatch) -> None:
    """A put erases the marker of a flagged key; at a target it passes the stage, flag or not."""
    places = worlds.memory[:, PLACES:]
    forget_zero_flags(worlds, places[:, 0], places[:, 2])


INF_DOOR_KEY = Task(
    name="InfDoorKey",
    suite="KarelLong",
    summary="carry keys around four chambers, 100 picks and deliveries in all",
    size=(8, 8),
    ceiling=_ceiling,
    draw_start=draw_start,
    begin=begin,
    step=step,
    needs="exactly one marker in each of the four chambers",
    constants=_constants,
    slots=lambda height, width: 1 + STAGES,
    wrong_size=lambda height, width: "" if (height, width) == (8, 8) else "8x8, its map",
    scales=LONG,
    max_steps=MAX_STEPS,
    starts=_starts,
    is_sound=_is_sound,
    draws=lambda setting: setting.flag("redraw_per_lap"),
    event_count=_event_count,
    forget=_forget,
    variants={
        "hipo": {"done_ratio": "0.99", "redraw_per_lap": "off", "clean_signal": "off"},
        "paper": {"done_ratio": "1", "redraw_per_lap": "on", "clean_signal": "off"},
    },
    options={
        "done_ratio": Option("share of the 100 events at which it ends"),
        "redraw_per_lap": Option("new cells for keys and targets after every lap", SWITCH),
        "clean_signal": Option("re-mark cells cleanly, without the reference's flag", SWITCH),
    },
)
