"""Compute what the best transitions could earn from given modes.

A machine that earns little may be limited by its modes or by its transitions; this bound tells.

Some tasks count events up to a last one, and what happens in between depends on the count only
through a phase (`pomp.tasks.task.EventCount`). So all that can happen is explored once, as if no
event were the last, and solved backwards, from one event left to all of them:

    state --mode--> point --no event--> state        a point is where a program begins or goes on
                          --event--> points          one of them at random, all equally likely

Programs are run action by action, so that every random outcome of an event is followed up. Tasks
without chance and without such a count are searched forwards from each of their starts; that is
exact as long as no state is dropped. States are told apart by 64-bit digests.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pomp.analysis.outcomes import (
    MOST_STATES,
    Floats,
    Graph,
    Integers,
    digest_of,
    draws_too_much,
)
from pomp.core.compiling import kernel
from pomp.core.errors import ConfigError
from pomp.dsl.bytecode import (
    Code,
    compile_programs,
)
from pomp.dsl.syntax import Program
from pomp.engine.rollouts import advance
from pomp.engine.starts import enumerate_starts
from pomp.engine.units import DEFAULT_CAP
from pomp.karel.dynamics import ACTIONS, SCORE, SUM, VALUE
from pomp.karel.interpreter import Cap
from pomp.karel.world import WorldBatch, memory_of
from pomp.machine.config import MAX_MODES, EpisodeConfig
from pomp.machine.episodes import Episodes
from pomp.machine.transitions import Choose
from pomp.tasks.task import Setting

WIDTH, LEAST_WIDTH = 20_000, 16
"""States a search forwards keeps after each macro step: of all starts, and of each at least."""
_STARTS = 512  # solved at once


@dataclass(frozen=True)
class Bound:
    """What the best transitions earn.

    Attributes:
        value: the expected return.
        side: `exact`; or a `lower` or `upper` bound of what the best transitions earn.
        states: how many were told apart.
        how: in one line.
        transitions: the best ones, if asked for and tabulated.
    """

    value: float
    side: Literal["exact", "lower", "upper"]
    states: int
    how: str
    transitions: "BestTransitions | None" = None

    @property
    def exact(self) -> bool:
        """Whether some transitions earn as much, and none more."""
        return self.side == "exact"


def bound(
    setting: Setting,
    modes: Sequence[Program | str],
    cap: Cap | str = DEFAULT_CAP,
    *,
    most_steps: int = EpisodeConfig().most_steps,
    width: int = WIDTH,
    step_cost: float = 0.0,
    keep_transitions: bool = False,
) -> Bound:
    """Compute the most that transitions between modes can earn.

    The transitions see the whole world and may end the episode after every mode.

    Args:
        setting: the task.
        modes: the programs.
        cap: how long one execution of a mode may last.
        most_steps: macro steps of an episode at scale 1. A search keeps to them. The dynamic
            programme does not; where its best transitions may take more, it is an upper bound.
        width: states a search keeps after each macro step; with enough it is exact.
        step_cost: taken off for every macro step, where there is a dynamic programme.
        keep_transitions: tabulate the best transitions, too, where there is a dynamic programme.

    Raises:
        ConfigError: there is no bound for the task, or its states are too many.
    """
    check_bounded(setting, modes)
    if width < 1:
        raise ConfigError(f"a bound takes a width of 1 or more, got {width}")
    code, limits = compile_programs(modes), Cap.of(cap)
    if setting.task.event_count(setting) is not None:
        return _count_back(setting, code, limits, most_steps, step_cost, keep_transitions)
    if setting.task.draws(setting):
        raise draws_too_much(setting)
    return _search(setting, code, limits, most_steps, width)


def check_bounded(setting: Setting, modes: Sequence[Any]) -> None:
    """Refuse a task or a number of modes for which there is neither a bound nor an estimate."""
    if not 1 <= len(modes) <= MAX_MODES:
        raise ConfigError(f"a bound takes 1 to {MAX_MODES} modes, got {len(modes)}")
    if not adds_up(setting):
        variant = f"{setting.task.name} ({setting.variant})"
        raise ConfigError(f"no bound for {variant}: its rewards do not add up to its return")


def adds_up(setting: Setting) -> bool:
    """Whether the rewards of a task add up to its return, so that there is a bound or estimate."""
    return bool(setting.constants[VALUE] == SUM)


class GraphArrays(NamedTuple):
    """The graph of S states and P points that `Graph` explores, for compiled code.

    Attributes:
        points_of: `[S, K]` int64: the point each mode begins at in a state.
        earned: `[P]` float64: what the program earns to its end, or to the next event, inclusive.
        end: `[P]` int64: the state the program ends in; -1: there is an event before.
        first: `[P + 1]` int64: where the outcomes of its event begin in `outcomes` and `finals`.
        outcomes: `[N]` int64: the points after an event that is not the last one.
        finals: `[N]` int64: the same, if it is.
    """

    points_of: Any
    earned: Any
    end: Any
    first: Any
    outcomes: Any
    finals: Any


class Solution(NamedTuple):
    """What the best transitions do, each array written layer by layer.

    Attributes:
        of_state: `[S]` float64: what they will earn from a state.
        steps: `[S]` int64: the most modes that they will run from there.
        of_point: `[P]` float64: what they will earn from a point.
        steps_after: `[P]` int64: the most modes that they will run after the one that runs.
    """

    of_state: Any
    steps: Any
    of_point: Any
    steps_after: Any


@kernel
def _solve_layer(states, points, is_last, cost, graph, solution, choice):  # type: ignore[no-untyped-def]
    """Solve the states of one phase, with a number of events left.

    Args:
        states: `[s]` int64, those of the phase.
        points: `[p]` int64, those of the phase.
        is_last: whether one event is left.
        cost: of every macro step.
        graph: the `GraphArrays`.
        solution: the `Solution`, written for these states and points; read for the points of the
            next phase, where one event less is left.
        choice: `[s]` int8, written: the best mode, or the number of modes: end.
    """
    points_of, earned, end, first, outcomes, finals = graph
    of_state, steps, of_point, steps_after = solution
    following = finals if is_last else outcomes
    for point in points:
        count = first[point + 1] - first[point]
        if count > 0:
            total, most = 0.0, 0
            for place in range(first[point], first[point + 1]):
                total += of_point[following[place]]
                most = max(most, steps_after[following[place]])
            of_point[point], steps_after[point] = earned[point] + total / count, most
    for place, state in enumerate(states):
        of_state[state], steps[state], choice[place] = 0.0, 0, points_of.shape[1]
    is_settled = False
    while not is_settled:  # without an event nothing is earned, so no round trip pays
        is_settled = True
        for place in range(len(states) - 1, -1, -1):
            state = states[place]
            for mode in range(points_of.shape[1]):
                point = points_of[state, mode]
                found, more = of_point[point] - cost, steps_after[point]
                if end[point] >= 0:
                    found = earned[point] + of_state[end[point]] - cost
                    more = steps[end[point]]
                if found > of_state[state]:
                    of_state[state], steps[state], choice[place] = found, 1 + more, mode
                    is_settled = False
    for point in points:
        if end[point] >= 0:
            of_point[point] = earned[point] + of_state[end[point]]
            steps_after[point] = steps[end[point]]


def _solve(graph: Graph, cost: float) -> tuple[Floats, int, list[NDArray[np.int8]]]:
    """Go back from the last event to the first.

    Returns:
        What is earned from each start, `[N]` float64; the most modes run; the choices with 1, 2,
        ... events left, in the states of the phase, `[s]` int8 each.
    """
    states_count, points_count = len(graph.points_of), len(graph.earned)
    of_state, steps = np.zeros(states_count), np.zeros(states_count, np.int64)
    solution = Solution(of_state, steps, graph.earned.copy(), np.zeros(points_count, np.int64))
    arrays = GraphArrays(
        graph.points_of, graph.earned, graph.end, graph.first, graph.outcomes, graph.finals
    )
    points = [np.flatnonzero(graph.phase == phase) for phase in range(graph.phases)]
    choices = []
    for left in range(1, graph.last + 1):
        phase = (graph.last - left) % graph.phases
        states = graph.states_in[phase]
        choices.append(np.empty(len(states), np.int8))
        _solve_layer(states, points[phase], left == 1, cost, arrays, solution, choices[-1])
    return of_state[graph.starts], int(steps[graph.starts].max()), choices


def _count_back(
    setting: Setting, code: Code, cap: Cap, most_steps: int, cost: float, keep: bool
) -> Bound:  # fmt: skip
    """Return the bound of a task that counts events, by dynamic programming.

    Starts with the same markers are solved together.
    """
    worlds, starts = enumerate_starts(setting)
    odds = np.array([float(start.probability) for start in starts])
    order = np.argsort(digest_of(worlds.cells), kind="stable")
    total, most, states, tables = 0.0, 0, 0, []
    for share in np.array_split(order, -(-len(order) // _STARTS)):
        graph = Graph(setting, code, cap, worlds.take(share))
        values, steps, choices = _solve(graph, cost)
        total += fsum(values * odds[share])
        most, states = max(most, steps), states + len(graph.states) - 1
        if keep:
            tables.append((graph, choices))
    how = f"dynamic programming back from the last event; at most {most:,} macro steps"
    is_exact = most <= most_steps * setting.scale
    if not is_exact:
        how += f", though an episode ends after {most_steps * setting.scale:,}"
    best = BestTransitions(len(code), tuple(tables)) if keep else None
    return Bound(total, "exact" if is_exact else "upper", states, how, best)


@dataclass(frozen=True)
class BestTransitions:
    """Transitions of a machine that earn the bound of a counted task; they cannot be saved.

    Attributes:
        modes: how many.
        tables: what can happen from some starts, and the choices with 1, 2, ... events left.
    """

    modes: int
    tables: tuple[tuple[Graph, list[NDArray[np.int8]]], ...] = field(repr=False)
    kind: ClassVar[str] = "best"

    def chooser(self, episodes: Episodes) -> Choose:
        """Return a function that chooses the next modes of some episodes, on the CPU."""
        return lambda draws: self.choose(episodes.worlds)

    def choose(self, worlds: WorldBatch) -> Integers:
        """Return the best mode for each world, `[B]`; the number of modes: end."""
        choices = np.full(len(worlds), self.modes)
        on = np.flatnonzero(~worlds.done)
        for graph, table in self.tables:
            states = [graph.states.get(one) for one in graph.digest(worlds.take(on)).tolist()]
            left = (graph.last - worlds.memory[on, SCORE]).tolist()
            for world, state, events in zip(on.tolist(), states, left, strict=True):
                if state is not None:
                    peers = graph.states_in[(graph.last - events) % graph.phases]
                    choices[world] = table[events - 1][np.searchsorted(peers, state)]
        return choices

    def to_json(self) -> dict[str, Any]:
        """Refuse: the table is as large as all states."""
        raise ConfigError("the best transitions are a table of all states and cannot be saved")

    to_arrays = to_json


def _search(setting: Setting, code: Code, cap: Cap, most_steps: int, width: int) -> Bound:
    """Return the bound of a task without chance: the best that a search reached from each start."""
    worlds, starts = enumerate_starts(setting)
    share = max(width // len(starts), LEAST_WIDTH)
    best, owner = np.zeros(len(starts)), np.arange(len(starts))
    most = max(1.0, setting.goal)  # nowhere more is earned
    known = dict.fromkeys(digest_of(owner, *essence_of(setting, worlds)).tolist(), 0.0)
    steps, is_cut = 0, False
    while len(worlds) and steps < most_steps * setting.scale and len(known) <= MOST_STATES:
        steps += 1
        lanes = np.repeat(np.arange(len(worlds)), len(code))
        modes = np.tile(np.arange(len(code)), len(worlds))
        worlds, owner = worlds.take(lanes), owner[lanes]
        values = advance(setting, code, worlds, modes, cap=cap).returns[:, 0]
        np.maximum.at(best, owner, values)
        on = np.flatnonzero(~worlds.done & (best[owner] < most))  # if done, nothing is earned
        worlds, owner, values = worlds.take(on), owner[on], values[on]
        better = _improve(known, digest_of(owner, *essence_of(setting, worlds)), values)
        kept = best_of_each(better, owner, values, share)
        is_cut |= len(kept) < len(better)
        worlds, owner = worlds.take(kept), owner[kept]
    is_cut = (is_cut or len(known) > MOST_STATES) and bool((best < most).any())
    odds = np.array([float(start.probability) for start in starts])
    dropped = f"the best {share:,} states of each start kept" if is_cut else "no state dropped"
    how = f"search forwards, {steps:,} macro steps, {dropped}"
    return Bound(fsum(best * odds), "lower" if is_cut else "exact", len(known), how)


def essence_of(setting: Setting, worlds: WorldBatch) -> tuple[NDArray[Any], ...]:
    """Return what matters for what worlds can still earn: arrays `[B, ...]`."""
    essence = worlds.copy()
    memory_of(essence).memory[:, ACTIONS] = 0
    setting.task.forget(essence)
    return essence.cells, essence.pose, essence.memory


def _improve(known: dict[int, float], digests: NDArray[np.uint64], values: Floats) -> Integers:
    """Note states that are new or worth more than before, and return where they stand.

    Args:
        known: the most that was earned up to each state, by digest; written.
        digests: `[B]` uint64, of the states.
        values: `[B]` float64, what was earned up to them.

    Returns:
        `[b]` int64, their places, the best first.
    """
    order = np.argsort(-values, kind="stable")
    found = zip(digests[order].tolist(), values[order].tolist(), order.tolist(), strict=True)
    better = []
    for digest, value, place in found:
        if value > known.get(digest, -np.inf):
            known[digest] = value
            better.append(place)
    return np.array(better, np.int64)


def best_of_each(places: Integers, owner: Integers, values: Floats, share: int) -> Integers:
    """Return the `share` best places of each owner.

    Args:
        places: `[b]` int64, some of B places.
        owner: `[B]` int64, the start that each belongs to.
        values: `[B]` float64.
        share: how many are kept of each.

    Returns:
        `[c]` int64, some of `places`.
    """
    order = places[np.lexsort((-values[places], owner[places]))]
    rank = np.arange(len(order)) - np.searchsorted(owner[order], owner[order])
    return order[rank < share]
