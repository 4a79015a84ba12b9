"""One lane of a batch: what every launch loop, on a CPU or a GPU, does for each of its worlds.

A lane is one world, or one unit of work on one of its worlds: a unit is a list of programs, the
candidate that stands in it, and the worlds it runs on. The task's functions come in as arguments
and are inlined. Arrays are those of a batch: cells `[B, H * W]` uint8, pose `[B]` int32, memory
`[B, M]` int32, stream `[B]` uint64; constants int64.
"""

import numpy as np

from pomp.core.compiling import scalar
from pomp.karel.dynamics import (
    ACTIONS,
    DONE,
    SCORE,
    Compass,
    find_marker,
    perceive,
    reward,
    value,
)
from pomp.karel.interpreter import (
    CALLS,
    ENDING,
    notes_nothing,
    refuses_nothing,
    run_program,
    sees_nothing,
)

UNIT_LIST, UNIT_CANDIDATE, UNIT_WORLD = range(3)  # columns of `units`
CANDIDATE = -2  # in a list: the unit's own program
BY_CHOICE, BY_LIMIT = 1, 2  # how an episode of macro steps ends
SEEN, DIRECTIONS = 16, len(Compass)  # how many ways there are to perceive, and markers to be
SENSES = SEEN * DIRECTIONS * 2  # and a mode was idle or not; see `sense_world`


@scalar
def reset_world(draw_start, begin, world, constants, cells, pose, memory, stream):
    """Draw a start from the world's stream."""
    for cell in range(cells.shape[1]):
        cells[world, cell] = 0
    for slot in range(memory.shape[1]):
        memory[world, slot] = 0
    pose[world] = draw_start(cells[world], constants, memory[world], stream[world : world + 1])
    begin(cells[world], constants, np.int64(pose[world]), memory[world])


@scalar
def act_on_world(step, world, action, constants, cells, pose, memory, stream):
    """Perform one action in place; returns its reward."""
    before = value(memory[world], constants)
    memory[world, ACTIONS] += 1
    pose[world] = step(
        cells[world],
        constants,
        np.int64(pose[world]),
        memory[world],
        stream[world : world + 1],
        action,
    )
    return reward(before, memory[world], constants)


@scalar
def play_world(
    step, draw_start, begin, world, actions, limit, constants, cells, pose, memory, stream,
    is_over, rewards, terminated, truncated,
):  # fmt: skip
    """One step of an episode; the step after its end starts the next and pays nothing.

    Args:
        step: the task's; `draw_start` and `begin` too.
        draw_start: see `step`.
        begin: see `step`.
        world: which.
        actions: `[B]` int64, read.
        limit: actions after which an episode is truncated.
        constants: int64; the batch follows: `cells`, `pose`, `memory`, `stream`.
        cells: see `constants`.
        pose: see `constants`.
        memory: see `constants`.
        stream: see `constants`.
        is_over: `[B]` bool, written: the episode has ended.
        rewards: `[B]` float64, written.
        terminated: `[B]` bool, written: the task is done.
        truncated: `[B]` bool, written: the limit is reached.
    """
    if is_over[world]:
        reset_world(draw_start, begin, world, constants, cells, pose, memory, stream)
        rewards[world] = 0.0
        terminated[world] = False
        truncated[world] = False
    else:
        action = np.int64(actions[world])
        rewards[world] = act_on_world(step, world, action, constants, cells, pose, memory, stream)
        terminated[world] = memory[world, DONE] != 0
        truncated[world] = memory[world, DONE] == 0 and memory[world, ACTIONS] >= limit
    is_over[world] = terminated[world] or truncated[world]


@scalar
def sense_world(world, constants, cells, pose, idle, compass):
    """What transitions by rules see, as a number below `SENSES`.

    Bit i is set if perception i holds (of the first four), `SEEN` times the compass is added if
    that is asked for, and `SEEN * DIRECTIONS` if the last mode took no action.
    """
    place = np.int64(pose[world])
    seen = SEEN * find_marker(cells[world], constants, place) if compass else 0
    for perception in range(4):
        if perceive(cells[world], constants, place, perception):
            seen += 1 << perception
    return seen + SEEN * DIRECTIONS if idle[world] != 0 else seen


