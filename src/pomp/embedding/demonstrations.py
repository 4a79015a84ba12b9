"""How programs behave on random worlds: demonstrations, and how far two behaviours agree.

A behaviour is a start state and the actions that follow; every later state can be recomputed.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.core.compiling import kernel, launch, parts_for, scalar
from pomp.core.errors import ConfigError
from pomp.core.streams import draw
from pomp.dsl.bytecode import (
    ARGUMENT_MASK,
    ARGUMENT_SHIFT,
    BACK,
    OPERATION_MASK,
    REPEAT,
    TEST,
    Code,
)
from pomp.engine.lanes import reset_world
from pomp.engine.units import DEFAULT_CAP
from pomp.karel.dynamics import act, is_impossible
from pomp.karel.interpreter import ENDING, Cap, Ending, run_program
from pomp.tasks.random_world import RANDOM_WORLD, begin, draw_start, step
from pomp.tasks.task import Setting

_LEAST_PROGRAMS = 16  # below which another thread does not pay
_ACTIONS, _LENGTH, _BRANCHES, _STOPS = range(4)  # of the trace the hooks write
_COMPLETED, _REFUSED = int(Ending.COMPLETED), int(Ending.REFUSED)


@dataclass(frozen=True)
class Demonstrations:
    """Behaviours of P programs, up to D each.

    Attributes:
        cells: `[P, D, H * W]` uint8: the start states.
        pose: `[P, D]` int32.
        actions: `[P, D, T]` uint8; what lies past `length` is zero.
        length: `[P, D]` int32: the number of actions.
        found: `[P]` int32: how many of the D there are.
    """

    cells: NDArray[np.uint8]
    pose: NDArray[np.int32]
    actions: NDArray[np.uint8]
    length: NDArray[np.int32]
    found: NDArray[np.int32]

    def take(self, rows: NDArray[np.integer]) -> "Demonstrations":
        """Those of some of the programs."""
        return Demonstrations(*(array[rows] for array in vars(self).values()))


def random_worlds(walls: float, markers: float = 0.1) -> Setting:
    """The 8x8 worlds that demonstrations start in."""
    return RANDOM_WORLD.configure(options={"walls": repr(walls), "markers": repr(markers)})


def demonstrate(
    code: Code,
    streams: NDArray[np.uint64],
    setting: Setting,
    *,
    wanted: int,
    trials: int,
    least_states: int,
    most_states: int,
    stop_on_error: bool,
    cap: Cap | str = DEFAULT_CAP,
    threads: int | None = None,
) -> Demonstrations:
    """Run programs on random worlds until enough runs of each show all of its branches.

    A run counts if it ends within the cap and `most_states` states and every branch was seen by
    now, or it showed a new one. One with fewer than `least_states` states counts only if it showed
    a new branch or, once all were seen, if a coin says so. A run that met an impossible action
    shows nothing. Paper: silent; of the readings tried, this one gives the published rates.

    Args:
        code: P programs, all valid.
        streams: `[P]` uint64: where the worlds and coins of each program come from.
        setting: the random worlds.
        wanted: runs to find.
        trials: worlds to try.
        least_states: see above; the start state counts.
        most_states: see above.
        stop_on_error: an impossible action makes the run not count.
        cap: how long a program may run.
        threads: CPU threads; None: all.
    """
    limits = cap if isinstance(cap, Cap) else Cap.parse(cap)
    count, size = len(code), setting.height * setting.width
    found = Demonstrations(
        np.zeros((count, wanted, size), np.uint8),
        np.zeros((count, wanted), np.int32),
        np.zeros((count, wanted, most_states - 1), np.uint8),
        np.zeros((count, wanted), np.int32),
        np.zeros(count, np.int32),
    )
    parts = parts_for(count, threads, least=_LEAST_PROGRAMS)

    def demonstrate_part(part: int) -> None:
        _demonstrate(
            part, parts, code.instructions, streams, setting.constants,
            limits.by_calls, limits.limit, trials, least_states, most_states,
            _trace(limits, code, stop_on_error), np.zeros(code.instructions.shape[1], np.uint8),
            *_scratch(setting, code), *vars(found).values(),
        )  # fmt: skip

    if count:
        launch(parts, demonstrate_part)
    return found


def agreement(
    originals: Code,
    others: Code,
    starts: Demonstrations,
    setting: Setting,
    *,
    cap: Cap | str = DEFAULT_CAP,
    threads: int | None = None,
) -> NDArray[np.float64]:
    """How far each other program behaves like the original from the same starts.

    Two runs with p and q states whose first c are the same agree by (c - 1) / (max(p, q) - 1), or
    fully if neither acts.

    Args:
        originals: P programs.
        others: P programs; where one is none, the agreement is zero.
        starts: where they start; what is recorded there of actions is not used.
        setting: the random worlds.
        cap: how long a program may run.
        threads: CPU threads; None: all.

    Returns:
        `[P]`: the mean over the starts that were found; zero if there are none.
    """
    if not len(originals) == len(others) == len(starts.found):
        raise ConfigError("agreement needs as many originals as others and starts")
    limits = cap if isinstance(cap, Cap) else Cap.parse(cap)
    result = np.zeros(len(originals), np.float64)
    parts = parts_for(len(originals), threads, least=_LEAST_PROGRAMS)

    def compare_part(part: int) -> None:
        _compare(
            part, parts, originals.instructions, others.instructions, others.valid,
            setting.constants, limits.by_calls, limits.limit,
            starts.cells, starts.pose, starts.found,
            _trace(limits, originals, False), _trace(limits, others, False),
            *_scratch(setting, originals if originals.depth > others.depth else others),
            np.zeros(1, np.uint64), result,
        )  # fmt: skip

    if len(result):
        launch(parts, compare_part)
    return result


def _trace(limits: Cap, code: Code, stop_on_error: bool) -> tuple[Any, ...]:
    return (
        np.zeros(limits.limit + 1, np.uint8),
        np.zeros(1, np.int32),
        np.zeros(code.instructions.shape[1], np.uint8),
        np.array([stop_on_error]),
    )


def _scratch(setting: Setting, code: Code) -> tuple[Any, ...]:
    size = setting.height * setting.width
    return (
        *(np.zeros((1, size), np.uint8), np.zeros(1, np.int32)),
        *(np.zeros((1, setting.slots), np.int32), np.zeros(size, np.uint8)),
        *(np.zeros(max(code.depth, 1), np.int32), np.zeros(2, np.int32)),
    )


@scalar
def _refuses(trace, cells, constants, pose, action):
    """In error mode an impossible action ends the run."""
    return trace[_STOPS][0] and is_impossible(cells, constants, pose, action)


@scalar
def _notes(trace, lane, cells, constants, pose, memory, action, pc, counters, top):
    """Write one action down."""
    trace[_ACTIONS][trace[_LENGTH][0]] = action
    trace[_LENGTH][0] += 1


@scalar
def _sees(trace, lane, pc, holds):
    """Remember which way a condition went: bit 0 false, bit 1 true."""
    trace[_BRANCHES][pc] |= 2 if holds else 1


@scalar
def _add_branches(code, branches, seen):
    """Add what one run saw to what all did; the test ending a WHILE's round is its first one."""
    for pc in range(len(code)):
        place = np.int64(pc)
        if BACK <= code[pc] & OPERATION_MASK < REPEAT:
            place = np.int64(code[pc] >> ARGUMENT_SHIFT & ARGUMENT_MASK) - 1  # before the body
        seen[place] |= branches[pc]


