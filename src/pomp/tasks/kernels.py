"""The launch loops of one task. This file is a template.

Importing it gives the kernels of random worlds. For any other task `pomp.tasks.engine` writes a
copy into the cache folder whose marked import names that task's module: Numba keeps machine code
on disk only for functions that stand at the top of a real file, and kernels of its own keep each
task's code small.

Arrays, for B worlds or lanes of one size:

    cells `[B, H * W]` uint8, pose `[B]` int32, memory `[B, M]` int32, stream `[B]` uint64
    rules int64
"""

import numpy as np

from pomp._numba import kernel, scalar
from pomp.karel.interpreter import CALLS, ENDING, run_program
from pomp.karel.rules import ACTIONS, DONE, is_impossible, perceive, reward, value
from pomp.tasks.random_world import begin, lay_out, step  # the task

SHARE = 64  # worlds of one list that a thread takes up at once


@scalar
def counted_step(cells, rules, pose, memory, stream, action):
    """The task's step, with the action counted."""
    memory[ACTIONS] += 1
    return step(cells, rules, pose, memory, stream, action)


@scalar
def refuses_nothing(trace, cells, rules, pose, action):
    """Hook of the plain run."""
    return False


@scalar
def notes_nothing(trace, lane, cells, rules, pose, memory, action, pc, counters, top):
    """Hook of the plain run."""


@scalar
def sees_nothing(trace, lane, pc, holds):
    """Hook of the plain run."""


@kernel
def reset_worlds(rules, cells, pose, memory, stream):
    """Draw a start for every world from its stream."""
    for world in range(len(pose)):
        for cell in range(cells.shape[1]):
            cells[world, cell] = 0
        for slot in range(memory.shape[1]):
            memory[world, slot] = 0
        pose[world] = lay_out(cells[world], rules, memory[world], stream[world : world + 1])
        begin(cells[world], rules, pose[world], memory[world])


@kernel
def begin_worlds(rules, cells, pose, memory, is_usable):
    """Take up worlds that were made elsewhere; `is_usable` `[B]` bool is written."""
    for world in range(len(pose)):
        is_usable[world] = begin(cells[world], rules, pose[world], memory[world])


@kernel
def perceive_worlds(rules, cells, pose, perceptions):
    """What the agents see: bit i of `perceptions` `[B]` uint8 is set if perception i holds."""
    for world in range(len(pose)):
        perceptions[world] = 0
        for perception in range(4):
            holds = perceive(cells[world], rules, pose[world], perception)
            perceptions[world] |= holds << perception


@kernel
def act_on_worlds(first, last, actions, rules, cells, pose, memory, stream, rewards):
    """One action in worlds `first` to `last - 1`, in place; `rewards` `[B]` float64 is written."""
    for world in range(first, last):
        before = value(memory[world], rules)
        pose[world] = counted_step(
            cells[world], rules, pose[world], memory[world], stream[world : world + 1],
            actions[world],
        )  # fmt: skip
        rewards[world] = reward(before, memory[world], rules)


