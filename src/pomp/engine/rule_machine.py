"""A whole machine by rules in one world: programs run, rules choose the next, until it stops.

What a search evaluates millions of times. Episodes (`pomp.machine`) do the same a step at a time.
"""

import numpy as np

from pomp.core.compiling import scalar
from pomp.engine.lanes import copy_row
from pomp.karel.dynamics import (
    ACTIONS,
    COST,
    DONE,
    SCORE,
    SUM,
    UNIT,
    VALUE,
    WHOLE,
    Compass,
    find_marker,
    perceive,
    value,
)
from pomp.karel.interpreter import (
    CALLS,
    notes_nothing,
    refuses_nothing,
    run_program,
    sees_nothing,
)

PERCEPTIONS, DIRECTIONS = 4, len(Compass)
IDLE = PERCEPTIONS + DIRECTIONS  # sensors: four perceptions, five directions, idleness
SENSORS = IDLE + 1  # a literal is twice a sensor's number, plus one if it is negated
CONDITIONS = 2  # of a rule
# How an episode of a machine ends: by its choice, stuck, or with the task done but not by choice;
# whether the cap cut a program short; and above these bits, how many programs ran.
STOPPED, STUCK, LATE, CUT, PROGRAMS_SHIFT = 0, 1, 2, 4, 3
STUCKS, PROGRAMS, ACTED = range(3)  # a tally: episodes that were stuck, programs run, actions taken


@scalar
def holds(literal, seen, direction, idle):
    """Whether a literal is true; `direction` is that of the nearest marker."""
    sensor = literal >> 1
    if sensor < PERCEPTIONS:
        truth = seen >> sensor & 1 == 1
    elif sensor < IDLE:
        truth = direction == sensor - PERCEPTIONS
    else:
        truth = idle
    return truth != (literal & 1 == 1)


@scalar
def next_mode(mode, literals, targets, defaults, constants, cells, pose, idle):
    """The mode that a machine's rules choose; the number of modes: stop.

    Args:
        mode: the one that ran.
        literals: `[K, R, 2]` int8: the conditions of each rule; -1: none.
        targets: `[K, R]` int8: where each rule leads; -1: there is no such rule.
        defaults: `[K]` int8: where no rule leads.
        constants: int64.
        cells: `[H * W]` uint8.
        pose: where the agent is.
        idle: the mode took no action.
    """
    seen, direction = 0, -1  # the nearest marker is looked for only if a rule asks
    for perception in range(PERCEPTIONS):
        seen |= int(perceive(cells, constants, pose, perception)) << perception
    rule = 0
    while rule < targets.shape[1] and targets[mode, rule] >= 0:
        fires, place = True, 0
        while fires and place < CONDITIONS:
            literal = literals[mode, rule, place]
            if literal >= 0:
                if direction < 0 and PERCEPTIONS <= literal >> 1 < IDLE:
                    direction = find_marker(cells, constants, pose)
                fires = holds(literal, seen, direction, idle)
            place += 1
        if fires:
            return np.int64(targets[mode, rule])
        rule += 1
    return np.int64(defaults[mode])


@scalar
def run_machine(
    step, code, first, literals, targets, defaults, start, most, patience, affordable,
    limit, constants, cells, pose, memory, stream, counters, outcome,
):  # fmt: skip
    """One episode, in place; programs may spend `limit` calls.

    Args:
        step: the task's.
        code: `[P, L]` uint32, programs.
        first: the machine's first; its others follow.
        literals: see `next_mode`; so are `targets` and `defaults`.
        targets: see `literals`.
        defaults: see `literals`.
        start: the first mode.
        most: modes after which it is stopped.
        patience: actions without progress after which it is given up; 0: never.
        affordable: actions after which it is given up in any case.
        limit: the cap of each program, in calls.
        constants: int64; the world follows.
        cells: `[H * W]` uint8, written.
        pose: where the agent is.
        memory: int32, written.
        stream: `[1]` uint64, written.
        counters: int32, scratch for the deepest program's loops.
        outcome: `[2]` int32, scratch.

    Returns:
        How it ended, `CUT` added if the cap cut a program short, and the programs that ran.
    """
    mode, taken, idles, cut, ending = np.int64(start), 0, 0, 0, -1
    score, scored_at = memory[SCORE], memory[ACTIONS]
    while taken < most:
        acted, done = memory[ACTIONS], memory[DONE]
        pose = run_program(
            step, refuses_nothing, notes_nothing, sees_nothing, (), 0,
            code[first + mode], constants, cells, pose, memory,
            stream, counters, True, limit, outcome,
        )  # fmt: skip
        taken += 1
        if outcome[CALLS] > limit:
            cut = CUT
        idle = memory[ACTIONS] == acted and memory[DONE] == done
        idles = idles + 1 if idle else 0
        mode = next_mode(mode, literals, targets, defaults, constants, cells, pose, idle)
        if mode == len(defaults):
            ending = STOPPED
            break
        if idles > len(defaults):  # nothing can change any more
            break
        if memory[SCORE] > score:
            score, scored_at = memory[SCORE], memory[ACTIONS]
        elif patience > 0 and memory[ACTIONS] - scored_at >= patience:
            if memory[DONE] != 0 and constants[COST] > 0:
                ending = STUCK  # it would go on and pay for it
            break
        if memory[ACTIONS] > affordable:
            break
    if ending < 0:
        ending = LATE if memory[DONE] != 0 else STUCK
    return ending | cut | taken << PROGRAMS_SHIFT


