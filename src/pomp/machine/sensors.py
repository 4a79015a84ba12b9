"""What the rules of a machine may ask for: perceptions, the compass, whether a mode was idle."""

from collections.abc import Iterable

from pomp.core.errors import UnknownNameError
from pomp.dsl.vocabulary import Perception
from pomp.engine.lanes import DIRECTIONS, SEEN
from pomp.karel.dynamics import Compass

PERCEPTIONS = {perception.token: perception for perception in Perception}
COMPASS = {
    "marker ahead": Compass.AHEAD,
    "marker left": Compass.LEFT,
    "marker right": Compass.RIGHT,
    "marker behind": Compass.BEHIND,
    "no marker anywhere": Compass.NOWHERE,
}
IDLE = "idle"
SENSORS = (*PERCEPTIONS, *COMPASS, IDLE)
NOT = "not "

PERCEPTIONS_ONLY, WITH_COMPASS = "perceptions only", "with compass"


def check_condition(condition: object) -> None:
    """Refuse what is neither a sensor's name nor one with `not ` before it.

    Raises:
        UnknownNameError: lists the sensors, and suggests the nearest.
    """
    if not isinstance(condition, str) or condition.removeprefix(NOT) not in SENSORS:
        raise UnknownNameError("sensor", str(condition).removeprefix(NOT), SENSORS)


def holds(condition: str, senses: int) -> bool:
    """Whether a condition holds, given what `pomp.engine.lanes.sense_world` says."""
    return _reads(condition.removeprefix(NOT), senses) is not condition.startswith(NOT)


def _reads(sensor: str, senses: int) -> bool:
    if sensor == IDLE:
        return senses >= SEEN * DIRECTIONS
    if sensor in COMPASS:
        return senses // SEEN % DIRECTIONS == COMPASS[sensor]
    if PERCEPTIONS[sensor] == Perception.NO_MARKERS_PRESENT:
        return not _reads(Perception.MARKERS_PRESENT.token, senses)
    return bool(senses >> PERCEPTIONS[sensor] & 1)


def name_sensors(conditions: Iterable[str]) -> str:
    """`perceptions only` or `with compass`; idleness is no compass."""
    uses_compass = any(condition.removeprefix(NOT) in COMPASS for condition in conditions)
    return WITH_COMPASS if uses_compass else PERCEPTIONS_ONLY
