"""Acting by hand in one world: letters for actions, shortest walks, paths over the whole field."""

from collections import deque

import numpy as np

from pomp.engine import act_on, begin, draw_starts
from pomp.karel import Map
from pomp.tasks import RANDOM_WORLD, find_task

LETTERS = "MLRKU"  # move, turnLeft, turnRight, pickMarker, putMarker
NORTH, EAST, SOUTH, WEST = range(4)
STEPS = {NORTH: (-1, 0), EAST: (0, 1), SOUTH: (1, 0), WEST: (0, -1)}
MARKERS, WALL, ZERO_FLAG = 15, 16, 32

EMPTY_ROOM = """
########
#......#
#......#
#......#
#......#
#......#
#>.....#
########"""


def task(name, variant=None, scale=1, **options):
    """A task in a variant (default: the task's own) with some options."""
    return find_task(name).configure(variant=variant, options=options, scale=scale)


def room(row, col):
    """The empty room with the agent elsewhere, facing east."""
    lines = [list(line) for line in EMPTY_ROOM.replace(">", ".").strip().splitlines()]
    lines[row][col] = ">"
    return "\n".join(map("".join, lines))


def start(setting, text=None, seed=0):
    """One world: from a map, or drawn."""
    if text is None:
        return draw_starts(setting, count=1, seed=seed)
    return begin(setting, [Map.from_text(text)], np.zeros(1, np.uint64))


def bare_world(text=EMPTY_ROOM):
    """A setting without a task, and one world of it from a map."""
    rows = text.strip().splitlines()
    size = len(rows), len(rows[0])
    setting = RANDOM_WORLD.configure(options={"walls": "0", "markers": "0"}, size=size)
    return setting, start(setting, text)


def play(setting, worlds, letters):
    """Perform the actions in the first (only) world; the reward of each."""
    actions = [[LETTERS.index(letter)] for letter in letters]
    return [float(act_on(setting, worlds, action, threads=1)[0]) for action in actions]


def agent(worlds):
    """Row, column and heading of the first agent."""
    return int(worlds.row[0]), int(worlds.col[0]), int(worlds.facing[0])


def cells_with(worlds, count=None):
    """The cells of the first world that show markers (exactly `count` of them), in row order."""
    shown = worlds.grid[0] & MARKERS
    return [
        (int(r), int(c)) for r, c in np.argwhere(shown > 0 if count is None else shown == count)
    ]


def walls(worlds):
    """The wall cells of the first world."""
    return {(int(r), int(c)) for r, c in np.argwhere(worlds.grid[0] & WALL)}


def ahead(row, col, facing):
    """The cell in front of a pose."""
    return row + STEPS[facing][0], col + STEPS[facing][1]


def walk(worlds, goal, avoid=frozenset()):
    """The shortest actions that take the first agent to a cell; a bump turns it round."""
    blocked = walls(worlds)
    first = agent(worlds)
    came_by = {first: ""}
    queue = deque([first])
    while queue:
        row, col, facing = pose = queue.popleft()
        if (row, col) == goal:
            return came_by[pose]
        following = {"L": (row, col, (facing - 1) % 4), "R": (row, col, (facing + 1) % 4)}
        if ahead(*pose) in blocked:
            following["M"] = (row, col, (facing + 2) % 4)
        elif ahead(*pose) not in avoid:
            following["M"] = (*ahead(*pose), facing)
        for letter, reached in following.items():
            if reached not in came_by:
                came_by[reached] = came_by[pose] + letter
                queue.append(reached)
    raise AssertionError(f"no way from {first} to {goal}")


def towards(worlds, cell):
    """The turns and the move that take the first agent to a neighbouring cell."""
    row, col, facing = agent(worlds)
    (wanted,) = [way for way in STEPS if ahead(row, col, way) == cell]
    return ["", "R", "LL", "L"][(wanted - facing) % 4] + "M"


def serpentine(at_cell, skip=None, rows=6, cols=6):
    """From the lower left corner facing east over all cells; `skip`: not at this visited cell."""
    visits = [at_cell] * (rows * cols)
    if skip is not None:
        visits[skip] = ""
    return _rows(visits, cols, ("LML", "RMR"))


def serpentine_back(at_cell):
    """From (1,1) facing east over all 36 cells back to (6,1), facing west at the end."""
    return _rows([at_cell] * 36, 6, ("RMR", "LML"))


def _rows(visits, cols, turns):
    """Row after row, with the turns at the ends of even and of odd rows in between."""
    rows = ["M".join(visits[first : first + cols]) for first in range(0, len(visits), cols)]
    ends = [turns[row % 2] for row in range(len(rows) - 1)]
    return "".join(row + end for row, end in zip(rows, [*ends, ""], strict=True))


def cycle():
    """A round trip over the 36 cells: row 1 eastwards, then columns 6 to 1, down and up."""
    cells = [(1, col) for col in range(1, 7)]
    for col in range(6, 0, -1):
        rows = range(2, 7) if col % 2 == 0 else range(6, 1, -1)
        cells += [(row, col) for row in rows]
    return cells
