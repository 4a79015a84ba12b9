"""Chains of simulated annealing over whole machines by rules, each on its own. Compiled.

A chain holds a machine and what it earns in each world. A step mutates a program, a rule or both,
and plays the result world by world, no longer than it takes to tell whether it is accepted.
"""

from typing import Any, NamedTuple

import numpy as np

from pomp.core.compiling import routine, scalar
from pomp.core.streams import branch_of
from pomp.dsl.bytecode import compile_legal
from pomp.dsl.mutation import propose_one
from pomp.engine.lanes import copy_row
from pomp.engine.rule_machine import RuleMachines
from pomp.engine.rule_mutation import mutate_rule

PROGRAM_MUTATIONS, BOTH = 65, 10  # of 100 mutations: of a program, and of these also of a rule
_KIND, _MODE = 1, 2  # branches of a step's draw


class MachineArrays(NamedTuple):
    """C machines of K modes with R rules each, with their programs as ids and as code.

    Attributes:
        code: `[C, K, L]` uint32.
        programs: `[C, K, L]` uint8.
        literals: `[C, K, R, 2]` int8.
        targets: `[C, K, R]` int8.
        defaults: `[C, K]` int8.
        start: `[C]` int8.
    """

    code: Any
    programs: Any
    literals: Any
    targets: Any
    defaults: Any
    start: Any


class Chains(NamedTuple):
    """C chains and what is known of them, each array written.

    Attributes:
        machines: the `MachineArrays` now.
        earned: `[C, B]` float64, what they earn in each world.
        scores: `[C]` float64, what they earn on average.
        verified: the `MachineArrays` that were last played in all worlds.
        verified_earned: `[C, B]` float64, what these earn.
        verified_scores: `[C]` float64.
        best: the best `MachineArrays` so far.
        best_scores: `[C]` float64, what these earn on average.
        streams: `[3, C]` uint64: what programs, rules and choices are drawn from.
        tallies: `[C, TALLIES]` int64, added to.
    """

    machines: Any
    earned: Any
    scores: Any
    verified: Any
    verified_earned: Any
    verified_scores: Any
    best: Any
    best_scores: Any
    streams: Any
    tallies: Any


class Schedule(NamedTuple):
    """What the steps of chains do.

    Attributes:
        first: the number of the first step.
        count: how many steps.
        steps: of the whole round.
        share: the share of the round that is over by other measures than steps.
        initial: the temperature at its beginning.
        final: the temperature at its end.
        enough: a score with which a chain stops.
        optimism: the share of what a parent leaves unearned that a mutated machine may gain.
        goals: `[B]` float64: what could be earned.
        trust: a machine that earns what its parent did in so many worlds is taken to do so in all.
    """

    first: Any
    count: Any
    steps: Any
    share: Any
    initial: Any
    final: Any
    enough: Any
    optimism: Any
    goals: Any
    trust: Any


class MutationTables(NamedTuple):
    """How machines are mutated.

    Attributes:
        rules: the `MutationRules` of programs.
        reader: the `ReaderTables` of the compiler.
        sensors: `[S]` int64, the numbers of those that rules may ask for.
        other_tokens: `[V]` uint8: tokens with left and right exchanged.
        other_literals: `[N]` int8: literals with left and right exchanged.
        is_mirrored: whether the second half of the modes are mirror images of the first.
    """

    rules: Any
    reader: Any
    sensors: Any
    other_tokens: Any
    other_literals: Any
    is_mirrored: Any


class ChainScratch(NamedTuple):
    """Memory for the steps of one chain at a time.

    Attributes:
        candidate: `MachineArrays` of one machine.
        found: `[B]` float64, what it earns.
        order: `[B]` int64, the worlds as they are played.
        is_worst: `[B]` bool, those in which the parent earns least.
        mutation: the `MutationScratch`.
        compiler: the `CompilerScratch`.
        origin: `[0, 0]` int16.
        lane: the `Lane` that programs run in.
    """

    candidate: Any
    found: Any
    order: Any
    is_worst: Any
    mutation: Any
    compiler: Any
    origin: Any
    lane: Any


@scalar
def _copy_machine(source, row, target, place):
    """Copy one of the `MachineArrays` over another."""
    for mode in range(source.defaults.shape[1]):
        copy_row(source.code[row, mode], target.code[place, mode])
        copy_row(source.programs[row, mode], target.programs[place, mode])
        copy_row(source.targets[row, mode], target.targets[place, mode])
        for rule in range(source.targets.shape[2]):
            copy_row(source.literals[row, mode, rule], target.literals[place, mode, rule])
        target.defaults[place, mode] = source.defaults[row, mode]
    target.start[place] = source.start[row]


