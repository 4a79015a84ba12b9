"""Random worlds without a task: walls, markers and agent by chance. For the embedding's data."""

from collections.abc import Mapping

from pomp.core.compiling import scalar
from pomp.core.errors import ConfigError
from pomp.core.streams import below
from pomp.karel.dynamics import FIRST_CONSTANT, HEIGHT, UNIT, WALL, WIDTH, act, write_count
from pomp.tasks import layouts
from pomp.tasks.task import Constants, Option, Setting, Task

WALL_ODDS, MARKER_ODDS = FIRST_CONSTANT, FIRST_CONSTANT + 1
_CERTAIN = 1 << 30  # odds are counted in this many parts


@scalar
def draw_start(cells, constants, memory, stream):
    """Each inner cell is a wall by chance, each free one holds a marker by chance."""
    layouts.wall_in(cells, constants)
    width = constants[WIDTH]
    for row in range(1, constants[HEIGHT] - 1):
        for col in range(1, width - 1):
            if below(stream, _CERTAIN) < constants[WALL_ODDS]:
                cells[row * width + col] = WALL
    if layouts.count_free(cells) == 0:  # the agent needs a place
        row = 1 + below(stream, constants[HEIGHT] - 2)
        cells[row * width + 1 + below(stream, width - 2)] = 0
    for cell in range(len(cells)):
        if cells[cell] & WALL == 0 and below(stream, _CERTAIN) < constants[MARKER_ODDS]:
            write_count(cells, cell, 1)
    cell = layouts.kth_free(cells, below(stream, layouts.count_free(cells)))
    return cell << 2 | below(stream, 4)


@scalar
def begin(cells, constants, pose, memory):
    """Nothing is wanted and nothing pays."""
    layouts.set_zero_flags(cells)
    memory[UNIT] = 1
    return True


@scalar
def step(cells, constants, pose, memory, stream, action):
    """The plain rules."""
    return act(cells, constants, pose, action)


def _constants(setting: Setting) -> Constants:
    odds = [setting.number(name) for name in ("walls", "markers")]
    if max(odds) > 1:
        raise ConfigError("options walls and markers are probabilities, from 0 to 1")
    return Constants(cap=9, own=tuple(int(chance * _CERTAIN) for chance in odds))


_VARIANTS: Mapping[str, Mapping[str, object]] = {
    "leaps": {"walls": "0.1", "markers": "0.1"},
    "hprl": {"walls": "0.15", "markers": "0.1"},
}

RANDOM_WORLD = Task(
    name="RandomWorld",
    suite="Data",
    summary="no task: random walls, markers and agent",
    size=(8, 8),
    ceiling=lambda setting: None,
    draw_start=draw_start,
    begin=begin,
    step=step,
    needs="nothing in particular",
    constants=_constants,
    wrong_size=layouts.any_size,
    too_many="walls and markers are random everywhere",
    variants=_VARIANTS,
    options={
        "walls": Option("probability that an inner cell is a wall"),
        "markers": Option("probability that a free cell holds a marker"),
    },
)
