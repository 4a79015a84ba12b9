"""Machines by rules as arrays, many at once, and how they are changed. Compiled."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.core.compiling import kernel, scalar
from pomp.core.streams import below
from pomp.dsl.mutation import Limits
from pomp.dsl.parser import parse_tokens
from pomp.dsl.syntax import Program, tokens_of
from pomp.dsl.vocabulary import LEAPS, Perception
from pomp.engine.rule_machine import IDLE, PERCEPTIONS, SENSORS
from pomp.evolution.config import EvolveConfig
from pomp.karel.dynamics import Compass

RULES = 4  # of a mode, besides its default

# Changes of rules: the first six of a mode's list.
_ADD, _REMOVE, _LITERAL, _NARROW, _SWAP, _TARGET, _DEFAULT, _START, _MOVES = range(9)


@dataclass
class Machines:
    """C machines of K modes.

    Attributes:
        programs: `[C, K, L]` uint8, token ids.
        literals: `[C, K, R, 2]` int8, the conditions of each rule; -1: none.
        targets: `[C, K, R]` int8, where a rule leads, K: stop; -1: there is no such rule.
        defaults: `[C, K]` int8.
        start: `[C]` int8.
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
        """K."""
        return self.defaults.shape[1]

    def named(self) -> dict[str, NDArray[Any]]:
        """The arrays by name."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}

    @classmethod
    def from_named(cls, arrays: dict[str, NDArray[Any]], prefix: str = "") -> "Machines":
        """From arrays by name."""
        return cls(*(arrays[prefix + entry.name] for entry in fields(cls)))

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """All of them, in order."""
        return tuple(getattr(self, entry.name) for entry in fields(self))

    def copy(self) -> "Machines":
        """A copy."""
        return Machines(*(array.copy() for array in self.arrays))

    def repeat(self, count: int) -> "Machines":
        """The same machines several times over."""
        return Machines(*(np.repeat(array, count, axis=0) for array in self.arrays))

    def take(self, rows: Any) -> "Machines":
        """Some of them, copied."""
        return Machines(*(array[rows] for array in self.arrays))

    def put(self, rows: Any, others: "Machines") -> None:
        """Replace some of them."""
        for mine, theirs in zip(self.arrays, others.arrays, strict=True):
            mine[rows] = theirs

    def grown(self, programs: NDArray[np.uint8]) -> "Machines":
        """One mode more each, `programs` `[C, L]`: nothing leads to it, it leads to the first."""
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
        """One mode more each, the twin of another: where that led to itself, they take turns."""
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
    """One mode more each: it has what follows a mode's first statements, and comes after it.

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


def mirror(machines: Machines, chosen: NDArray[np.bool_]) -> None:
    """Exchange left and right in the last mode of the chosen machines and in its rules."""
    programs, literals = machines.programs[chosen, -1], machines.literals[chosen, -1]
    machines.programs[chosen, -1] = _OTHER_TOKENS[programs]
    machines.literals[chosen, -1] = _OTHER_LITERALS[literals]


_SIDES = {"turnLeft": "turnRight", "leftIsClear": "rightIsClear"}
_SIDES |= {right: left for left, right in _SIDES.items()}
_OTHER_TOKENS = np.array(
    LEAPS.encode([_SIDES.get(token, token) for token in LEAPS.tokens]), np.uint8
)
_LEFT, _RIGHT = int(Perception.LEFT_IS_CLEAR), int(Perception.RIGHT_IS_CLEAR)
_TO_LEFT, _TO_RIGHT = PERCEPTIONS + int(Compass.LEFT), PERCEPTIONS + int(Compass.RIGHT)
_OTHER_SENSORS = {_LEFT: _RIGHT, _RIGHT: _LEFT, _TO_LEFT: _TO_RIGHT, _TO_RIGHT: _TO_LEFT}
_OTHER_LITERALS = np.array(
    [2 * _OTHER_SENSORS.get(one >> 1, one >> 1) + (one & 1) for one in range(2 * SENSORS)] + [-1],
    np.int8,
)  # the last is that of -1: none


def reflect(machines: Machines) -> None:
    """Make the second half of the modes mirror images of the first, which lead to images."""
    modes = machines.modes
    half = modes // 2
    other = np.array([*range(half, modes), *range(half), modes, -1], np.int8)
    machines.programs[:, half:] = _OTHER_TOKENS[machines.programs[:, :half]]
    machines.literals[:, half:] = _OTHER_LITERALS[machines.literals[:, :half]]
    machines.targets[:, half:] = other[machines.targets[:, :half]]
    machines.defaults[:, half:] = other[machines.defaults[:, :half]]


