"""The launch loops of one task. This file is a template.

Importing it gives the kernels of random worlds. For any other task `pomp.engine.loading` writes a
copy into the cache folder whose marked import names that task's module: Numba keeps machine code
on disk only for functions that stand at the top of a real file, and kernels of its own keep each
task's code small.

Arrays, for B worlds or lanes of one size:

    cells `[B, H * W]` uint8, pose `[B]` int32, memory `[B, M]` int32, stream `[B]` uint64
    constants int64
"""

import numpy as np

from pomp.core.compiling import kernel, scalar
from pomp.engine.lanes import (
    act_on_world,
    play_world,
    reset_world,
    run_lane,
    sense_world,
    take_mode,
)
from pomp.engine.rule_machine import play_machine
from pomp.karel.dynamics import ACTIONS, DONE, is_impossible, reward, value
from pomp.karel.interpreter import CALLS, ENDING, run_program
from pomp.tasks.random_world import begin, draw_start, step  # the task

SHARE = 64  # worlds of one list that a thread takes up at once


@kernel
def reset_worlds(constants, cells, pose, memory, stream):
    """Draw a start for every world."""
    for world in range(len(pose)):
        reset_world(draw_start, begin, world, constants, cells, pose, memory, stream)


@kernel
def begin_worlds(constants, cells, pose, memory, is_usable):
    """Take up worlds that were made elsewhere; `is_usable` `[B]` bool is written."""
    for world in range(len(pose)):
        is_usable[world] = begin(cells[world], constants, pose[world], memory[world])


@kernel
def sense_worlds(constants, cells, pose, idle, compass, senses):
    """What transitions by rules see; `senses` `[B]` uint8 is written, see `sense_world`."""
    for world in range(len(pose)):
        senses[world] = sense_world(world, constants, cells, pose, idle, compass)


@kernel
def act_on_worlds(first, last, actions, constants, cells, pose, memory, stream, rewards):
    """One action in worlds `first` to `last - 1`, in place; `rewards` `[B]` float64 is written."""
    for world in range(first, last):
        action = np.int64(actions[world])
        rewards[world] = act_on_world(step, world, action, constants, cells, pose, memory, stream)


@kernel
def play_worlds(
    first, last, actions, limit, constants, cells, pose, memory, stream,
    is_over, rewards, terminated, truncated,
):  # fmt: skip
    """One step of the episodes in worlds `first` to `last - 1`, in place; see `play_world`."""
    for world in range(first, last):
        play_world(
            step, draw_start, begin, world, actions, limit, constants, cells, pose, memory, stream,
            is_over, rewards, terminated, truncated,
        )  # fmt: skip


@kernel
def run_lanes(
    part, parts, span, code, lists, units, salts, rounds, patience, by_calls, limit, constants,
    cells, pose, memory, stream,
    cells_after, pose_after, memory_after, stream_after,
    values, actions, calls, completed,
    lane_cells, lane_memory, lane_stream, counters, outcome,
):  # fmt: skip
    """Run every unit on its `span` worlds; unit u's lanes are u * span and those after it.

    The work is dealt out to `parts` threads in turn, a unit on up to `SHARE` worlds at a time. The
    other arguments are those of `run_lane`.
    """
    shares = (span + SHARE - 1) // SHARE
    for item in range(part, len(units) * shares, parts):
        unit = item // shares
        first = item % shares * SHARE
        for offset in range(first, min(first + SHARE, span)):
            run_lane(
                step, unit * span + offset, unit, offset,
                code, lists, units, salts, rounds, patience, by_calls, limit, constants,
                cells, pose, memory, stream, cells_after, pose_after, memory_after, stream_after,
                values, actions, calls, completed,
                lane_cells, lane_memory, lane_stream, counters, outcome,
            )  # fmt: skip


@kernel
def take_modes(
    first_world, last_world, code, first, modes, last_words, choices, most, restarts,
    by_calls, limit, constants, cells, pose, memory, stream,
    mode, taken, ending, rewards, worth, idle, counters, outcome,
):  # fmt: skip
    """One macro step in worlds `first_world` to `last_world - 1`, in place; see `take_mode`."""
    for world in range(first_world, last_world):
        take_mode(
            step, draw_start, begin, world, code, first, modes, last_words, choices, most, restarts,
            by_calls, limit, constants, cells, pose, memory, stream,
            mode, taken, ending, rewards, worth, idle, counters, outcome,
        )  # fmt: skip


