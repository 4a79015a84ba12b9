"""A whole machine by rules in one world: programs run, rules choose the next, until it stops.

What a search evaluates millions of times. Episodes (`pomp.machine`) do the same a step at a time.
"""

from typing import Any, NamedTuple

import numpy as np

from pomp.core.compiling import scalar
from pomp.engine.lanes import copy_world
from pomp.karel.dynamics import (
    ACTIONS,
    COST,
    DONE,
    HEIGHT,
    SCORE,
    SUM,
    UNIT,
    VALUE,
    WHOLE,
    WIDTH,
    value,
)
from pomp.karel.interpreter import (
    Cap,
    WorldState,
    notes_nothing,
    refuses_nothing,
    run_program,
    sees_nothing,
)
from pomp.karel.sensors import asks_compass, is_true, sense, sense_direction

CONDITIONS = 2  # of a rule
# How an episode of a machine ends: by its choice, stuck, or with the task done but not by choice;
# and whether the cap cut a program short.
STOPPED, STUCK, LATE, CUT = 0, 1, 2, 4
# A tally: episodes that were stuck, programs run, actions taken, episodes that were not clean.
STUCKS, PROGRAMS, ACTED, UNCLEAN, TALLIES = range(5)


class RuleMachines(NamedTuple):
    """C machines of K modes with R rules each, as compiled code takes them.

    One of them is told in the same words: its arrays lack the leading axis, `code` is
    `[K, L]` and `start` an integer.

    Attributes:
        code: `[C * K, L]` uint32, the machines' programs, one machine behind the other.
        literals: `[C, K, R, 2]` int8: the conditions of each rule, as literals; -1: none.
        targets: `[C, K, R]` int8: where each rule leads, K: stop; -1: there is no such rule.
        defaults: `[C, K]` int8: where no rule leads.
        start: `[C]` int8: the first mode.
    """

    code: Any
    literals: Any
    targets: Any
    defaults: Any
    start: Any


class FitnessTerms(NamedTuple):
    """What an episode of a machine counts with, and when it is given up.

    Attributes:
        most: `[B]` int64, by world: programs after which an episode is stopped.
        is_strict: `[B]` bool, by world: a program that is cut short ends its episode, which is
            stuck then.
        patience: `[N]` int64, by limit: actions without progress after which an episode is given
            up; 0: never.
        limits: `[N]` int64, rising: calls that a program may spend.
        fragility: the share that counts of what is lost under the first limit; 0: it is not tried.
        penalty: what is taken off an episode that is stuck.
        lateness: what is taken off if the machine does not stop though the task is done.
        mercies: how often a machine that stops though the task is not done begins anew.
        haste: what is taken off each time.
    """

    most: Any
    is_strict: Any
    patience: Any
    limits: Any
    fragility: Any
    penalty: Any
    lateness: Any
    mercies: Any
    haste: Any


class Patience(NamedTuple):
    """When an episode of a machine ends that does not end by itself.

    Attributes:
        most: programs after which it is stopped.
        is_strict: a program that the cap cuts short ends the episode, which is stuck then.
        fruitless: actions without progress after which it is given up; 0: never.
        affordable: actions after which it is given up in any case.
        mercies: how often a machine that stops though the task is not done begins anew, if it has
            made progress since it began.
    """

    most: Any
    is_strict: Any
    fruitless: Any
    affordable: Any
    mercies: Any


@scalar
def machine_at(machines, index):
    """Return one of the `RuleMachines`, which shares their memory."""
    modes = machines.defaults.shape[1]
    return RuleMachines(
        machines.code[index * modes : (index + 1) * modes],
        machines.literals[index],
        machines.targets[index],
        machines.defaults[index],
        machines.start[index],
    )


@scalar
def next_mode(sense_own, mode, machine, constants, world, idle):
    """Return the mode that a machine's rules choose; the number of modes: stop.

    Args:
        sense_own: reads sensors of one's own, as `pomp.karel.sensors.senses_nothing` does.
        mode: the one that ran.
        machine: one of the `RuleMachines`.
        constants: `[N]` int64, read.
        world: the `WorldState`, read.
        idle: the mode took no action.
    """
    reading, has_looked = sense(world.cells, constants, world.pose, idle, False), False
    rule = 0
    while rule < machine.targets.shape[1] and machine.targets[mode, rule] >= 0:
        fires, place = True, 0
        while fires and place < CONDITIONS:
            literal = np.int64(machine.literals[mode, rule, place])
            if literal >= 0:
                if not has_looked and asks_compass(literal):  # only then: it takes long
                    reading |= sense_direction(world.cells, constants, world.pose)
                    has_looked = True
                own = sense_own(literal >> 1, world.cells, constants, world.pose)
                fires = own != literal & 1 if own >= 0 else is_true(literal, reading)
            place += 1
        if fires:
            return np.int64(machine.targets[mode, rule])
        rule += 1
    return np.int64(machine.defaults[mode])


