"""One world: its cell bytes, its pose, the rules every task shares. Compiled, scalar, in place.

A cell is one byte: marker count (bits 0-3), wall, the "zero markers" flag and a flag for the task's
use. The zero flag is real state: the references keep a one-hot marker vector per cell, not every
rule keeps it one-hot, and a count is read as the first entry set. So a cell with the zero flag
*shows* its markers (`markersPresent` sees them) but pick and put start from zero.

A pose is one integer: 4 * cell index + facing. The outer ring of a world is wall, so the cell in
front of an agent always exists.
"""

from enum import IntEnum

import numpy as np

from pomp.core.compiling import scalar
from pomp.dsl.vocabulary import Action, Perception

COUNT, WALL, ZERO, FLAG = 15, 16, 32, 64
NO_COUNT, NO_WALL, NO_ZERO, NO_FLAG = (255 - bits for bits in (COUNT, WALL, ZERO, FLAG))


class Facing(IntEnum):
    """The four headings; turning right adds one."""

    NORTH, EAST, SOUTH, WEST = range(4)


class Compass(IntEnum):
    """Where the nearest marker is, as the agent stands."""

    AHEAD, LEFT, RIGHT, BEHIND, NOWHERE = range(5)


# Memory: the integers a task keeps about one world (int32). A task's own slots follow these.
DONE, ACTIONS, SCORE, UNIT, TALLY, FIRST_SLOT = range(6)

# Rules: the integers that describe a task in its setting (int64). A task's own follow these.
# 0-3 are the offsets to the neighbours in the order of Facing.
HEIGHT, WIDTH, CAP, VALUE, SCALE, PAY, COST, FINE, WHOLE, FIRST_CONSTANT = range(4, 14)

SUM, LAST, MEAN = range(3)
"""How rewards make a value (constants[VALUE]); see `value`."""

NORTH, EAST, SOUTH, WEST = (int(facing) for facing in Facing)
AHEAD, TO_LEFT, TO_RIGHT, BEHIND, NOWHERE = (int(direction) for direction in Compass)
MOVE, TURN_LEFT, TURN_RIGHT, PICK, PUT = (int(action) for action in Action)
_FRONT, _LEFT, _RIGHT, _MARKERS, _ = (int(perception) for perception in Perception)
_KEPT = WALL | FLAG  # what writing a count leaves alone
_AT_ONCE = 8  # cells


@scalar
def pose_at(row, col, width, facing):
    """The pose of an agent at a cell."""
    return (row * width + col) << 2 | facing


@scalar
def ahead(constants, pose):
    """The cell in front of the agent."""
    return (pose >> 2) + constants[pose & 3]


@scalar
def usable(cell):
    """The count pick and put start from."""
    return 0 if cell & ZERO else cell & COUNT


@scalar
def write_count(cells, cell, count):
    """Write a count as one-hot: the zero flag stands exactly if the count is zero."""
    place = np.uint64(cell)  # unsigned: Numba need not look for a negative index
    cells[place] = (cells[place] & _KEPT) | (count if count > 0 else ZERO)


@scalar
def is_moving(action):
    """Whether an action is a move or a turn: it cannot change markers."""
    return action < PICK


@scalar
def travel(cells, constants, pose, action):
    """Move or turn; a blocked move turns the agent round. Returns the new pose.

    Args:
        cells: `[H * W]` uint8, read.
        constants: int64, read.
        pose: where the agent is.
        action: MOVE, TURN_LEFT or TURN_RIGHT.
    """
    if action == MOVE:
        target = (pose >> 2) + constants[pose & 3]
        if cells[target] & WALL:
            return pose ^ 2
        return target << 2 | (pose & 3)
    turn = 3 if action == TURN_LEFT else 1
    return (pose & ~3) | ((pose + turn) & 3)


@scalar
def handle(cells, constants, pose, action):
    """Pick or put a marker, clipped to 0..cap, and rewrite the cell as one-hot.

    Args:
        cells: `[H * W]` uint8, written.
        constants: int64, read.
        pose: where the agent is.
        action: PICK or PUT.

    Returns:
        The change of the usable count: -1, 0 or 1.
    """
    cell = pose >> 2
    before = np.int64(usable(cells[np.uint64(cell)]))
    count = max(before - 1, 0) if action == PICK else min(before + 1, constants[CAP])
    write_count(cells, cell, count)
    return count - before


@scalar
def change(before, after):
    """What a truth value adds to a count: 1 if it came true, -1 if it ceased, else 0."""
    return int(after) - int(before)