@scalar
def _covered(code, seen):
    """How many (condition, truth value) pairs were seen, less how many there are: 0 is all.

    A program without a condition gives 1.
    """
    pairs, found = 0, 0
    for pc in range(len(code)):
        if TEST <= code[pc] & OPERATION_MASK < BACK:
            pairs += 2
            found += np.int64(seen[pc] & 1) + np.int64(seen[pc] >> 1)
    return found - pairs if pairs else 1


@kernel
def _demonstrate(  # noqa: C901 - one rule after the other
    part, parts, code, streams, constants, by_calls, limit, trials, least_states, most_states,
    trace, seen, cells, pose, memory, start, counters, outcome,
    found_cells, found_pose, found_actions, found_length, found,
):  # fmt: skip
    """Programs `part`, `part + parts`, ...; see `demonstrate`. The last five are written."""
    actions, length, branches = trace[_ACTIONS], trace[_LENGTH], trace[_BRANCHES]
    for p in range(part, len(found), parts):
        stream = streams[p : p + 1]
        for pc in range(len(seen)):
            seen[pc] = 0
        before = _covered(code[p], seen)  # of the last run that counted
        trial = 0
        while trial < trials and found[p] < found_cells.shape[1]:
            trial += 1
            reset_world(draw_start, begin, 0, constants, cells, pose, memory, stream)
            for cell in range(len(start)):
                start[cell] = cells[0, cell]
            length[0] = 0
            for pc in range(len(branches)):
                branches[pc] = 0
            run_program(
                step, _refuses, _notes, _sees, trace, 0,
                code[p], constants, cells[0], np.int64(pose[0]), memory[0], stream,
                counters, by_calls, limit, outcome,
            )  # fmt: skip
            if outcome[ENDING] == _REFUSED:
                continue
            _add_branches(code[p], branches, seen)
            covered = _covered(code[p], seen)
            states = length[0] + 1
            is_new = covered != 1 and covered > before
            if outcome[ENDING] != _COMPLETED or states > most_states:
                continue
            if not is_new:
                if covered < 0:
                    continue
                is_short = states < least_states
                if is_short and (covered != 0 or draw(stream) >> np.uint64(63) == 0):
                    continue
            before = covered
            k = found[p]
            found[p] += 1
            for cell in range(len(start)):
                found_cells[p, k, cell] = start[cell]
            found_pose[p, k] = pose[0]
            found_length[p, k] = length[0]
            for t in range(length[0]):
                found_actions[p, k, t] = actions[t]


