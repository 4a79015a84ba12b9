"""FourCorner: put one marker on each corner and none elsewhere."""

from collections.abc import Iterator
from fractions import Fraction

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
    WIDTH,
    Facing,
    change,
    handle,
    is_moving,
    pose_at,
    travel,
)
from pomp.karel.world import Map
from pomp.tasks import layouts
from pomp.tasks.task import SWITCH, Constants, Option, Setting, Start, Task

GOOD, WRONG, MARKERS, _SLOTS = range(FIRST_SLOT, FIRST_SLOT + 4)
EIGHT_STARTS, ZERO_ON_WRONG, LAG = range(FIRST_CONSTANT, FIRST_CONSTANT + 3)
CORNERS = 4


@scalar
def start_pose(k, height, width):
    """The k-th of the eight starts: beside a corner, along the wall, either way."""
    row = (height - 3, height - 2, 2, 1)[k // 2]
    col = (width - 2, 2, 1, width - 3)[k // 2]
    facing = (0, 2, 1, 3, 2, 0, 3, 1)[k]
    return pose_at(row, col, width, facing)


@scalar
def draw_start(cells, constants, memory, stream):
    """An empty room; eight starts, or (LEAPS) one."""
    layouts.wall_in(cells, constants)
    height, width = constants[HEIGHT], constants[WIDTH]
    if constants[EIGHT_STARTS]:
        return start_pose(below(stream, 8), height, width)
    return pose_at(height - 2, 2, width, EAST)


@scalar
def begin(cells, constants, pose, memory):
    """Flag the corners and count what lies on them and elsewhere."""
    height, width = constants[HEIGHT], constants[WIDTH]
    for row in (1, height - 2):
        for col in (1, width - 2):
            cells[row * width + col] |= FLAG
    for cell in range(len(cells)):
        if cells[cell] & COUNT:
            memory[MARKERS] += 1
            if cells[cell] & FLAG == 0:
                memory[WRONG] += 1
            elif cells[cell] & COUNT == 1:
                memory[GOOD] += 1
    memory[UNIT] = CORNERS
    return True


@scalar
def step(cells, constants, pose, memory, stream, action):
    """Count corners holding exactly one marker; a marker elsewhere spoils it."""
    markers_before = memory[MARKERS]
    if is_moving(action):
        pose = travel(cells, constants, pose, action)
    else:
        cell = pose >> 2
        before = cells[cell] & COUNT
        memory[MARKERS] += handle(cells, constants, pose, action)
        after = cells[cell] & COUNT
        if cells[cell] & FLAG:
            memory[GOOD] += change(before == 1, after == 1)
        else:
            memory[WRONG] += change(before > 0, after > 0)
    if constants[VALUE] == LAST:
        markers = markers_before if constants[LAG] else memory[MARKERS]
        memory[SCORE] = 0 if markers > memory[GOOD] else memory[GOOD]
        if memory[SCORE] == CORNERS:
            memory[DONE] = 1
    elif not memory[DONE]:
        if memory[WRONG] == 0:
            memory[SCORE] = memory[GOOD]
        elif constants[ZERO_ON_WRONG]:
            memory[SCORE] = 0
        memory[DONE] = memory[WRONG] > 0 or memory[GOOD] == CORNERS
    return pose


def _constants(setting: Setting) -> Constants:
    is_leaps = setting.variant == "leaps"
    own = (setting.options["start"] == "eight", setting.flag("zero_on_wrong"), setting.flag("lag"))
    return Constants(
        cap=9 if is_leaps else 1, value=LAST if is_leaps else SUM, own=tuple(map(int, own))
    )


def _starts(setting: Setting) -> Iterator[Start]:
    height, width = setting.height, setting.width
    cells = ((height - 3, width - 2), (height - 2, 2), (2, 1), (1, width - 3))
    facings = ("NS", "EW", "SN", "WE")
    poses = [
        (*cell, Facing("NESW".index(facing)))
        for cell, pair in zip(cells, facings, strict=True)
        for facing in pair
    ]
    if setting.options["start"] == "fixed":
        poses = [(height - 2, 2, Facing.EAST)]
    for row, col, facing in poses:
        start = Map(layouts.room(height, width), row, col, facing)
        yield Start(probability=Fraction(1, len(poses)), map=start)


FOUR_CORNER = Task(
    name="FourCorner",
    suite="Karel",
    summary="put one marker on each corner and none elsewhere",
    size=(12, 12),
    ceiling=1.0,
    episodes=32,
    draw_start=draw_start,
    begin=begin,
    step=step,
    needs="nothing in particular",
    constants=_constants,
    slots=lambda height, width: _SLOTS - FIRST_SLOT,
    wrong_size=lambda height, width: layouts.any_size(height, width, (5, 5)),
    starts=_starts,
    variants={
        "hprl": {"start": "eight", "zero_on_wrong": "off"},
        "leaps": {"start": "fixed", "lag": "on"},
        "paper": {"start": "eight", "zero_on_wrong": "on"},
    },
    options={
        "start": Option("eight poses beside the corners, or the one of LEAPS", ("eight", "fixed")),
        "zero_on_wrong": Option("a marker off the corners takes everything earned away", SWITCH),
        "lag": Option("a wrong marker shows one action later", SWITCH),
    },
)
