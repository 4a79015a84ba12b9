"""What rules can sense: one table, and the compiled functions that read a world for it.

A sensor's number is its row in `SENSORS`, and its bit in a reading, which is the integer that holds
all a rule can ask for in one world at one time. A literal is a sensor with a sign, as one number:
twice the sensor's, plus one if it is negated. Names, words, mirror images and the documentation
follow from the rows. A new sensor is a row at the end, whose number nothing else has, a compiled
function, and its call in `sense`.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from pomp.core.compiling import scalar
from pomp.dsl.vocabulary import Perception
from pomp.dsl.words import describe_perception
from pomp.karel.dynamics import Compass, find_marker, perceive

PERCEPTIONS, COMPASS, IDLENESS = "perceptions", "compass", "idleness"
"""Groups of sensors: of those of the compass exactly one holds, any of the others may."""


@dataclass(frozen=True)
class Sensor:
    """A row of the table."""

    name: str
    """How texts of machines spell it."""
    group: str
    """`PERCEPTIONS`, `COMPASS` or `IDLENESS`."""
    meaning: str
    """When it holds, for the documentation."""
    holds: str
    """That it holds, in plain words."""
    fails: str
    """That it does not, in plain words."""
    contrary: str | None = None
    """Another name of `not` this sensor."""
    mirror: str | None = None
    """The sensor that takes its place where left and right are exchanged; None: itself."""


def _perceived(
    perception: Perception,
    meaning: str,
    *,
    contrary: Perception | None = None,
    mirror: Perception | None = None,
) -> Sensor:
    return Sensor(
        perception.token,
        PERCEPTIONS,
        meaning,
        describe_perception(perception),
        describe_perception(perception, holds=False),
        None if contrary is None else contrary.token,
        None if mirror is None else mirror.token,
    )


def _marker(name: str, place: str, mirror: str | None = None) -> Sensor:
    where = f"the nearest marker is {place}"
    return Sensor(name, COMPASS, where, where, where.replace(" is ", " is not "), None, mirror)


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
        "no marker anywhere",
        COMPASS,
        "no other cell shows a marker",
        "no other cell has a marker",
        "another cell has a marker",
    ),
    Sensor(
        "idle",
        IDLENESS,
        "the last mode took no action (never at the start)",
        "it did nothing",
        "it did something",
    ),
)

READINGS = 1 << len(SENSORS)
"""Readings are below this number; most of them are impossible."""
READING_TYPE = np.int16
NUMBER_OF = {sensor.name: number for number, sensor in enumerate(SENSORS)}


def numbers_in(*groups: str) -> tuple[int, ...]:
    """Return the numbers of the sensors in some groups."""
    return tuple(number for number, sensor in enumerate(SENSORS) if sensor.group in groups)


# What compiled code takes from the table. Perceptions and directions keep the order of their enums.
PERCEIVED, DIRECTIONS = len(numbers_in(PERCEPTIONS)), len(Compass)
FIRST_DIRECTION, IDLE = numbers_in(COMPASS)[0], NUMBER_OF["idle"]
PERCEIVED_BITS = (1 << PERCEIVED) - 1
assert [SENSORS[one].name for one in range(PERCEIVED)] == [
    one.token for one in tuple(Perception)[:PERCEIVED]
]
assert len(numbers_in(COMPASS)) == DIRECTIONS


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


def literal_of(name: str, *, negated: bool = False) -> int:
    """Return a sensor with a sign as a literal.

    Args:
        name: of a sensor, or a contrary.
        negated: whether `not` stands before it.
    """
    for number, sensor in enumerate(SENSORS):
        if name in (sensor.name, sensor.contrary):
            return 2 * number + (negated != (name == sensor.contrary))
    raise KeyError(name)


def mirror_literals() -> NDArray[np.int8]:
    """Return each literal's mirror image, `[2 * sensors + 1]` int8; the last: -1 is its own."""
    images = [NUMBER_OF[sensor.mirror or sensor.name] for sensor in SENSORS]
    return np.array([*(2 * image + sign for image in images for sign in (0, 1)), -1], np.int8)


def possible_readings() -> NDArray[np.int64]:
    """Return all that can be sensed, `[N]` int64: one direction each, and any of the others.

    Perceptions change fastest from one to the next, idleness slowest.
    """

    def subsets(group: str) -> list[int]:
        bits = [1 << number for number in numbers_in(group)]
        return sorted(sum(chosen) for chosen in product(*((0, bit) for bit in bits)))

    directions = [1 << number for number in numbers_in(COMPASS)]
    parts = product(subsets(IDLENESS), directions, subsets(PERCEPTIONS))
    return np.array([sum(part) for part in parts], np.int64)
