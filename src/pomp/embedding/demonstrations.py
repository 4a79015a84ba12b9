"""Demonstrations: how programs behave on random worlds.

A behaviour is a start state and the actions that follow; every later state can be recomputed.
Axes: P programs, D demonstrations of each, T actions, S states of all demonstrations, H W grid.
Long, because the compiled loops stand beside the groups of arrays that they alone take.
"""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pomp.core.arrays import check_array
from pomp.core.compiling import kernel, launch, parts_for, pieces_for, scalar
from pomp.core.configs import check_count
from pomp.core.resources import check_memory
from pomp.core.streams import draw
from pomp.dsl.bytecode import (
    ARGUMENT_MASK,
    ARGUMENT_SHIFT,
    BACK,
    OPERATION_MASK,
    REPEAT,
    STOP,
    TEST,
    Code,
)
from pomp.dsl.vocabulary import Action
from pomp.engine.lanes import reset_world
from pomp.engine.rollouts import check_calls
from pomp.engine.units import DEFAULT_CAP
from pomp.karel.dynamics import act, is_impossible
from pomp.karel.interpreter import MOST_STEPS, Cap, Ending, WorldState, run_program
from pomp.karel.world import Worlds
from pomp.tasks.random_world import RANDOM_WORLD, begin, draw_start, step
from pomp.tasks.task import Setting

LEAST_PROGRAMS = 16
"""With fewer programs another thread does not pay."""
_COMPLETED, _REFUSED = int(Ending.COMPLETED), int(Ending.REFUSED)


class Demonstrations(NamedTuple):
    """Behaviours of P programs, up to D each.

    Attributes:
        cells: `[P, D, H * W]` uint8, the start states.
        pose: `[P, D]` int32, the agents' poses in them.
        actions: `[P, D, T]` uint8, the actions, and zeros behind them.
        length: `[P, D]` int32, how many actions there are.
        found: `[P]` int32, how many of the D demonstrations there are.
    """

    cells: NDArray[np.uint8]
    pose: NDArray[np.int32]
    actions: NDArray[np.uint8]
    length: NDArray[np.int32]
    found: NDArray[np.int32]

    def take(self, rows: NDArray[np.integer]) -> "Demonstrations":
        """Return those of the programs `rows` `[N]` int64."""
        return Demonstrations(*(array[rows] for array in self))


class DemonstrationLimits(NamedTuple):
    """How long programs run, and which runs are demonstrations.

    Attributes:
        cap: how long a program may run.
        trials: how many worlds are tried for each program.
        least_states: runs with fewer states are demonstrations only if they show a new branch, or
            by a coin.
        most_states: runs with more states are no demonstrations.
    """

    cap: Cap
    trials: int
    least_states: int
    most_states: int


class RunRecording(NamedTuple):
    """What is written down of one run.

    Attributes:
        actions: `[limit + 1]` uint8, its actions.
        length: `[1]` int32, how many there are.
        branches: `[L]` uint8, for each instruction that tests a condition, which way it went: bit 0
            false, bit 1 true.
        is_fatal: `[A]` bool, for each action, whether it ends the run where it is impossible.
    """

    actions: NDArray[np.uint8]
    length: NDArray[np.int32]
    branches: NDArray[np.uint8]
    is_fatal: NDArray[np.bool_]


class RunScratch(NamedTuple):
    """Memory of one run.

    Attributes:
        cells: `[1, H * W]` uint8, the world.
        pose: `[1]` int32, the agent's pose at its start.
        memory: `[1, M]` int32, the task's integers.
        stream: `[1]` uint64, the world's random stream.
        other: `[H * W]` uint8, the start state, or another world to compare with.
        counters: `[C]` int32, the program's loop counters.
        seen: `[L]` uint8, the branches that all runs of a program have seen.
    """

    cells: NDArray[np.uint8]
    pose: NDArray[np.int32]
    memory: NDArray[np.int32]
    stream: NDArray[np.uint64]
    other: NDArray[np.uint8]
    counters: NDArray[np.int32]
    seen: NDArray[np.uint8]


