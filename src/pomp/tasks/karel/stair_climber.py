"""StairClimber: climb the stairs to the marked cell."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations

from pomp.core.compiling import scalar
from pomp.core.errors import ConfigError
from pomp.core.streams import below
from pomp.karel.dynamics import (
    DONE,
    EAST,
    FIRST_CONSTANT,
    FIRST_SLOT,
    FLAG,
    HEIGHT,
    LAST,
    MEAN,
    SCORE,
    SUM,
    TALLY,
    UNIT,
    VALUE,
    WIDTH,
    Facing,
    act,
    pose_at,
    write_count,
)
from pomp.karel.world import Map
from pomp.tasks import layouts
from pomp.tasks.task import SWITCH, Constants, Option, Setting, Start, Task

GOAL, DISTANCE, _SLOTS = range(FIRST_SLOT, FIRST_SLOT + 3)
DENSE, PENALISED = FIRST_CONSTANT, FIRST_CONSTANT + 1


@scalar
def draw_start(cells, constants, memory, stream):
    """Stairs; agent and marker on two different stair cells, the marker higher."""
    layouts.build_stairs(cells, constants)
    height, width = constants[HEIGHT], constants[WIDTH]
    first = below(stream, width - 2)
    second = below(stream, width - 3)
    if second >= first:
        second += 1
    low, high = min(first, second) + 1, max(first, second) + 1
    write_count(cells, (height - 1 - high) * width + high, 1)
    return pose_at(height - 1 - low, low, width, EAST)


@scalar
def begin(cells, constants, pose, memory):
    """The goal is the marked cell, whatever happens to the marker later."""
    layouts.set_zero_flags(cells)
    layouts.flag_stairs(cells, constants)
    memory[GOAL] = layouts.find_only_marked(cells, constants)
    memory[DISTANCE] = distance(constants, pose >> 2, memory[GOAL])
    is_share = constants[DENSE] and constants[VALUE] == SUM  # of the initial distance
    memory[UNIT] = memory[DISTANCE] if is_share else 1
    return memory[GOAL] >= 0 and memory[DISTANCE] > 0


@scalar
def distance(constants, one, other):
    """Manhattan distance between two cells."""
    width = constants[WIDTH]
    return abs(one // width - other // width) + abs(one % width - other % width)


@scalar
def step(cells, constants, pose, memory, stream, action):
    """Pay for arriving, or (dense) for every step nearer; leaving the stairs may cost."""
    pose = act(cells, constants, pose, action)
    cell = pose >> 2
    was_done = memory[DONE]
    if constants[DENSE]:
        now = distance(constants, cell, memory[GOAL])
        gain = memory[DISTANCE] - now if cells[cell] & FLAG else -1
        memory[DISTANCE] = now
        if constants[VALUE] == MEAN:
            memory[SCORE] = gain
            memory[TALLY] += gain
        elif not was_done:
            memory[SCORE] += gain
        if now == 0:
            memory[DONE] = 1
        return pose
    arrived = cell == memory[GOAL] and not was_done
    if arrived or constants[VALUE] == LAST:
        memory[SCORE] = arrived
    if arrived:
        memory[DONE] = 1
    elif constants[PENALISED] and not was_done and cells[cell] & FLAG == 0:
        memory[TALLY] = 1
        memory[DONE] = 1
    return pose


def _constants(setting: Setting) -> Constants:
    dense, penalty = setting.flag("dense"), setting.number("off_stairs_penalty")
    if dense and penalty:
        raise ConfigError("option off_stairs_penalty goes with dense=off; dense has its own")
    is_leaps = setting.variant == "leaps"
    return Constants(
        cap=9 if is_leaps else 1,
        value=(MEAN if dense else LAST) if is_leaps else SUM,
        fine=penalty,
        own=(int(dense), int(penalty > 0)),
    )


def _starts(setting: Setting) -> Iterator[Start]:
    stairs = range(1, setting.width - 1)
    pairs = list(combinations(stairs, 2))
    for low, high in pairs:
        grid = layouts.stairs(setting.height, setting.width)
        grid[setting.height - 1 - high, high] = 1
        start = Map(grid, setting.height - 1 - low, low, Facing.EAST)
        yield Start(probability=Fraction(1, len(pairs)), map=start)


def square_size(height: int, width: int) -> str:
    """Stairs need a square."""
    expected = layouts.any_size(height, width, (5, 5))
    return expected or ("" if height == width else "equal height and width")


STAIR_CLIMBER = Task(
    name="StairClimber",
    suite="Karel",
    summary="climb the stairs to the marked cell",
    size=(12, 12),
    ceiling=lambda setting: None if setting.constants[VALUE] == MEAN else 1.0,
    episodes=32,
    draw_start=draw_start,
    begin=begin,
    step=step,
    needs="exactly one marker, away from the agent",
    constants=_constants,
    slots=lambda height, width: _SLOTS - FIRST_SLOT,
    wrong_size=square_size,
    starts=_starts,
    variants={
        "hprl": {"dense": "off", "off_stairs_penalty": 0},
        "leaps": {"dense": "off"},
        "paper": {"off_stairs_penalty": 1},
    },
    options={
        "dense": Option("pay for every step nearer, not only for arriving", SWITCH),
        "off_stairs_penalty": Option("leaving the stairs costs this much and ends the task"),
    },
)
