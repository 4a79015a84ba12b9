"""Programs x worlds -> returns, and single actions x worlds -> rewards."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.core.arrays import check_array
from pomp.core.compiling import launch, parts_for, pieces_for
from pomp.core.cuda import is_on_device, to_host
from pomp.core.errors import ConfigError, DeviceMemoryError
from pomp.core.resources import check_memory
from pomp.dsl.bytecode import Code, compile_ids, compile_programs
from pomp.dsl.syntax import Program
from pomp.dsl.vocabulary import Action
from pomp.engine.checks import check_worlds
from pomp.engine.kernels import SHARE
from pomp.engine.lanes import Lane, LaneResults
from pomp.engine.loading import kernels_of
from pomp.engine.rollout_cuda import RESULTS, Found, LaunchPad, act_cuda, run_cuda
from pomp.engine.starts import bytes_of_world
from pomp.engine.units import DEFAULT_CAP, Launch, Units
from pomp.karel.interpreter import Cap
from pomp.karel.world import WorldBatch, memory_of
from pomp.tasks.task import Setting

LEAST_LANES, LEAST_WORLDS = 256, 2048  # work below which another thread does not pay
MOST_CALLS = 1 << 28
"""Calls of the interpreter between two looks for Ctrl-C, if lists are long: up to two seconds."""
_RESULT_BYTES = sum(np.dtype(dtype).itemsize for dtype in RESULTS)

Programs = Code | Sequence[Program | str] | NDArray[np.integer]
"""Compiled code, trees or texts, or token ids `[P, L]`."""


@dataclass(frozen=True)
class Rollout:
    """What Q lists of programs did on B worlds.

    Attributes:
        returns: `[Q, B]` float64: what each episode is worth at the end.
        actions: `[Q, B]` int32: actions performed.
        calls: `[Q, B]` int32: final call counters (under an actions cap: actions), added up.
        completed: `[Q, B]` bool: every program ran to its end.
        worlds: the final states, lane q * B + b, if they were asked for.
    """

    returns: NDArray[np.float64]
    actions: NDArray[np.int32]
    calls: NDArray[np.int32]
    completed: NDArray[np.bool_]
    worlds: WorldBatch | None = None

    def to(self, device: str) -> "Rollout":
        """The same results, on the CPU (`cpu`); what is there already stays."""
        if device != "cpu":
            raise ConfigError(f"results are brought to 'cpu' only, got '{device}'")
        return Rollout(
            to_host(self.returns),
            to_host(self.actions),
            to_host(self.calls),
            to_host(self.completed),
            self.worlds.to(device) if self.worlds else None,
        )

    def joined(self, other: "Rollout") -> "Rollout":
        """The lists of two rollouts on the same worlds, one behind the other."""
        worlds = None
        if self.worlds and other.worlds:
            worlds = self.worlds.joined(other.worlds)
        return Rollout(
            np.concatenate([self.returns, other.returns]),
            np.concatenate([self.actions, other.actions]),
            np.concatenate([self.calls, other.calls]),
            np.concatenate([self.completed, other.completed]),
            worlds,
        )


def rollout(
    setting: Setting,
    programs: Programs,
    worlds: WorldBatch,
    *,
    lists: NDArray[np.integer] | Sequence[Sequence[int]] | None = None,
    cap: Cap | str = DEFAULT_CAP,
    keep_worlds: bool = False,
    threads: int | None = None,
    out: Rollout | None = None,
) -> Rollout:
    """Run every list of programs on every world. The worlds are not changed.

    Args:
        setting: the task.
        programs: P programs.
        worlds: B start states.
        lists: `[Q, M]` indices into `programs`, padded with -1: the programs of a row run one
            after the other, each from the state the last one left, each with a fresh cap. None:
            every program is a list of its own.
        cap: how long one program may run.
        keep_worlds: return the final states too.
        threads: CPU threads; None: all. The result does not depend on it.
        out: an earlier rollout of as many lists and worlds on the same device: its arrays are
            written, instead of new ones, which a GPU takes a while to find memory for.

    Returns:
        Arrays on the worlds' device. If GPU memory runs out, the lists are run in smaller parts and
        the same results come back in the CPU's memory.

    Raises:
        ConfigError: programs, lists, worlds or `out` do not fit together.
        WorldError: the worlds are no states of the task.
        TooLargeError: there is no memory for so many results.
    """
    check_worlds(setting, worlds)
    code = as_code(programs)
    units = _units_of(lists, len(code), len(worlds))
    check_calls(Cap.of(cap), units.most_runs, min(units.span, SHARE))
    try:
        return _cross(Launch(setting, code, units, worlds, cap), keep_worlds, threads, out)
    except DeviceMemoryError:
        if len(units) < 2:
            raise
    rows = as_lists(lists, len(code))
    middle = len(rows) // 2
    halves = [
        rollout(setting, code, worlds, lists=half, cap=cap, keep_worlds=keep_worlds).to("cpu")
        for half in (rows[:middle], rows[middle:])
    ]
    return halves[0].joined(halves[1])


def _units_of(lists: Any, programs: int, worlds: int) -> Units:
    """Return every list, or if there are none every program by itself, on every world."""
    if lists is None:
        return Units.alone(programs, worlds)
    return Units.crossed(as_lists(lists, programs), worlds)


def _cross(work: Launch, keep_worlds: bool, threads: int | None, out: Rollout | None) -> Rollout:
    """Run units and return what came of each on each of its worlds."""
    shape, worlds = (len(work.units), work.units.span), work.worlds
    if worlds.device == "cpu":
        kept = bytes_of_world(work.setting) if keep_worlds else 0
        check_memory(f"{work.units.lanes} episodes", work.units.lanes, _RESULT_BYTES + kept)
    after = worlds.allocate(work.units.lanes if keep_worlds else 0)
    results = _run(work, after, threads, None if out is None else _results_of(out, shape, worlds))
    return _shaped(results, shape, after.vouch(work.setting.task) if keep_worlds else None)


def _results_of(out: Rollout, shape: tuple[int, int], worlds: WorldBatch) -> LaneResults:
    """Return the arrays of an earlier rollout to write to.

    Raises:
        ConfigError: they are of another shape, or on another device.
    """
    if not isinstance(out, Rollout):
        raise ConfigError(f"out must be a rollout, got a {type(out).__name__}")
    arrays: tuple[Any, ...] = (out.returns, out.actions, out.calls, out.completed)
    for name, array, dtype in zip(LaneResults._fields, arrays, RESULTS, strict=True):
        check_array(f"{name} of out", array, dtype, shape)
        device = "cuda" if is_on_device(array) else "cpu"
        if device != worlds.device:
            raise ConfigError(f"{name} of out must be on {worlds.device}, got it on {device}")
        is_plain = device == "cuda" or (array.flags.c_contiguous and array.flags.writeable)
        if not is_plain:
            raise ConfigError(f"{name} of out must be contiguous memory that can be written")
    return LaneResults(*(array.reshape(-1) for array in arrays))


def run_launches(
    launches: Sequence[Launch], pad: LaunchPad, *, threads: int | None = None
) -> list[Found]:
    """Run units of several tasks, on a GPU side by side: returns and actions, `[Q, span]` each."""
    on_device = [work for work in launches if work.worlds.device == "cuda"]
    found_on_device = iter(pad.run(on_device) if on_device else ())
    results = []
    for work in launches:
        if work.worlds.device == "cuda":
            values, actions = next(found_on_device)
        else:
            check_worlds(work.setting, work.worlds)
            values, actions, *_ = _run(work, work.worlds.allocate(0), threads)
        shape = (len(work.units), work.units.span)
        results.append((values.reshape(shape), actions.reshape(shape)))
    return results


def advance(
    setting: Setting,
    programs: Programs,
    worlds: WorldBatch,
    choice: NDArray[np.integer] | Sequence[int],
    *,
    cap: Cap | str = DEFAULT_CAP,
    threads: int | None = None,
) -> Rollout:
    """Run one program on each world, in place.

    Args:
        setting: the task.
        programs: P programs.
        worlds: B states, written.
        choice: `[B]` integers: which program runs on each world; -1: none.
        cap: how long one program may run.
        threads: CPU threads; None: all. The result does not depend on it.

    Returns:
        Arrays `[B, 1]`. Its `returns` are those of the episodes so far; the reward of the step is
        their difference.
    """
    check_worlds(setting, worlds)
    code = as_code(programs)
    rows = as_lists(np.asarray(choice).reshape(-1, 1), len(code))
    if len(rows) != len(worlds):
        raise ConfigError(f"{len(worlds)} worlds need as many choices, got {len(rows)}")
    results = _run(Launch(setting, code, Units.paired(rows), worlds, cap), worlds, threads)
    return _shaped(results, (len(worlds), 1), worlds)


def act_on(
    setting: Setting,
    worlds: WorldBatch,
    actions: NDArray[np.integer] | Sequence[int],
    *,
    threads: int | None = None,
) -> Any:
    """Perform one action in every world, in place.

    Args:
        setting: the task.
        worlds: B states, written.
        actions: `[B]` integers from 0 to 4. On a GPU they are an int64 array there, and that they
            are in range is the caller's promise.
        threads: CPU threads; None: all. The result does not depend on it.

    Returns:
        The rewards `[B]` float64, on the worlds' device.
    """
    check_worlds(setting, worlds)
    if worlds.device == "cuda":
        return act_cuda(setting, worlds, actions)
    given = np.asarray(actions)
    if given.shape != (len(worlds),):
        raise ConfigError(f"{len(worlds)} worlds need as many actions, got shape {given.shape}")
    if not np.issubdtype(given.dtype, np.integer) and len(given):
        raise ConfigError(f"actions are numbers from 0 (move) to 4 (putMarker), got {given.dtype}")
    if len(given) and not 0 <= given.min() <= given.max() <= max(Action):
        got = f"{given.min()} to {given.max()}"
        raise ConfigError(f"actions are numbers from 0 (move) to 4 (putMarker), got {got}")
    chosen = np.ascontiguousarray(given, np.int64)
    rewards = np.empty(len(worlds), np.float64)
    act = kernels_of(setting.task).act_on_worlds
    parts = parts_for(len(worlds), threads, least=LEAST_WORLDS)
    edges = [len(worlds) * part // parts for part in range(parts + 1)]

    def act_part(part: int) -> None:
        act(edges[part], edges[part + 1], chosen, setting.constants, memory_of(worlds), rewards)

    launch(parts, act_part)
    return rewards


def _run(
    work: Launch, after: WorldBatch, threads: int | None, results: LaneResults | None = None
) -> LaneResults:
    """Run units where their worlds are.

    Args:
        work: what runs, in worlds that were checked.
        after: memory for the final states, or for none.
        threads: CPU threads; None: all.
        results: memory for the results; None: new.
    """
    setting, worlds, units = work.setting, work.worlds, work.units
    limits = work.limits
    if worlds.device == "cuda":
        return run_cuda(work, after, results)
    results = results or LaneResults(*(np.empty(units.lanes, dtype) for dtype in RESULTS))
    run_lanes, arrays = kernels_of(setting.task).run_lanes, units.arrays
    parts = parts_for(units.lanes, threads, least=LEAST_LANES)
    pieces = pieces_for(parts, units.lanes * units.most_runs * limits.limit)

    before = memory_of(worlds)

    def run_piece(piece: int) -> None:
        scratch = Lane.empty(before.cells.shape[1], before.memory.shape[1], work.code.depth)
        run_lanes(
            piece, pieces, arrays, work.code.instructions, limits,
            setting.constants, before, memory_of(after), results, scratch,
        )  # fmt: skip

    launch(parts, run_piece, pieces)
    return results


def check_calls(cap: Cap, programs: int, worlds: int = 1) -> None:
    """Refuse a list of so many programs that a launch could not be interrupted for seconds.

    Args:
        cap: of each program.
        programs: how many run one after the other.
        worlds: in how many worlds they run before a signal is heard.

    Raises:
        ConfigError: says how long a list may be under this cap.
    """
    most = MOST_CALLS // (cap.limit * max(worlds, 1))
    if programs > most:
        raise ConfigError(
            f"a list of {programs} programs under the cap {cap} could run for minutes: run at most "
            f"{most} one after the other, or lower the cap"
        )


def _shaped(results: LaneResults, shape: tuple[int, int], worlds: WorldBatch | None) -> Rollout:
    """Results of lanes as those of lists times worlds."""
    values, actions, calls, completed = (array.reshape(shape) for array in results)
    return Rollout(values, actions, calls, completed, worlds)


def as_code(programs: Programs, *, source: bool = False) -> Code:
    """Programs in any form as the kernels take them."""
    if isinstance(programs, Code):
        return programs
    if isinstance(programs, np.ndarray):
        return compile_ids(programs, source=source)
    return compile_programs(programs, source=source)


def as_lists(
    lists: NDArray[np.integer] | Sequence[Sequence[int]] | None, count: int
) -> NDArray[np.int32]:
    """Return lists of programs as compiled code takes them.

    Args:
        lists: `[Q, M]` numbers of programs, -1 for none; None: each program is a list.
        count: how many programs there are.

    Returns:
        `[Q, M]` int32.

    Raises:
        ConfigError: they are no such rows.
    """
    if lists is None:
        return np.arange(count, dtype=np.int32).reshape(-1, 1)
    try:
        rows = np.asarray(lists)
    except (ValueError, OverflowError):
        raise ConfigError("lists must be equally long rows; fill them up with -1") from None
    if rows.ndim != 2 or (rows.size and not np.issubdtype(rows.dtype, np.integer)):
        got = f"{rows.dtype} of shape {rows.shape}"
        raise ConfigError(f"lists must be equally long rows of program numbers, got {got}")
    if rows.size and not -1 <= rows.min() <= rows.max() < count:
        raise ConfigError(f"lists hold numbers from 0 to {count - 1}, or -1 for none")
    return np.ascontiguousarray(rows, np.int32)