def random_worlds(walls: float, markers: float = 0.1) -> Setting:
    """Return the kind of 8x8 worlds that demonstrations start in.

    Args:
        walls: the probability that an inner cell is a wall.
        markers: the probability that a free cell holds a marker.
    """
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
    stop_on_error: bool | Collection[Action],
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
        streams: `[P]` uint64, the random streams of each program's worlds and coins, written.
        setting: the random worlds.
        wanted: how many runs to find for each program, D.
        trials: how many worlds to try for each program.
        least_states: the states, the start included, below which a run is short.
        most_states: the most states a run may have.
        stop_on_error: whether a run with an impossible action does not count, or the actions for
            which this is so.
        cap: how long a program may run.
        threads: CPU threads; None: all.
    """
    cap, count = Cap.of(cap), len(code)
    check_array("streams", streams, np.uint64, (count,))
    for name, number in (("wanted", wanted), ("trials", trials), ("least_states", least_states)):
        check_count(name, number, least=0, most=MOST_STEPS)
    check_count("most_states", most_states, most=MOST_STEPS)
    check_calls(cap, trials)
    size = setting.height * setting.width
    each = wanted * (size + most_states + 8)
    check_memory(f"{wanted} demonstrations of each of {count} programs", count, each)
    limits = DemonstrationLimits(cap, trials, least_states, most_states)
    found = Demonstrations(
        np.zeros((count, wanted, size), np.uint8),
        np.zeros((count, wanted), np.int32),
        np.zeros((count, wanted, most_states - 1), np.uint8),
        np.zeros((count, wanted), np.int32),
        np.zeros(count, np.int32),
    )
    parts = parts_for(count, threads, least=LEAST_PROGRAMS)
    pieces = pieces_for(parts, count * trials * cap.limit)

    def demonstrate_piece(piece: int) -> None:
        recording = make_recording(cap, code, stop_on_error)
        scratch = make_scratch(setting, code)
        _demonstrate(
            piece, pieces, code.instructions, streams, setting.constants, limits,
            recording, scratch, found,
        )  # fmt: skip

    if count:
        launch(parts, demonstrate_piece, min(pieces, count))
    return found


def replay(
    demonstrations: Demonstrations, setting: Setting
) -> tuple[NDArray[np.uint8], NDArray[np.int16]]:
    """Recompute every state of every demonstration.

    Args:
        demonstrations: behaviours with S states in all.
        setting: the random worlds they start in.

    Returns:
        `[S, H * W]` uint8, the cells, and `[S]` int16, the poses, one demonstration behind the
        other.
    """
    total = int((demonstrations.length + 1).sum())
    cells = np.empty((total, setting.height * setting.width), np.uint8)
    pose = np.empty(total, np.int16)
    _replay_states(setting.constants, demonstrations, cells, pose)
    return cells, pose


def perform_actions(
    setting: Setting,
    cells: NDArray[np.uint8],
    pose: NDArray[np.int32],
    worlds: NDArray[np.int64],
    actions: NDArray[np.int64],
) -> None:
    """Perform one action in some random worlds, in place.

    Args:
        setting: the kind of worlds.
        cells: `[B, H * W]` uint8, written.
        pose: `[B]` int32, written.
        worlds: `[N]` int64, which of the B worlds.
        actions: `[N]` int64, the action in each of them.
    """
    _perform_actions(setting.constants, cells, pose, worlds, actions)


def make_recording(cap: Cap, code: Code, stop_on_error: bool | Collection[Action]) -> RunRecording:
    """Allocate what is written down of a run of any of some programs."""
    fatal = stop_on_error if isinstance(stop_on_error, Collection) else tuple(Action)
    return RunRecording(
        np.zeros(cap.limit + 1, np.uint8),
        np.zeros(1, np.int32),
        np.zeros(code.instructions.shape[1], np.uint8),
        np.array([bool(stop_on_error) and action in fatal for action in Action]),
    )


def make_scratch(setting: Setting, code: Code) -> RunScratch:
    """Allocate the memory of a run of any of some programs."""
    size = setting.height * setting.width
    return RunScratch(
        np.zeros((1, size), np.uint8),
        np.zeros(1, np.int32),
        np.zeros((1, setting.slots), np.int32),
        np.zeros(1, np.uint64),
        np.zeros(size, np.uint8),
        np.zeros(max(code.depth, 1), np.int32),
        np.zeros(code.instructions.shape[1], np.uint8),
    )


@scalar
def refuse_action(recording, constants, world, action):
    """Whether an action ends the run: an impossible one does if it is fatal."""
    return recording.is_fatal[action] and is_impossible(world.cells, constants, world.pose, action)


@scalar
def record_action(recording, constants, world, point, counters):
    """Write one action down."""
    recording.actions[recording.length[0]] = point.due
    recording.length[0] += 1


@scalar
def record_branch(recording, pc, holds):
    """Write down which way a condition went."""
    recording.branches[pc] |= 2 if holds else 1


@scalar
def _count_instructions(code):
    """Return how many instructions a program, `code` `[L]` uint32, has before its end."""
    pc = 0
    while pc < len(code) and code[pc] & OPERATION_MASK != STOP:
        pc += 1
    return pc


@scalar
def _add_branches(code, branches, seen):
    """Add the branches of one run to those of all; the test that ends a WHILE's round is its first.

    Args:
        code: `[L]` uint32, the program.
        branches: `[L]` uint8, what the run saw, as in `RunRecording`.
        seen: `[L]` uint8, what all runs saw, written.
    """
    for pc in range(len(code)):
        place = np.int64(pc)
        if BACK <= code[pc] & OPERATION_MASK < REPEAT:
            place = np.int64(code[pc] >> ARGUMENT_SHIFT & ARGUMENT_MASK) - 1  # before the body
        seen[place] |= branches[pc]


@scalar
def _covered(code, seen):
    """Return how many (condition, truth value) pairs were seen, less how many there are.

    So 0 means all of them; a program without a condition gives 1.

    Args:
        code: `[L]` uint32, the program.
        seen: `[L]` uint8, the branches seen, as in `RunRecording`.
    """
    pairs, found = 0, 0
    for pc in range(len(code)):
        if TEST <= code[pc] & OPERATION_MASK < BACK:
            pairs += 2
            found += np.int64(seen[pc] & 1) + np.int64(seen[pc] >> 1)
    return found - pairs if pairs else 1


@kernel
def _demonstrate(  # noqa: C901 - one condition after the other
    part, parts, code, streams, constants, limits, recording, scratch, found
):
    """Find demonstrations of the programs `part`, `part + parts`, ..., as `demonstrate` says.

    Args:
        part: the first program.
        parts: how many parts the programs are divided into.
        code: `[P, L]` uint32, the programs.
        streams: `[P]` uint64, their random streams, written.
        constants: `[F]` int64, the constants of the random worlds.
        limits: `DemonstrationLimits`.
        recording: `RunRecording`, scratch.
        scratch: `RunScratch`.
        found: `Demonstrations`, written.
    """
    length = recording.length
    cells, pose, memory, start = scratch.cells, scratch.pose, scratch.memory, scratch.other
    for p in range(part, len(found.found), parts):
        stream = streams[p : p + 1]
        size = _count_instructions(code[p])
        program, branches, seen = code[p, :size], recording.branches[:size], scratch.seen[:size]
        for pc in range(size):
            seen[pc] = 0
        before = _covered(program, seen)  # of the last run that counted
        trial = 0
        while trial < limits.trials and found.found[p] < found.cells.shape[1]:
            trial += 1
            reset_world(draw_start, begin, 0, constants, Worlds(cells, pose, memory, stream))
            for cell in range(len(start)):
                start[cell] = cells[0, cell]
            length[0] = 0
            for pc in range(size):
                branches[pc] = 0
            ending = run_program(
                step, refuse_action, record_action, record_branch, recording,
                code[p], limits.cap, constants,
                WorldState(cells[0], np.int64(pose[0]), memory[0], stream), scratch.counters,
            ).ending  # fmt: skip
            if ending == _REFUSED:
                continue
            _add_branches(program, branches, seen)
            covered = _covered(program, seen)
            states = length[0] + 1
            is_new = covered != 1 and covered > before
            if ending != _COMPLETED or states > limits.most_states:
                continue
            if not is_new:
                if covered < 0:
                    continue
                is_short = states < limits.least_states
                if is_short and (covered != 0 or draw(stream) >> np.uint64(63) == 0):
                    continue
            before = covered
            k = found.found[p]
            found.found[p] += 1
            for cell in range(len(start)):
                found.cells[p, k, cell] = start[cell]
            found.pose[p, k] = pose[0]
            found.length[p, k] = length[0]
            for t in range(length[0]):
                found.actions[p, k, t] = recording.actions[t]


@kernel
def _replay_states(constants, demonstrations, cells, pose):
    """Write the states of one demonstration behind the other.

    Args:
        constants: `[F]` int64, the constants of the random worlds.
        demonstrations: `Demonstrations`, read.
        cells: `[S, H * W]` uint8, written.
        pose: `[S]` int16, written.
    """
    row = 0
    starts, lengths = demonstrations.cells, demonstrations.length
    for p in range(lengths.shape[0]):
        for k in range(lengths.shape[1]):
            for cell in range(starts.shape[2]):
                cells[row, cell] = starts[p, k, cell]
            here = np.int64(demonstrations.pose[p, k])
            pose[row] = here
            for t in range(lengths[p, k]):
                row += 1
                for cell in range(starts.shape[2]):
                    cells[row, cell] = cells[row - 1, cell]
                here = act(cells[row], constants, here, np.int64(demonstrations.actions[p, k, t]))
                pose[row] = here
            row += 1


@kernel
def _perform_actions(constants, cells, pose, worlds, actions):
    """Perform one action in some worlds.

    Args:
        constants: `[F]` int64, the constants of the worlds.
        cells: `[B, H * W]` uint8, written.
        pose: `[B]` int32, written.
        worlds: `[N]` int64, which of the B worlds.
        actions: `[N]` int64, the action in each of them.
    """
    for index in range(len(worlds)):
        world = worlds[index]
        pose[world] = act(cells[world], constants, np.int64(pose[world]), actions[index])