@scalar
def take_mode(
    step, draw_start, begin, world, code, first, modes, last_words, choices, most, restarts,
    by_calls, limit, constants, cells, pose, memory, stream,
    mode, taken, ending, rewards, worth, idle, counters, outcome,
):  # fmt: skip
    """One macro step of an episode, in place: a program runs, or the episode ends.

    Args:
        step: the task's; `draw_start` and `begin` too.
        draw_start: see `step`.
        begin: see `step`.
        world: which.
        code: `[P, L]` uint32, the programs.
        first: `[B]` int32: the world's first program; its modes are that one and those after it.
        modes: `[B]` int32: how many it has.
        last_words: the program that runs before an episode ends by choice; -1: none.
        choices: `[B]` int64, read: a mode's number, or the number of modes: end.
        most: macro steps after which an episode ends.
        restarts: whether a new episode begins where one has ended; else it stays as it is.
        by_calls: see `run_program`, also for `limit`.
        limit: the cap of each program.
        constants: int64; the batch follows: `cells`, `pose`, `memory`, `stream`.
        cells: see `constants`.
        pose: see `constants`.
        memory: see `constants`.
        stream: see `constants`.
        mode: `[B]` int64: the mode that ran last; -1 before the first.
        taken: `[B]` int32: macro steps of the episode.
        ending: `[B]` uint8: 0, or how the episode ended in this step (or before, if none restart).
        rewards: `[B]` float64, written.
        worth: `[B]` float64, written: what the episode is worth after this step.
        idle: `[B]` uint8, written: the mode that ran took no action; 0 at an episode's start.
        counters: int32, scratch for the deepest program's loops.
        outcome: `[2]` int32, scratch.
    """
    if ending[world] != 0 and not restarts:
        rewards[world] = 0.0
        return
    before = value(memory[world], constants)
    actions, done = memory[world, ACTIONS], memory[world, DONE]
    choice = np.int64(choices[world])
    program = np.int64(last_words) if choice == modes[world] else first[world] + choice
    if program >= 0:
        pose[world] = run_program(
            step, refuses_nothing, notes_nothing, sees_nothing, (), world,
            code[program], constants, cells[world], np.int64(pose[world]), memory[world],
            stream[world : world + 1], counters, by_calls, limit, outcome,
        )  # fmt: skip
    taken[world] += 1
    by_limit = BY_LIMIT if taken[world] >= most else 0
    ending[world] = BY_CHOICE if choice == modes[world] else by_limit
    mode[world] = choice
    # Snake's last bite is an action that does not count, but it changes the flag.
    idle[world] = memory[world, ACTIONS] == actions and memory[world, DONE] == done
    worth[world] = value(memory[world], constants)
    rewards[world] = worth[world] - before
    if ending[world] != 0 and restarts:
        reset_world(draw_start, begin, world, constants, cells, pose, memory, stream)
        mode[world] = -1
        taken[world] = 0
        idle[world] = 0


@scalar
def copy_row(source, target):
    """Copy one row of a batch."""
    for place in range(len(source)):
        target[place] = source[place]


@scalar
def run_lane(
    step, lane, unit, offset, code, lists, units, salts, rounds, patience, by_calls, limit,
    constants, cells, pose, memory, stream,
    cells_after, pose_after, memory_after, stream_after,
    values, actions, calls, completed,
    lane_cells, lane_memory, lane_stream, counters, outcome,
):  # fmt: skip
    """Run one unit's list of programs on one of its worlds.

    Args:
        step: the task's.
        lane: where the results go.
        unit: which.
        offset: which of the unit's worlds.
        code: `[P, L]` uint32, the programs.
        lists: `[T, M]` int32: rows of programs to run one after the other: a program's number,
            `CANDIDATE` for the unit's own, -1 behind the last.
        units: `[Q, 3]` int32: the list, its candidate and its first world.
        salts: `[Q]` uint64, joined to the worlds' streams; or empty.
        rounds: how often the list is run; above 1 only until the task is done.
        patience: actions without progress after which no round begins; 0: never mind.
        by_calls: see `run_program`, also for `limit`.
        limit: the cap of each program.
        constants: int64.
        cells: the start states, read; `pose`, `memory`, `stream` likewise.
        pose: see `cells`.
        memory: see `cells`.
        stream: see `cells`.
        cells_after: the final states of all lanes, written; all four empty: not wanted. They may be
            the start states themselves if no other lane starts there.
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
    row = units[unit, UNIT_LIST]
    world = units[unit, UNIT_WORLD] + offset
    copy_row(cells[world], lane_cells)
    copy_row(memory[world], lane_memory)
    lane_stream[0] = stream[world]
    if len(salts):
        lane_stream[0] ^= salts[unit]
    lane_pose = np.int64(pose[world])
    acted_before = memory[world, ACTIONS]
    spent, is_complete = 0, True
    score, scored_at = lane_memory[SCORE], lane_memory[ACTIONS]
    for _ in range(rounds):
        round_from, place = lane_memory[ACTIONS], 0
        # No `for` in a `for` here: on an H200, CUDA's assembler lost the inner one's bound.
        while place < lists.shape[1] and lists[row, place] != -1:
            program = lists[row, place]
            place += 1
            if program == CANDIDATE:
                program = units[unit, UNIT_CANDIDATE]
            lane_pose = run_program(
                step, refuses_nothing, notes_nothing, sees_nothing, (), lane,
                code[program], constants, lane_cells, lane_pose, lane_memory,
                lane_stream, counters, by_calls, limit, outcome,
            )  # fmt: skip
            spent += outcome[CALLS]
            is_complete = is_complete and outcome[ENDING] == 0
        if lane_memory[DONE] != 0 or lane_memory[ACTIONS] == round_from:
            break  # done, or idle: the next round would be as idle
        if lane_memory[SCORE] > score:
            score, scored_at = lane_memory[SCORE], lane_memory[ACTIONS]
        elif patience > 0 and lane_memory[ACTIONS] - scored_at >= patience:
            break
    values[lane] = value(lane_memory, constants)
    actions[lane] = lane_memory[ACTIONS] - acted_before
    calls[lane] = spent
    completed[lane] = is_complete
    if len(pose_after):
        copy_row(lane_cells, cells_after[lane])
        copy_row(lane_memory, memory_after[lane])
        stream_after[lane] = lane_stream[0]
        pose_after[lane] = lane_pose
