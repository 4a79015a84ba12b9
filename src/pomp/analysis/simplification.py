"""Make a machine with rules smaller while its return stays: leave out what it does not need.

First goes what provably makes no difference (`pomp.analysis.equivalence`). Then single rules,
conditions, modes and pieces of programs are left out on trial, the largest first, and stay out if
the machine still earns enough from the same starts, ends there as often by itself and has no more
programs cut by their cap, until no single piece can go. So a clean machine stays clean.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pomp.analysis.equivalence import Change, Parts, Size, reduce, shorter_rules
from pomp.core.errors import ConfigError
from pomp.core.streams import Purpose
from pomp.dsl.parser import parse
from pomp.dsl.shortening import shorten
from pomp.engine.starts import draw_starts, enumerate_starts
from pomp.engine.units import DEFAULT_CAP
from pomp.karel.interpreter import Cap
from pomp.karel.world import WorldBatch
from pomp.machine.evaluation import Evaluation, play, play_exactly
from pomp.machine.policy import ProgramMachine, check_machine
from pomp.machine.transitions import DecisionList

EPISODES = 200
"""Starts that are drawn where they cannot be listed."""

OTHER_CAPS = ("calls217", "calls218", "calls223", "calls500")
"""Budgets at which a machine of the default cap must not lose either: none leans on where its
programs happen to be cut off. By four they leave other remainders than the default: a loop of two
turns, and of four actions, would else be cut at the same place under all of them."""

_LONGER = 4  # times as many programs as before may an episode have
_ROUNDING = 1e-9  # of returns at the other caps

Tell = Callable[[str, int], None]
"""Called with what is tried, and the words that went since the last call."""


@dataclass(frozen=True)
class Removal:
    """Something that was left out.

    Attributes:
        what: in words.
        saved: what it saved.
        mean: the mean return afterwards.
    """

    what: str
    saved: Size
    mean: float


@dataclass(frozen=True)
class Simplified:
    """A machine, made smaller.

    Attributes:
        machine: what is left.
        removals: the way there.
        size_before: of the machine that was given.
        size_after: of what is left.
        mean_before: what the machine that was given earned.
        mean_after: what the rest earns from the same starts.
        episodes: how many these are.
        is_exact: they are all there are, weighted with their probabilities.
    """

    machine: ProgramMachine
    removals: tuple[Removal, ...]
    size_before: Size
    size_after: Size
    mean_before: float
    mean_after: float
    episodes: int
    is_exact: bool


def simplify(
    machine: ProgramMachine,
    *,
    tolerance: float = 0.0,
    episodes: int | None = None,
    seed: int = 0,
    tell: Tell = lambda what, words: None,
    stop: Callable[[], bool] = lambda: False,
) -> Simplified:
    """Leave out what a machine with rules can do without.

    Args:
        machine: which.
        tolerance: how far the mean return may fall below that of the machine.
        episodes: starts, drawn as for validation; None: all there are, or `EPISODES` where they
            cannot be listed or the task draws at random.
        seed: of drawn starts.
        tell: hears of everything that is tried.
        stop: asked before each trial; once it says so, what is left by then is the result.

    Raises:
        ConfigError: the machine has no rules, or the tolerance is none.
    """
    check_machine(machine, "simplifying")
    parts = Parts.of(machine)
    if not isinstance(tolerance, int | float) or not 0.0 <= tolerance < math.inf:
        raise ConfigError(f"the tolerance must be a number from 0 on, got {tolerance}")
    search = _Search(machine, parts, _find_starts(machine, episodes, seed), tolerance, stop)
    mean = search.mean
    search.run(tell)
    return Simplified(
        machine=_trim(search.parts.into(machine)),
        removals=tuple(search.removals),
        size_before=parts.size,
        size_after=search.parts.size,
        mean_before=mean,
        mean_after=search.mean,
        episodes=len(search.starts),
        is_exact=search.starts.weights is not None,
    )


def _trim(machine: ProgramMachine) -> ProgramMachine:
    """Return a machine without the sensors of one's own that no rule asks for."""
    assert isinstance(machine.transition, DecisionList)
    return replace(machine, transition=machine.transition.trimmed())


class _Starts:
    """The worlds from which every candidate begins.

    Attributes:
        weights: `[B]` float64, their probabilities, if they are all there are; else None.
    """

    def __init__(
        self, machine: ProgramMachine, worlds: WorldBatch, weights: NDArray[np.float64] | None
    ) -> None:
        self._setting, self._worlds, self.weights = machine.configure(), worlds, weights

    def __len__(self) -> int:
        return len(self._worlds)

    def play(self, machine: ProgramMachine, cap: str, most: int = 0) -> Evaluation:
        """Play an episode of a machine from each of them.

        Args:
            machine: which.
            cap: how long one program may run.
            most: programs of an episode at most; 0: as the machine has it.

        Raises:
            ConfigError: they tell nothing exact, since the task draws at random.
        """
        episode = replace(machine.episode, cap=cap, most_steps=most or machine.episode.most_steps)
        machine = replace(machine, episode=episode)
        worlds = self._worlds.copy()
        if self.weights is None:
            return play(machine, self._setting, worlds, None)
        return play_exactly(machine, self._setting, worlds, self.weights)


def _find_starts(machine: ProgramMachine, episodes: int | None, seed: int) -> _Starts:
    """Return all starts if no number is asked for and they tell exactly what the machine earns."""
    setting = machine.configure()
    if episodes is None:
        try:
            worlds, listed = enumerate_starts(setting)
            weights = np.array([float(start.probability) for start in listed])
            starts = _Starts(machine, worlds, weights)
            for cap in _caps_of(machine):
                starts.play(machine, cap)
        except ConfigError:
            episodes = EPISODES
        else:
            return starts
    return _Starts(machine, draw_starts(setting, episodes, seed, Purpose.VALIDATION), None)


