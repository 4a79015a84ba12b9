"""What a machine's rules can ask for: the sensors that come with the package, and one's own.

A set is a value that travels with what it belongs to: a list of rules, a search. Sensors of one's
own come after those of the package, in the order in which they are given; their numbers, literals
and bits follow from that order.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core.errors import NumbaError
from numpy.typing import NDArray

from pomp.core.compiling import reason_of
from pomp.core.errors import ConfigError
from pomp.core.sources import load_object, require_source
from pomp.karel.sensors import (
    COMPASS,
    FIRST_OWN,
    IDLENESS,
    LAST_OWN,
    OWN,
    PERCEPTIONS,
    SENSORS,
    Sensor,
)

COUNTING = "counts"
"""What machines are said to use whose rules count (`pomp.karel.counts`)."""

MOST_OWN = LAST_OWN + 1 - FIRST_OWN
"""How many sensors of one's own a machine can have."""

_CONFIG: Any = numba.config
_READ_ONLY, _WRITABLE = (
    (
        types.Array(types.uint8, 1, "C", readonly=is_read_only),
        types.Array(types.int64, 1, "C", readonly=is_read_only),
        types.int64,
    )
    for is_read_only in (True, False)
)


@dataclass(frozen=True)
class SensorSet:
    """The sensors that rules can ask for.

    Attributes:
        own: those that do not come with the package.
    """

    own: tuple[Sensor, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "own", tuple(self.own))
        if len(self.own) > MOST_OWN:
            raise ConfigError(
                f"a machine has at most {MOST_OWN} sensors of your own, got {len(self.own)}"
            )
        taken = {COMPASS, COUNTING, *_names_of(SENSORS)}
        for sensor in self.own:
            if not isinstance(sensor, Sensor) or sensor.group != OWN:
                raise ConfigError(f"expected a Sensor of your own, got {sensor!r}")
            for name in _names_of([sensor]):
                if name in taken:
                    raise ConfigError(f"the sensor name '{name}' is taken; choose another")
                taken.add(name)
        for sensor in self.own:
            self._check_mirror(sensor)
            _check_reading(sensor)

    def _check_mirror(self, sensor: Sensor) -> None:
        if sensor.mirror is None:
            return
        images = [other.mirror for other in self.own if other.name == sensor.mirror]
        if not images:
            raise ConfigError(
                f"the mirror image of sensor '{sensor.name}' is '{sensor.mirror}', which is not "
                "among the sensors; name it too"
            )
        if images != [sensor.name]:
            raise ConfigError(
                f"the mirror image of sensor '{sensor.name}' is '{sensor.mirror}', but not the "
                "other way round"
            )

    @cached_property
    def rows(self) -> tuple[Sensor, ...]:
        """All sensors; a sensor's place is its number."""
        return (*SENSORS, *self.own)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of all sensors, and of their contraries."""
        return _names_of(self.rows)

    @property
    def readings(self) -> int:
        """Readings are below this number; most of them are impossible."""
        return 1 << len(self.rows)

    def numbers_in(self, *groups: str) -> tuple[int, ...]:
        """Return the numbers of the sensors in some groups."""
        return tuple(number for number, sensor in enumerate(self.rows) if sensor.group in groups)

    def literal_of(self, name: str, *, negated: bool = False) -> int:
        """Return a sensor with a sign as a literal.

        Args:
            name: of a sensor, or a contrary.
            negated: whether `not` stands before it.
        """
        for number, sensor in enumerate(self.rows):
            if name in (sensor.name, sensor.contrary):
                return 2 * number + (negated != (name == sensor.contrary))
        raise KeyError(name)

    @cached_property
    def mirror_literals(self) -> NDArray[np.int8]:
        """Each literal's mirror image, `[2 * sensors + 1]` int8; the last: -1 is its own."""
        number_of = {sensor.name: number for number, sensor in enumerate(self.rows)}
        images = [number_of[sensor.mirror or sensor.name] for sensor in self.rows]
        return np.array([*(2 * image + sign for image in images for sign in (0, 1)), -1], np.int8)

    def possible_readings(self) -> NDArray[np.int64]:
        """Return all that can be sensed, `[N]` int64: one direction each, and any of the others.

        Perceptions change fastest from one to the next, idleness and then one's own slowest.
        """

        def subsets(group: str) -> list[int]:
            bits = [1 << number for number in self.numbers_in(group)]
            return sorted(sum(chosen) for chosen in product(*((0, bit) for bit in bits)))

        directions = [1 << number for number in self.numbers_in(COMPASS)]
        parts = product(subsets(OWN), subsets(IDLENESS), directions, subsets(PERCEPTIONS))
        return np.array([sum(part) for part in parts], np.int64)

    def sources(self) -> list[str]:
        """Return the `module:NAME` of each sensor of one's own, as files keep them.

        Raises:
            ConfigError: no module that can be imported holds one of them.
        """
        return [
            require_source(one, "sensor", f"'{one.name}'", getattr(one.read, "__module__", ""))
            for one in self.own
        ]


def find_sensor(name: str | Sensor, allow: Collection[str] | None = None) -> Sensor:
    """Find a sensor of one's own by `module:NAME`; a sensor itself is returned as it is.

    Args:
        name: what to look for.
        allow: modules that may be imported, as in `find_sensors`.
    """
    return name if isinstance(name, Sensor) else load_object(name, "sensor", Sensor, allow)


def find_sensors(names: Sequence[str | Sensor], allow: Collection[str] | None = None) -> SensorSet:
    """Find sensors of one's own by `module:NAME`, and check that they go together.

    Args:
        names: what to look for; a sensor itself is taken as it is.
        allow: modules that may be imported, for names that come from a file; None: any, because
            the names come from the caller.

    Raises:
        UntrustedModuleError: a name stands for a module that is not allowed.
        ConfigError: a module cannot be imported, or a name in it is no sensor that fits.
    """
    return SensorSet(tuple(find_sensor(name, allow) for name in names)) if names else SHIPPED


def _names_of(sensors: Sequence[Sensor]) -> tuple[str, ...]:
    return tuple(
        name for sensor in sensors for name in (sensor.name, sensor.contrary) if name is not None
    )


@cache
def _check_reading(sensor: Sensor) -> None:
    """Compile a sensor's function alone, so that what it lacks shows before any work begins."""
    if _CONFIG.DISABLE_JIT:
        return
    read: Any = sensor.read
    try:
        read.compile(_WRITABLE)
    except NumbaError as error:
        why = reason_of(error)
        raise ConfigError(f"sensor '{sensor.name}' cannot be compiled: {why}") from error
    try:
        read.compile(_READ_ONLY)
    except NumbaError as error:
        what = f"read of sensor '{sensor.name}' writes to cells or constants"
        raise ConfigError(f"{what}; a sensor may only read them") from error
    returned = read.overloads[_WRITABLE].signature.return_type
    if returned != types.boolean and not isinstance(returned, types.BooleanLiteral):
        raise ConfigError(f"read of sensor '{sensor.name}' must return a bool, got {returned}")


SHIPPED = SensorSet()
"""The sensors that come with the package, alone."""