@kernel
def run_machines(
    part, parts, code, literals, targets, defaults, start, most, patience, limits,
    fragility, penalty, lateness, needs, known, hopes, orders, trust,
    constants, cells, pose, memory, stream,
    earned, played, tallies, lane_cells, lane_memory, lane_stream, counters, outcome,
):  # fmt: skip
    """What machines earn on the same worlds, unless the first of them tell enough.

    Machines `part`, `part + parts`, ... of C are played, each in B worlds in its own of the
    `orders` `[C, B]`. `code` `[C * K, L]` has their programs, `literals` `[C, K, R, 2]`, `targets`
    `[C, K, R]`, `defaults` `[C, K]` and `start` `[C]` their rules. One that falls short of the sum
    it `needs` `[C]`, if the worlds to come are worth what one `hopes` `[C, B]`, is given up. One
    that earns in its first `trust` worlds what is `known` `[C, B]` of another is taken to earn it
    everywhere. Written are `earned` `[C, B]` and `played` `[C]`: B, or the worlds after which it
    was given up; `tallies` `[C, 3]` are added to. The others are those of `play_machine`.
    """
    worlds, modes = len(pose), defaults.shape[1]
    for machine in range(part, len(start), parts):
        rest = hopes[machine].sum() - needs[machine]  # how far it may fall short of its hopes
        count, is_same = 0, True
        while count < worlds and rest >= 0:
            world = orders[machine, count]
            hope = hopes[machine, world]
            if is_same and count >= trust:
                found = known[machine, world]
            else:
                found = play_machine(
                    step, world, code, machine * modes, literals[machine], targets[machine],
                    defaults[machine], start[machine], most, patience, limits,
                    fragility, penalty, lateness, hope - rest, constants,
                    cells, pose, memory, stream,
                    lane_cells, lane_memory, lane_stream, counters, outcome, tallies[machine],
                )  # fmt: skip
                is_same = is_same and found == known[machine, world]
            earned[machine, world] = found
            rest += found - hope
            count += 1
        played[machine] = count


# Recording: the same run with hooks that write a row per action.


@scalar
def refuses_impossible(trace, cells, constants, pose, action):
    """Error mode: an action that would change nothing ends the run."""
    return trace.stops_on_error[0] and is_impossible(cells, constants, pose, action)


@scalar
def notes_action(trace, lane, cells, constants, pose, memory, action, pc, counters, top):
    """Write one action into the trace; past its end only its length grows."""
    place = trace.length[lane]
    trace.length[lane] += 1
    if place < trace.action.shape[1]:
        trace.action[lane, place] = action
        trace.pose[lane, place] = pose
        trace.pc[lane, place] = pc
        trace.program[lane, place] = trace.running[lane]
        trace.reward[lane, place] = reward(trace.worth[lane], memory, constants)
        trace.done[lane, place] = memory[DONE]
        trace.counted[lane, place] = memory[ACTIONS] != trace.counted_before[lane]
        for slot in range(min(top, trace.counters.shape[2])):
            trace.counters[lane, place, slot] = counters[slot]
        if trace.cells.shape[1]:
            for cell in range(len(cells)):
                trace.cells[lane, place, cell] = cells[cell]
    trace.worth[lane] = value(memory, constants)
    trace.counted_before[lane] = memory[ACTIONS]


@scalar
def sees_branch(trace, lane, pc, holds):
    """Remember which way a condition went: bit 0 false, bit 1 true."""
    program = trace.running[lane]
    trace.branches[lane, program, pc] |= 2 if holds else 1


@kernel
def record_lanes(
    code, lists, by_calls, limit, paired, constants,
    cells, pose, memory, stream, trace, calls, ending, counters, outcome,
):  # fmt: skip
    """Run lists of programs on worlds, in place, and write what happened.

    `cells`, `pose`, `memory` and `stream` hold one world per lane and are written; `trace` is a
    `pomp.engine.record.TraceArrays`; `calls` and `ending` `[lanes, M]` int32 are written for every
    program of a list. The other arguments are those of `run_lanes`.
    """
    for lane in range(len(pose)):
        q = lane if paired else lane // (len(pose) // len(lists))
        trace.worth[lane] = value(memory[lane], constants)
        trace.counted_before[lane] = memory[lane, ACTIONS]
        lane_pose = np.int64(pose[lane])
        for place in range(lists.shape[1]):
            if lists[q, place] < 0:
                break
            trace.running[lane] = place
            lane_pose = run_program(
                step, refuses_impossible, notes_action, sees_branch, trace, lane,
                code[lists[q, place]], constants, cells[lane], lane_pose, memory[lane],
                stream[lane : lane + 1], counters, by_calls, limit, outcome,
            )  # fmt: skip
            calls[lane, place] = outcome[CALLS]
            ending[lane, place] = outcome[ENDING]
            if outcome[ENDING] == 2:  # refused: the list ends too
                break
        pose[lane] = lane_pose
