"""What the conditions of rules say: names of sensors, with or without `not `.

The sensors themselves stand in the table of `pomp.karel.sensors`.
"""

from collections.abc import Iterable
from typing import Any

from pomp.core.errors import UnknownNameError
from pomp.karel.sensors import COMPASS, SENSORS, is_true, literal_of

SENSOR_NAMES = tuple(
    name for sensor in SENSORS for name in (sensor.name, sensor.contrary) if name is not None
)
NOT = "not "
_is_true: Any = getattr(is_true, "py_func", is_true)  # not compiled: it takes arrays, too

PERCEPTIONS_ONLY, WITH_COMPASS = "perceptions only", "with compass"


def check_condition(condition: object) -> None:
    """Refuse what is neither a sensor's name nor one with `not ` before it.

    Raises:
        UnknownNameError: lists the sensors, and suggests the nearest.
    """
    if not isinstance(condition, str) or condition.removeprefix(NOT) not in SENSOR_NAMES:
        raise UnknownNameError("sensor", str(condition).removeprefix(NOT), SENSOR_NAMES)


def read_condition(condition: str) -> int:
    """Return a condition as a literal."""
    return literal_of(condition.removeprefix(NOT), negated=condition.startswith(NOT))


def print_condition(literal: int) -> str:
    """Return a literal as a condition."""
    return NOT * (literal & 1) + SENSORS[literal >> 1].name


def holds(condition: str, readings: Any) -> Any:
    """Whether a condition holds by a reading, or by each of an array of them."""
    return _is_true(read_condition(condition), readings)


def describe_condition(condition: str) -> str:
    """Return a condition in plain words."""
    literal = read_condition(condition)
    sensor = SENSORS[literal >> 1]
    return sensor.fails if literal & 1 else sensor.holds


def name_sensors(conditions: Iterable[str]) -> str:
    """Return `perceptions only` or `with compass`; idleness is no compass."""
    groups = {SENSORS[read_condition(condition) >> 1].group for condition in conditions}
    return WITH_COMPASS if COMPASS in groups else PERCEPTIONS_ONLY
