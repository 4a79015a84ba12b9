"""One lane of a batch: what every launch loop, on a CPU or a GPU, does for each of its worlds.

A lane is one world, or one unit of work on one of its worlds: a unit is a list of programs, the
candidate that stands in it, and the worlds it runs on. The task's functions come in as arguments
and are inlined. What belongs together comes in as one named tuple, whose arrays are written where
its docstring says so.

Arrays: `constants` `[N]` int64 has the setting's numbers, `counters` `[D]` int32 is scratch for the
loops of the deepest program.
"""

from typing import Any, NamedTuple

import numpy as np

from pomp.core.compiling import scalar
from pomp.karel.dynamics import ACTIONS, DONE, SCORE, reward, value
from pomp.karel.interpreter import (
    Ending,
    WorldState,
    notes_nothing,
    refuses_nothing,
    run_program,
    sees_nothing,
)
from pomp.karel.sensors import FIRST_OWN, LAST_OWN, sense

UNIT_LIST, UNIT_CANDIDATE, UNIT_WORLD = range(3)  # columns of `UnitArrays.table`
CANDIDATE = -2  # in a list: the unit's own program
BY_CHOICE, BY_LIMIT, BY_TASK = 1, 2, 3  # how an episode of macro steps ends
_COMPLETED, _CAPPED = int(Ending.COMPLETED), int(Ending.CAPPED)


class UnitArrays(NamedTuple):
    """Q units of work as compiled code takes them; `pomp.engine.units.Units` makes them.

    Attributes:
        lists: `[T, M]` int32: rows of programs to run one after the other: a program's number,
            `CANDIDATE` for the unit's own, -1 behind the last.
        table: `[Q, 3]` int32: each unit's list, its candidate and its first world; `[0, 3]`: every
            unit runs the first list from the first world, and its candidate has its own number.
        salts: `[Q]` uint64, joined to the worlds' streams; or `[0]`.
        count: how many units there are.
        span: how many worlds each unit runs on, one after the other from the first.
        rounds: how often the list is run; above 1 only until the task is done.
        patience: actions without progress after which no round begins; 0: never mind.
    """

    lists: Any
    table: Any
    salts: Any
    count: Any
    span: Any
    rounds: Any
    patience: Any


class LaneIndex(NamedTuple):
    """Which lane; dividing costs as much as a few actions, so a loop that knows all three says so.

    Attributes:
        lane: its number, `unit * span + offset`.
        unit: the unit it belongs to.
        offset: which of the unit's worlds it runs on.
    """

    lane: Any
    unit: Any
    offset: Any


class LaneResults(NamedTuple):
    """What came of N lanes, each array written.

    Attributes:
        values: `[N]` float64: the return of the episode at its end.
        actions: `[N]` int32: actions performed here.
        calls: `[N]` int32: the programs' final call counters, added up.
        completed: `[N]` bool: every program ran to its end.
    """

    values: Any
    actions: Any
    calls: Any
    completed: Any


class Lane(NamedTuple):
    """Scratch memory for one world and the program that runs on it.

    Attributes:
        cells: `[H * W]` uint8.
        memory: `[M]` int32.
        stream: `[1]` uint64.
        counters: `[D]` int32, for the loops of the deepest program.
    """

    cells: Any
    memory: Any
    stream: Any
    counters: Any

    @classmethod
    def empty(cls, cells: int, slots: int, depth: int) -> "Lane":
        """Return uninitialised memory for worlds of so many cells and slots, on the CPU."""
        return cls(
            np.empty(cells, np.uint8),
            np.empty(slots, np.int32),
            np.empty(1, np.uint64),
            np.empty(max(depth, 1), np.int32),
        )


class StepResults(NamedTuple):
    """What came of one step of B episodes, each array written.

    Attributes:
        is_over: `[B]` bool, also read: the episode has ended.
        rewards: `[B]` float64.
        terminated: `[B]` bool: the task is done.
        truncated: `[B]` bool: the limit is reached.
    """

    is_over: Any
    rewards: Any
    terminated: Any
    truncated: Any


class MacroSteps(NamedTuple):
    """What B episodes of macro steps consist of: the modes of each, and how they end.

    Attributes:
        code: `[P, L]` uint32, programs.
        first: `[B]` int32: the first program of each world's machine; its modes follow each other.
        modes: `[B]` int32: how many modes it has.
        last_words: the program that runs before an episode ends by choice; -1: none.
        cap: the `Cap` of each program.
        most: macro steps after which an episode ends.
        restarts: whether a new episode begins where one has ended; else it stays as it is.
        until_done: whether an episode also ends when the task is done.
    """

    code: Any
    first: Any
    modes: Any
    last_words: Any
    cap: Any
    most: Any
    restarts: Any
    until_done: Any


