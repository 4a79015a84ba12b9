"""Find what a machine with rules can do without, whatever happens: the rest acts the same.

Rules are compared by the choices they make for everything that can be sensed, modes by their
programs and by what comes after them. Of counts, the numbers between two that rules compare them
with are one case. Where all cases together are too many, nothing is taken to be the same.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from pomp.core.errors import ConfigError
from pomp.karel.counts import COUNT_TYPE, COUNTS
from pomp.karel.sensor_set import SHIPPED, SensorSet
from pomp.karel.sensors import IDLE
from pomp.machine.policy import STOP, ProgramMachine
from pomp.machine.sensors import NOT, holds, read_threshold
from pomp.machine.text import print_rule
from pomp.machine.transitions import DecisionList, Rule, unreachable

Rules = tuple[Rule, ...]

_END = -1
_MOST_CASES = 1 << 15


@dataclass(frozen=True)
class Size:
    """How large a machine is: defaults count as rules, those of the start included."""

    modes: int
    rules: int
    conditions: int
    tokens: int

    @property
    def words(self) -> int:
        """How much there is to read: tokens, rules and conditions."""
        return self.tokens + self.rules + self.conditions

    def __sub__(self, other: "Size") -> "Size":
        return Size(
            self.modes - other.modes,
            self.rules - other.rules,
            self.conditions - other.conditions,
            self.tokens - other.tokens,
        )


@dataclass(frozen=True)
class Parts:
    """The parts of a machine that can be left out.

    Attributes:
        names: of the modes.
        programs: of the modes.
        start: the rules before the first mode.
        after: the rules after each mode.
        known: the sensors that rules may ask for.
    """

    names: tuple[str, ...]
    programs: tuple[str, ...]
    start: Rules
    after: tuple[Rules, ...]
    known: SensorSet = SHIPPED

    @classmethod
    def of(cls, machine: ProgramMachine) -> "Parts":
        """Take a machine with rules apart; modes without names get those of its text.

        Raises:
            ConfigError: it has a network.
        """
        rules = machine.transition
        if not isinstance(rules, DecisionList):
            raise ConfigError(
                f"only a machine with rules can be simplified; this one's transitions: {rules.kind}"
            )
        names = machine.names or tuple(f"mode{n + 1}" for n in range(len(machine.modes)))
        return cls(names, machine.modes, rules.start, rules.after, rules.known)

    def into(self, machine: ProgramMachine) -> ProgramMachine:
        """Return a machine with these parts instead of its own."""
        rules = DecisionList(self.start, self.after, self.known.own)
        return replace(machine, modes=self.programs, transition=rules, names=self.names)

    @property
    def size(self) -> Size:
        """How large a machine of these parts is."""
        rules = [rule for rules in (self.start, *self.after) for rule in rules]
        tokens = sum(len(program.split()) for program in self.programs)
        conditions = sum(len(rule.when) for rule in rules)
        return Size(len(self.programs), len(rules), conditions, tokens)

    @property
    def targets(self) -> dict[int | None, str]:
        """What rules call the modes and the end, by number; None: the end."""
        return {None: STOP, **dict(enumerate(self.names))}

    def lists(self) -> Iterator[tuple[str, Rules, Callable[[Rules], "Parts"]]]:
        """Yield each list of rules: whose it is, the rules, and a function that replaces them."""
        yield "start", self.start, lambda rules: replace(self, start=rules)
        for mode, rules in enumerate(self.after):

            def put(rules: Rules, mode: int = mode) -> Parts:
                after = (*self.after[:mode], rules, *self.after[mode + 1 :])
                return replace(self, after=after)

            yield self.names[mode], rules, put

    def without(self, mode: int, instead: int | None) -> "Parts":
        """Return the parts without a mode.

        Args:
            mode: the number of the mode that goes.
            instead: where rules that lead to it will lead: a mode's number before, None: the end.
        """
        number = {None: None} | {one: one - (one > mode) for one in range(len(self.names))}
        number[mode] = number[instead]

        def lead(rules: Rules) -> Rules:
            return tuple(Rule(number[rule.to], rule.when) for rule in rules)

        kept = [one for one in range(len(self.names)) if one != mode]
        return Parts(
            tuple(self.names[one] for one in kept),
            tuple(self.programs[one] for one in kept),
            lead(self.start),
            tuple(lead(self.after[one]) for one in kept),
            self.known,
        )


@dataclass(frozen=True)
class Change:
    """A machine's parts with something left out, and what that was."""

    what: str
    parts: Parts


def reduce(parts: Parts) -> list[Change]:
    """Leave out all that makes no difference, and return the steps to what is left, in order."""
    changes: list[Change] = []
    while change := next(_equal_changes(parts), None):
        changes.append(change)
        parts = change.parts
    return changes