@kernel
def run_lanes(
    part, parts, code, lists, by_calls, limit, paired, rules,
    cells, pose, memory, stream,
    cells_after, pose_after, memory_after, stream_after,
    values, actions, calls, completed,
    lane_cells, lane_memory, lane_stream, counters, outcome,
):  # fmt: skip
    """Run lists of programs on worlds.

    Args:
        part: of the work, dealt out in turn: a list on up to `SHARE` worlds at a time.
        parts: see `part`.
        code: `[P, L]` uint32, the programs.
        lists: `[Q, M]` int32: rows of programs to run one after the other, -1 behind the last.
        by_calls: see `run_program`, also for `limit`.
        limit: the cap of each program.
        paired: list i on world i; else every list on every world, lane q * B + b.
        rules: int64.
        cells: the start states, read; `pose`, `memory`, `stream` likewise.
        pose: see `cells`.
        memory: see `cells`.
        stream: see `cells`.
        cells_after: the final states of all lanes, written; all four empty: not wanted. They may be
            the start states themselves if `paired`.
        pose_after: see `cells_after`.
        memory_after: see `cells_after`.
        stream_after: see `cells_after`.
        values: `[lanes]` float64, written: what the episode is worth at the end.
        actions: `[lanes]` int32, written: actions performed here.
        calls: `[lanes]` int32, written: the programs' final call counters, added up.
        completed: `[lanes]` bool, written: every program ran to its end.
        lane_cells: scratch for one world; `lane_memory`, `lane_stream` likewise.
        lane_memory: see `lane_cells`.
        lane_stream: see `lane_cells`.
        counters: int32, scratch for the deepest program's loops.
        outcome: `[2]` int32, scratch.
    """
    worlds = len(pose)
    shares = 1 if paired else (worlds + SHARE - 1) // SHARE
    for unit in range(part, len(lists) * shares, parts):
        q = unit // shares
        first = q if paired else unit % shares * SHARE
        last = q + 1 if paired else min(first + SHARE, worlds)
        for world in range(first, last):
            lane = q if paired else q * worlds + world
            for cell in range(len(lane_cells)):
                lane_cells[cell] = cells[world, cell]
            for slot in range(len(lane_memory)):
                lane_memory[slot] = memory[world, slot]
            lane_stream[0] = stream[world]
            lane_pose = np.int64(pose[world])
            acted_before = memory[world, ACTIONS]
            spent, is_complete = 0, True
            for place in range(lists.shape[1]):
                if lists[q, place] < 0:
                    break
                lane_pose = run_program(
                    counted_step, refuses_nothing, notes_nothing, sees_nothing, (), lane,
                    code[lists[q, place]], rules, lane_cells, lane_pose, lane_memory,
                    lane_stream, counters, by_calls, limit, outcome,
                )  # fmt: skip
                spent += outcome[CALLS]
                is_complete = is_complete and outcome[ENDING] == 0
            values[lane] = value(lane_memory, rules)
            actions[lane] = lane_memory[ACTIONS] - acted_before
            calls[lane] = spent
            completed[lane] = is_complete
            if len(pose_after):
                for cell in range(len(lane_cells)):
                    cells_after[lane, cell] = lane_cells[cell]
                for slot in range(len(lane_memory)):
                    memory_after[lane, slot] = lane_memory[slot]
                stream_after[lane] = lane_stream[0]
                pose_after[lane] = lane_pose


# Recording: the same run with hooks that write a row per action.


@scalar
def refuses_impossible(trace, cells, rules, pose, action):
    """Error mode: an action that would change nothing ends the run."""
    return trace.stops_on_error[0] and is_impossible(cells, rules, pose, action)


@scalar
def notes_action(trace, lane, cells, rules, pose, memory, action, pc, counters, top):
    """Write one action into the trace; past its end only its length grows."""
    place = trace.length[lane]
    trace.length[lane] += 1
    if place < trace.action.shape[1]:
        trace.action[lane, place] = action
        trace.pose[lane, place] = pose
        trace.pc[lane, place] = pc
        trace.program[lane, place] = trace.running[lane]
        trace.reward[lane, place] = reward(trace.worth[lane], memory, rules)
        trace.done[lane, place] = memory[DONE]
        trace.counted[lane, place] = memory[ACTIONS] != trace.counted_before[lane]
        for slot in range(min(top, trace.counters.shape[2])):
            trace.counters[lane, place, slot] = counters[slot]
        if trace.cells.shape[1]:
            for cell in range(len(cells)):
                trace.cells[lane, place, cell] = cells[cell]
    trace.worth[lane] = value(memory, rules)
    trace.counted_before[lane] = memory[ACTIONS]


@scalar
def sees_branch(trace, lane, pc, holds):
    """Remember which way a condition went: bit 0 false, bit 1 true."""
    program = trace.running[lane]
    trace.branches[lane, program, pc] |= 2 if holds else 1


@kernel
def record_lanes(
    code, lists, by_calls, limit, paired, rules,
    cells, pose, memory, stream, trace, calls, ending, counters, outcome,
):  # fmt: skip
    """Run lists of programs on worlds, in place, and write what happened.

    `cells`, `pose`, `memory` and `stream` hold one world per lane and are written; `trace` is a
    `pomp.tasks.record.TraceArrays`; `calls` and `ending` `[lanes, M]` int32 are written for every
    program of a list. The other arguments are those of `run_lanes`.
    """
    for lane in range(len(pose)):
        q = lane if paired else lane // (len(pose) // len(lists))
        trace.worth[lane] = value(memory[lane], rules)
        trace.counted_before[lane] = memory[lane, ACTIONS]
        lane_pose = np.int64(pose[lane])
        for place in range(lists.shape[1]):
            if lists[q, place] < 0:
                break
            trace.running[lane] = place
            lane_pose = run_program(
                counted_step, refuses_impossible, notes_action, sees_branch, trace, lane,
                code[lists[q, place]], rules, cells[lane], lane_pose, memory[lane],
                stream[lane : lane + 1], counters, by_calls, limit, outcome,
            )  # fmt: skip
            calls[lane, place] = outcome[CALLS]
            ending[lane, place] = outcome[ENDING]
            if outcome[ENDING] == 2:  # refused: the list ends too
                break
        pose[lane] = lane_pose