class EpisodeState(NamedTuple):
    """Where B episodes of macro steps stand, each array written.

    Attributes:
        mode: `[B]` int64: the mode that ran last; -1 before the first.
        taken: `[B]` int32: macro steps of the episode.
        ending: `[B]` uint8: 0, or how the episode ended in this step (or before, if none restart):
            `BY_CHOICE`, `BY_LIMIT` or, if it ends when the task is done, `BY_TASK`.
        rewards: `[B]` float64: of the last step.
        returns: `[B]` float64: the episode's return after the last step.
        idle: `[B]` uint8: the mode that ran last took no action; 0 at an episode's start.
        acted: `[B]` int32: actions that the last step took.
        cuts: `[B]` int32: programs of the episode that were stopped by their cap.
    """

    mode: Any
    taken: Any
    ending: Any
    rewards: Any
    returns: Any
    idle: Any
    acted: Any
    cuts: Any


@scalar
def reset_world(draw_start, begin, index, constants, worlds):
    """Draw a start from a world's stream, in place.

    Args:
        draw_start: the task's.
        begin: the task's.
        index: which of the worlds.
        constants: `[N]` int64, read.
        worlds: the `Worlds`.
    """
    cells, memory = worlds.cells[index], worlds.memory[index]
    for cell in range(len(cells)):
        cells[cell] = 0
    for slot in range(len(memory)):
        memory[slot] = 0
    worlds.pose[index] = draw_start(cells, constants, memory, worlds.stream[index : index + 1])
    begin(cells, constants, np.int64(worlds.pose[index]), memory)


@scalar
def state_of(worlds, index):
    """Return one of the `Worlds` as a `WorldState` that shares its memory."""
    return WorldState(
        worlds.cells[index],
        np.int64(worlds.pose[index]),
        worlds.memory[index],
        worlds.stream[index : index + 1],
    )


@scalar
def act_on_world(step, index, action, constants, worlds):
    """Perform one action in one of the `Worlds`, in place; returns its reward."""
    cells, pose, memory, stream = state_of(worlds, index)
    before = value(memory, constants)
    memory[ACTIONS] += 1
    worlds.pose[index] = step(cells, constants, pose, memory, stream, action)
    return reward(before, memory, constants)


@scalar
def play_world(step, draw_start, begin, index, actions, limit, constants, worlds, results):
    """One step of an episode; the step after its end starts the next and pays nothing.

    Args:
        step: the task's.
        draw_start: the task's.
        begin: the task's.
        index: which of the worlds.
        actions: `[B]` int64, read.
        limit: actions after which an episode is truncated.
        constants: `[N]` int64, read.
        worlds: the `Worlds`, written.
        results: the `StepResults`, written.
    """
    if results.is_over[index]:
        reset_world(draw_start, begin, index, constants, worlds)
        results.rewards[index] = 0.0
        results.terminated[index] = False
        results.truncated[index] = False
    else:
        action, memory = np.int64(actions[index]), worlds.memory[index]
        results.rewards[index] = act_on_world(step, index, action, constants, worlds)
        results.terminated[index] = memory[DONE] != 0
        results.truncated[index] = memory[DONE] == 0 and memory[ACTIONS] >= limit
    results.is_over[index] = results.terminated[index] or results.truncated[index]


@scalar
def sense_world(sense_own, index, constants, worlds, idle, compass):
    """Return what transitions by rules see in a world, as a reading of all sensors.

    Args:
        sense_own: reads sensors of one's own, as `pomp.karel.sensors.senses_nothing` does.
        index: which of the worlds.
        constants: `[N]` int64, read.
        worlds: the `Worlds`, read.
        idle: `[B]` uint8, read: the last mode took no action.
        compass: whether the compass is asked for.
    """
    cells, pose = worlds.cells[index], np.int64(worlds.pose[index])
    reading = sense(cells, constants, pose, idle[index] != 0, compass)
    for number in range(FIRST_OWN, LAST_OWN + 1):
        if sense_own(number, cells, constants, pose) == 1:
            reading |= 1 << number
    return reading


