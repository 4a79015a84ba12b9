"""CleanHouse: collect ten markers scattered along the walls of a house."""

import numpy as np

from pomp.core.compiling import scalar
from pomp.core.streams import below
from pomp.karel.dynamics import (
    COUNT,
    DONE,
    FLAG,
    LAST,
    SCORE,
    SOUTH,
    SUM,
    UNIT,
    VALUE,
    WALL,
    WIDTH,
    ZERO,
    Facing,
    change,
    handle,
    is_moving,
    pose_at,
    travel,
    write_count,
)
from pomp.karel.world import Map
from pomp.tasks import layouts
from pomp.tasks.task import Constants, Setting, Task

HOUSE = """
######################
#cc##########.#......#
#cc#cccccccc..#####.##
##c#c...............##
##ccc.cccc#.........##
###c#c###c#..###.#.###
#ccc#ccc#c...#...#..##
#c.c#c.c#c...#...#...#
#c.c#c.c#c..c#...##..#
#c.c#c.c##cc##...##.##
#c.c#c.c##cc##...#..##
#c.c#c.c##cc##...#..##
#ccc#ccc##cc##...#..##
######################
"""
"""`c`: where a marker may lie."""

MARKERS = 10
START = (1, 13)
SIGNAL = (2, 12)  # always two markers, which count for nothing: they tell a wall follower to stop

_ROWS = HOUSE.split()
_CANDIDATE, _FREE, _SOLID = range(3)
_KINDS = np.array([["c.#".index(sign) for sign in row] for row in _ROWS], np.uint8).ravel()
_CANDIDATES = int(np.sum(_KINDS == _CANDIDATE))
_SIGNAL_CELL = SIGNAL[0] * len(_ROWS[0]) + SIGNAL[1]


@scalar
def draw_start(cells, constants, memory, stream):
    """The house; a random ten of the candidate cells hold a marker."""
    to_see, to_choose = _CANDIDATES, MARKERS
    for cell in range(len(cells)):
        if _KINDS[cell] == _SOLID:
            cells[cell] = WALL
        elif _KINDS[cell] == _CANDIDATE:
            if below(stream, to_see) < to_choose:
                write_count(cells, cell, 1)
                to_choose -= 1
            to_see -= 1
    write_count(cells, _SIGNAL_CELL, 2)
    return pose_at(START[0], START[1], constants[WIDTH], SOUTH)


@scalar
def begin(cells, constants, pose, memory):
    """Cells with exactly one marker are the targets."""
    layouts.set_zero_flags(cells)
    for cell in range(len(cells)):
        if cells[cell] & COUNT == 1:
            cells[cell] |= FLAG
            memory[UNIT] += 1
    return memory[UNIT] > 0


@scalar
def step(cells, constants, pose, memory, stream, action):
    """Count the targets that are empty."""
    if is_moving(action):
        return travel(cells, constants, pose, action)
    cell = pose >> 2
    before = cells[cell] & ZERO != 0
    handle(cells, constants, pose, action)
    if cells[cell] & FLAG and (constants[VALUE] == LAST or not memory[DONE]):
        memory[SCORE] += change(before, cells[cell] & ZERO != 0)
        if memory[SCORE] == memory[UNIT]:
            memory[DONE] = 1
    return pose


def _constants(setting: Setting) -> Constants:
    is_leaps = setting.variant == "leaps"
    return Constants(cap=9 if is_leaps else 1, value=LAST if is_leaps else SUM)


def _is_start(start: Map) -> bool:
    kinds = _KINDS.reshape(start.grid.shape)
    rest = start.grid.copy()
    rest[kinds == _CANDIDATE] = 0
    bare = np.where(kinds == _SOLID, WALL, 0)
    bare[SIGNAL] = 2
    candidates = start.grid[kinds == _CANDIDATE]
    is_ten = np.count_nonzero(candidates) == MARKERS and candidates.max() == 1
    is_agent = (start.row, start.col) == START and start.facing == Facing.SOUTH
    return bool(is_ten and is_agent and np.array_equal(rest, bare))


CLEAN_HOUSE = Task(
    name="CleanHouse",
    suite="Karel",
    summary="collect ten markers scattered along the walls of a house",
    size=(len(_ROWS), len(_ROWS[0])),
    ceiling=1.0,
    episodes=32,
    draw_start=draw_start,
    begin=begin,
    step=step,
    needs="at least one cell with exactly one marker",
    most_shown=2,
    constants=_constants,
    wrong_size=lambda height, width: "" if (height, width) == (14, 22) else "14x22, its map",
    is_start=_is_start,
    too_many="10 of 68 cells hold a marker, 290 billion ways; use --starts",
    variants={"hprl": {}, "leaps": {}, "paper": {}},
)
