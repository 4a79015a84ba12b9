"""The six KAREL tasks in plain Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pomp.conformance.reference import ReferenceTask, ScoredTask, first_marked, interior, room
from pomp.conformance.reference.world import EAST, NORTH, SOUTH, WEST, Cell, Stream, World

HOUSE = [
    "######################",
    "#cc##########x#......#",
    "#cc#ccccccccx.#####.##",
    "##c#c.....x.........##",
    "##ccc.cccc#x........##",
    "###c#c###c#x.###.#.###",
    "#ccc#ccc#cx..#...#..##",
    "#c.c#c.c#c...#...#...#",
    "#c.c#c.c#c..c#...##..#",
    "#c.c#c.c##cc##...##.##",
    "#c.c#c.c##cc##...#..##",
    "#c.c#c.c##cc##...#..##",
    "#ccc#ccc##cc##...#..##",
    "######################",
]
"""Walls `#`, cells that may have a marker `c`, cells next to walls that may not `x`."""
HOUSE_CELLS = [(row, col) for row in range(14) for col in range(22)]
"""All cells of the house, row by row."""
LITTER_CELLS = [(row, col) for row, col in HOUSE_CELLS if HOUSE[row][col] == "c"]
"""The 68 cells next to a wall on which CleanHouse may lay a marker."""


def stair_cells(height: int, width: int) -> list[Cell]:
    """The cells of the stairs, from the lower left to the upper right."""
    return [(height - 1 - col, col) for col in range(1, width - 1)]


def valid_positions(height: int, width: int) -> list[Cell]:
    """The stairs and the cell above each of them but the top one, row by row."""
    stairs = stair_cells(height, width)
    return sorted([*stairs, *((row - 1, col) for row, col in stairs[:-1])])


def staircase(height: int, width: int, agent: Cell) -> World:
    """A room with stairs: two walls below one another under each stair cell."""
    world = room(height, width, agent, EAST)
    for col in range(2, width):
        world.walls |= {(height + 1 - col, col), (height - col, col)}
    return world


class StairClimber(ReferenceTask):
    """Climb the stairs to the marker."""

    settings: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "hprl": {"dense": False, "off_stairs_penalty": 0},
        "leaps": {"dense": False, "off_stairs_penalty": 0},
        "paper": {"dense": False, "off_stairs_penalty": 1},
    }
    default_size = (12, 12)
    zero_everywhere = True

    def layout(self, stream: Stream) -> World:
        """Two different stair cells: the agent on the lower, the marker on the upper."""
        stairs = stair_cells(self.height, self.width)
        a = stream.below(len(stairs))
        b = stream.below(len(stairs) - 1)
        if b >= a:
            b += 1
        world = staircase(self.height, self.width, stairs[min(a, b)])
        world.markers[stairs[max(a, b)]] = 1
        return world

    def start(self) -> None:
        """The goal is the marked cell, whatever becomes of the marker."""
        self.goal = first_marked(self.world, list(self.world.cells()))
        self.valid = valid_positions(self.height, self.width)
        self.distance = self.first_distance = self.distance_now()

    def distance_now(self) -> int:
        """How many moves the goal is away, walls ignored."""
        return abs(self.world.row - self.goal[0]) + abs(self.world.col - self.goal[1])

    def reward(self, action: int, change: int) -> float:
        """Dense: steps nearer. Sparse: 1 at the first arrival."""
        was_done = self.done
        before, self.distance = self.distance, self.distance_now()
        self.done = self.done or self.distance == 0
        on_stairs = self.world.cell in self.valid
        if self.options["dense"]:
            nearer = float(before - self.distance if on_stairs else -1)
            if self.variant == "leaps":
                return nearer
            return 0.0 if was_done else nearer / max(self.first_distance, 1)
        if was_done:
            return 0.0
        if self.options["off_stairs_penalty"] > 0 and not on_stairs:
            self.done = True
            return -float(self.options["off_stairs_penalty"])
        return 1.0 if self.done else 0.0

    def value(self) -> float:
        """As for every task, but the mean reward for the dense reward of `leaps`."""
        if self.variant == "leaps" and self.options["dense"]:
            return self.total / self.actions if self.actions else 0.0
        return super().value()


class FourCorner(ScoredTask):
    """Put one marker in each of the four corners, and none elsewhere."""

    settings: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "hprl": {"start": "eight", "zero_on_wrong": False},
        "leaps": {"start": "fixed", "lag": True},
        "paper": {"start": "eight", "zero_on_wrong": True},
    }
    default_size = (12, 12)

    def layout(self, stream: Stream) -> World:
        """An empty room; the agent beside a corner, along the wall."""
        h, w = self.height, self.width
        if self.options["start"] == "fixed":
            return room(h, w, (h - 2, 2), EAST)
        k = stream.below(8)
        place, heading = k // 2, k % 2
        cell = ((h - 3, w - 2), (h - 2, 2), (2, 1), (1, w - 3))[place]
        facing = ((NORTH, SOUTH), (EAST, WEST), (SOUTH, NORTH), (WEST, EAST))[place][heading]
        return room(h, w, cell, facing)

    def start(self) -> None:
        """Count the markers on the board (`leaps`)."""
        h, w = self.height, self.width
        self.corners = [(1, 1), (h - 2, 1), (h - 2, w - 2), (1, w - 2)]
        self.board_total = len(self.world.markers)

    def reward(self, action: int, change: int) -> float:
        """As for every scored task, but a wrong marker withholds a gain."""
        gain = super().reward(action, change)
        return min(gain, 0.0) if self.variant != "leaps" and self.wrong else gain

    def score(self, action: int, change: int) -> tuple[float, bool]:
        """A quarter per corner with exactly one marker; wrong markers as the variant says."""
        good = sum(self.world.markers.get(corner, 0) == 1 for corner in self.corners)
        if self.variant == "leaps":
            total_before = self.board_total
            self.board_total += change
            self.wrong = (total_before if self.options["lag"] else self.board_total) > good
            score = 0.0 if self.wrong else good / 4
            return score, score == 1.0
        self.wrong = len(self.world.markers) > good
        zeroed = self.wrong and self.options["zero_on_wrong"]
        return 0.0 if zeroed else good / 4, good == 4 or self.wrong


class TopOff(ScoredTask):
    """Put a second marker on every marked cell of the bottom row, then stand at its end."""

    settings: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "hprl": {"last_marker": "never", "dense": True},
        "leaps": {"last_marker": "never"},
        "paper": {"last_marker": "never", "dense": True},
    }
    default_size = (12, 12)
    zero_everywhere = True
    cap = 2

    def layout(self, stream: Stream) -> World:
        """Each cell of the bottom row but the last is marked with probability 1/4."""
        bottom = self.height - 2
        world = room(self.height, self.width, (bottom, 1), EAST)
        for col in range(1, self.width - 2):
            if stream.below(4) == 0:
                world.markers[bottom, col] = 1
        if self.options["last_marker"] == "always":
            world.markers[bottom, self.width - 2] = 1
        return world

    def start(self) -> None:
        """The targets are the marked cells of the bottom row."""
        bottom = self.height - 2
        self.targets = {(row, col) for row, col in self.world.markers if row == bottom}

    def is_right(self, cell: Cell) -> bool:
        """Whether a cell of the bottom row is as it should be at the end."""
        if cell in self.targets:
            return self.world.markers.get(cell, 0) == 2
        return cell in self.world.zero

    def score(self, action: int, change: int) -> tuple[float, bool]:
        """Right cells up to the agent's column or the first wrong one, plus one at the end."""
        bottom, last = self.height - 2, self.width - 2
        count = 0
        while count < self.world.col and self.is_right((bottom, count + 1)):
            count += 1
        if self.world.cell == (bottom, last) and count == last:
            count += 1
        finished = count == self.width - 1
        if not self.options.get("dense", True):
            return float(finished), finished
        return count / (self.width - 1), finished