@scalar
def afford(need, share, memory, constants):
    """Actions after which an episode cannot earn `need` any more: the full score is worth 1.

    Of the episode a `share` counts; the rest is of another, which may be worth 1 too.
    """
    if constants[VALUE] != SUM or constants[COST] == 0:
        return np.inf
    return (1 - need) * memory[UNIT] * constants[WHOLE] / (share * constants[COST]) + 1


@scalar
def play_machine(
    step, world, code, first, literals, targets, defaults, start, most, patience, limits,
    fragility, penalty, lateness, need, constants, cells, pose, memory, stream,
    lane_cells, lane_memory, lane_stream, counters, outcome, tally,
):  # fmt: skip
    """What a machine earns in one world.

    The least under the limits but the first counts, minus the difference to the most, minus a share
    of what is lost under the first. They can differ only where a limit cuts a program short; else
    one episode tells all.

    Args:
        step: the task's.
        world: which.
        code: see `run_machine`, as for what follows.
        first: see `code`.
        literals: see `code`.
        targets: see `code`.
        defaults: see `code`.
        start: see `code`.
        most: see `code`.
        patience: `[M]` int64, by limit.
        limits: `[M]` int64, rising: calls that a program may spend.
        fragility: the share of what is lost under the first limit; 0: it is not tried.
        penalty: for an episode that is stuck.
        lateness: what it costs if the machine does not stop though the task is done.
        need: less than that is of no interest: the episode may be given up, and -inf come back.
        constants: int64; the worlds follow, read.
        cells: see `constants`.
        pose: see `constants`.
        memory: see `constants`.
        stream: see `constants`.
        lane_cells: scratch for one world, as `lane_memory` and `lane_stream`.
        lane_memory: see `lane_cells`.
        lane_stream: see `lane_cells`.
        counters: int32, scratch for the deepest program's loops.
        outcome: `[2]` int32, scratch.
        tally: `[3]` int64, added to.
    """
    least, greatest, interrupted, is_stuck = np.inf, -np.inf, np.inf, False
    attempt = 0 if fragility > 0 else 1
    while attempt < len(limits):
        copy_row(cells[world], lane_cells)
        copy_row(memory[world], lane_memory)
        lane_stream[0] = stream[world]
        share = fragility if attempt == 0 else 1.0  # of the episode's worth that counts
        affordable = afford(need, share, lane_memory, constants)
        ending = run_machine(
            step, code, first, literals, targets, defaults, start, most, patience[attempt],
            affordable, limits[attempt], constants, lane_cells, np.int64(pose[world]), lane_memory,
            lane_stream, counters, outcome,
        )  # fmt: skip
        found = value(lane_memory, constants)
        if ending & STUCK:
            found -= penalty
        elif ending & LATE:
            found -= lateness
        tally[PROGRAMS] += ending >> PROGRAMS_SHIFT
        tally[ACTED] += lane_memory[ACTIONS] - memory[world, ACTIONS]
        if lane_memory[ACTIONS] > affordable:
            return -np.inf
        if attempt == 0 and ending & CUT:
            interrupted = found
        else:
            least, greatest = min(least, found), max(greatest, found)
            is_stuck = is_stuck or ending & STUCK != 0
        attempt = attempt + 1 if ending & CUT else len(limits)
    tally[STUCKS] += is_stuck
    earned = 2 * least - greatest
    return earned - fragility * max(0.0, earned - interrupted)