def _equal_changes(parts: Parts) -> Iterator[Change]:
    """Yield the changes that make no difference, those of modes first."""
    if (lost := _unreached(parts)) is not None and len(parts.names) > 1:
        yield Change(f"mode {parts.names[lost]}: never reached", parts.without(lost, None))
    for owner, rules, put in parts.lists():
        cases = cases_of(frozenset([rules]), parts.known)
        if cases is None:
            continue
        matters = cases.readings >> IDLE & 1 == 0  # at the start no mode was idle yet
        matters = matters if owner == "start" else np.ones_like(matters)
        before = choices_of(rules, cases)
        for left, what in shorter_rules(rules, parts.targets):
            if (choices_of(left, cases) == before)[matters].all():
                yield Change(f"{owner}: {what}", put(left))
    if twins := _twins(parts):
        kept, mode = twins
        what = f"mode {parts.names[mode]}: the same as {parts.names[kept]}"
        yield Change(what, parts.without(mode, kept))


def shorter_rules(rules: Rules, targets: dict[int | None, str]) -> Iterator[tuple[Rules, str]]:
    """Yield lists without a rule, a condition or their end, the largest pieces first.

    Args:
        rules: the list that is shortened.
        targets: what rules call the modes and the end.

    Yields:
        The shorter list, and what was left out, in words.
    """
    for place, rule in enumerate(rules[:-1]):
        rest = ", ".join(f"'{print_rule(one, targets)}'" for one in rules[place + 1 :])
        what = f"{rest} (behind '{print_rule(rule, targets)}', now the default)"
        yield (*rules[:place], Rule(rule.to)), what
    for place, rule in enumerate(rules[:-1]):
        yield (*rules[:place], *rules[place + 1 :]), f"'{print_rule(rule, targets)}'"
    for place, rule in enumerate(rules[:-1]):
        # Of two that say the same, the negated one goes.
        order = sorted(range(len(rule.when)), key=lambda n: not rule.when[n].startswith(NOT))
        for number in order if len(order) > 1 else ():
            when = (*rule.when[:number], *rule.when[number + 1 :])
            left = (*rules[:place], Rule(rule.to, when), *rules[place + 1 :])
            yield left, f"'{rule.when[number]}' in '{print_rule(rule, targets)}'"


@dataclass(frozen=True, eq=False)
class Cases:
    """Everything that can be sensed, as far as some rules tell it apart: N cases.

    Attributes:
        readings: `[N]` int64; of one's own sensors any may hold.
        counts: `[N, COUNTS]` int32; any may come together.
        known: the sensors.
    """

    readings: NDArray[np.int64]
    counts: NDArray[np.int32]
    known: SensorSet


@lru_cache(maxsize=256)
def cases_of(lists: frozenset[Rules], known: SensorSet = SHIPPED) -> Cases | None:
    """Return the cases that lists of rules tell apart; None: there are too many to compare."""
    conditions = {one for rules in lists for rule in rules for one in rule.when}
    compared: dict[int, set[int]] = {}
    for condition in conditions:
        is_sensor = condition.removeprefix(NOT) in known.names
        if not is_sensor and (found := read_threshold(condition)):
            compared.setdefault(found.count, {0}).add(found.number)
    readings = known.possible_readings()
    if len(readings) * np.prod([float(len(levels)) for levels in compared.values()]) > _MOST_CASES:
        return None
    levels = np.array(list(product(*map(sorted, compared.values()))), COUNT_TYPE)
    counts = np.zeros((len(levels), len(COUNTS)), COUNT_TYPE)
    counts[:, list(compared)] = levels
    return Cases(np.tile(readings, len(levels)), np.repeat(counts, len(readings), axis=0), known)


@lru_cache(maxsize=4096)
def choices_of(rules: Rules, cases: Cases) -> NDArray[np.int16]:
    """Return where rules lead in each case, `[N]` int16; -1: the end."""
    choices = np.full(len(cases.readings), _END, np.int16)
    for rule in reversed(rules):
        fires = np.all([_senses_of(condition, cases) for condition in rule.when], axis=0)
        choices[fires] = _END if rule.to is None else rule.to
    return choices


@lru_cache(maxsize=1024)
def _senses_of(condition: str, cases: Cases) -> NDArray[np.bool_]:
    """Return whether a condition holds in each case, `[N]` bool."""
    found: NDArray[np.bool_] = holds(condition, cases.readings, cases.known, cases.counts)
    return found


def _unreached(parts: Parts) -> int | None:
    """Return the last mode to which no rules lead from the start, or None."""
    return max(unreachable(parts.start, parts.after), default=None)


def _twins(parts: Parts) -> tuple[int, int] | None:
    """Return two modes that no episode can tell apart, or None.

    They are in one part of the coarsest partition in which modes of a part have the same program
    and lead to the same parts.
    """
    count, cases = len(parts.names), cases_of(frozenset(parts.after), parts.known)
    if cases is None:
        return None
    choices = np.stack([choices_of(rules, cases) for rules in parts.after])
    kinds = _number([(program,) for program in parts.programs])
    while True:
        numbers = np.array([*kinds, _END])  # the last one: the end
        finer = _number([(kinds[mode], *numbers[choices[mode]].tolist()) for mode in range(count)])
        if finer == kinds:
            break
        kinds = finer
    again = [mode for mode in range(count) if kinds.index(kinds[mode]) < mode]
    return (kinds.index(kinds[again[-1]]), again[-1]) if again else None


def _number(things: list[tuple[object, ...]]) -> list[int]:
    """Number things in the order in which they first come; equal things get equal numbers."""
    numbers: dict[object, int] = {}
    return [numbers.setdefault(thing, len(numbers)) for thing in things]
