"""The launch loops of one task on a GPU. This file is a template, like `kernels.py`.

The two marked lines are replaced for a task and a size. What is done for a world or a lane is the
CPU's code; only the loops differ: one thread each. A lane keeps its world in the thread's own
memory while programs run, and the lanes of one list of programs stand side by side, so that the
threads of a warp run one program.
"""

import numpy as np
from numba import cuda

from pomp.core.cuda import device_kernel
from pomp.engine.lanes import (
    act_on_world,
    play_world,
    reset_world,
    run_lane,
    sense_world,
    take_mode,
)
from pomp.engine.rule_machine import play_machine
from pomp.karel.dynamics import PUT
from pomp.tasks.random_world import begin, draw_start, step  # the task

CELLS, SLOTS, DEPTH = 64, 5, 24  # the sizes

LAST_ACTION = PUT


@device_kernel
def reset_worlds(constants, cells, pose, memory, stream):
    """Draw a start for every world."""
    world = cuda.grid(1)
    if world < len(pose):
        reset_world(draw_start, begin, world, constants, cells, pose, memory, stream)


@device_kernel
def act_on_worlds(actions, constants, cells, pose, memory, stream, rewards):
    """One action in every world, in place."""
    world = cuda.grid(1)
    if world < len(pose):
        action = np.int64(actions[world])
        rewards[world] = act_on_world(step, world, action, constants, cells, pose, memory, stream)


@device_kernel
def play_worlds(
    actions, was_bad, limit, constants, cells, pose, memory, stream,
    is_over, rewards, terminated, truncated,
):  # fmt: skip
    """One step of every episode, in place; an action out of range is noted and clipped."""
    world = cuda.grid(1)
    if world < len(pose):
        if actions[world] < 0 or actions[world] > LAST_ACTION:
            was_bad[0] = True
            actions[world] = min(max(actions[world], 0), LAST_ACTION)
        play_world(
            step, draw_start, begin, world, actions, limit, constants, cells, pose, memory, stream,
            is_over, rewards, terminated, truncated,
        )  # fmt: skip


@device_kernel
def run_lanes(
    span, code, lists, units, salts, rounds, patience, by_calls, limit, constants,
    cells, pose, memory, stream,
    cells_after, pose_after, memory_after, stream_after,
    values, actions, calls, completed,
):  # fmt: skip
    """Run units on worlds; see `run_lane`. The results may be longer than needed."""
    lane = cuda.grid(1)
    if lane >= len(units) * span:
        return
    lane_cells = cuda.local.array(CELLS, np.uint8)
    lane_memory = cuda.local.array(SLOTS, np.int32)
    lane_stream = cuda.local.array(1, np.uint64)
    counters = cuda.local.array(DEPTH, np.int32)
    outcome = cuda.local.array(2, np.int32)
    run_lane(
        step, lane, lane // span, lane % span,
        code, lists, units, salts, rounds, patience, by_calls, limit, constants,
        cells, pose, memory, stream, cells_after, pose_after, memory_after, stream_after,
        values, actions, calls, completed,
        lane_cells, lane_memory, lane_stream, counters, outcome,
    )  # fmt: skip


@device_kernel
def sense_worlds(constants, cells, pose, idle, compass, senses):
    """What transitions by rules see; `senses` `[B]` uint8 is written, see `sense_world`."""
    world = cuda.grid(1)
    if world < len(pose):
        senses[world] = sense_world(world, constants, cells, pose, idle, compass)


@device_kernel
def take_modes(
    code, first, modes, last_words, choices, most, restarts,
    by_calls, limit, constants, cells, pose, memory, stream,
    mode, taken, ending, rewards, worth, idle,
):  # fmt: skip
    """One macro step in every world, in place; see `take_mode`."""
    world = cuda.grid(1)
    if world < len(pose):
        counters = cuda.local.array(DEPTH, np.int32)
        outcome = cuda.local.array(2, np.int32)
        take_mode(
            step, draw_start, begin, world, code, first, modes, last_words, choices, most, restarts,
            by_calls, limit, constants, cells, pose, memory, stream,
            mode, taken, ending, rewards, worth, idle, counters, outcome,
        )  # fmt: skip


@device_kernel
def run_machines(
    code, literals, targets, defaults, start, most, patience, limits,
    fragility, penalty, lateness, constants, cells, pose, memory, stream, earned, tallies,
):  # fmt: skip
    """What machines earn in every world: `earned` `[C, B]` is written, `tallies` `[C, B, 3]` too.

    The worlds of one machine stand side by side; see `play_machine`.
    """
    lane, worlds, modes = cuda.grid(1), len(pose), defaults.shape[1]
    if lane >= len(start) * worlds:
        return
    machine, world = lane // worlds, lane % worlds
    lane_cells = cuda.local.array(CELLS, np.uint8)
    lane_memory = cuda.local.array(SLOTS, np.int32)
    lane_stream = cuda.local.array(1, np.uint64)
    counters = cuda.local.array(DEPTH, np.int32)
    outcome = cuda.local.array(2, np.int32)
    earned[machine, world] = play_machine(
        step, world, code, machine * modes, literals[machine], targets[machine],
        defaults[machine], start[machine], most, patience, limits,
        fragility, penalty, lateness, -np.inf, constants, cells, pose, memory, stream,
        lane_cells, lane_memory, lane_stream, counters, outcome, tallies[machine, world],
    )  # fmt: skip
