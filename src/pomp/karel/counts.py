"""What rules can count: one table, and the compiled functions that count in a world.

A count's number is its row in `COUNTS`. A rule compares it with a number, as in `markers at least
5` (`pomp.machine.sensors`). Sensors, which hold or do not, stand in `pomp.karel.sensors`; what
`pomp evolve` draws from are those alone.
"""

from dataclasses import dataclass

import numpy as np

from pomp.core.compiling import scalar
from pomp.karel.dynamics import COUNT, WALL, WIDTH, part_of_way, way_to_marker

COUNT_TYPE = np.int32


@dataclass(frozen=True)
class Count:
    """What a rule can count.

    Attributes:
        name: how texts of machines spell it.
        meaning: what it is, for the documentation.
        at_least: that it is at least `{}`, in plain words.
        below: that it is below `{}`, in plain words.
    """

    name: str
    meaning: str
    at_least: str
    below: str


def _things(name: str, meaning: str) -> Count:
    return Count(
        name, meaning, f"there are at least {{}} {meaning}", f"there are fewer than {{}} {meaning}"
    )


def _place(name: str, meaning: str, what: str) -> Count:
    return Count(name, meaning, f"{what} is at least {{}}", f"{what} is below {{}}")


def _way(side: str, where: str) -> Count:
    return Count(
        f"way {side}",
        f"how many cells {where} the nearest marker is; 0 if it is not on this side",
        f"the nearest marker is at least {{}} cells {where}",
        f"the nearest marker is not {{}} or more cells {where}",
    )


_SIDES = {  # a quarter turn to the right each
    "ahead": "ahead",
    "right": "to the right",
    "behind": "behind",
    "left": "to the left",
}

COUNTS = (
    _things("markers", "markers in the world"),
    _things("markers here", "markers on the agent's cell"),
    _things("walls", "cells of the world that are walls"),
    _place("row", "the agent's row; the wall above is row 0", "the row"),
    _place("column", "the agent's column; the wall to the left is column 0", "the column"),
    _place("heading", "0 north, 1 east, 2 south, 3 west", "the heading"),
    *(
        _things(f"free {side}", f"free cells {where}, up to the wall")
        for side, where in _SIDES.items()
    ),
    *(_way(side, where) for side, where in _SIDES.items()),
)


# The numbers of counts, for compiled code.
_NAMES = [count.name for count in COUNTS]
_MARKERS, _HERE, _WALLS, _ROW, _COLUMN, _HEADING, _FREE, _WAY = (
    _NAMES.index(name)
    for name in (
        "markers", "markers here", "walls", "row", "column", "heading", "free ahead", "way ahead",
    )
)  # fmt: skip


@scalar
def free_cells(cells, constants, pose, turn):
    """Count the free cells on one side of the agent, up to the wall.

    Args:
        cells: `[H * W]` uint8, read.
        constants: `[N]` int64, read.
        pose: where the agent is.
        turn: quarter turns to the right before it looks.
    """
    offset = constants[(pose + turn) & 3]
    cell, found = (pose >> 2) + offset, 0
    while cells[cell] & WALL == 0:
        cell += offset
        found += 1
    return found


@scalar
def add_up(cells, bits):
    """Return the sum, over the cells, `[H * W]` uint8, of some of their bits."""
    found, cell = 0, 0
    while cell < len(cells):
        found += np.int64(cells[cell] & bits)
        cell += 1
    return found


@scalar
def count_in(number, cells, constants, pose):
    """Return a count in one world.

    Args:
        number: of the count.
        cells: `[H * W]` uint8, read.
        constants: `[N]` int64, read.
        pose: where the agent is.
    """
    cell, width = pose >> 2, constants[WIDTH]
    if number == _MARKERS:
        return add_up(cells, COUNT)
    if number == _HERE:
        return np.int64(cells[cell] & COUNT)
    if number == _WALLS:
        return add_up(cells, WALL) // WALL
    if number == _ROW:
        return cell // width
    if number == _COLUMN:
        return cell % width
    if number == _HEADING:
        return pose & 3
    if number < _WAY:
        return free_cells(cells, constants, pose, number - _FREE)
    down, across = way_to_marker(cells, constants, pose)
    return max(part_of_way(down, across, (pose + number - _WAY) & 3), 0)
