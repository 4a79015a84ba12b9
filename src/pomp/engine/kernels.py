"""The launch loops of one task. This file is a template.

Importing it gives the kernels of random worlds. For any other task `pomp.engine.loading` writes a
copy into the cache folder whose marked imports name that task's module, and those of sensors of
one's own: Numba keeps machine code on disk only for functions that stand at the top of a real file,
and kernels of its own keep each task's code small.

Arrays, for B worlds or lanes of one size: `constants` `[N]` int64 has the setting's numbers,
`code` `[P, L]` uint32 programs, `counters` `[D]` int32 is scratch for their loops. `worlds` are
`pomp.karel.world.Worlds`, written unless a kernel says that it reads them; the other groups of
arrays are described in `pomp.engine.lanes`, `pomp.engine.rule_machine` and `pomp.engine.tracing`.
"""

import numpy as np

from pomp.core.compiling import kernel, routine, scalar
from pomp.engine.annealing import (
    Playground,
    always_leads,
    anneal_chain,
    meets_nobody,
    play_place,
)
from pomp.engine.lanes import (
    LaneIndex,
    act_on_world,
    play_world,
    reset_world,
    run_lane,
    sense_world,
    take_mode,
)
from pomp.engine.rule_machine import machine_at, play_machine
from pomp.engine.tracing import record_lane
from pomp.karel.sensors import senses_nothing as sense_own  # sensors of one's own
from pomp.tasks.random_world import begin, draw_start, step  # the task

SHARE = 64  # worlds of one list that a thread takes up at once


@kernel
def reset_worlds(constants, worlds):
    """Draw a start for every world."""
    for index in range(len(worlds.pose)):
        reset_world(draw_start, begin, index, constants, worlds)


@kernel
def begin_worlds(constants, worlds, is_usable):
    """Take up worlds that were made elsewhere; `is_usable` `[B]` bool is written."""
    for index in range(len(worlds.pose)):
        is_usable[index] = begin(
            worlds.cells[index], constants, worlds.pose[index], worlds.memory[index]
        )


@kernel
def sense_worlds(constants, worlds, idle, compass, senses):
    """Write what transitions by rules see to `senses` `[B]` int16, as `sense_world` says.

    `idle` `[B]` uint8 says where the last mode took no action; the worlds are read.
    """
    for index in range(len(worlds.pose)):
        senses[index] = sense_world(sense_own, index, constants, worlds, idle, compass)


@kernel
def act_on_worlds(first, last, actions, constants, worlds, rewards):
    """Perform `actions` `[B]` int64 in worlds `first` to `last - 1`, in place.

    `rewards` `[B]` float64 is written.
    """
    for index in range(first, last):
        action = np.int64(actions[index])
        rewards[index] = act_on_world(step, index, action, constants, worlds)


@kernel
def play_worlds(first, last, actions, limit, constants, worlds, results):
    """One step of the episodes in worlds `first` to `last - 1`, in place, as in `play_world`."""
    for index in range(first, last):
        play_world(step, draw_start, begin, index, actions, limit, constants, worlds, results)


@kernel
def run_lanes(part, parts, units, code, cap, constants, worlds, after, results, scratch):
    """Run every unit on its worlds; unit u's lanes are u * span and those after it.

    The work is dealt out to `parts` threads in turn, a unit on up to `SHARE` worlds at a time. The
    other arguments are those of `run_lane`; `worlds` is read, `after` and `results` are written.
    """
    shares = (units.span + SHARE - 1) // SHARE
    for item in range(part, units.count * shares, parts):
        unit = item // shares
        first = item % shares * SHARE
        for offset in range(first, min(first + SHARE, units.span)):
            index = LaneIndex(unit * units.span + offset, unit, offset)
            run_lane(step, index, units, code, cap, constants, worlds, after, results, scratch)


@kernel
def take_modes(first, last, macro, choices, constants, worlds, state, counters):
    """One macro step in worlds `first` to `last - 1`, in place, as in `take_mode`.

    `choices` `[B]` int64 has the modes to run.
    """
    for index in range(first, last):
        take_mode(
            step, draw_start, begin, index, macro, choices, constants, worlds, state, counters
        )


@routine
def play_episode(index, machine, terms, need, constants, worlds, scratch, tally):
    """What a machine earns in one world, as `play_machine` says; called by two loops below.

    `constants` is `[B, N]` int64, `tally` `[TALLIES]` int64, added to.
    """
    return play_machine(
        step, sense_own, index, machine, terms, need, constants, worlds, scratch, tally
    )


@kernel
def run_machines(part, parts, machines, terms, constants, worlds, earned, tallies, scratch):
    """What machines `part`, `part + parts`, ... earn in every world.

    Args:
        part: the first machine.
        parts: how many threads there are.
        machines: the `RuleMachines`.
        terms: the `FitnessTerms`.
        constants: `[B, N]` int64, those of each world, read.
        worlds: the `Worlds`, read.
        earned: `[C, B]` float64, written.
        tallies: `[C, TALLIES]` int64, added to.
        scratch: the `Lane` that the programs run in.
    """
    for index in range(part, len(machines.start), parts):
        for world in range(len(worlds.pose)):
            earned[index, world] = play_episode(
                world, machine_at(machines, index), terms, -np.inf, constants, worlds, scratch,
                tallies[index],
            )  # fmt: skip


@scalar
def play_alone(place, end, slack, chain, chains, schedule, ground, scratch):
    """Play the candidate of a chain at one place of its order, and at no other."""
    play_place(play_episode, place, slack, chain, chains, schedule, ground, scratch)


@kernel
def anneal_chains(part, parts, chains, schedule, tables, terms, constants, worlds, scratch, played):
    """Take some steps of chains `part`, `part + parts`, ... of simulated annealing.

    The groups of arrays are described in `pomp.engine.annealing`.

    Args:
        part: the first chain.
        parts: how many threads there are.
        chains: the `Chains`, written.
        schedule: the `Schedule`.
        tables: the `MutationTables`.
        terms: the `FitnessTerms`.
        constants: `[B, N]` int64, those of each world, read.
        worlds: the `Worlds`, read.
        scratch: the `ChainScratch`.
        played: `[C]` int64: how many mutated machines were played; written.
    """
    for chain in range(part, len(chains.scores), parts):
        ground = Playground(terms, constants, worlds, chains.tallies[chain])
        played[chain] = anneal_chain(
            play_alone, always_leads, meets_nobody, chain, chains, schedule, tables, ground, scratch
        )


@kernel
def record_lanes(code, lists, cap, constants, worlds, trace, counters):
    """Run lists of programs on worlds, one per lane, in place, and write what happened.

    `lists` `[B, M]` int32 has rows of program numbers, -1 behind the last: list i runs in lane i.
    `trace` is a `TraceArrays`, written.
    """
    for lane in range(len(worlds.pose)):
        record_lane(step, lane, lists[lane], code, cap, constants, worlds, trace, counters)
