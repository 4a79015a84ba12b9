"""What chooses the next mode: the paper's network, or a decision list over sensors.

Both turn worlds and last modes into choices; which of them a machine has makes no difference to
anything that runs it. A choice is a mode's number, or the number of modes: the end. A network may
also remember the episode.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from pomp.core.cuda import to_device
from pomp.core.errors import ConfigError, DataFileError
from pomp.core.extras import LEARN, require
from pomp.core.schemas import Whole
from pomp.engine.rule_lists import choose_by_rules
from pomp.karel.sensor_set import COUNTING, SHIPPED, SensorSet, find_sensors
from pomp.karel.sensors import COMPASS, Sensor
from pomp.machine.episodes import Episodes
from pomp.machine.network_based import NetworkBased, read_seen
from pomp.machine.rule_arrays import pack_rules
from pomp.machine.schemas import LISTS, check_weights
from pomp.machine.sensors import check_condition, extras_of, holds, name_extras

Choose = Callable[[NDArray[np.float64] | None], Any]
"""Turns random numbers from 0 to 1, `[B]` float64, into choices, `[B]` int64 on the worlds' device;
None instead of the numbers asks for the likeliest choices."""

END = "end"


class Transition(Protocol):
    """What chooses the next mode; a class of your own may do so, too.

    Files name a class of the package by its `kind`, one of your own by `module:CLASS`.

    Attributes:
        kind: what it is called.
    """

    kind: ClassVar[str]

    def chooser(self, episodes: Episodes) -> Choose:
        """Return what chooses for these worlds, on their device; it looks at them at every call.

        What remembers is called once at every step.
        """
        ...

    def to_json(self) -> dict[str, Any]:
        """Return what a file holds of it, but for the arrays."""
        ...

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return its weights by name, of any shapes `[...]`; nothing if it has none."""
        ...

    @classmethod
    def from_parts(cls, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> "Transition":
        """Read what `to_json` and `to_arrays` returned; `arrays` have any shapes `[...]`."""
        ...


def check_transition(transition: object) -> None:
    """Refuse what lacks something of a `Transition`.

    Raises:
        ConfigError: says what.
    """
    wanted = sorted(["kind", *(name for name in vars(Transition) if not name.startswith("_"))])
    if missing := [name for name in wanted if not hasattr(transition, name)]:
        name = type(transition).__name__
        raise ConfigError(f"{name} is no transition: it lacks {', '.join(missing)}")


def remembers(transition: Transition) -> bool:
    """Whether choices depend on more than what is seen and the last mode.

    A class of transitions that remember says so by an attribute `remembers` that is True.
    """
    return bool(getattr(transition, "remembers", False))


def check_chosen(choices: Any, worlds: int, modes: int) -> None:
    """Refuse choices that are none.

    Args:
        choices: what a `Choose` returned, on the CPU; `[B]` int64 if it fits.
        worlds: how many choose, B.
        modes: how many there are to choose from; this number itself is the end.

    Raises:
        ConfigError: says what was chosen.
    """
    expected = f"choices are [{worlds}] int64 from 0 to {modes}, the end"
    if not isinstance(choices, np.ndarray):
        raise ConfigError(f"{expected}, got a {type(choices).__name__}")
    if choices.shape != (worlds,) or choices.dtype != np.int64:
        raise ConfigError(f"{expected}, got {list(choices.shape)} {choices.dtype}")
    outside = choices[(choices < 0) | (choices > modes)]
    if len(outside):
        raise ConfigError(f"{expected}, got {outside[0]}")


@dataclass(frozen=True)
class Rule:
    """One rule of a decision list: if all its conditions hold, it chooses.

    Attributes:
        to: a mode's number; None: the end.
        when: the conditions: sensors, as in `frontIsClear`, or counts, as in `markers at least 5`;
            `not ` may stand before either. A rule without conditions always holds.
    """

    to: int | None
    when: tuple[str, ...] = ()

    def holds(
        self,
        readings: NDArray[np.integer],
        known: SensorSet = SHIPPED,
        counts: NDArray[np.integer] | None = None,
    ) -> NDArray[np.bool_]:
        """Tell whether it fires.

        Args:
            readings: `[N]` integers, as `pomp.karel.sensors` packs them.
            known: the sensors that its conditions name.
            counts: `[N, COUNTS]` integers, for conditions that count.

        Returns:
            `[N]` bool.
        """
        fires = np.ones(len(readings), np.bool_)
        for condition in self.when:
            fires &= holds(condition, readings, known, counts)
        return fires

    def check(self, modes: int, known: SensorSet = SHIPPED) -> None:
        """Refuse a target that is no mode, and conditions that are no sensors.

        Args:
            modes: how many there are.
            known: the sensors that its conditions may name.

        Raises:
            DataFileError: says which mode.
            UnknownNameError: says which sensor.
        """
        if self.to is not None and (isinstance(self.to, bool) or not isinstance(self.to, int)):
            raise DataFileError(f"a rule leads to a mode's number or None, got {self.to!r:.40}")
        if not isinstance(self.when, tuple) or not all(isinstance(one, str) for one in self.when):
            raise DataFileError(
                f"the conditions of a rule are texts in a tuple, got {self.when!r:.80}"
            )
        if self.to is not None and not 0 <= self.to < modes:
            raise DataFileError(f"a rule leads to mode {self.to}; there are modes 0 to {modes - 1}")
        for condition in self.when:
            check_condition(condition, known)

    def to_json(self) -> dict[str, Any]:
        """Return the rule as a file holds it."""
        return {"when": list(self.when), "to": END if self.to is None else self.to}


def unreachable(start: Sequence[Rule], after: Sequence[Sequence[Rule]]) -> list[int]:
    """Return the modes to which no rules lead, from the `start` and `after` each mode."""
    reached, pending = set[int](), list(start)
    while pending:
        to = pending.pop().to
        if to is not None and to not in reached:
            reached.add(to)
            pending += after[to]
    return [mode for mode in range(len(after)) if mode not in reached]


@dataclass(frozen=True)
class DecisionList:
    """For every last mode (and the start) a list of rules; the first that holds decides.

    Attributes:
        start: the rules before the first mode.
        after: the rules after each mode, one list per mode.
        own: sensors of one's own that conditions may name.
    """

    start: tuple[Rule, ...]
    after: tuple[tuple[Rule, ...], ...]
    own: tuple[Sensor, ...] = ()
    kind: ClassVar[str] = "decision list"

    def __post_init__(self) -> None:
        for rules in (self.start, *self.after):
            if not rules or rules[-1].when:
                raise DataFileError("a decision list needs a last rule without conditions")
            if not all(rule.when for rule in rules[:-1]):
                raise DataFileError("behind a rule without conditions no other can fire")
            for rule in rules:
                rule.check(len(self.after), self.known)

    @cached_property
    def known(self) -> SensorSet:
        """The sensors that conditions may name."""
        return find_sensors(self.own)

    @property
    def conditions(self) -> Iterator[str]:
        """The conditions of all rules, one after the other."""
        rules = (rule for rules in (self.start, *self.after) for rule in rules)
        return (condition for rule in rules for condition in rule.when)

    @cached_property
    def extras(self) -> tuple[str, ...]:
        """What the rules ask for beside perceptions and idleness: `compass`, `counts`, own ones."""
        return extras_of(self.conditions, self.known)

    @property
    def sensors(self) -> str:
        """What the rules ask for, in words: `perceptions only`, `with compass`, ..."""
        return name_extras(self.extras)

    def trimmed(self) -> "DecisionList":
        """Return the same rules without the sensors of one's own that no rule asks for.

        The mirror image of one that is asked for stays.
        """
        asked = set(self.extras)
        return replace(self, own=tuple(one for one in self.own if asked & {one.name, one.mirror}))

    def choices(
        self, readings: NDArray[np.integer], counts: NDArray[np.integer] | None = None
    ) -> NDArray[np.int64]:
        """Return what the rules choose by what is sensed.

        Args:
            readings: `[N]` integers, as `pomp.karel.sensors` packs them.
            counts: `[N, COUNTS]` integers, if rules count.

        Returns:
            `[K + 1, N]` int64: a row for each last mode, the first for the start.
        """
        table = np.empty((len(self.after) + 1, len(readings)), np.int64)
        for row, rules in zip(table, (self.start, *self.after), strict=True):
            for rule in reversed(rules):
                row[rule.holds(readings, self.known, counts)] = (
                    len(self.after) if rule.to is None else rule.to
                )
        return table

    def table(self) -> NDArray[np.int64]:
        """Return what the rules, which do not count, choose for all that can be sensed.

        Returns:
            `[K + 1, N]` int64: a row for each last mode, the first for the start; a column for
            each of `SensorSet.possible_readings`: 160, doubled by each sensor of one's own.
        """
        return self.choices(self.known.possible_readings())

    def chooser(self, episodes: Episodes) -> Choose:
        """Return what chooses by the rules, on the worlds' device; random numbers are not used."""
        if COUNTING in self.extras:
            return self._counting_chooser(episodes)
        table, compass = self.choices(np.arange(self.known.readings)), COMPASS in self.extras
        if episodes.worlds.device == "cuda":
            require(LEARN, "a machine on a GPU")
            import torch

            on_device = torch.from_numpy(table).cuda()
            mode = torch.as_tensor(episodes.mode, device="cuda")

            def choose_there(draws: NDArray[np.float64] | None) -> Any:
                sensed = episodes.sense(compass=compass, own=self.own)
                senses = torch.as_tensor(sensed, device="cuda")
                return on_device[(mode + 1).clamp(max=len(table) - 1), senses.long()]

            return choose_there
        return lambda draws: table[
            np.minimum(episodes.mode + 1, len(table) - 1),
            episodes.sense(compass=compass, own=self.own),
        ]

    def _counting_chooser(self, episodes: Episodes) -> Choose:
        """Return what chooses by rules that count: these have no table."""
        worlds, compass = episodes.worlds, COMPASS in self.extras
        rules = pack_rules([(self.start, *self.after)], self.known)
        if worlds.device == "cuda":
            rules = type(rules)(*map(to_device, rules))

        def choose(draws: NDArray[np.float64] | None) -> Any:
            senses = episodes.sense(compass=compass, own=self.own)
            return choose_by_rules(episodes.setting, worlds, rules, episodes.mode, senses)

        return choose

    def to_json(self) -> dict[str, Any]:
        """Return the rules as a file holds them.

        Raises:
            ConfigError: no module that can be imported holds one of its own sensors.
        """
        return {
            **({"sensors": self.known.sources()} if self.own else {}),
            "start": [rule.to_json() for rule in self.start],
            "after": [[rule.to_json() for rule in rules] for rules in self.after],
        }

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return no weights, `[...]`: rules have none."""
        return {}

    @classmethod
    def from_parts(cls, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> "DecisionList":
        """Read what `to_json` wrote.

        Args:
            values: what it returned, with `sensors` themselves instead of their names.
            arrays: of any shapes `[...]`; none of its own.

        Raises:
            DataFileError: the rules are no decision list.
            UnknownNameError: a condition is no sensor.
            UntrustedModuleError: a sensor is only named.
        """
        own = find_sensors(values.get("sensors", ()), allow=()).own
        LISTS.check({name: part for name, part in values.items() if name != "sensors"})
        modes = len(values["after"])

        def read(rules: Sequence[dict[str, Any]]) -> tuple[Rule, ...]:
            return tuple(_read_rule(rule, modes) for rule in rules)

        return cls(read(values["start"]), tuple(read(rules) for rules in values["after"]), own)


def _read_rule(rule: dict[str, Any], modes: int) -> Rule:
    """Read what `Rule.to_json` returned; there are so many modes."""
    if rule["to"] == END:
        return Rule(None, tuple(rule["when"]))
    Whole(0, modes - 1).check(rule["to"], "a rule's target")
    return Rule(rule["to"], tuple(rule["when"]))


@dataclass(frozen=True)
class NetworkTransition(NetworkBased):
    """A network that chooses, as in the paper.

    Attributes:
        arrays: its weights by name, with the shapes `[outputs, ...]` of `Shape.parts`.
    """

    arrays: dict[str, NDArray[np.float32]]
    kind: ClassVar[str] = "network"

    @property
    def remembers(self) -> bool:
        """Whether it has a memory."""
        return self.config.memory > 0

    def chooser(self, episodes: Episodes, watch: Callable[[Any], None] | None = None) -> Choose:
        """Return what chooses with the network, on the worlds' device.

        Args:
            episodes: in whose worlds.
            watch: called at every choice with the probabilities, `[B, K + 1]` float32.
        """
        import torch

        from pomp.machine.network import Ensemble, choose
        from pomp.machine.views import Views

        device = episodes.worlds.device
        shape = self.shape
        network = Ensemble(shape, [self.modes], device)
        parameters = torch.from_numpy(shape.pack(self.arrays))[None].to(device)
        views = Views([episodes], self.config.inputs, members=1)
        states = torch.zeros(1, len(episodes), self.config.memory, device=device)

        @torch.no_grad()
        def choose_next(draws: NDArray[np.float64] | None) -> Any:
            seen = (parameters, views.look(), views.mode())
            if self.remembers:
                logits, _, after = network.recall(*seen, states, 1)
                states.copy_(after)
            else:
                logits, _ = network(*seen)
            if watch:
                watch(torch.softmax(logits[0], dim=-1).cpu().numpy())
            numbers = None if draws is None else torch.from_numpy(draws)[None].to(device)
            choices = choose(logits, numbers)[0]
            return choices.numpy() if device == "cpu" else choices

        return choose_next

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return its weights by name, `[outputs, ...]` each."""
        return dict(self.arrays)

    @classmethod
    def from_parts(
        cls, values: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> "NetworkTransition":
        """Read what `to_json` and `to_arrays` wrote.

        Args:
            values: settings and sizes.
            arrays: weights by name, `[outputs, ...]` each.

        Raises:
            DataFileError: the weights do not fit, or are no numbers.
            MissingExtraError: torch is not installed.
        """
        require(LEARN, "a machine with a network")
        found = cls(*read_seen(values), arrays)
        check_weights(arrays, dict(found.shape.parts))
        return found
