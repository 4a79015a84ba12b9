"""What rules can sense: one table, and the compiled functions that read a world for it.

A sensor's number is its row in `SENSORS`, and its bit in a reading, which is the integer that holds
all a rule can ask for in one world at one time. A literal is a sensor with a sign, as one number:
twice the sensor's, plus one if it is negated. Names, words, mirror images and the documentation
follow from the rows. Sensors of one's own have the numbers after these (`pomp.karel.sensor_set`)
and a compiled function each; the engine reads them by a `sense_own`, of which `senses_nothing` is
the one for machines that have none.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pomp.core.compiling import check_compiled, scalar
from pomp.core.errors import ConfigError
from pomp.dsl.vocabulary import Perception
from pomp.dsl.words import describe_perception
from pomp.karel.dynamics import Compass, find_marker, perceive

PERCEPTIONS, COMPASS, IDLENESS, OWN = "perceptions", "compass", "idleness", "own"
"""Groups of sensors: of those of the compass exactly one holds, any of the others may."""

READ = ("cells", "constants", "pose")
"""The arguments of a sensor's function."""
_WORD = "(?!(?:and|not)(?![A-Za-z0-9_-]))[A-Za-z][A-Za-z0-9_-]*"
_NAME = re.compile(f"{_WORD}(?: {_WORD})*")


@dataclass(frozen=True, kw_only=True, eq=False)
class Sensor:
    """What a rule can ask about a world: whether something holds there.

    Attributes:
        name: how texts of machines spell it: one or more words.
        holds: that it holds, in plain words, as in "there is a marker in sight".
        fails: that it does not, in plain words.
        read: compiled, `read(cells, constants, pose)`: whether it holds in one world. `cells`
            `[H * W]` uint8 and `constants` `[N]` int64 are read only, `pose` is an integer; see
            `pomp.karel.dynamics`. None: it comes with the package, and `sense` reads it.
        contrary: another name of `not` this sensor.
        mirror: the sensor that takes its place where left and right are exchanged; None: itself.
        group: `OWN`, unless it comes with the package.
        meaning: when it holds, for the documentation of those that come with the package.
    """

    name: str
    holds: str
    fails: str
    read: Callable[..., Any] | None = None
    contrary: str | None = None
    mirror: str | None = None
    group: str = OWN
    meaning: str = ""

    def __post_init__(self) -> None:
        for name in (self.name, *(() if self.contrary is None else (self.contrary,))):
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise ConfigError(
                    "a sensor's name is words of letters, digits, - and _, each beginning with a "
                    f"letter and none of them 'and' or 'not', got {name!r}"
                )
        for words in (self.holds, self.fails):
            if not isinstance(words, str) or not words.strip() or "\n" in words:
                raise ConfigError(
                    f"sensor '{self.name}' needs holds and fails: what it says, in plain words"
                )
        if self.group == OWN:
            check_compiled(f"sensor '{self.name}'", "read", self.read, READ)


def _perceived(
    perception: Perception,
    meaning: str,
    *,
    contrary: Perception | None = None,
    mirror: Perception | None = None,
) -> Sensor:
    return Sensor(
        name=perception.token,
        holds=describe_perception(perception),
        fails=describe_perception(perception, holds=False),
        contrary=None if contrary is None else contrary.token,
        mirror=None if mirror is None else mirror.token,
        group=PERCEPTIONS,
        meaning=meaning,
    )


def _marker(name: str, place: str, mirror: str | None = None) -> Sensor:
    where = f"the nearest marker is {place}"
    fails = where.replace(" is ", " is not ")
    return Sensor(name=name, holds=where, fails=fails, mirror=mirror, group=COMPASS, meaning=where)


SENSORS = (
    _perceived(Perception.FRONT_IS_CLEAR, "there is no wall ahead"),
    _perceived(
        Perception.LEFT_IS_CLEAR,
        "there is no wall to the left",
        mirror=Perception.RIGHT_IS_CLEAR,
    ),
    _perceived(
        Perception.RIGHT_IS_CLEAR,
        "there is no wall to the right",
        mirror=Perception.LEFT_IS_CLEAR,
    ),
    _perceived(
        Perception.MARKERS_PRESENT,
        "the agent's cell shows a marker",
        contrary=Perception.NO_MARKERS_PRESENT,
    ),
    _marker("marker ahead", "ahead"),
    _marker("marker left", "to the left", mirror="marker right"),
    _marker("marker right", "to the right", mirror="marker left"),
    _marker("marker behind", "behind"),
    Sensor(
        name="no marker anywhere",
        holds="no other cell has a marker",
        fails="another cell has a marker",
        group=COMPASS,
        meaning="no other cell shows a marker",
    ),
    Sensor(
        name="idle",
        holds="it did nothing",
        fails="it did something",
        group=IDLENESS,
        meaning="the last mode took no action (never at the start)",
    ),
)

READING_TYPE = np.int16
FIRST_OWN, LAST_OWN = len(SENSORS), 14
"""The numbers that sensors of one's own can have: readings fit into their type."""


# What compiled code takes from the table. Perceptions and directions keep the order of their enums.
_GROUPS = [sensor.group for sensor in SENSORS]
PERCEIVED, DIRECTIONS = _GROUPS.count(PERCEPTIONS), len(Compass)
FIRST_DIRECTION, IDLE = _GROUPS.index(COMPASS), _GROUPS.index(IDLENESS)
PERCEIVED_BITS = (1 << PERCEIVED) - 1
assert [SENSORS[one].name for one in range(PERCEIVED)] == [
    one.token for one in tuple(Perception)[:PERCEIVED]
]
assert _GROUPS.count(COMPASS) == DIRECTIONS


@scalar
def sense_direction(cells, constants, pose):
    """Return the bit of the compass, which takes longest; arguments are those of `sense`."""
    return 1 << (FIRST_DIRECTION + find_marker(cells, constants, pose))


@scalar
def sense(cells, constants, pose, idle, compass):
    """Return the reading of one world.

    Args:
        cells: `[H * W]` uint8, read.
        constants: `[N]` int64, read.
        pose: where the agent is.
        idle: bool, the last mode took no action.
        compass: whether to look for the nearest marker; else no bit of the compass is set.
    """
    reading = 0
    for perception in range(PERCEIVED):
        reading |= int(perceive(cells, constants, pose, perception)) << perception
    if compass:
        reading |= sense_direction(cells, constants, pose)
    return reading | int(idle) << IDLE


@scalar
def asks_compass(literal):
    """Whether a literal is about the direction of the nearest marker."""
    return FIRST_DIRECTION <= literal >> 1 < FIRST_DIRECTION + DIRECTIONS


@scalar
def is_true(literal, reading):
    """Whether a literal is true by a reading."""
    return (reading >> (literal >> 1)) & 1 != literal & 1


@scalar
def senses_nothing(number, cells, constants, pose):
    """Return what a sensor of one's own says: 1 or 0; -1 always, because there is none.

    Args:
        number: of the sensor.
        cells: `[H * W]` uint8, read.
        constants: `[N]` int64, read.
        pose: where the agent is.
    """
    return -1