@scalar
def _machine_at(machines, row):
    """Return one of the `MachineArrays` as one of the `RuleMachines`, which shares its memory."""
    return RuleMachines(
        machines.code[row], machines.literals[row], machines.targets[row], machines.defaults[row],
        machines.start[row],
    )  # fmt: skip


@scalar
def _reflect(machine, mode, tables, scratch):
    """Make the image of one mode in the second half anew; see `pomp.evolution.genome.reflect`.

    Args:
        machine: `MachineArrays` of one machine, written.
        mode: one of the first half.
        tables: the `MutationTables`.
        scratch: the `ChainScratch`.
    """
    modes = machine.defaults.shape[1]
    half = modes // 2
    image = half + mode
    for place in range(machine.programs.shape[2]):
        machine.programs[0, image, place] = tables.other_tokens[machine.programs[0, mode, place]]
    for rule in range(machine.targets.shape[2]):
        machine.targets[0, image, rule] = _image(machine.targets[0, mode, rule], half)
        for place in range(machine.literals.shape[3]):
            literal = machine.literals[0, mode, rule, place]
            other = tables.other_literals[literal] if literal >= 0 else literal
            machine.literals[0, image, rule, place] = other
    machine.defaults[0, image] = _image(machine.defaults[0, mode], half)


@scalar
def _image(target, half):
    """Return where the image of a mode leads whose rule leads to `target`."""
    if 0 <= target < half:
        return target + half
    return target - half if half <= target < 2 * half else target


@routine
def _mutate(chain, draws, chains, tables, scratch):
    """Write a mutation of a chain's machine to the candidate.

    Args:
        chain: which.
        draws: random bits of the step.
        chains: the `Chains`, whose streams are written.
        tables: the `MutationTables`.
        scratch: the `ChainScratch`.
    """
    new, machines = scratch.candidate, chains.machines
    _copy_machine(machines, chain, new, 0)
    modes = new.defaults.shape[1]
    half = modes // 2 if tables.is_mirrored else modes
    kind = branch_of(draws, _KIND) % np.uint64(100)
    mode = np.int64(branch_of(draws, _MODE) % np.uint64(half))
    is_program = kind < np.uint64(PROGRAM_MUTATIONS)
    if is_program:
        stream = chains.streams[0, chain : chain + 1]
        ids = machines.programs[chain, mode]
        propose_one(stream, False, ids, tables.rules, scratch.mutation, new.programs[0, mode])
        compile_legal(
            new.programs[0, mode], tables.reader, scratch.compiler, new.code[0, mode],
            scratch.origin,
        )  # fmt: skip
    if not is_program or kind < np.uint64(BOTH):
        stream = chains.streams[1, chain : chain + 1]
        mutate_rule(
            stream, tables.sensors, new.literals[0], new.targets[0], new.defaults[0], new.start
        )
    if tables.is_mirrored:
        for each in range(half):
            _reflect(new, each, tables, scratch)
        if is_program:
            compile_legal(
                new.programs[0, half + mode], tables.reader, scratch.compiler,
                new.code[0, half + mode], scratch.origin,
            )  # fmt: skip