class Maze(ScoredTask):
    """Find the marker in a maze."""

    settings: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "hprl": {"start": "fixed"},
        "leaps": {"start": "fixed"},
        "paper": {"start": "random"},
    }
    zero_everywhere = True

    def layout(self, stream: Stream) -> World:
        """A random tree of corridors; the marker anywhere in it."""
        origin = (self.height - 2, 1)
        world = World(self.height, self.width, *origin, EAST)
        world.walls = set(world.cells())
        self.dig(world, origin, stream)
        open_cells = [cell for cell in world.cells() if cell not in world.walls]
        if self.options["start"] == "random":
            world.row, world.col = open_cells[stream.below(len(open_cells))]
        if self.variant != "leaps":
            open_cells.remove(world.cell)
        world.markers[open_cells[stream.below(len(open_cells))]] = 1
        return world

    def dig(self, world: World, origin: Cell, stream: Stream) -> None:
        """Connect every node of the lattice with all its neighbours not yet connected."""
        world.walls.remove(origin)
        stack = [origin]
        while stack:
            row, col = stack.pop()
            around = [(row - 2, col), (row + 2, col), (row, col - 2), (row, col + 2)]
            inside = set(interior(world))
            fresh = [cell for cell in around if cell in inside and cell in world.walls]
            for i in range(len(fresh) - 1, 0, -1):
                j = stream.below(i + 1)
                fresh[i], fresh[j] = fresh[j], fresh[i]
            for node in fresh:
                between = ((row + node[0]) // 2, (col + node[1]) // 2)
                world.walls -= {between, node}
                stack.append(node)

    def start(self) -> None:
        """The goal is the marked cell, whatever becomes of the marker."""
        self.goal = first_marked(self.world, list(self.world.cells()))

    def score(self, action: int, change: int) -> tuple[float, bool]:
        """1 on the goal."""
        reached = self.world.cell == self.goal
        return float(reached), reached


class CleanHouse(ScoredTask):
    """Pick up the ten markers that lie about in a house."""

    settings: ClassVar[Mapping[str, Mapping[str, Any]]] = {"hprl": {}, "leaps": {}, "paper": {}}
    default_size = (14, 22)
    any_size = False
    zero_everywhere = True

    def layout(self, stream: Stream) -> World:
        """Ten of the 68 cells, each choice as likely; two markers at (2, 12) show the way out."""
        world = World(self.height, self.width, 1, 13, SOUTH)
        world.walls = {(row, col) for row, col in HOUSE_CELLS if HOUSE[row][col] == "#"}
        world.markers[2, 12] = 2
        to_choose = 10
        for seen, cell in enumerate(LITTER_CELLS):
            if stream.below(len(LITTER_CELLS) - seen) < to_choose:
                world.markers[cell] = 1
                to_choose -= 1
        return world

    def start(self) -> None:
        """The targets are the cells with exactly one marker."""
        self.targets = [cell for cell, count in self.world.markers.items() if count == 1]

    def score(self, action: int, change: int) -> tuple[float, bool]:
        """Share of the targets that are empty."""
        world = self.world
        clean = sum(cell in world.zero and world.markers.get(cell, 0) != 1 for cell in self.targets)
        return clean / max(len(self.targets), 1), clean == len(self.targets)


class Harvester(ScoredTask):
    """Pick up a marker on every cell."""

    settings: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "hprl": {"lag": True},
        "leaps": {"lag": True},
        "paper": {"lag": False},
    }

    def layout(self, stream: Stream) -> World:
        """A room full of markers; the agent in the lower left corner."""
        world = room(self.height, self.width, (self.height - 2, 1), EAST)
        world.markers = dict.fromkeys(interior(world), 1)
        return world

    def start(self) -> None:
        """Count the markers on the board."""
        self.first_total = self.board_total = len(self.world.markers)

    def score(self, action: int, change: int) -> tuple[float, bool]:
        """Share of the markers that are gone; with `lag`, as it was before this action."""
        total = self.board_total
        if self.variant == "leaps":
            self.board_total += change
        else:
            self.board_total = len(self.world.markers)
        if not self.options["lag"]:
            total = self.board_total
        return (self.first_total - total) / max(self.first_total, 1), total == 0


TASKS: dict[str, type[ReferenceTask]] = {
    task.__name__: task for task in (StairClimber, FourCorner, TopOff, Maze, CleanHouse, Harvester)
}
