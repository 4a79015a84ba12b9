"""Explain a machine: what its modes do, in words, and how often they did it in episodes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.analysis.observed import ObservationExplained, Observed
from pomp.dsl.parser import parse
from pomp.dsl.printer import lines_of
from pomp.dsl.words import describe_program
from pomp.karel.sensor_set import SensorSet
from pomp.machine.code_table import CodeTable
from pomp.machine.diagram import name_observations
from pomp.machine.episodes import Episodes
from pomp.machine.evaluation import (
    Evaluation,
    begin_drawn,
    begin_exactly,
    choose_steps,
    conclude,
)
from pomp.machine.policy import STOP, ProgramMachine, check_machine
from pomp.machine.sensors import COUNT_NAMES, NOT, describe_condition, read_threshold
from pomp.machine.transitions import DecisionList, Rule, Transition


@dataclass(frozen=True)
class Example:
    """One execution of a mode: the world before it and after it, as in `Map.to_text`.

    Attributes:
        episode: in which, from 0.
        step: the macro step, from 0.
        actions: how many it took.
        before: rows of the map.
        after: rows of the map.
    """

    episode: int
    step: int
    actions: int
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True)
class ModeExplained:
    """What a mode does and did.

    Attributes:
        title: its name or number.
        program: its lines.
        words: its program in words.
        rules: what comes after it, by rules or a table, in words; empty: a network chooses.
        runs: how often it ran in all.
        share: of all runs of modes.
        per_episode: runs in an episode, on average.
        actions: in a run, on average.
        idle: share of its runs without an action.
        then: what came after it, by title, with how often; the most frequent first.
        example: one of its runs, if there was one.
    """

    title: str
    program: tuple[str, ...]
    words: str
    rules: str
    runs: int
    share: float
    per_episode: float
    actions: float
    idle: float
    then: dict[str, int]
    example: Example | None


@dataclass(frozen=True)
class Explanation:
    """What a machine does and did.

    Attributes:
        found: its episodes.
        kind: of its transitions.
        sensors: that its rules ask for.
        start: what it begins with, in words; empty: a network chooses.
        begins: what it began with, by title, with how often; the most frequent first.
        modes: one by one.
        observations: of an extracted machine, one by one; of others, none.
    """

    found: Evaluation
    kind: str
    sensors: tuple[str, ...]
    start: str
    begins: dict[str, int]
    modes: tuple[ModeExplained, ...]
    observations: tuple[ObservationExplained, ...] = ()


def explain(
    machine: ProgramMachine, *, episodes: int | None = None, seed: int | None = None
) -> Explanation:
    """Explain a machine by the episodes that `evaluate` plays.

    Args:
        machine: which.
        episodes: how many; None: the task's `episodes`, as the paper's tables have.
        seed: of the starts and the choices; None: 0, or every start if `episodes` is None, too,
            and nothing else is random.

    Raises:
        ConfigError: it is no machine, or a number is wrong.
    """
    check_machine(machine, "explaining")
    setting = machine.configure()
    exact = begin_exactly(machine, setting) if episodes is None and seed is None else None
    worlds, draws = (exact[0], None) if exact else begin_drawn(setting, episodes, seed or 0)
    running = machine.episodes(setting, worlds)
    watched, steps = _Watched(running, len(machine.modes)), list[NDArray[np.int16]]()
    by = machine.transition
    observed = Observed(by, running) if isinstance(by, CodeTable) else None
    for choices in choose_steps(machine, running, draws):
        watched.look(steps)
        steps.append(choices)
        if observed:
            observed.look(choices)
    watched.look(steps)
    found = replace(conclude(running, steps), weights=exact[1] if exact else None)
    titles = [*machine.titles, STOP]
    counts = found.transitions(len(machine.modes))
    return Explanation(
        found=found,
        kind=by.kind,
        sensors=_sensors_of(by if isinstance(by, DecisionList) else None),
        start=_describe_start(by, titles),
        begins=_order(counts[0], titles),
        modes=tuple(
            ModeExplained(
                title=titles[mode],
                program=tuple(lines_of(parse(program))),
                words=describe_program(parse(program)),
                rules=_describe_after(by, titles, mode),
                then=_order(counts[mode + 1], titles),
                **watched.tell(mode),
            )
            for mode, program in enumerate(machine.modes)
        ),
        observations=observed.tell() if observed else (),
    )


class _Watched:
    """Counts what modes do while episodes are played, step by step."""

    def __init__(self, running: Episodes, modes: int) -> None:
        self._running = running
        self._runs, self._acted, self._idle = (np.zeros(modes, np.int64) for _ in range(3))
        self._examples: dict[int, Example] = {}
        self._before = running.worlds.copy()

    def look(self, steps: Sequence[NDArray[np.int16]]) -> None:
        """Take note of what the latest step has done, if there was one.

        Args:
            steps: the choices of all steps so far, `[B]` int16 each.
        """
        if steps:
            worlds, choices = self._running.worlds, steps[-1]
            acted = worlds.actions - self._before.actions
            ran = (choices >= 0) & (choices < len(self._runs))
            np.add.at(self._runs, choices[ran], 1)
            np.add.at(self._acted, choices[ran], acted[ran])
            np.add.at(self._idle, choices[ran], self._running.idle[ran])
            for mode in np.unique(choices[ran]).tolist():
                self._keep_example(mode, choices == mode, acted, len(steps) - 1)
        self._before = self._running.worlds.copy()

    def _keep_example(
        self, mode: int, is_here: NDArray[np.bool_], acted: NDArray[np.int32], step: int
    ) -> None:
        """Keep the first run of a mode with an action as its example, or else the first run.

        Args:
            mode: which.
            is_here: `[B]` bool, the worlds in which it just ran.
            acted: `[B]` int32, the actions that programs just took.
            step: the number of the macro step.
        """
        kept = self._examples.get(mode)
        has_acted = is_here & (acted > 0)
        if kept is None or (not kept.actions and has_acted.any()):
            episode = int(np.argmax(has_acted if has_acted.any() else is_here))
            before, after = self._before, self._running.worlds
            self._examples[mode] = Example(
                episode,
                step,
                int(acted[episode]),
                tuple(before.to_text(episode).splitlines()),
                tuple(after.to_text(episode).splitlines()),
            )

    def tell(self, mode: int) -> dict[str, Any]:
        """Return the numbers of a mode and its example, as `ModeExplained` has them."""
        runs, least = int(self._runs[mode]), max(int(self._runs[mode]), 1)
        return {
            "runs": runs,
            "share": runs / max(int(self._runs.sum()), 1),
            "per_episode": runs / len(self._running),
            "actions": float(self._acted[mode]) / least,
            "idle": float(self._idle[mode]) / least,
            "example": self._examples.get(mode),
        }


def _order(counts: NDArray[np.int64], titles: list[str]) -> dict[str, int]:
    """Return how often each choice was made by its title, the most frequent first.

    Args:
        counts: `[K + 1]` int64, of the modes and the end.
        titles: their titles.
    """
    order = np.argsort(-counts, kind="stable").tolist()
    return {titles[to]: int(counts[to]) for to in order if counts[to]}


def tell_shares(counts: dict[str, int]) -> str:
    """Return counts of choices as shares, with their titles."""
    total = sum(counts.values())
    told = [f"{title} {count / total:.1%}" for title, count in counts.items()]
    return ", ".join(told) or "nothing, the episode was over"


def _sensors_of(rules: DecisionList | None) -> tuple[str, ...]:
    """Return the sensors that rules ask for and the counts they compare, in their usual order."""
    if rules is None:
        return ()
    asked = {condition.removeprefix(NOT) for condition in rules.conditions}
    sensors = tuple(sensor for sensor in rules.known.names if sensor in asked)
    compared = {found.count for one in asked - {*sensors} if (found := read_threshold(one))}
    return (*sensors, *(COUNT_NAMES[count] for count in sorted(compared)))


def tell_choice(titles: Sequence[str], last: int, to: int) -> str:
    """Return in words what a machine does next.

    Args:
        titles: of the modes and the end.
        last: the last mode's number; -1 before the first.
        to: the number of what comes next.
    """
    is_end = to == len(titles) - 1
    if last < 0:
        return "ends at once" if is_end else f"begins with `{titles[to]}`"
    if to == last:
        return "repeats itself"
    return "stops" if is_end else f"goes on with `{titles[to]}`"


def tell_conditions(rule: Rule, known: SensorSet) -> str:
    """Return in words what has to hold for a rule; nothing if it always does."""
    return " and ".join(describe_condition(condition, known) for condition in rule.when)


def _describe_start(by: Transition, titles: list[str]) -> str:
    """Return what a machine does first, as a sentence; nothing if it is not written down."""
    text = _describe(by, 0, partial(tell_choice, titles, -1), len(titles) - 1)
    return text[:1].upper() + text[1:]


def _describe_after(by: Transition, titles: list[str], mode: int) -> str:
    """Return what comes after a mode, as a sentence; nothing if it is not written down."""
    text = _describe(by, mode + 1, partial(tell_choice, titles, mode), len(titles) - 1)
    return f"Afterwards: {text}" if text else ""


def _describe(by: Transition, row: int, act: Callable[[int], str], end: int) -> str:
    """Return what rules or a table of codes choose after a mode, in words.

    Args:
        by: what chooses.
        row: 0 for the start, else one more than the mode's number.
        act: says in words where a choice leads.
        end: the number of the end.
    """
    if isinstance(by, DecisionList):
        rules = (by.start, *by.after)[row]
        return _enumerate(rules, lambda to: act(end if to is None else to), by.known)
    if not isinstance(by, CodeTable):
        return ""
    told = []
    for to, column in enumerate(by.probs[row].T):
        if (column == 1.0).all():
            return f"{act(to)}."
        if names := name_observations(column):
            told.append(f"{act(to)} at {', '.join(names)}")
    return "; ".join(told) + "."


def _enumerate(rules: Sequence[Rule], act: Callable[[int | None], str], known: SensorSet) -> str:
    """Return rules as an enumeration in words.

    Args:
        rules: one list of them.
        act: says in words where a rule leads.
        known: the sensors that conditions name.
    """
    *others, default = rules
    told = [f"{act(rule.to)} if {tell_conditions(rule, known)}" for rule in others]
    return "; ".join([*told, f"else {act(default.to)}" if told else act(default.to)]) + "."