@routine
def _order_worlds(earned, step, trust, is_worst, order):
    """Say in which order a mutated machine plays the worlds.

    Half of the worlds in which it must change nothing to be trusted are those in which its parent
    earns least; the others are different ones in every step.

    Args:
        earned: `[B]` float64, what its parent earns.
        step: the number of the step.
        trust: in so many worlds it must change nothing.
        is_worst: `[B]` bool, written.
        order: `[B]` int64, written.
    """
    worlds, count = len(earned), 0
    for world in range(worlds):
        is_worst[world] = False
    for _ in range(trust // 2):
        worst = -1
        for world in range(worlds):
            if not is_worst[world] and (worst < 0 or earned[world] < earned[worst]):
                worst = world
        is_worst[worst] = True
    for world in range(worlds):
        if is_worst[world]:
            order[count] = world
            count += 1
    for place in range(worlds):
        world = (place - step * trust) % worlds
        if not is_worst[world]:
            order[count] = world
            count += 1


@scalar
def _play_candidate(play, chain, need, trust, chains, schedule, terms, ground, scratch):
    """Return the mean score of the candidate; -inf if it is given up.

    Args:
        play: plays an episode, as `pomp.engine.rule_machine.play_machine` does for a task.
        chain: whose candidate.
        need: the least sum over all worlds that is accepted.
        trust: if it earns what its parent did in so many worlds it is taken to do so in all.
        chains: the `Chains`, whose tallies are added to.
        schedule: the `Schedule`.
        terms: the `FitnessTerms`.
        ground: the constants `[B, N]` int64 and the `Worlds`, read.
        scratch: the `ChainScratch`, whose `found` is written.
    """
    constants, worlds = ground
    known, found, goals = chains.earned[chain], scratch.found, schedule.goals
    rest, count, is_same = -need, 0, True
    for world in range(len(known)):
        rest += known[world] + schedule.optimism * max(goals[world] - known[world], 0.0)
    while count < len(known) and rest >= 0:
        world = scratch.order[count]
        most = known[world] + schedule.optimism * max(goals[world] - known[world], 0.0)
        if is_same and count >= trust:
            found[world] = known[world]
        else:
            found[world] = play(
                world, _machine_at(scratch.candidate, 0), terms, most - rest,
                constants, worlds, scratch.lane, chains.tallies[chain],
            )  # fmt: skip
            is_same = is_same and found[world] == known[world]
        rest += found[world] - most
        count += 1
    return _mean(found) if count == len(known) else -np.inf


@scalar
def _mean(values):
    """Return the mean of `values` `[N]`, added up one by one."""
    total = 0.0
    for place in range(len(values)):
        total += values[place]
    return total / len(values)


@scalar
def _temperature(number, schedule):
    """Return the temperature at a step: it falls geometrically with the share that is over."""
    share = min(1.0, max(number / schedule.steps, schedule.share))
    return schedule.initial * (schedule.final / schedule.initial) ** share


@scalar
def anneal_chain(play, chain, chains, schedule, tables, terms, ground, scratch):
    """Take the steps of one chain, then play its machine in all worlds.

    A mutation is accepted if its score is at least that of its parent plus the temperature times
    the logarithm of a uniform number: the Metropolis rule, with the number drawn first. If in the
    end the machine earns less than was believed, a harmful mutation was accepted on trust, and the
    chain returns to the machine that was verified last.

    Args:
        play: plays an episode, as `pomp.engine.rule_machine.play_machine` does for a task.
        chain: which.
        chains: the `Chains`, written.
        schedule: the `Schedule`.
        tables: the `MutationTables`.
        terms: the `FitnessTerms`.
        ground: the constants `[B, N]` int64 and the `Worlds`, read.
        scratch: the `ChainScratch`.

    Returns:
        How many machines were played.
    """
    machines, candidate, worlds = chains.machines, scratch.candidate, len(schedule.goals)
    played, is_last = 0, False
    while not is_last:
        number = schedule.first + played
        is_last = played == schedule.count or chains.best_scores[chain] >= schedule.enough
        threshold = -np.inf
        if is_last:
            _copy_machine(machines, chain, candidate, 0)
        else:
            draws = branch_of(chains.streams[2, chain], number)
            _mutate(chain, draws, chains, tables, scratch)
            uniform = ((draws >> np.uint64(11)) + np.uint64(1)) * 2.0**-53  # above 0, up to 1
            threshold = chains.scores[chain] + _temperature(number, schedule) * np.log(uniform)
        _order_worlds(chains.earned[chain], number, schedule.trust, scratch.is_worst, scratch.order)
        score = _play_candidate(
            play, chain, threshold * worlds, worlds if is_last else schedule.trust,
            chains, schedule, terms, ground, scratch,
        )  # fmt: skip
        if score > chains.best_scores[chain]:
            _copy_machine(candidate, 0, chains.best, chain)
            chains.best_scores[chain] = score
        if not is_last and score >= threshold:
            _copy_machine(candidate, 0, machines, chain)
            copy_row(scratch.found, chains.earned[chain])
            chains.scores[chain] = score
        played += not is_last
    if score < chains.scores[chain]:
        _copy_machine(chains.verified, chain, machines, chain)
        copy_row(chains.verified_earned[chain], chains.earned[chain])
        chains.scores[chain] = chains.verified_scores[chain]
    else:
        _copy_machine(machines, chain, chains.verified, chain)
        copy_row(scratch.found, chains.earned[chain])
        copy_row(scratch.found, chains.verified_earned[chain])
        chains.scores[chain], chains.verified_scores[chain] = score, score
    return played