@scalar
def act(cells, constants, pose, action):
    """Apply one action by the plain rules. Returns the new pose."""
    if is_moving(action):
        return travel(cells, constants, pose, action)
    handle(cells, constants, pose, action)
    return pose


@scalar
def is_impossible(cells, constants, pose, action):
    """Whether an action cannot be carried out: a blocked move, nothing to pick, no room to put."""
    if action == MOVE:
        return cells[ahead(constants, pose)] & WALL != 0
    if action == PICK:
        return usable(cells[pose >> 2]) == 0
    return action == PUT and usable(cells[pose >> 2]) >= constants[CAP]


@scalar
def perceive(cells, constants, pose, perception):
    """What the agent sees: one of the first four perceptions (the fifth negates the fourth)."""
    if perception == _MARKERS:
        return cells[pose >> 2] & COUNT != 0
    turn = 0 if perception == _FRONT else (3 if perception == _LEFT else 1)
    return cells[(pose >> 2) + constants[(pose + turn) & 3]] & WALL == 0


@scalar
def _shown(cells, cell):
    """Return the markers of a cell; `cell` is not negative, which saves a check."""
    return cells[np.uint64(cell)] & COUNT


@scalar
def _are_bare(cells, cell):
    """Whether no marker shows in `_AT_ONCE` cells from one on; a CPU reads them all at once."""
    first = _shown(cells, cell) | _shown(cells, cell + 1)
    second = _shown(cells, cell + 2) | _shown(cells, cell + 3)
    third = _shown(cells, cell + 4) | _shown(cells, cell + 5)
    fourth = _shown(cells, cell + 6) | _shown(cells, cell + 7)
    return (first | second) | (third | fourth) == 0


@scalar
def way_to_marker(cells, constants, pose):
    """Return the rows down and the columns across to the nearest marker; twice 0: there is none.

    Nearest is the smallest sum of rows and columns between, walls ignored, the agent's own cell
    left out; of several the first in reading order.
    """
    own, width = pose >> 2, constants[WIDTH]
    own_row, own_col = own // width, own % width
    nearest, down, across = 0, 0, 0
    cell, last = 0, constants[HEIGHT] * width
    while cell < last:
        end = min(cell + _AT_ONCE, last)
        if end - cell == _AT_ONCE and _are_bare(cells, cell):
            cell = end
        while cell < end:
            if _shown(cells, cell) != 0 and cell != own:
                row = cell // width
                rows, columns = row - own_row, cell - row * width - own_col
                distance = abs(rows) + abs(columns)
                if nearest == 0 or distance < nearest:
                    nearest, down, across = distance, rows, columns
                    last = min(last, (own_row + distance) * width)  # rows below cannot be nearer
            cell += 1
    return down, across


@scalar
def part_of_way(down, across, facing):
    """Return how far a way of so many rows and columns leads forward, as an agent faces."""
    forward = across if facing & 1 else -down
    return -forward if facing & 2 else forward


@scalar
def find_marker(cells, constants, pose):
    """The `Compass` of the agent: the direction of the nearest marker that shows.

    The larger part of the way (`way_to_marker`) decides, ahead or behind if both are equal.
    """
    down, across = way_to_marker(cells, constants, pose)
    if down == 0 and across == 0:
        return NOWHERE
    forward = part_of_way(down, across, pose & 3)
    right = part_of_way(down, across, (pose + 1) & 3)
    if abs(forward) >= abs(right):
        return AHEAD if forward > 0 else BEHIND
    return TO_RIGHT if right > 0 else TO_LEFT


@scalar
def value(memory, constants):
    """What the episode is worth so far: integers, and one division at the end.

    Args:
        memory: int32, read.
        constants: int64, read. constants[VALUE] says how: SUM, differences of the score less
            costs and fines; LAST, the score after the latest action, if there were two or more
            (LEAPS); MEAN, the mean score over the actions (LEAPS, dense StairClimber).

    Returns:
        A float64, the same on every device.
    """
    if constants[VALUE] == SUM:
        earned = memory[SCORE] * constants[PAY]
        spent = memory[ACTIONS] * constants[COST] + memory[TALLY] * constants[FINE]
        return (earned - spent) / (memory[UNIT] * constants[WHOLE])
    if constants[VALUE] == LAST:
        return memory[SCORE] / memory[UNIT] if memory[ACTIONS] >= 2 else 0.0
    return memory[TALLY] / (memory[UNIT] * max(memory[ACTIONS], 1))


@scalar
def reward(before, memory, constants):
    """The latest action's reward, given what the episode was worth before it."""
    if constants[VALUE] == SUM:
        return value(memory, constants) - before
    return memory[SCORE] / memory[UNIT]