def with_images(machines: Machines) -> Machines:
    """Twice as many modes: what led back to the first mode leads to its mirror image."""
    doubled, half = machines, machines.modes
    for mode in range(half):
        doubled = doubled.grown(machines.programs[:, mode])
    for targets in (doubled.targets, doubled.defaults):
        own = targets[:, :half]
        own[own == 0] = half
    reflect(doubled)
    return doubled


def first_machines(programs: NDArray[np.uint8]) -> Machines:
    """Machines of one mode that is repeated until it is idle; `programs` `[C, L]`."""
    count = len(programs)
    literals = np.full((count, 1, RULES, 2), -1, np.int8)
    targets = np.full((count, 1, RULES), -1, np.int8)
    literals[:, 0, 0, 0] = 2 * IDLE
    targets[:, 0, 0] = 1
    zero = np.zeros((count, 1), np.int8)
    return Machines(programs[:, None].copy(), literals, targets, zero, zero[:, 0].copy())


def walkers(config: EvolveConfig) -> Machines:
    """Machines that walk to the nearest marker: the same one, as often as there are chains."""
    turns = {Compass.AHEAD: 0, Compass.LEFT: 1, Compass.RIGHT: 2, Compass.BEHIND: 1}
    programs = np.full((3, config.tokens), LEAPS.pad, np.uint8)
    for row, action in zip(programs, ("move", "turnLeft", "turnRight"), strict=True):
        tokens = LEAPS.encode(("DEF", "run", "m(", action, "m)"))
        row[: len(tokens)] = tokens
    literals = np.full((3, RULES, 2), -1, np.int8)
    literals[:, :, 0] = [2 * (PERCEPTIONS + direction) for direction in turns]
    targets = np.tile(np.array(list(turns.values()), np.int8), (3, 1))
    stop, start = np.full((1, 3), 3, np.int8), np.zeros(1, np.int8)
    one = Machines(programs[None], literals[None], targets[None], stop, start)
    return one.repeat(config.chains)


def limits_of(config: EvolveConfig) -> Limits:
    """Which programs a machine may have."""
    return Limits(tokens=config.tokens, depth=5, body=6)


@scalar
def _some_literal(stream, has_compass):
    """A random condition."""
    sensors = SENSORS if has_compass else PERCEPTIONS + 1
    sensor = below(stream, sensors)
    if not has_compass and sensor == PERCEPTIONS:
        sensor = IDLE
    return 2 * sensor + below(stream, 2)


@scalar
def _copy_rule(literals, targets, source, target):
    targets[target] = targets[source]
    literals[target, 0] = literals[source, 0]
    literals[target, 1] = literals[source, 1]


@scalar
def _edit_list(stream, move, count, modes, has_compass, literals, targets):
    """Make one of the first moves in the list of a mode, which has `count` rules."""
    place = below(stream, count + (move == _ADD))
    if move == _ADD:
        for rule in range(count, place, -1):
            _copy_rule(literals, targets, rule - 1, rule)
        targets[place] = below(stream, modes + 1)
        literals[place, 0] = _some_literal(stream, has_compass)
        literals[place, 1] = -1
    elif move == _REMOVE:
        for rule in range(place, count - 1):
            _copy_rule(literals, targets, rule + 1, rule)
        targets[count - 1] = -1
    elif move == _LITERAL:
        which = below(stream, 2) if literals[place, 1] >= 0 else 0
        literals[place, which] = _some_literal(stream, has_compass)
    elif move == _NARROW:
        is_narrow = literals[place, 1] >= 0
        literals[place, 1] = -1 if is_narrow else _some_literal(stream, has_compass)
    elif move == _SWAP:
        other = below(stream, count)
        kept = targets[place]
        targets[place] = targets[other]
        targets[other] = kept
    else:
        targets[place] = below(stream, modes + 1)


@kernel
def change_rules(chosen, has_compass, streams, literals, targets, defaults, start):
    """Change one rule, default or start of every chosen machine, in place.

    Args:
        chosen: `[C]` bool.
        has_compass: whether rules may ask for directions.
        streams: `[C]` uint64, written.
        literals: see `Machines`, as for what follows.
        targets: see `literals`.
        defaults: see `literals`.
        start: see `literals`.
    """
    modes, most = defaults.shape[1], targets.shape[2]
    for machine in range(len(start)):
        if not chosen[machine]:
            continue
        stream = streams[machine : machine + 1]
        mode = below(stream, modes)
        count = 0
        while count < most and targets[machine, mode, count] >= 0:
            count += 1
        move = below(stream, _MOVES)
        if move == _DEFAULT:
            defaults[machine, mode] = below(stream, modes + 1)
        elif move == _START:
            start[machine] = below(stream, modes)
        else:
            if count == 0:
                move = _ADD
            elif move == _ADD and count == most:
                move = _LITERAL
            _edit_list(
                stream, move, count, modes, has_compass,
                literals[machine, mode], targets[machine, mode],
            )  # fmt: skip