@scalar
def _perform(cells, other, constants, pose, action, differing):
    """One action in one of two worlds; returns the pose and how many cells differ now."""
    cell = pose >> 2  # the only one an action can change
    differing -= cells[cell] != other[cell]
    pose = act(cells, constants, pose, np.int64(action))
    return pose, differing + (cells[cell] != other[cell])


@scalar
def _same_states(constants, cells, other, pose, one, two):
    """How many states two runs from one start share before they first differ.

    `cells` and `other` hold the start twice and are written; `one` and `two` are traces.
    """
    pose_one, pose_two, differing = pose, pose, 0
    shared = 1
    for t in range(min(one[_LENGTH][0], two[_LENGTH][0])):
        pose_one, differing = _perform(
            cells, other, constants, pose_one, one[_ACTIONS][t], differing
        )
        pose_two, differing = _perform(
            other, cells, constants, pose_two, two[_ACTIONS][t], differing
        )
        if differing != 0 or pose_one != pose_two:
            break
        shared += 1
    return shared


@kernel
def _compare(
    part, parts, originals, others, is_program, constants, by_calls, limit,
    starts, poses, found, one, two, cells, _, memory, other, counters, outcome, stream, result,
):  # fmt: skip
    """Programs `part`, `part + parts`, ...; see `agreement`. `result` is written."""
    for p in range(part, len(found), parts):
        if not is_program[p] or found[p] == 0:
            continue
        total = 0.0
        for k in range(found[p]):
            pose = np.int64(poses[p, k])
            for which in range(2):
                trace = one if which == 0 else two
                code = originals if which == 0 else others
                trace[_LENGTH][0] = 0
                for cell in range(len(other)):
                    cells[0, cell] = starts[p, k, cell]
                run_program(
                    step, _refuses, _notes, _sees, trace, 0, code[p], constants, cells[0], pose,
                    memory[0], stream, counters, by_calls, limit, outcome,
                )  # fmt: skip
            for cell in range(len(other)):
                cells[0, cell] = starts[p, k, cell]
                other[cell] = starts[p, k, cell]
            longest = max(one[_LENGTH][0], two[_LENGTH][0])
            shared = _same_states(constants, cells[0], other, pose, one, two)
            total += (shared - 1) / longest if longest else 1.0
        result[p] = total / found[p]
