"""OneStroke: visit every cell once; a cell left behind becomes a wall."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

from pomp.core.compiling import scalar
from pomp.core.streams import below
from pomp.karel.dynamics import (
    DONE,
    EAST,
    FIRST_CONSTANT,
    FIRST_SLOT,
    FLAG,
    HEIGHT,
    MOVE,
    SCORE,
    UNIT,
    WALL,
    WIDTH,
    Facing,
    act,
    pose_at,
)
from pomp.karel.world import Map
from pomp.tasks import layouts
from pomp.tasks.task import SWITCH, Constants, Option, Setting, Start, Task

VISITED = FIRST_SLOT
LAG = FIRST_CONSTANT


@scalar
def draw_start(cells, constants, memory, stream):
    """An empty room, the agent anywhere."""
    layouts.wall_in(cells, constants)
    row = 1 + below(stream, constants[HEIGHT] - 2)
    col = 1 + below(stream, constants[WIDTH] - 2)
    return pose_at(row, col, constants[WIDTH], EAST)


@scalar
def begin(cells, constants, pose, memory):
    """The agent's cell is visited; all free cells are to be."""
    cells[pose >> 2] |= FLAG
    memory[VISITED] = 1
    memory[UNIT] = layouts.count_free(cells)
    return True


@scalar
def step(cells, constants, pose, memory, stream, action):
    """Wall up the cell left behind; done when blocked or when every cell is visited."""
    visited = memory[VISITED]
    cell = pose >> 2
    pose = act(cells, constants, pose, action)
    if pose >> 2 != cell:
        cells[cell] = WALL | FLAG
        memory[VISITED] += cells[pose >> 2] & FLAG == 0
        cells[pose >> 2] |= FLAG
    if not memory[DONE]:
        memory[SCORE] = visited if constants[LAG] else memory[VISITED]
        is_blocked = action == MOVE and pose >> 2 == cell
        memory[DONE] = is_blocked or memory[SCORE] == memory[UNIT]
    return pose


def _constants(setting: Setting) -> Constants:
    return Constants(own=(int(setting.flag("lag")),))


def _ceiling(setting: Setting) -> float | None:
    """Every cell, where there is a way round through all of them; where not, it is not known."""
    rows, cols = setting.height - 2, setting.width - 2
    return 1.0 if min(rows, cols) > 1 and rows * cols % 2 == 0 else None


def _starts(setting: Setting) -> Iterator[Start]:
    cells = list(product(range(1, setting.height - 1), range(1, setting.width - 1)))
    for row, col in cells:
        start = Map(layouts.room(setting.height, setting.width), row, col, Facing.EAST)
        yield Start(probability=Fraction(1, len(cells)), map=start)


ONE_STROKE = Task(
    name="OneStroke",
    suite="KarelHard",
    summary="visit every cell once; a cell left behind becomes a wall",
    size=(8, 8),
    ceiling=_ceiling,
    episodes=32,
    draw_start=draw_start,
    begin=begin,
    step=step,
    needs="nothing in particular",
    constants=_constants,
    slots=lambda height, width: 1,
    wrong_size=layouts.any_size,
    starts=_starts,
    variants={"hprl": {"lag": "on"}, "paper": {"lag": "off"}},
    options={"lag": Option("a visited cell pays one action later", SWITCH)},
)
