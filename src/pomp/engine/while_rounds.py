"""Rounds of WHILE loops in a recorded run, which the recording does not count.

Between two actions a program only looks, so it is run again from frame to frame by the one function
that holds the control flow (`run_from`), up to the action that comes next, and its conditions are
watched.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pomp.core.compiling import kernel, scalar
from pomp.dsl.bytecode import ARGUMENT_MASK, ARGUMENT_SHIFT, BACK, OPERATION_MASK, REPEAT, Code
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
)


@scalar
def counts_rounds(trace, pc, holds):
    """Count the rounds of the WHILE to which a condition belongs, if it belongs to one.

    Args:
        trace: `rounds` `[L]` int32, written, and `loop` `[L]` int32: the entry of the loop that an
            instruction enters or ends, -1: none.
        pc: the instruction.
        holds: whether its condition does.
    """
    rounds, loop = trace
    if loop[pc] == pc:
        rounds[pc] = 1 if holds else 0
    elif loop[pc] >= 0:
        rounds[loop[pc]] = rounds[loop[pc]] + 1 if holds else 0


class WalkArrays(NamedTuple):
    """What a walk from action to action reads and writes, for F actions.

    Attributes:
        frames: `[F, H * W]` uint8, the cells before each action.
        pose: `[F]` int64, the pose before each action.
        loops: `[P, L]` int32, the entry of the loop that an instruction enters or ends, -1: none.
        around: `[P, L, D]` int32, the entries of the loops around an instruction, -1 for none.
        pcs: `[F]` int32, written: the instruction that acts.
        rounds: `[F, D]` int32, written.
        counted: `[L]` int32, scratch: the rounds of each loop, by its entry.
        counters: `[L]` int32, scratch for counted loops.
        memory: `[1]` int32, which a program that performs nothing does not look at.
        stream: `[1]` uint64, the same.
    """

    frames: Any
    pose: Any
    loops: Any
    around: Any
    pcs: Any
    rounds: Any
    counted: Any
    counters: Any
    memory: Any
    stream: Any


@kernel
def _walk(code, programs, first, cap, constants, arrays):
    """Run programs again from action to action and write the rounds of the loops around each.

    Args:
        code: `[P, L]` uint32, the programs.
        programs: `[M]` int64, those that ran, one after the other.
        first: `[M + 1]` int64, the first action of each.
        cap: the `Cap`.
        constants: `[N]` int64.
        arrays: the `WalkArrays`.
    """
    around, counted = arrays.around, arrays.counted
    for run in range(len(programs)):
        program, point = programs[run], first_point(cap)
        trace = (counted, arrays.loops[program])
        for action in range(first[run], first[run + 1]):
            world = WorldState(
                arrays.frames[action], arrays.pose[action], arrays.memory, arrays.stream
            )
            outcome = run_from(
                performs_nothing, refuses_everything, notes_nothing, counts_rounds, trace,
                CappedProgram(code[program], cap), constants, world, arrays.counters, point,
            )  # fmt: skip
            at = outcome.point
            arrays.pcs[action] = at.pc - 1
            for depth in range(around.shape[2]):
                entry = around[program, at.pc - 1, depth]
                arrays.rounds[action, depth] = counted[entry] if entry >= 0 else 0
            point = Point(
                NO_ACTION, at.pc, at.spent, at.acted + 1, at.top, at.turn_acted, at.turn_pc
            )


def count_while_rounds(
    code: Code, programs: NDArray[np.int64], first: NDArray[np.int64], cap: Cap | str,
    constants: NDArray[np.int64], frames: NDArray[np.uint8], pose: NDArray[np.int32],
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:  # fmt: skip
    """Return the rounds of the WHILE loops around each action of a recorded run.

    Args:
        code: the programs.
        programs: `[M]` int64, those that ran, one after the other.
        first: `[M + 1]` int64, the first action of each; the last is F.
        cap: how long each could run.
        constants: `[N]` int64, of the task.
        frames: `[F, H * W]` uint8, the cells before each action.
        pose: `[F]` int32, the pose before each action.

    Returns:
        `[F]` int32, the instruction that acts, and `[F, D]` int32, the rounds from 1, the outermost
        loop first; 0 for no loop.
    """
    loops, around = _find_loops(code.instructions)
    pcs = np.zeros(len(pose), np.int32)
    rounds = np.zeros((len(pose), around.shape[2]), np.int32)
    counted, counters = np.zeros((2, code.instructions.shape[1]), np.int32)
    arrays = WalkArrays(
        frames=frames, pose=pose.astype(np.int64), loops=loops, around=around, pcs=pcs,
        rounds=rounds, counted=counted, counters=counters, memory=np.zeros(1, np.int32),
        stream=np.zeros(1, np.uint64),
    )  # fmt: skip
    _walk(code.instructions, programs, first, Cap.of(cap), constants, arrays)
    return pcs, rounds


def _find_loops(instructions: NDArray[np.uint32]) -> tuple[Any, Any]:
    """Return `loops` and `around` as `_walk` takes them, of `instructions` `[P, L]` uint32."""
    operations = instructions & OPERATION_MASK
    loops = np.full(instructions.shape, -1, np.int32)
    nests: list[list[list[int]]] = []
    for program, row in enumerate(operations):
        nest: list[list[int]] = [[] for _ in row]
        backs = np.flatnonzero((row >= BACK) & (row < REPEAT)).tolist()
        entries = [
            (int(instructions[program, back]) >> ARGUMENT_SHIFT & ARGUMENT_MASK) - 1
            for back in backs
        ]
        for entry, back in sorted(zip(entries, backs, strict=True)):
            loops[program, [entry, back]] = entry
            for inside in nest[entry + 1 : back]:
                inside.append(entry)
        nests.append(nest)
    depth = max(len(inside) for nest in nests for inside in nest)
    filled = [[[*inside, *[-1] * (depth - len(inside))] for inside in nest] for nest in nests]
    return loops, np.array(filled, np.int32).reshape(*instructions.shape, depth)
