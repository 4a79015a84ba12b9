"""Everything that can happen in a task that counts events, as a graph of states and points.

A program is run action by action and left at every event, so that each equally likely outcome of
the event is followed up. States are told apart by 64-bit digests.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.core.compiling import kernel
from pomp.core.errors import ConfigError
from pomp.core.streams import branch, streams_drawing
from pomp.dsl.bytecode import COUNTERS_PER_LOOP, Code
from pomp.engine.rollouts import act_on
from pomp.karel.dynamics import ACTIONS, SCORE, TALLY
from pomp.karel.interpreter import (
    NO_ACTION,
    Cap,
    CappedProgram,
    Point,
    WorldState,
    first_point,
    notes_nothing,
    performs_nothing,
    refuses_everything,
    run_from,
    sees_nothing,
)
from pomp.karel.world import WorldBatch, join_worlds, memory_of
from pomp.tasks.catalog import TASKS
from pomp.tasks.task import Setting

MOST_STATES = 4_000_000
"""States (or points) beyond which a graph is refused and a search ends."""

_LANES, _STARTS = 1 << 15, 512  # run, and solved, at once
_MOST_OUTCOMES = 256  # of one event
_PROGRAM, _PC, _SPENT, _TOP, _ACTED, _TURN_ACTED, _TURN_PC, _LOOPS = range(8)  # of a point

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Points = NDArray[np.int32]


def draws_too_much(setting: Setting) -> ConfigError:
    """The error of a task with too many outcomes to follow up."""
    counted = [task.name for task in TASKS if task.event_count(task.configure())]
    return ConfigError(
        f"no bound for {setting.task.name} ({setting.variant}): it draws among too many worlds. "
        f"There are bounds for {', '.join(counted)} (in their usual variants), for tasks that "
        "declare an event_count, and for those in which nothing but the start is random; for any "
        "other there is an estimate (--estimate, pomp.analysis.estimate)"
    )


def digest_of(*arrays: NDArray[Any]) -> NDArray[np.uint64]:
    """Return one number for each row of some `arrays`, `[B, ...]` of any type: `[B]` uint64."""
    total = np.zeros(len(arrays[0]), np.uint64)
    for number, array in enumerate(arrays):
        row = np.ascontiguousarray(array if array.ndim > 1 else array[:, None]).view(np.uint8)
        words = np.pad(row, ((0, 0), (0, -row.shape[1] % 8))).view(np.uint64)
        total += branch(words, np.arange(words.shape[1]) + (number << 32)).sum(1, dtype=np.uint64)
    return total


def number_of(table: dict[int, int], digests: NDArray[np.uint64]) -> tuple[Integers, Integers]:
    """Number digests, and tell where new ones stand, which get the next numbers.

    Args:
        table: the numbers of digests that are known, added to.
        digests: `[B]` uint64.

    Returns:
        `[B]` int64 numbers, and `[N]` int64 places of one row for each digest that is new.
    """
    unique, first, inverse = np.unique(digests, return_index=True, return_inverse=True)
    numbers, fresh = np.empty(len(unique), np.int64), []
    for place, digest in enumerate(unique.tolist()):
        if digest not in table:
            table[digest] = len(table)
            fresh.append(first[place])
        numbers[place] = table[digest]
    return numbers[inverse], np.array(fresh, np.int64)


@kernel
def _seek(code, cap, constants, worlds, points, actions):  # type: ignore[no-untyped-def]
    """Run programs up to their next actions, which are charged but not performed.

    Args:
        code: `[P, L]` uint32, read.
        cap: the `Cap` of each program.
        constants: `[N]` int64, read.
        worlds: the `Worlds`, read.
        points: `[B, _LOOPS + depth]` int32, written: where each program stands.
        actions: `[B]` int64, written; -1: the program has ended.
    """
    for lane in range(len(points)):
        row = points[lane]
        point = Point(
            np.int64(NO_ACTION), np.int64(row[_PC]), np.int64(row[_SPENT]), np.int64(row[_ACTED]),
            np.int64(row[_TOP]), np.int64(row[_TURN_ACTED]), np.int64(row[_TURN_PC]),
        )  # fmt: skip
        world = WorldState(
            worlds.cells[lane], np.int64(worlds.pose[lane]), worlds.memory[lane],
            worlds.stream[lane : lane + 1],
        )  # fmt: skip
        point = run_from(  # type: ignore[no-untyped-call]  # compiled
            performs_nothing, refuses_everything, notes_nothing, sees_nothing, (),
            CappedProgram(code[row[_PROGRAM]], cap), constants, world, row[_LOOPS:], point,
        ).point  # fmt: skip
        actions[lane] = point.due
        row[_PC], row[_SPENT], row[_TOP] = point.pc, point.spent, point.top
        row[_ACTED] = point.acted + (point.due != NO_ACTION)
        row[_TURN_ACTED], row[_TURN_PC] = point.turn_acted, point.turn_pc


def begin_points(code: Code, cap: Cap, programs: Integers) -> Points:
    """Return the points at which programs begin.

    Args:
        code: P programs.
        cap: how long each may run.
        programs: `[B]` int64: which of them.

    Returns:
        `[B, _LOOPS + depth]` int32.
    """
    points = np.zeros((len(programs), _LOOPS + code.depth), np.int32)
    first: Point = first_point(cap)  # type: ignore[no-untyped-call]  # compiled
    points[:, _PROGRAM], points[:, _SPENT] = programs, first.spent
    points[:, _TURN_ACTED], points[:, _TURN_PC] = first.turn_acted, first.turn_pc
    return points


def settle_points(points: Points) -> Points:
    """Return points `[B, _LOOPS + depth]` int32 right after an action, counted from there.

    So equal ones look alike.
    """
    settled = points.copy()
    settled[:, _ACTED] = 0
    settled[:, [_TURN_ACTED, _TURN_PC]] = -1
    for slot in range(points.shape[1] - _LOOPS):
        is_count = slot % COUNTERS_PER_LOOP == 0
        known = points[:, _LOOPS + slot] if is_count else -1
        settled[:, _LOOPS + slot] = np.where(slot < points[:, _TOP], known, 0)
    return settled


def run_points(
    setting: Setting, code: Code, cap: Cap, worlds: WorldBatch, points: Points
) -> tuple[Floats, Integers, WorldBatch]:
    """Run programs from points, which are moved, to their ends or up to an event.

    Returns:
        What each earned, the event included; the action that is the event, or -1; and the worlds
        at the end, or before the event.
    """
    lanes, running = np.arange(len(worlds)), points
    earned, last = np.zeros(len(worlds)), np.full(len(worlds), -1)
    stopped = [(lanes[:0], worlds.take(lanes[:0]))]
    while len(lanes):
        actions = np.empty(len(lanes), np.int64)
        _seek(code.instructions, cap, setting.constants, memory_of(worlds), running, actions)
        acts = actions >= 0
        after = worlds.take(np.flatnonzero(acts))
        earned[lanes[acts]] += act_on(setting, after, actions[acts])
        stays = acts.copy()
        stays[acts] = after.memory[:, SCORE] == worlds.memory[acts, SCORE]
        if not stays.all():
            ends = np.flatnonzero(~stays)
            last[lanes[ends]], points[lanes[ends]] = actions[ends], running[ends]
            stopped.append((lanes[ends], worlds.take(ends)))
            after = after.take(np.flatnonzero(stays[acts]))
            lanes, running = lanes[stays], running[stays]
        worlds = after
    order = np.argsort(np.concatenate([places for places, _ in stopped]))
    return earned, last, join_worlds([batch for _, batch in stopped]).take(order)


class Graph:
    """All that can happen in a counted task from some starts.

    Attributes:
        last: the number of the last event.
        states: their numbers by digest; state 0: the task is done.
        starts: `[N]`: the states of the starts.
        states_in: the states of each phase, in order.
        points_of: `[S, K]`: the point each mode begins at in a state.
        phase: `[P]` of each point; -1: the task is done.
        earned: `[P]`: what the program earns to its end, or to the next event, inclusive.
        end: `[P]`: the state the program ends in; -1: there is an event before.
        first: `[P + 1]`: where the outcomes of its event begin in `outcomes` and `finals`.
        outcomes: the points after an event that is not the last one.
        finals: the same, if it is.
    """

    def __init__(self, setting: Setting, code: Code, cap: Cap, starts: WorldBatch) -> None:
        self._setting, self._code, self._cap = setting, code, cap
        events = setting.task.event_count(setting)
        assert events is not None
        self.phases, self.last = events.phases, events.last
        self.states: dict[int, int] = {-1: 0}
        self._points: dict[int, int] = {}
        self._waiting: list[tuple[WorldBatch, Points]] = []
        of_states = [(np.zeros((1, len(code)), np.int64), np.array([-1]))]
        self._of_states, self._of_points = of_states, list[tuple[NDArray[Any], ...]]()
        self.starts = self._enter(starts)
        while self._waiting:
            self._explore()
        self.points_of, phase = map(np.concatenate, zip(*self._of_states, strict=True))
        self.states_in = [np.flatnonzero(phase == one) for one in range(self.phases)]
        columns = map(np.concatenate, zip(*self._of_points, strict=True))
        self.phase, self.earned, self.end, counts, self.outcomes, self.finals = columns
        self.first = np.concatenate([[0], np.cumsum(counts)])

    def digest(self, worlds: WorldBatch, *more: NDArray[Any]) -> NDArray[np.uint64]:
        """Return the digests `[B]` uint64 of worlds, of which only what matters is left.

        Args:
            worlds: B worlds, written.
            more: arrays `[B, ...]` that belong to the digests, too.
        """
        self._setting.task.forget(worlds)
        memory = memory_of(worlds).memory
        memory[:, [ACTIONS, TALLY]] = 0
        memory[:, SCORE] %= self.phases
        memory[:, SCORE] -= self.phases  # before the first event: none is the last
        memory_of(worlds).stream[:] = 0
        return digest_of(worlds.cells, worlds.pose, worlds.memory, *more)

    def _phase(self, worlds: WorldBatch) -> Integers:
        return np.where(worlds.done, -1, worlds.memory[:, SCORE] % self.phases).astype(np.int64)

    def _enter(self, worlds: WorldBatch) -> Integers:
        """The states of worlds; in new ones all modes will be run."""
        states, on = np.zeros(len(worlds), np.int64), np.flatnonzero(~worlds.done)
        worlds = worlds.take(on)
        states[on], fresh = number_of(self.states, self.digest(worlds))
        modes = len(self._code)
        programs = np.tile(np.arange(modes), len(fresh))
        points = begin_points(self._code, self._cap, programs)
        numbers = self._put_off(worlds.take(np.repeat(fresh, modes)), points)
        self._of_states.append((numbers.reshape(-1, modes), self._phase(worlds)[fresh]))
        return states

    def _put_off(self, worlds: WorldBatch, points: Points) -> Integers:
        """The numbers of points; new ones will be run."""
        numbers, fresh = number_of(self._points, self.digest(worlds, points))
        if len(self._points) > MOST_STATES:
            raise ConfigError(
                f"no bound: with these modes {self._setting.task.name} has over {MOST_STATES:,} "
                "states; give fewer or simpler modes, or take an estimate (--estimate)"
            )
        self._waiting.append((worlds.take(fresh), points[fresh]))
        return numbers

    def _explore(self) -> None:
        """Run the points that wait, in the order of their numbers."""
        batches, self._waiting = self._waiting, []
        worlds = join_worlds([batch for batch, _ in batches])
        points = np.concatenate([rows for _, rows in batches])
        for first in range(0, len(worlds), _LANES):
            lanes = np.arange(first, min(first + _LANES, len(worlds)))
            self._follow(worlds.take(lanes), points[lanes])

    def _follow(self, worlds: WorldBatch, points: Points) -> None:
        """Run points and note what follows from each."""
        phase, end, counts = self._phase(worlds), np.full(len(worlds), -1), 0 * points[:, 0]
        earned, actions, worlds = run_points(self._setting, self._code, self._cap, worlds, points)
        ended, met = np.flatnonzero(actions < 0), np.flatnonzero(actions >= 0)
        end[ended] = self._enter(worlds.take(ended))
        settled = settle_points(points[met])
        counts[met], *after = self._meet(worlds.take(met), settled, actions[met])
        self._of_points.append((phase, earned, end, counts, *after))

    def _meet(
        self, worlds: WorldBatch, points: Points, actions: Integers
    ) -> tuple[Integers, Integers, Integers]:
        """How many outcomes events have, and the points after each: if not the last, and if so."""
        counts = self._count_outcomes(worlds, actions)
        lanes = np.repeat(np.arange(len(worlds)), counts)
        place = np.arange(len(lanes)) - np.repeat(np.cumsum(counts) - counts, counts)
        bits = ((2 * place + 1) << 32) // (2 * counts[lanes])
        worlds, actions, points = worlds.take(lanes), actions[lanes], points[lanes]
        outcomes = self._put_off(self._after(worlds, actions, bits), points)
        can_be_last = (self.last - 1 - worlds.memory[:, SCORE]) % self.phases == 0
        memory_of(worlds).memory[can_be_last, SCORE] = self.last - 1
        return counts, outcomes, self._put_off(self._after(worlds, actions, bits), points)

    def _count_outcomes(self, worlds: WorldBatch, actions: Integers) -> Integers:
        """Among how many outcomes each event draws.

        The least bits that lead a draw among n to its second outcome lead none among fewer there.
        """
        low = np.ones(len(worlds), np.int64)
        if not self._setting.task.draws(self._setting):
            return low
        first, high = self._after(worlds, actions, 0 * low), _MOST_OUTCOMES * low
        while (low < high).any():
            middle = (low + high + 1) // 2
            after = self._after(worlds, actions, -(-(1 << 32) // middle))
            differs = (after.cells != first.cells).any(1) | (after.memory != first.memory).any(1)
            low, high = np.where(differs, middle, low), np.where(differs, high, middle - 1)
        if (low >= _MOST_OUTCOMES).any():
            raise draws_too_much(self._setting)
        return low

    def _after(self, worlds: WorldBatch, actions: Integers, bits: Integers) -> WorldBatch:
        """The worlds after an action that draws these upper 32 bits."""
        after = worlds.copy()
        memory_of(after).stream[:] = streams_drawing(bits.astype(np.uint64) << np.uint64(32))
        act_on(self._setting, after, actions)
        return after
