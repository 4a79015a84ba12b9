"""Machines by rules as arrays, many at once.

A machine has K modes. Each mode has a program and a list of at most R rules. A rule has one or two
conditions and leads to a mode or to the stop if all its conditions hold; the first such rule of the
mode that just ran decides, and where none holds, the mode's default does. The number K as a target
means stop. A condition is a *literal*: twice the number of a sensor (the perceptions, then the
compass, then idleness, then one's own), plus 1 if it is negated.

Arrays of C machines, those of `Machines`: `programs` `[C, K, L]` uint8; `literals` `[C, K, R, 2]`
int8; `targets` `[C, K, R]` int8; `defaults` `[C, K]` int8; `start` `[C]` int8.
"""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.dsl.mutation import Limits
from pomp.dsl.parser import parse_tokens
from pomp.dsl.syntax import Program, tokens_of
from pomp.dsl.vocabulary import LEAPS
from pomp.evolution.config import EvolveConfig
from pomp.karel.sensor_set import SHIPPED, SensorSet, find_sensors
from pomp.karel.sensors import COMPASS, IDLENESS, OWN, PERCEPTIONS, SENSORS

RULES = 4  # of a mode at most, besides its default: R
_FRESH_MODES = 4  # with which fresh machines begin at most, however few they may have later


