"""What the conditions of rules say: names of sensors, or counts compared with numbers.

`not ` may stand before either. The sensors themselves stand in the table of `pomp.karel.sensors`,
and a `SensorSet` adds one's own; what can be counted stands in `pomp.karel.counts`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pomp.core.errors import ConfigError, UnknownNameError
from pomp.karel.counts import COUNTS
from pomp.karel.sensor_set import COUNTING, SHIPPED, SensorSet
from pomp.karel.sensors import COMPASS, OWN, is_true

SENSOR_NAMES = SHIPPED.names
COUNT_NAMES = tuple(count.name for count in COUNTS)
NOT = "not "
_is_true: Any = getattr(is_true, "py_func", is_true)  # not compiled: it takes arrays, too

PERCEPTIONS_ONLY, WITH, AND = "perceptions only", "with ", " and "
AT_LEAST, BELOW = "at least", "below"
_COMPARISON = re.compile(f"(.*?) ?({AT_LEAST}|{BELOW}) ?(.*)")
_NUMBER = re.compile("0|[1-9][0-9]{0,5}")


@dataclass(frozen=True)
class Threshold:
    """A count compared with a number.

    Attributes:
        count: the number of the count, its row in `COUNTS`.
        number: what it is compared with.
        is_below: whether it must be below that; else it must be at least that.
    """

    count: int
    number: int
    is_below: bool

    def __str__(self) -> str:
        """Return the condition that says so."""
        return f"{COUNT_NAMES[self.count]} {BELOW if self.is_below else AT_LEAST} {self.number}"


@lru_cache(maxsize=4096)
def read_threshold(condition: str) -> Threshold | None:
    """Return a condition that compares a count; None: it asks for a sensor.

    Raises:
        UnknownNameError: lists the counts, and suggests the nearest.
        ConfigError: it is compared with what is no number, or with nothing.
    """
    text = condition.removeprefix(NOT)
    if text in COUNT_NAMES:
        raise ConfigError(f"'{text}' is a count; expected '{text} {AT_LEAST} N', or {BELOW} N")
    if not (found := _COMPARISON.fullmatch(text)):
        return None
    name, comparison, number = found.groups()
    if name not in COUNT_NAMES:
        raise UnknownNameError("count", name, COUNT_NAMES)
    if not _NUMBER.fullmatch(number):
        given = f"'{number[:40]}'" if number else "nothing"
        raise ConfigError(f"'{name}' is compared with a whole number up to 999999, got {given}")
    is_below = (comparison == BELOW) != condition.startswith(NOT)
    return Threshold(COUNT_NAMES.index(name), int(number), is_below)


def check_condition(condition: object, known: SensorSet = SHIPPED) -> None:
    """Refuse what asks for no sensor and compares no count.

    Raises:
        UnknownNameError: lists the sensors or counts, and suggests the nearest.
        ConfigError: a count is compared with what is no number, or with nothing.
    """
    if isinstance(condition, str) and condition.removeprefix(NOT) in known.names:
        return
    if not isinstance(condition, str) or read_threshold(condition) is None:
        raise UnknownNameError("sensor", str(condition).removeprefix(NOT), known.names)


def read_condition(condition: str, known: SensorSet = SHIPPED) -> int:
    """Return a condition that asks for a sensor as a literal."""
    return known.literal_of(condition.removeprefix(NOT), negated=condition.startswith(NOT))


def print_condition(literal: int, known: SensorSet = SHIPPED) -> str:
    """Return a literal as a condition."""
    return NOT * (literal & 1) + known.rows[literal >> 1].name


def holds(condition: str, readings: Any, known: SensorSet = SHIPPED, counts: Any = None) -> Any:
    """Whether a condition holds by a reading, or by each of an array of them.

    Args:
        condition: which.
        readings: an integer, or `[N]` integers.
        known: the sensors that it may name.
        counts: `[N, COUNTS]` integers, if it may compare a count.
    """
    if condition.removeprefix(NOT) in known.names:
        return _is_true(read_condition(condition, known), readings)
    threshold = read_threshold(condition)
    assert threshold is not None
    return (counts[..., threshold.count] >= threshold.number) != threshold.is_below


def describe_condition(condition: str, known: SensorSet = SHIPPED) -> str:
    """Return a condition in plain words."""
    if condition.removeprefix(NOT) not in known.names and (found := read_threshold(condition)):
        count = COUNTS[found.count]
        return (count.below if found.is_below else count.at_least).format(found.number)
    literal = read_condition(condition, known)
    sensor = known.rows[literal >> 1]
    return sensor.fails if literal & 1 else sensor.holds


def extras_of(conditions: Iterable[str], known: SensorSet = SHIPPED) -> tuple[str, ...]:
    """Return what conditions ask for beside perceptions and idleness.

    Returns:
        `compass`, `counts`, and the names of sensors of one's own, as far as they are asked for.
    """
    given = tuple(conditions)
    sensors = [condition for condition in given if condition.removeprefix(NOT) in known.names]
    asked = {read_condition(condition, known) >> 1 for condition in sensors}
    rows = [sensor for number, sensor in enumerate(known.rows) if number in asked]
    compass = (COMPASS,) if any(sensor.group == COMPASS for sensor in rows) else ()
    counts = (COUNTING,) if len(sensors) < len(given) else ()
    return (*compass, *counts, *(sensor.name for sensor in rows if sensor.group == OWN))


def name_extras(extras: tuple[str, ...]) -> str:
    """Return what `extras_of` found in words: `perceptions only`, or `with compass and ...`."""
    return WITH + AND.join(extras) if extras else PERCEPTIONS_ONLY