@scalar
def run_machine(step, sense_own, machine, patience, cap, constants, world, counters):
    """One episode of a machine in one world, in place.

    Args:
        step: the task's.
        sense_own: reads sensors of one's own, as `pomp.karel.sensors.senses_nothing` does.
        machine: one of the `RuleMachines`.
        patience: the `Patience` with it.
        cap: the `Cap` of each program, in calls.
        constants: `[N]` int64, read.
        world: the `WorldState`, whose arrays are written.
        counters: `[D]` int32, scratch for the loops.

    Returns:
        How it ended, `CUT` added if the cap cut a program short; the programs that ran; how often
        it began anew.
    """
    cells, pose, memory, stream = world
    mode, taken, idles, cut, ending = np.int64(machine.start), 0, 0, 0, -1
    modes = len(machine.defaults)
    score, scored_at = memory[SCORE], memory[ACTIONS]
    anew, begun_with = 0, score
    while taken < patience.most:
        acted, done = memory[ACTIONS], memory[DONE]
        outcome = run_program(
            step, refuses_nothing, notes_nothing, sees_nothing, (), machine.code[mode], cap,
            constants, WorldState(cells, pose, memory, stream), counters,
        )  # fmt: skip
        pose = outcome.pose
        taken += 1
        if outcome.calls > cap.limit:
            cut = CUT
            if patience.is_strict:
                ending = STUCK
                break
        idle = memory[ACTIONS] == acted and memory[DONE] == done
        idles = idles + 1 if idle else 0
        here = WorldState(cells, pose, memory, stream)
        mode = next_mode(sense_own, mode, machine, constants, here, idle)
        if mode == modes:
            is_early = memory[DONE] == 0 and memory[SCORE] > begun_with
            if not is_early or anew == patience.mercies:
                ending = STOPPED
                break
            mode, anew, begun_with = np.int64(machine.start), anew + 1, memory[SCORE]
        if idles > modes:  # nothing can change any more
            break
        if memory[SCORE] > score:
            score, scored_at = memory[SCORE], memory[ACTIONS]
        elif 0 < patience.fruitless <= memory[ACTIONS] - scored_at:
            if memory[DONE] != 0 and constants[COST] > 0:
                ending = STUCK  # it would go on and pay for it
            break
        if memory[ACTIONS] > patience.affordable:
            break
    if ending < 0:
        ending = LATE if memory[DONE] != 0 else STUCK
    return ending | cut, taken, anew


@scalar
def afford(need, share, memory, constants):
    """Return the actions after which an episode cannot earn `need` any more.

    The full score is worth 1. Of the episode a `share` counts; the rest is of another, which may be
    worth 1 too. `memory` `[M]` int32 and `constants` `[N]` int64 are read.
    """
    if constants[VALUE] != SUM or constants[COST] == 0:
        return np.inf
    return (1 - need) * memory[UNIT] * constants[WHOLE] / (share * constants[COST]) + 1


@scalar
def play_machine(step, sense_own, index, machine, terms, need, constants, worlds, scratch, tally):
    """Return what a machine earns in one world.

    The least under the limits but the first counts, minus the difference to the most, minus a share
    of what is lost under the first. They can differ only where a limit cuts a program short; else
    one episode tells all, as it does in a strict world, where a cut is the end.

    Args:
        step: the task's.
        sense_own: reads sensors of one's own, as `pomp.karel.sensors.senses_nothing` does.
        index: which of the worlds.
        machine: one of the `RuleMachines`.
        terms: the `FitnessTerms`.
        need: less than that is of no interest: the episode may be given up, and -inf come back.
        constants: `[B, N]` int64, those of each world, read.
        worlds: the `Worlds`, of several sizes where the constants say so; read.
        scratch: the `Lane` that the programs run in.
        tally: `[TALLIES]` int64, added to.
    """
    least, greatest, interrupted = np.inf, -np.inf, np.inf
    is_stuck, is_clean = False, True
    own, is_strict = constants[index], terms.is_strict[index]
    size = own[HEIGHT] * own[WIDTH]
    attempt = 0 if terms.fragility > 0 else 1
    while attempt < len(terms.limits):
        world = copy_world(worlds, index, scratch)
        memory, acted_before = world.memory, world.memory[ACTIONS]
        share = terms.fragility if attempt == 0 else 1.0  # of the episode's worth that counts
        affordable = afford(need, share, memory, own)
        patience = Patience(
            terms.most[index], is_strict and attempt > 0, terms.patience[attempt], affordable,
            terms.mercies,
        )  # fmt: skip
        ending, programs, anew = run_machine(
            step, sense_own, machine, patience, Cap(True, terms.limits[attempt]), own,
            WorldState(world.cells[:size], world.pose, memory, world.stream), scratch.counters,
        )  # fmt: skip
        found = value(memory, own)
        if ending & STUCK:
            found -= terms.penalty
        elif ending & LATE:
            found -= terms.lateness
        for _ in range(anew):  # no product, which a GPU would round differently
            found -= terms.haste
        tally[PROGRAMS] += programs
        tally[ACTED] += memory[ACTIONS] - acted_before
        if memory[ACTIONS] > affordable:
            return -np.inf
        if attempt == 0 and ending & CUT:
            interrupted = found
        else:
            least, greatest = min(least, found), max(greatest, found)
            is_stuck = is_stuck or ending & STUCK != 0
            is_clean = is_clean and ending & (STUCK | LATE) == 0
            is_clean = is_clean and not (is_strict and ending & CUT)
        has_told = not ending & CUT or (is_strict and attempt > 0)
        attempt = len(terms.limits) if has_told else attempt + 1
    tally[STUCKS] += is_stuck
    tally[UNCLEAN] += not is_clean
    earned = 2 * least - greatest
    lost = terms.fragility * max(0.0, earned - interrupted)
    return earned - max(lost, 0.0)  # as it is, a GPU would multiply and subtract at once