@dataclass
class Machines:
    """C machines of K modes.

    Attributes:
        programs: `[C, K, L]` uint8, the token ids of each mode's program, padded.
        literals: `[C, K, R, 2]` int8, the conditions of each rule; -1: there is no second one.
        targets: `[C, K, R]` int8, where each rule leads, K: stop; -1: there is no such rule, nor
            any after it.
        defaults: `[C, K]` int8, where each mode leads if none of its rules holds, K: stop.
        start: `[C]` int8, the mode that a machine begins with.
    """

    programs: NDArray[np.uint8]
    literals: NDArray[np.int8]
    targets: NDArray[np.int8]
    defaults: NDArray[np.int8]
    start: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.start)

    @property
    def modes(self) -> int:
        """The number of modes, K."""
        return self.defaults.shape[1]

    def named(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by name; their first axis is `[C]`."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """All arrays in the order of the fields, `[C, ...]` each."""
        return tuple(getattr(self, entry.name) for entry in fields(self))

    def copy(self) -> "Machines":
        """Return a copy of all machines."""
        return Machines(*(array.copy() for array in self.arrays))

    def repeat(self, count: int) -> "Machines":
        """Return every machine `count` times, one copy behind the other."""
        return Machines(*(np.repeat(array, count, axis=0) for array in self.arrays))

    def take(self, rows: Any) -> "Machines":
        """Return a copy of some machines; `rows` is any NumPy index of the first axis."""
        return Machines(*(array[rows] for array in self.arrays))

    def put(self, rows: Any, others: "Machines") -> None:
        """Replace some machines, which `rows` chooses, by others."""
        for mine, theirs in zip(self.arrays, others.arrays, strict=True):
            mine[rows] = theirs

    def grown(self, programs: NDArray[np.uint8]) -> "Machines":
        """Return machines with one mode more: nothing leads to it, and it leads to the first mode.

        Args:
            programs: `[C, L]` uint8, the programs of the new modes.
        """
        count, modes = len(self), self.modes
        targets, defaults = self.targets.copy(), self.defaults.copy()
        targets[targets == modes] = modes + 1  # stop
        defaults[defaults == modes] = modes + 1
        return Machines(
            np.concatenate([self.programs, programs[:, None]], axis=1),
            np.concatenate([self.literals, np.full((count, 1, RULES, 2), -1, np.int8)], axis=1),
            np.concatenate([targets, np.full((count, 1, RULES), -1, np.int8)], axis=1),
            np.concatenate([defaults, np.zeros((count, 1), np.int8)], axis=1),
            self.start.copy(),
        )

    def split(self, source: int) -> "Machines":
        """Return machines with one mode more, the twin of mode `source`.

        Where that mode led to itself, the twins take turns; so the machines do what they did.
        """
        twins = self.grown(self.programs[:, source])
        new = self.modes
        twins.literals[:, new] = twins.literals[:, source]
        twins.targets[:, new] = twins.targets[:, source]
        twins.defaults[:, new] = twins.defaults[:, source]
        for array in (twins.targets, twins.defaults):
            own = array[:, source]
            array[:, source] = np.where(own == source, new, own)
        return twins


def divide(machines: Machines, source: int) -> Machines:
    """Return machines with one mode more, which takes over the end of another's program.

    Mode `source` keeps its first statements and always leads to the new mode, which has the other
    statements and the rules.

    Rows divide it at different places; a mode of one statement gets a twin instead.
    """
    parts = machines.split(source)
    for row, ids in enumerate(machines.programs[:, source]):
        body = parse_tokens(LEAPS.decode(ids)).body
        if len(body) == 1:
            continue
        cut = 1 + row % (len(body) - 1)
        for mode, statements in ((source, body[:cut]), (-1, body[cut:])):
            tokens = LEAPS.encode(tokens_of(Program(statements)))
            parts.programs[row, mode] = LEAPS.pad
            parts.programs[row, mode, : len(tokens)] = tokens
        parts.targets[row, source] = -1
        parts.defaults[row, source] = machines.modes
    return parts


def sensors_of(config: EvolveConfig) -> SensorSet:
    """Return the sensors of a search, found by what its settings call them."""
    return find_sensors(config.own_sensors)


def askable(config: EvolveConfig) -> NDArray[np.int64]:
    """Return the numbers of the sensors that rules may ask for, `[S]` int64."""
    groups = (PERCEPTIONS, IDLENESS, OWN, *((COMPASS,) if config.sensors == COMPASS else ()))
    return np.array(sensors_of(config).numbers_in(*groups), np.int64)


def mirror(machines: Machines, chosen: NDArray[np.bool_], known: SensorSet) -> None:
    """Exchange left and right in the last mode of some machines and in its rules, in place.

    Args:
        machines: C machines, written.
        chosen: `[C]` bool, which of them.
        known: the sensors that their rules ask for.
    """
    programs, literals = machines.programs[chosen, -1], machines.literals[chosen, -1]
    machines.programs[chosen, -1] = OTHER_TOKENS[programs]
    machines.literals[chosen, -1] = known.mirror_literals[literals]


_IMAGES = {"turnLeft": "turnRight", "turnRight": "turnLeft"}
_IMAGES |= {sensor.name: sensor.mirror for sensor in SENSORS if sensor.mirror}
OTHER_TOKENS = np.array(
    LEAPS.encode([_IMAGES.get(token, token) for token in LEAPS.tokens]), np.uint8
)


def reflect(machines: Machines, known: SensorSet) -> None:
    """Make the second half of the modes mirror images of the first, in place.

    Left and right are exchanged in an image's program and rules, and where a mode leads to a mode,
    its image leads to that one's image.

    Args:
        machines: C machines, written.
        known: the sensors that their rules ask for.
    """
    modes = machines.modes
    half = modes // 2
    other = np.array([*range(half, modes), *range(half), modes, -1], np.int8)
    machines.programs[:, half:] = OTHER_TOKENS[machines.programs[:, :half]]
    machines.literals[:, half:] = known.mirror_literals[machines.literals[:, :half]]
    machines.targets[:, half:] = other[machines.targets[:, :half]]
    machines.defaults[:, half:] = other[machines.defaults[:, :half]]


def with_images(machines: Machines) -> Machines:
    """Return machines with a mirror image of every mode.

    What led back to the first mode leads to its image, so that both halves take turns. The rules
    ask for no sensors of one's own yet.
    """
    doubled, half = machines, machines.modes
    for mode in range(half):
        doubled = doubled.grown(machines.programs[:, mode])
    for targets in (doubled.targets, doubled.defaults):
        own = targets[:, :half]
        own[own == 0] = half
    reflect(doubled, SHIPPED)
    return doubled


def first_machines(programs: NDArray[np.uint8]) -> Machines:
    """Return machines of one mode that is repeated until it is idle.

    Args:
        programs: `[C, L]` uint8, the programs of the modes.
    """
    count = len(programs)
    literals = np.full((count, 1, RULES, 2), -1, np.int8)
    targets = np.full((count, 1, RULES), -1, np.int8)
    literals[:, 0, 0, 0] = SHIPPED.literal_of("idle")
    targets[:, 0, 0] = 1
    zero = np.zeros((count, 1), np.int8)
    return Machines(programs[:, None].copy(), literals, targets, zero, zero[:, 0].copy())


def walkers(config: EvolveConfig) -> Machines:
    """Return machines that walk to the nearest marker, all alike, one for each chain."""
    turns = {"marker ahead": 0, "marker left": 1, "marker right": 2, "marker behind": 1}
    programs = np.full((3, config.tokens), LEAPS.pad, np.uint8)
    for row, action in zip(programs, ("move", "turnLeft", "turnRight"), strict=True):
        tokens = LEAPS.encode(("DEF", "run", "m(", action, "m)"))
        row[: len(tokens)] = tokens
    literals = np.full((3, RULES, 2), -1, np.int8)
    literals[:, :, 0] = [SHIPPED.literal_of(name) for name in turns]
    targets = np.tile(np.array(list(turns.values()), np.int8), (3, 1))
    stop, start = np.full((1, 3), 3, np.int8), np.zeros(1, np.int8)
    one = Machines(programs[None], literals[None], targets[None], stop, start)
    return one.repeat(config.chains)


def most_modes(config: EvolveConfig) -> int:
    """Return how many modes a machine may have: as many as fresh ones, which may be more."""
    return max(config.modes, _FRESH_MODES)


def has_forbidden(programs: NDArray[np.uint8], config: EvolveConfig) -> bool:
    """Whether programs, `[..., L]`, take actions that those of a search must not."""
    return bool(np.isin(programs, LEAPS.encode(config.without)).any())


def limits_of(config: EvolveConfig) -> Limits:
    """Return which programs a machine may have."""
    return Limits(tokens=config.tokens, depth=5, body=6, without=config.without)
