"""Runs that are written down action by action: for the viewer, for tests, for training data."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pomp.core.compiling import CALLS_AT_ONCE
from pomp.core.configs import check_count
from pomp.core.errors import ConfigError
from pomp.core.resources import check_memory, slices
from pomp.dsl.bytecode import (
    ARGUMENT_MASK,
    ARGUMENT_SHIFT,
    BACK,
    OPERATION_MASK,
    REPEAT,
    TEST,
    Code,
)
from pomp.engine.checks import check_worlds
from pomp.engine.loading import kernels_of
from pomp.engine.rollouts import Programs, as_code, as_lists, check_calls
from pomp.engine.tracing import TraceArrays
from pomp.engine.units import DEFAULT_CAP
from pomp.karel.interpreter import Cap
from pomp.karel.world import WorldBatch, Worlds, memory_of
from pomp.tasks.task import Setting

_ACTION_BYTES = 27  # what a row of `TraceArrays` takes without counters and cells


@dataclass(frozen=True)
class Trace:
    """What happened in B lanes.

    Attributes:
        arrays: a row per action; rows past `arrays.length` are undefined.
        worlds: the final states.
        code: the programs.
        programs: `[B, M]`: which of them each lane ran, -1: none.
    """

    arrays: TraceArrays
    worlds: WorldBatch
    code: Code
    programs: NDArray[np.int32]

    @property
    def calls(self) -> NDArray[np.int32]:
        """`[B, M]` int32: the call counter at the end of each program of the list."""
        calls: NDArray[np.int32] = self.arrays.calls
        return calls

    @property
    def ending(self) -> NDArray[np.int32]:
        """`[B, M]` int32: why each program stopped, an `Ending`; -1: it was not run."""
        ending: NDArray[np.int32] = self.arrays.ending
        return ending

    def coverage(self, place: int = 0) -> NDArray[np.float64]:
        """`[B]`: share of (condition, truth value) pairs seen; NaN for a program without any.

        Args:
            place: the place in the lists whose programs are meant.
        """
        shares = np.full(len(self.worlds), np.nan)
        for program in np.unique(self.programs[:, place]):
            if program >= 0:
                lanes = self.programs[:, place] == program
                shares[lanes] = self._coverage(int(program), place)[lanes]
        return shares

    def _coverage(self, program: int, place: int) -> NDArray[np.float64]:
        """Return the `[B]` float64 shares of `coverage` as if all lanes ran one program."""
        code = self.code
        operations = code.instructions[program] & OPERATION_MASK
        tests = np.flatnonzero((operations >= TEST) & (operations < BACK))
        if len(tests) == 0:
            return np.full(len(self.worlds), np.nan)
        seen = self.arrays.branches[:, place].copy()
        for back in np.flatnonzero((operations >= BACK) & (operations < REPEAT)).tolist():
            seen[:, _entry_of(code.instructions[program], back)] |= seen[:, back]
        bits = seen[:, tests]
        return ((bits & 1) + (bits >> 1)).sum(axis=1) / (2.0 * len(tests))


def _entry_of(instructions: NDArray[np.uint32], back: int) -> int:
    """Return the instruction that enters the loop ending at `back`: right before its body.

    Args:
        instructions: `[L]` uint32, a program.
        back: the instruction that ends a round of the loop.
    """
    return (int(instructions[back]) >> ARGUMENT_SHIFT & ARGUMENT_MASK) - 1


def record(
    setting: Setting,
    programs: Programs,
    worlds: WorldBatch,
    *,
    lists: NDArray[np.integer] | Sequence[Sequence[int]] | None = None,
    paired: bool = False,
    cap: Cap | str = DEFAULT_CAP,
    most_actions: int | None = None,
    keep_cells: bool = False,
    stop_on_error: bool = False,
) -> Trace:
    """Run lists of programs on worlds and write down every action. The worlds are not changed.

    Args:
        setting: the task.
        programs: P programs.
        worlds: B start states.
        lists: `[Q, M]` numbers of programs, padded with -1: those of a row run one after the
            other, each from the state the last one left. None: every program is a list.
        paired: list i on world i; else every list on every world, lane q * B + b.
        cap: how long one program may run.
        most_actions: rows kept per lane; further actions are performed but not kept. None: as
            many as the cap allows.
        keep_cells: keep the cells after every action too.
        stop_on_error: an action that cannot be carried out (a blocked move, nothing to pick, no
            room to put) is not performed and ends the run (training data).

    Raises:
        ConfigError: programs, lists and worlds do not fit together, or a number is wrong.
        WorldError: the worlds are no states of the task.
        TooLargeError: there is no memory for so many actions.
    """
    check_worlds(setting, worlds)
    code, limits = as_code(programs, source=True), Cap.of(cap)
    rows = as_lists(lists, len(code))
    check_calls(limits, rows.shape[1])
    if most_actions is not None:
        check_count("most_actions", most_actions, least=0)
    if paired and len(rows) != len(worlds):
        raise ConfigError(f"{len(worlds)} worlds need as many lists, got {len(rows)}")
    steps = limits.limit * rows.shape[1] if most_actions is None else int(most_actions)
    count = len(worlds) * (1 if paired else len(rows))
    each = steps * (_ACTION_BYTES + 4 * code.depth + keep_cells * worlds.cells.shape[1])
    check_memory(f"{count} recordings of {steps} actions", count, each)
    lane = np.arange(count)
    lanes = worlds.to("cpu").take(lane % max(len(worlds), 1))
    programs_of = rows[lane if paired else lane // max(len(worlds), 1)]
    arrays = _trace_arrays(lanes, steps, rows.shape[1], code, keep_cells, stop_on_error)
    _record(setting, code, programs_of, limits, lanes, arrays)
    return Trace(arrays, lanes, code, programs_of)


def _record(
    setting: Setting, code: Code, programs: NDArray[np.int32], limits: Cap, lanes: WorldBatch,
    arrays: TraceArrays,
) -> None:  # fmt: skip
    """Run lists of `programs` `[B, M]` int32 in B lanes, in place, some lanes at a time."""
    record_lanes = kernels_of(setting.task).record_lanes
    counters = np.zeros(max(code.depth, 1), np.int32)
    calls = limits.limit * max(programs.shape[1], 1)
    for part in slices(len(lanes), CALLS_AT_ONCE // calls):
        worlds = Worlds(*(array[part] for array in memory_of(lanes)))
        strict, *written = arrays
        trace = TraceArrays(strict, *(array[part] for array in written))
        record_lanes(
            code.instructions, programs[part], limits, setting.constants, worlds, trace, counters
        )


def _trace_arrays(
    lanes: WorldBatch, steps: int, places: int, code: Code, keep_cells: bool, stop: bool
) -> TraceArrays:
    """Allocate what recording `steps` actions of lists of `places` programs writes."""
    count, size = len(lanes), lanes.cells.shape[1]
    kept = (count, steps)
    return TraceArrays(
        stops_on_error=np.array([bool(stop)]),
        length=np.zeros(count, np.int32),
        action=np.zeros(kept, np.int8),
        pose=np.zeros(kept, np.int32),
        reward=np.zeros(kept, np.float64),
        done=np.zeros(kept, np.bool_),
        counted=np.zeros(kept, np.bool_),
        pc=np.zeros(kept, np.int32),
        program=np.zeros(kept, np.int32),
        counters=np.zeros((*kept, max(code.depth, 1)), np.int32),
        cells=np.zeros((*kept, size) if keep_cells else (count, 0, 0), np.uint8),
        branches=np.zeros((count, places, code.instructions.shape[1]), np.uint8),
        calls=np.zeros((count, places), np.int32),
        ending=np.full((count, places), -1, np.int32),
        running=np.zeros(count, np.int32),
        worth=np.zeros(count, np.float64),
        counted_before=np.zeros(count, np.int32),
    )
