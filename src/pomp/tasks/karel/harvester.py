"""Harvester: pick up the marker of every cell."""

from collections.abc import Iterator
from fractions import Fraction

from pomp.core.compiling import scalar
from pomp.karel.rules import (
    COUNT,
    DONE,
    EAST,
    FIRST_RULE,
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
from pomp.tasks.task import SWITCH, Option, Rules, Setting, Start, Task

MARKERS = FIRST_SLOT
LAG = FIRST_RULE


@scalar
def lay_out(cells, rules, memory, stream):
    """A room with a marker on every cell; the agent in the lower left corner."""
    layouts.wall_in(cells, rules)
    layouts.fill(cells, rules, 1, 1, rules[HEIGHT] - 2, rules[WIDTH] - 2, 1)
    return pose_at(rules[HEIGHT] - 2, 1, rules[WIDTH], EAST)


@scalar
def begin(cells, rules, pose, memory):
    """All markers present are to be picked."""
    memory[MARKERS] = layouts.count_marked(cells)
    memory[UNIT] = memory[MARKERS]
    return memory[UNIT] > 0


@scalar
def step(cells, rules, pose, memory, stream, action):
    """Score the markers gone; with lag, as they stood before this action."""
    markers = memory[MARKERS]
    if is_moving(action):
        pose = travel(cells, rules, pose, action)
    else:
        before = cells[pose >> 2] & COUNT
        picked = handle(cells, rules, pose, action)
        if rules[VALUE] == SUM:  # counts marked cells, LEAPS counts markers
            picked = change(before > 0, cells[pose >> 2] & COUNT > 0)
        memory[MARKERS] += picked
    if rules[LAG] == 0:
        markers = memory[MARKERS]
    if rules[VALUE] == LAST or not memory[DONE]:
        memory[SCORE] = memory[UNIT] - markers
        if markers == 0:
            memory[DONE] = 1
    return pose


def _rules(setting: Setting) -> Rules:
    is_leaps = setting.variant == "leaps"
    return Rules(
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
    lay_out=lay_out,
    begin=begin,
    step=step,
    needs="at least one marker",
    rules=_rules,
    slots=lambda height, width: 1,
    wrong_size=layouts.any_size,
    starts=_starts,
    variants={"hprl": {"lag": "on"}, "leaps": {"lag": "on"}, "paper": {"lag": "off"}},
    options={"lag": Option("a picked marker pays one action later", SWITCH)},
)
