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

from pomp.core.compiling import scalar
from pomp.core.cuda import device_kernel, large_kernel
from pomp.engine.annealing import (
    CHAIN_THREADS,
    PAST_END,
    PAST_SLACK,
    Playground,
    anneal_chain,
    play_place,
    scratch_at,
)
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
from pomp.engine.rule_machine import TALLIES, machine_at, play_machine
from pomp.karel.dynamics import PUT
from pomp.karel.sensors import senses_nothing as sense_own  # sensors of one's own
from pomp.tasks.random_world import begin, draw_start, step  # the task

CELLS, SLOTS, DEPTH = 64, 5, 24  # the sizes

LAST_ACTION = PUT
RESIDENT_THREADS = 512  # of chains that a processor runs at once: 16 of them


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


@scalar
def play_episode(index, machine, terms, need, constants, worlds, scratch, tally):
    """What a machine earns in one world, as `play_machine` says.

    `constants` is `[B, N]` int64, `tally` `[TALLIES]` int64, added to.
    """
    return play_machine(
        step, sense_own, index, machine, terms, need, constants, worlds, scratch, tally
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
    earned[index, world] = play_episode(
        world, machine_at(machines, index), terms, -np.inf, constants, worlds, scratch,
        tallies[index, world],
    )  # fmt: skip


@scalar
def leads():
    """Say whether a thread is the one of its chain that writes."""
    return cuda.threadIdx.x == 0


@scalar
def meet():
    """Wait for the other threads of the chain."""
    cuda.syncthreads()


@scalar
def play_together(place, end, slack, chain, chains, schedule, ground, scratch):
    """Play the candidate of a chain at a place of its order, and at those behind it.

    A chain is a warp, and a warp is fast where its threads run the same machine: each plays it in
    one world. First come those in which it may be trusted, which tell enough of most machines, then
    the others, as many at once as there are threads. What may be lost in a world is what may be
    lost now; if a world was given up and it turns out that others before it earned more than was
    expected, it is played again.

    Args:
        place: of the world that is asked for.
        end: the place up to which worlds may be played.
        slack: with so much less than expected, the candidate is still accepted.
        chain: whose candidate.
        chains: the `Chains`.
        schedule: the `Schedule`.
        ground: the `Playground`.
        scratch: the `ChainScratch`, whose `found` is written.
    """
    past, world = scratch.past, scratch.order[place]
    if place < past[PAST_END] and (scratch.found[world] != -np.inf or slack <= past[PAST_SLACK]):
        return
    last = min(place + CHAIN_THREADS, end)
    own_place = place + cuda.threadIdx.x
    meet()
    if own_place < last:
        play_place(play_episode, own_place, slack, chain, chains, schedule, ground, scratch)
    meet()
    past[PAST_END], past[PAST_SLACK] = last, slack


@large_kernel(RESIDENT_THREADS)
def anneal_chains(first, chains, schedule, tables, terms, constants, worlds, scratch, played):
    """Take some steps of chains of simulated annealing, from the chain `first` on; a block each.

    The groups of arrays are described in `pomp.engine.annealing`.

    Args:
        first: the first chain.
        chains: the `Chains`, written.
        schedule: the `Schedule`.
        tables: the `MutationTables`.
        terms: the `FitnessTerms`.
        constants: `[B, N]` int64, those of each world, read.
        worlds: the `Worlds`, read.
        scratch: the `ChainScratch` of all chains, without a lane.
        played: `[C]` int64: how many mutated machines were played; written.
    """
    chain = first + cuda.blockIdx.x
    lane = Lane(
        cuda.local.array(CELLS, np.uint8),
        cuda.local.array(SLOTS, np.int32),
        cuda.local.array(1, np.uint64),
        cuda.local.array(DEPTH, np.int32),
    )
    tally = cuda.local.array(TALLIES, np.int64)
    for what in range(TALLIES):
        tally[what] = 0
    ground = Playground(terms, constants, worlds, tally)
    count = anneal_chain(
        play_together, leads, meet, chain, chains, schedule, tables, ground,
        scratch_at(scratch, chain, lane, cuda.local.array(2, np.float64)),
    )  # fmt: skip
    for what in range(TALLIES):
        cuda.atomic.add(chains.tallies, (chain, what), tally[what])
    if leads():
        played[chain] = count
