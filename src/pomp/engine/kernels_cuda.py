"""The launch loops of one task on a GPU. This file is a template, like `kernels.py`.

The marked lines are replaced for a task, a size and sensors of one's own. What is done for a world
or a lane is the CPU's code; only the loops differ: one thread each. A lane keeps its world in the
thread's own memory while programs run, and the lanes of one list of programs stand side by side, so
that the threads of a warp run one program.

Arguments are those of the CPU's kernels, without the share of the worlds that a thread takes and
without scratch memory. Arrays: `constants` `[N]` int64, `code` `[P, L]` uint32, `actions` and
`choices` `[B]` int64, `rewards` `[B]` float64, `idle` `[B]` uint8, `senses` `[B]` int16.
"""

import numpy as np
from numba import cuda

from pomp.core.cuda import device_kernel
from pomp.engine.lanes import (
    Lane,
    LaneIndex,
    act_on_world,
    play_world,
    reset_world,
    run_lane,
    sense_world,
    take_mode,
)
from pomp.engine.rule_machine import machine_at, play_machine
from pomp.karel.dynamics import PUT
from pomp.karel.sensors import senses_nothing as sense_own  # sensors of one's own
from pomp.tasks.random_world import begin, draw_start, step  # the task

CELLS, SLOTS, DEPTH = 64, 5, 24  # the sizes

LAST_ACTION = PUT


@device_kernel
def reset_worlds(constants, worlds):
    """Draw a start for every world."""
    index = cuda.grid(1)
    if index < len(worlds.pose):
        reset_world(draw_start, begin, index, constants, worlds)


@device_kernel
def act_on_worlds(actions, constants, worlds, rewards):
    """Perform one action in every world, in place; `rewards` are written."""
    index = cuda.grid(1)
    if index < len(worlds.pose):
        action = np.int64(actions[index])
        rewards[index] = act_on_world(step, index, action, constants, worlds)


@device_kernel
def play_worlds(actions, was_bad, limit, constants, worlds, results):
    """One step of every episode, in place.

    An action out of range is clipped, and noted in `was_bad` `[1]` bool.
    """
    index = cuda.grid(1)
    if index < len(worlds.pose):
        if actions[index] < 0 or actions[index] > LAST_ACTION:
            was_bad[0] = True
            actions[index] = min(max(actions[index], 0), LAST_ACTION)
        play_world(step, draw_start, begin, index, actions, limit, constants, worlds, results)


@device_kernel
def run_lanes(units, code, cap, constants, worlds, after, results):
    """Run units on worlds, as `run_lane` does. The results may be longer than needed."""
    lane = cuda.grid(1)
    if lane >= units.count * units.span:
        return
    scratch = Lane(
        cuda.local.array(CELLS, np.uint8),
        cuda.local.array(SLOTS, np.int32),
        cuda.local.array(1, np.uint64),
        cuda.local.array(DEPTH, np.int32),
    )
    index = LaneIndex(lane, lane // units.span, lane % units.span)
    run_lane(step, index, units, code, cap, constants, worlds, after, results, scratch)


@device_kernel
def sense_worlds(constants, worlds, idle, compass, senses):
    """Write what transitions by rules see, as `sense_world` says, to `senses`."""
    index = cuda.grid(1)
    if index < len(worlds.pose):
        senses[index] = sense_world(sense_own, index, constants, worlds, idle, compass)


@device_kernel
def take_modes(macro, choices, constants, worlds, state):
    """One macro step in every world, in place, as in `take_mode`."""
    index = cuda.grid(1)
    if index < len(worlds.pose):
        counters = cuda.local.array(DEPTH, np.int32)
        take_mode(
            step, draw_start, begin, index, macro, choices, constants, worlds, state, counters
        )


@device_kernel
def run_machines(machines, terms, constants, worlds, earned, tallies):
    """What machines earn in every world: `earned` `[C, B]`, `tallies` `[C, B, 4]` are written.

    The worlds of one machine stand side by side; see `play_machine` for the arguments.
    """
    lane, count = cuda.grid(1), len(worlds.pose)
    if lane >= len(machines.start) * count:
        return
    index, world = lane // count, lane % count
    scratch = Lane(
        cuda.local.array(CELLS, np.uint8),
        cuda.local.array(SLOTS, np.int32),
        cuda.local.array(1, np.uint64),
        cuda.local.array(DEPTH, np.int32),
    )
    earned[index, world] = play_machine(
        step, sense_own, world, machine_at(machines, index), terms, -np.inf, constants, worlds,
        scratch, tallies[index, world],
    )  # fmt: skip
