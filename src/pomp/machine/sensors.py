"""What the conditions of rules say: names of sensors, with or without `not `.

The sensors themselves stand in the table of `pomp.karel.sensors`; a `SensorSet` adds one's own.
"""

from collections.abc import Iterable
from typing import Any

from pomp.core.errors import UnknownNameError
from pomp.karel.sensor_set import SHIPPED, SensorSet
from pomp.karel.sensors import COMPASS, OWN, is_true

SENSOR_NAMES = SHIPPED.names
NOT = "not "
_is_true: Any = getattr(is_true, "py_func", is_true)  # not compiled: it takes arrays, too

PERCEPTIONS_ONLY, WITH, AND = "perceptions only", "with ", " and "
WITH_COMPASS = WITH + COMPASS


def check_condition(condition: object, known: SensorSet = SHIPPED) -> None:
    """Refuse what is neither a sensor's name nor one with `not ` before it.

    Raises:
        UnknownNameError: lists the sensors, and suggests the nearest.
    """
    if not isinstance(condition, str) or condition.removeprefix(NOT) not in known.names:
        raise UnknownNameError("sensor", str(condition).removeprefix(NOT), known.names)


def read_condition(condition: str, known: SensorSet = SHIPPED) -> int:
    """Return a condition as a literal."""
    return known.literal_of(condition.removeprefix(NOT), negated=condition.startswith(NOT))


def print_condition(literal: int, known: SensorSet = SHIPPED) -> str:
    """Return a literal as a condition."""
    return NOT * (literal & 1) + known.rows[literal >> 1].name


def holds(condition: str, readings: Any, known: SensorSet = SHIPPED) -> Any:
    """Whether a condition holds by a reading, or by each of an array of them."""
    return _is_true(read_condition(condition, known), readings)


def describe_condition(condition: str, known: SensorSet = SHIPPED) -> str:
    """Return a condition in plain words."""
    literal = read_condition(condition, known)
    sensor = known.rows[literal >> 1]
    return sensor.fails if literal & 1 else sensor.holds


def extras_of(conditions: Iterable[str], known: SensorSet = SHIPPED) -> tuple[str, ...]:
    """Return what conditions ask for beside perceptions and idleness: `compass`, names of own."""
    asked = {read_condition(condition, known) >> 1 for condition in conditions}
    rows = [sensor for number, sensor in enumerate(known.rows) if number in asked]
    compass = (COMPASS,) if any(sensor.group == COMPASS for sensor in rows) else ()
    return (*compass, *(sensor.name for sensor in rows if sensor.group == OWN))


def name_extras(extras: tuple[str, ...]) -> str:
    """Return what `extras_of` found in words: `perceptions only`, or `with compass and ...`."""
    return WITH + AND.join(extras) if extras else PERCEPTIONS_ONLY
