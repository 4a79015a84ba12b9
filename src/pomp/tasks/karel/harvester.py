"""Harvester: pick up the marker of every cell."""

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

MARKERS = FIRST_SLOT
LAG = FIRST_CONSTANT


@scalar
def draw_start(cells, constants, memory, stream):
    """A room with a marker on every cell; the agent in the lower left corner."""
    layouts.wall_in(cells, constants)
    layouts.fill(cells, constants, 1, 1, constants[HEIGHT] - 2, constants[WIDTH] - 2, 1)
    return pose_at(constants[HEIGHT] - 2, 1, constants[WIDTH], EAST)


@scalar
def begin(cells, constants, pose, memory):
    """All markers present are to be picked."""
    memory[MARKERS] = layouts.count_marked(cells)
    memory[UNIT] = memory[MARKERS]
    return memory[UNIT] > 0


@scalar
def step(cells, constants, pose, memory, stream, action):
    """Score the markers gone; with lag, as they stood before this action."""
    markers = memory[MARKERS]
    if is_moving(action):
        pose = travel(cells, constants, pose, action)
    else:
        before = cells[pose >> 2] & COUNT
        picked = handle(cells, constants, pose, action)
        if constants[VALUE] == SUM:  # counts marked cells, LEAPS counts markers
            picked = change(before > 0, cells[pose >> 2] & COUNT > 0)
        memory[MARKERS] += picked
    if constants[LAG] == 0:
        markers = memory[MARKERS]
    if constants[VALUE] == LAST or not memory[DONE]:
        memory[SCORE] = memory[UNIT] - markers
        if markers == 0:
            memory[DONE] = 1
    return pose


def _constants(setting: Setting) -> Constants:
    is_leaps = setting.variant == "leaps"
    return Constants(
        cap=9 if is_leaps else 1,
        value=LAST if is_leaps else SUM,
        own=(int(setting.flag("lag")),),
    )


def _starts(setting: Setting) -> Iterator[Start]:
    grid = layouts.room(setting.height, setting.width)
    grid[1:-1, 1:-1] = 1
    start = Map(grid, setting.height - 2, 1, Facing.EAST)
    yield Start(probability=Fraction(1), map=start)


HARVESTER = Task(
    name="Harvester",
    suite="Karel",
    summary="pick up the marker of every cell",
    size=(8, 8),
    ceiling=1.0,
    episodes=32,
    draw_start=draw_start,
    begin=begin,
    step=step,
    needs="at least one marker",
    constants=_constants,
    slots=lambda height, width: 1,
    wrong_size=layouts.any_size,
    starts=_starts,
    variants={"hprl": {"lag": "on"}, "leaps": {"lag": "on"}, "paper": {"lag": "off"}},
    options={"lag": Option("a picked marker pays one action later", SWITCH)},
)
