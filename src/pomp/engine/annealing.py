"""Chains of simulated annealing over whole machines by rules, each on its own. Compiled.

A chain holds a machine and what it earns in each world. A step mutates a program, a rule or both,
and plays the result world by world, no longer than it takes to tell whether it is accepted.

On a CPU a chain is the work of one thread. On a GPU it is that of several, which all run the same
code: one of them *leads*, and alone writes what belongs to the chain, while the others wait where
they *meet*. They share out the worlds. So what differs are three functions, which come in as
arguments: `leads`, `meet` and `play`.
"""

from typing import Any, NamedTuple

import numpy as np

from pomp.core.compiling import routine, scalar
from pomp.core.streams import branch_of
from pomp.dsl.bytecode import CompilerScratch, compile_legal
from pomp.dsl.mutation import MutationScratch, propose_one
from pomp.engine.lanes import copy_row
from pomp.engine.rule_machine import RuleMachines
from pomp.engine.rule_mutation import mutate_rule

PROGRAM_MUTATIONS, BOTH = 65, 10  # of 100 mutations: of a program, and of these also of a rule
CHAIN_THREADS = 32  # that share a chain on a GPU: a warp
PAST_END, PAST_SLACK = 0, 1  # of `ChainScratch.past`
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

    That of C chains is told in the same words: every array has a leading axis `[C, ...]`, and there
    is neither `lane` nor `past`.

    Attributes:
        candidate: `MachineArrays` of one machine.
        threshold: `[1]` float64, the least score with which it is accepted.
        found: `[B]` float64, what it earns.
        order: `[B]` int64, the worlds as they are played.
        is_worst: `[B]` bool, those in which the parent earns least.
        mutation: the `MutationScratch`.
        compiler: the `CompilerScratch`.
        origin: `[0, 0]` int16.
        lane: the `Lane` that programs run in.
        past: `[2]` float64: of a candidate the places up to which it was played before it was asked
            for, and how much less than expected it could still earn then.
    """

    candidate: Any
    threshold: Any
    found: Any
    order: Any
    is_worst: Any
    mutation: Any
    compiler: Any
    origin: Any
    lane: Any
    past: Any


class Playground(NamedTuple):
    """Where candidates are played.

    Attributes:
        terms: the `FitnessTerms`.
        constants: `[B, N]` int64, the numbers of each world's setting, read.
        worlds: the `Worlds`, read.
        tally: `[TALLIES]` int64, added to.
    """

    terms: Any
    constants: Any
    worlds: Any
    tally: Any


@scalar
def always_leads():
    """Say that a thread leads: it is alone."""
    return True


@scalar
def meets_nobody():
    """Wait for no other thread: there is none."""


@scalar
def scratch_at(scratch, chain, lane, past):
    """Return the memory of one chain out of that of C chains.

    Args:
        scratch: the `ChainScratch` of all chains.
        chain: which.
        lane: the `Lane`.
        past: `[2]` float64.
    """
    machine, mutation, compiler = scratch.candidate, scratch.mutation, scratch.compiler
    return ChainScratch(
        MachineArrays(
            machine.code[chain], machine.programs[chain], machine.literals[chain],
            machine.targets[chain], machine.defaults[chain], machine.start[chain],
        ),
        scratch.threshold[chain], scratch.found[chain], scratch.order[chain],
        scratch.is_worst[chain],
        MutationScratch(
            mutation.nodes[chain], mutation.frames[chain], mutation.measures[chain],
            mutation.inserted[chain], mutation.tail[chain], mutation.items[chain],
        ),
        CompilerScratch(compiler.stack[chain], compiler.frames[chain]),
        scratch.origin[chain], lane, past,
    )  # fmt: skip


@scalar
def copy_machine(source, row, target, place):
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
    copy_machine(machines, chain, new, 0)
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
def _expected(world, known, schedule):
    """Return what a candidate may earn in a world before it is played there.

    The product is not added as it is: a GPU would multiply and add at once, rounded differently.

    Args:
        world: which.
        known: `[B]` float64, what its parent earns, read.
        schedule: the `Schedule`.
    """
    gain = schedule.optimism * (schedule.goals[world] - known[world])
    return known[world] + max(gain, 0.0)


@scalar
def play_place(play, place, slack, chain, chains, schedule, ground, scratch):
    """Write to `found` what a candidate earns in one world.

    Args:
        play: plays an episode, as `pomp.engine.rule_machine.play_machine` does for a task.
        place: of the world in the candidate's order.
        slack: with so much less than expected, the candidate is still accepted.
        chain: whose candidate.
        chains: the `Chains`.
        schedule: the `Schedule`.
        ground: the `Playground`.
        scratch: the `ChainScratch`, whose `found` is written.
    """
    world = scratch.order[place]
    need = _expected(world, chains.earned[chain], schedule) - slack
    scratch.found[world] = play(
        world, _machine_at(scratch.candidate, 0), ground.terms, need, ground.constants,
        ground.worlds, scratch.lane, ground.tally,
    )  # fmt: skip


@scalar
def _judge(play, chain, trust, chains, schedule, ground, scratch):
    """Return the mean score of the candidate; -inf if it is given up.

    It is given up as soon as it cannot reach its threshold by what is expected of the worlds that
    are left.

    Args:
        play: plays the candidate at a place of its order, as in `anneal_chain`.
        chain: whose candidate.
        trust: if it earns what its parent did in so many worlds it is taken to do so in all.
        chains: the `Chains`.
        schedule: the `Schedule`.
        ground: the `Playground`.
        scratch: the `ChainScratch`, whose `found` is written.
    """
    known, found, worlds = chains.earned[chain], scratch.found, len(schedule.goals)
    slack, place, is_same = -(scratch.threshold[0] * worlds), 0, True
    scratch.past[PAST_END] = 0
    for world in range(worlds):
        slack += _expected(world, known, schedule)
    while place < worlds and slack >= 0:
        world = scratch.order[place]
        if is_same and place >= trust:
            found[world] = known[world]
        else:
            end = trust if place < trust else worlds
            play(place, end, slack, chain, chains, schedule, ground, scratch)
            is_same = is_same and found[world] == known[world]
        slack += found[world] - _expected(world, known, schedule)
        place += 1
    return _mean(found) if place == worlds else -np.inf


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
def _propose(chain, number, is_last, chains, schedule, tables, scratch):
    """Write what a chain plays in a step to the candidate, with its threshold and its order.

    Args:
        chain: which.
        number: the number of the step.
        is_last: whether its own machine is to be played once more, in all worlds.
        chains: the `Chains`, whose streams are written.
        schedule: the `Schedule`.
        tables: the `MutationTables`.
        scratch: the `ChainScratch`, written.
    """
    if is_last:
        copy_machine(chains.machines, chain, scratch.candidate, 0)
        scratch.threshold[0] = -np.inf
    else:
        draws = branch_of(chains.streams[2, chain], number)
        _mutate(chain, draws, chains, tables, scratch)
        uniform = ((draws >> np.uint64(11)) + np.uint64(1)) * 2.0**-53  # above 0, up to 1
        loss = _temperature(number, schedule) * np.log(uniform)
        scratch.threshold[0] = chains.scores[chain] + min(loss, 0.0)  # as in `_expected`
    _order_worlds(chains.earned[chain], number, schedule.trust, scratch.is_worst, scratch.order)


@scalar
def _accept(chain, score, is_last, chains, scratch):
    """Keep a candidate that is good enough, and remember it if it is the best so far.

    Args:
        chain: which.
        score: of the candidate.
        is_last: whether it is the chain's own machine.
        chains: the `Chains`, written.
        scratch: the `ChainScratch`.
    """
    if score > chains.best_scores[chain]:
        copy_machine(scratch.candidate, 0, chains.best, chain)
        chains.best_scores[chain] = score
    if not is_last and score >= scratch.threshold[0]:
        copy_machine(scratch.candidate, 0, chains.machines, chain)
        copy_row(scratch.found, chains.earned[chain])
        chains.scores[chain] = score


@scalar
def _settle(chain, score, chains, scratch):
    """Keep a chain's machine with what it earns in all worlds, unless it was trusted too much.

    Args:
        chain: which.
        score: what its machine really earns.
        chains: the `Chains`, written.
        scratch: the `ChainScratch`.
    """
    if score < chains.scores[chain]:
        copy_machine(chains.verified, chain, chains.machines, chain)
        copy_row(chains.verified_earned[chain], chains.earned[chain])
        chains.scores[chain] = chains.verified_scores[chain]
    else:
        copy_machine(chains.machines, chain, chains.verified, chain)
        copy_row(scratch.found, chains.earned[chain])
        copy_row(scratch.found, chains.verified_earned[chain])
        chains.scores[chain], chains.verified_scores[chain] = score, score


@scalar
def anneal_chain(play, leads, meet, chain, chains, schedule, tables, ground, scratch):
    """Take the steps of one chain, then play its machine in all worlds.

    A mutation is accepted if its score is at least that of its parent plus the temperature times
    the logarithm of a uniform number: the Metropolis rule, with the number drawn first. If in the
    end the machine earns less than was believed, a harmful mutation was accepted on trust, and the
    chain returns to the machine that was verified last.

    Args:
        play: plays the candidate at a place of its order, `(place, end, slack, chain, chains,
            schedule, ground, scratch)`, as `play_place` does, and perhaps at others before `end`.
        leads: says whether this thread writes what belongs to the chain.
        meet: waits for the other threads of the chain.
        chain: which.
        chains: the `Chains`, written.
        schedule: the `Schedule`.
        tables: the `MutationTables`.
        ground: the `Playground`.
        scratch: the `ChainScratch`.

    Returns:
        How many machines were played.
    """
    worlds = len(schedule.goals)
    played, is_last = 0, False
    while not is_last:
        is_last = played == schedule.count or chains.best_scores[chain] >= schedule.enough
        if leads():
            _propose(chain, schedule.first + played, is_last, chains, schedule, tables, scratch)
        meet()
        trust = worlds if is_last else schedule.trust
        score = _judge(play, chain, trust, chains, schedule, ground, scratch)
        meet()
        if leads():
            _accept(chain, score, is_last, chains, scratch)
        meet()
        played += not is_last
    if leads():
        _settle(chain, score, chains, scratch)
    return played