@scalar
def take_mode(step, draw_start, begin, index, macro, choices, constants, worlds, state, counters):
    """One macro step of an episode, in place: a program runs, or the episode ends.

    Args:
        step: the task's.
        draw_start: the task's.
        begin: the task's.
        index: which of the worlds.
        macro: the `MacroSteps`.
        choices: `[B]` int64, read: a mode's number, or the number of modes: end.
        constants: `[N]` int64, read.
        worlds: the `Worlds`, written.
        state: the `EpisodeState`, written.
        counters: `[D]` int32, scratch for the loops.
    """
    if state.ending[index] != 0 and not macro.restarts:
        state.rewards[index] = 0.0
        state.acted[index] = 0
        return
    memory = worlds.memory[index]
    before = value(memory, constants)
    actions, done = memory[ACTIONS], memory[DONE]
    choice = np.int64(choices[index])
    is_end = choice == macro.modes[index]
    program = np.int64(macro.last_words) if is_end else macro.first[index] + choice
    if program >= 0:
        outcome = run_program(
            step, refuses_nothing, notes_nothing, sees_nothing, (),
            macro.code[program], macro.cap, constants, state_of(worlds, index), counters,
        )  # fmt: skip
        worlds.pose[index] = outcome.pose
        state.cuts[index] += outcome.ending == _CAPPED
    state.taken[index] += 1
    stopped = BY_LIMIT if state.taken[index] >= macro.most else 0
    if macro.until_done and memory[DONE] != 0:
        stopped = BY_TASK
    state.ending[index] = BY_CHOICE if is_end else stopped
    state.mode[index] = choice
    # Snake's last bite is an action that does not count, but it changes the flag.
    state.idle[index] = memory[ACTIONS] == actions and memory[DONE] == done
    state.acted[index] = memory[ACTIONS] - actions
    state.returns[index] = value(memory, constants)
    state.rewards[index] = state.returns[index] - before
    if state.ending[index] != 0 and macro.restarts:
        reset_world(draw_start, begin, index, constants, worlds)
        state.mode[index] = -1
        state.taken[index] = 0
        state.idle[index] = 0
        state.cuts[index] = 0


@scalar
def copy_row(source, target):
    """Copy an array `source` `[N]` into a `target` `[N]`."""
    for place in range(len(source)):
        target[place] = source[place]


@scalar
def copy_world(worlds, index, lane):
    """Copy one of the `Worlds` into a `Lane`; returns its `WorldState` there."""
    copy_row(worlds.cells[index], lane.cells)
    copy_row(worlds.memory[index], lane.memory)
    lane.stream[0] = worlds.stream[index]
    return WorldState(lane.cells, np.int64(worlds.pose[index]), lane.memory, lane.stream)


@scalar
def run_lane(step, index, units, code, cap, constants, worlds, after, results, scratch):
    """Run one unit's list of programs on one of its worlds.

    Args:
        step: the task's.
        index: the `LaneIndex`.
        units: the `UnitArrays`.
        code: `[P, L]` uint32, the programs.
        cap: the `Cap` of each program.
        constants: `[N]` int64, read.
        worlds: the start states, `Worlds`, read.
        after: the final states of all lanes, `Worlds`, written; empty: not wanted. They may be the
            start states themselves if no other lane starts there.
        results: the `LaneResults`, written.
        scratch: the `Lane` that the programs run in.
    """
    lane, unit, offset = index
    row, candidate, world = 0, unit, offset
    if len(units.table):
        row, candidate = units.table[unit, UNIT_LIST], units.table[unit, UNIT_CANDIDATE]
        world += units.table[unit, UNIT_WORLD]
    cells, pose, memory, stream = copy_world(worlds, world, scratch)
    if len(units.salts):
        stream[0] ^= units.salts[unit]
    acted_before = memory[ACTIONS]
    spent, is_complete = 0, True
    score, scored_at = memory[SCORE], memory[ACTIONS]
    for _ in range(units.rounds):
        round_from, place = memory[ACTIONS], 0
        # No `for` in a `for` here: on an H200, CUDA's assembler lost the inner one's bound.
        while place < units.lists.shape[1] and units.lists[row, place] != -1:
            program = units.lists[row, place]
            place += 1
            if program == CANDIDATE:
                program = candidate
            outcome = run_program(
                step, refuses_nothing, notes_nothing, sees_nothing, (), code[program], cap,
                constants, WorldState(cells, pose, memory, stream), scratch.counters,
            )  # fmt: skip
            pose = outcome.pose
            spent += outcome.calls
            is_complete = is_complete and outcome.ending == _COMPLETED
        if memory[DONE] != 0 or memory[ACTIONS] == round_from:
            break  # done, or idle: the next round would be as idle
        if memory[SCORE] > score:
            score, scored_at = memory[SCORE], memory[ACTIONS]
        elif units.patience > 0 and memory[ACTIONS] - scored_at >= units.patience:
            break
    results.values[lane] = value(memory, constants)
    results.actions[lane] = memory[ACTIONS] - acted_before
    results.calls[lane] = spent
    results.completed[lane] = is_complete
    if len(after.pose):
        copy_row(cells, after.cells[lane])
        copy_row(memory, after.memory[lane])
        after.stream[lane] = stream[0]
        after.pose[lane] = pose