def _caps_of(machine: ProgramMachine) -> tuple[str, ...]:
    """Return the machine's cap, and those at which it must not lose either; the smallest first."""
    cap = machine.episode.cap
    caps = (cap, *OTHER_CAPS) if cap == DEFAULT_CAP else (cap,)
    return tuple(sorted(caps, key=lambda one: Cap.parse(one).limit))


class _Search:
    """A search for what a machine can do without: what is left of it so far.

    Attributes:
        starts: where candidates begin.
        parts: what is left.
        mean: what it earns.
        removals: what went.
    """

    def __init__(
        self,
        machine: ProgramMachine,
        parts: Parts,
        starts: _Starts,
        tolerance: float,
        stop: Callable[[], bool],
    ) -> None:
        self._machine, self.starts = machine, starts
        self._tolerance, self._stop = tolerance, stop
        self._before = {cap: starts.play(machine, cap) for cap in _caps_of(machine)}
        self.parts, self.mean = parts, self._before[machine.episode.cap].mean
        self.removals: list[Removal] = []

    def run(self, tell: Tell) -> None:
        """Leave out pieces until none can go any more."""
        self._take(reduce(self.parts), self.mean)
        tell("", sum(removal.saved.words for removal in self.removals))
        # What was refused is not tried again until nothing else is left; then all of it is, because
        # meanwhile the rest of the machine has changed.
        while self._run_round(tell) and not self._stop():
            pass

    def _run_round(self, tell: Tell) -> bool:
        """Try to leave out every piece once; return whether one went."""
        refused, count = set[tuple[str, str]](), len(self.removals)
        while found := self._find(refused, tell):
            steps, mean = found
            tell(steps[0].what, self.parts.size.words - steps[-1].parts.size.words)
            self._take(steps, mean)
        return len(self.removals) > count

    def _find(self, refused: set[tuple[str, str]], tell: Tell) -> tuple[list[Change], float] | None:
        """Return steps that leave out the largest piece that can go, and the mean return then."""
        candidates = []
        for change, key in _changes(self.parts):
            if (change.what, key) not in refused:
                steps = [change, *reduce(change.parts)]
                candidates.append((steps[-1].parts.size.words, change.what, key, steps))
        for words, what, key, steps in sorted(candidates, key=lambda one: one[0]):
            if self._stop():
                return None
            tell(what, 0)
            is_smaller = words < self.parts.size.words
            mean = self._measure(steps[-1].parts) if is_smaller else None
            if mean is not None:
                return steps, mean
            refused.add((what, key))
        return None

    def _measure(self, parts: Parts) -> float | None:
        """Return the mean return of a candidate.

        None if it loses too much, ends less often, or has more programs cut by their cap.
        """
        machine, means = parts.into(self._machine), dict[str, float]()
        found: Evaluation | None = None
        for cap, before in self._before.items():
            if found is None or not found.is_clean:  # else a larger cap changes nothing
                try:
                    found = self.starts.play(machine, cap, self._most_programs(before))
                except ConfigError:  # unlike the machine it came from, it makes the task draw
                    return None
            means[cap] = found.mean
            if _is_worse(found, before):
                return None
            rounding = 0.0 if cap == self._machine.episode.cap else _ROUNDING
            if found.mean < before.mean - self._tolerance - rounding:
                return None
        return means[self._machine.episode.cap]

    def _most_programs(self, before: Evaluation) -> int:
        """Return how many programs an episode of a candidate may have; 0: as the machine has it.

        Most bad candidates never end. If the machine always ended, one that needs far longer is
        taken not to end.
        """
        if not before.ended.all():
            return 0
        longest = _LONGER * (int(before.programs.max()) + 1)
        return min(longest, self._machine.episode.most_steps)

    def _take(self, steps: list[Change], mean: float) -> None:
        """Make the steps, which lead to a machine with this mean return."""
        for step in steps:
            saved = self.parts.size - step.parts.size
            self.removals.append(Removal(step.what, saved, mean))
            self.parts = step.parts
        self.mean = mean


def _is_worse(found: Evaluation, before: Evaluation) -> bool:
    """Whether episodes end less often by choice, or more programs are cut by their cap."""
    assert found.cuts is not None
    assert before.cuts is not None
    has_ended = found.ended.sum() >= before.ended.sum()
    return not has_ended or bool(found.cuts.sum() > before.cuts.sum())


def _changes(parts: Parts) -> Iterator[tuple[Change, str]]:
    """Yield every change that leaves something out, and a key for changes with equal words."""
    for mode, name in enumerate(parts.names):
        follower = parts.after[mode][-1].to
        if follower != mode and len(parts.names) > 1:
            target = parts.targets[follower]
            change = Change(f"mode {name}: skipped for {target}", parts.without(mode, follower))
            yield change, ""
        for other, twin in enumerate(parts.names):
            if other != mode and parts.programs[other] == parts.programs[mode]:
                yield Change(f"mode {name}: like {twin}", parts.without(mode, other)), ""
    for owner, rules, put in parts.lists():
        for left, what in shorter_rules(rules, parts.targets):
            yield Change(f"{owner}: {what}", put(left)), ""
    for mode, (name, program) in enumerate(zip(parts.names, parts.programs, strict=True)):
        for shorter in shorten(parse(program)):
            programs = (*parts.programs[:mode], shorter.program, *parts.programs[mode + 1 :])
            change = Change(f"{name}: {shorter.what}", replace(parts, programs=programs))
            yield change, shorter.program
