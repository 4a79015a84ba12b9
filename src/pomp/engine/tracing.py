"""Recording: a program runs as in any other lane, with hooks that write a row per action.

Arrays: `constants` `[N]` int64 has the setting's numbers, `code` `[P, L]` uint32 programs,
`counters` `[D]` int32 the loops' counters.
"""

from typing import Any, NamedTuple

from pomp.core.compiling import scalar
from pomp.engine.lanes import state_of
from pomp.karel.dynamics import ACTIONS, DONE, is_impossible, reward, value
from pomp.karel.interpreter import Ending, run_program

_REFUSED = int(Ending.REFUSED)


class TraceArrays(NamedTuple):
    """What recording writes, for B lanes, T actions, M programs a list and L instructions.

    Attributes:
        stops_on_error: `[1]` bool, read: an action that cannot be carried out ends the run.
        length: `[B]` int32: actions performed, also those past T.
        action: `[B, T]` int8.
        pose: `[B, T]` int32, after the action.
        reward: `[B, T]` float64.
        done: `[B, T]` bool: the task's flag after the action.
        counted: `[B, T]` bool: the action counts; False only for Snake's bite.
        pc: `[B, T]` int32: the instruction.
        program: `[B, T]` int32: the place of the program in the list.
        counters: `[B, T, D]` int32: the loops' counters.
        cells: `[B, T, H * W]` uint8, after the action; or `[B, 0, 0]`.
        branches: `[B, M, L]` uint8: bit 0: the condition was seen false, bit 1: seen true.
        calls: `[B, M]` int32: the call counter at the end of each program of the list.
        ending: `[B, M]` int32: why each program stopped, an `Ending`; -1: it was not run.
        running: `[B]` int32, scratch: the place of the program that runs.
        worth: `[B]` float64, scratch: what the episode is worth so far.
        counted_before: `[B]` int32, scratch: actions that counted so far.
    """

    stops_on_error: Any
    length: Any
    action: Any
    pose: Any
    reward: Any
    done: Any
    counted: Any
    pc: Any
    program: Any
    counters: Any
    cells: Any
    branches: Any
    calls: Any
    ending: Any
    running: Any
    worth: Any
    counted_before: Any


class LaneTrace(NamedTuple):
    """What the hooks of one lane write to.

    Attributes:
        arrays: the `TraceArrays`.
        lane: the lane, which is the row of every array.
    """

    arrays: Any
    lane: Any


@scalar
def refuses_impossible(trace, constants, world, action):
    """Refuse an action that would change nothing, in error mode."""
    is_strict = trace.arrays.stops_on_error[0]
    return is_strict and is_impossible(world.cells, constants, world.pose, action)


@scalar
def notes_action(trace, constants, world, point, counters):
    """Write one action into a `LaneTrace`; past its end only its length grows."""
    arrays, lane, memory = trace.arrays, trace.lane, world.memory
    place = arrays.length[lane]
    arrays.length[lane] += 1
    if place < arrays.action.shape[1]:
        arrays.action[lane, place] = point.due
        arrays.pose[lane, place] = world.pose
        arrays.pc[lane, place] = point.pc - 1
        arrays.program[lane, place] = arrays.running[lane]
        arrays.reward[lane, place] = reward(arrays.worth[lane], memory, constants)
        arrays.done[lane, place] = memory[DONE]
        arrays.counted[lane, place] = memory[ACTIONS] != arrays.counted_before[lane]
        for slot in range(min(point.top, arrays.counters.shape[2])):
            arrays.counters[lane, place, slot] = counters[slot]
        if arrays.cells.shape[1]:
            for cell in range(len(world.cells)):
                arrays.cells[lane, place, cell] = world.cells[cell]
    arrays.worth[lane] = value(memory, constants)
    arrays.counted_before[lane] = memory[ACTIONS]


@scalar
def sees_branch(trace, pc, holds):
    """Remember in a `LaneTrace` which way a condition went: bit 0 false, bit 1 true."""
    program = trace.arrays.running[trace.lane]
    trace.arrays.branches[trace.lane, program, pc] |= 2 if holds else 1


@scalar
def record_lane(step, lane, programs, code, cap, constants, worlds, arrays, counters):
    """Run a list of programs on one of the `Worlds`, in place, and write what happened.

    Args:
        step: the task's.
        lane: which of the worlds, and the row of every array.
        programs: `[M]` int32: the programs' numbers, -1 behind the last.
        code: `[P, L]` uint32, read.
        cap: the `Cap` of each program.
        constants: `[N]` int64, read.
        worlds: the `Worlds`, written.
        arrays: the `TraceArrays`, written.
        counters: `[D]` int32, scratch for the loops.
    """
    memory = worlds.memory[lane]
    arrays.worth[lane] = value(memory, constants)
    arrays.counted_before[lane] = memory[ACTIONS]
    for place in range(len(programs)):
        if programs[place] < 0:
            break
        arrays.running[lane] = place
        outcome = run_program(
            step, refuses_impossible, notes_action, sees_branch, LaneTrace(arrays, lane),
            code[programs[place]], cap, constants, state_of(worlds, lane), counters,
        )  # fmt: skip
        worlds.pose[lane] = outcome.pose
        arrays.calls[lane, place] = outcome.calls
        arrays.ending[lane, place] = outcome.ending
        if outcome.ending == _REFUSED:  # the list ends too
            break
