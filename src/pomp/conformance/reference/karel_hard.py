"""The four KAREL-HARD tasks in plain Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pomp.conformance.reference import ReferenceTask, ScoredTask, first_marked, free_interior, room
from pomp.conformance.reference.world import EAST, MOVE, Stream, World

SNAKE_FOOD = [
    *[(6, 6), (6, 1), (1, 1), (2, 2), (2, 5), (5, 5), (5, 2), (3, 3), (5, 3), (4, 4), (6, 4)],
    *[(3, 2), (1, 4), (6, 2), (2, 6), (4, 1), (1, 3), (2, 1), (3, 6), (4, 3), (5, 1), (2, 4)],
    *[(5, 4), (1, 5), (3, 5), (4, 6), (5, 6), (3, 1), (4, 2), (6, 5), (2, 3), (1, 2), (4, 5)],
    *[(3, 4), (6, 3)],
]
"""Where food appears, in this order and over again."""
FOOD, BODY = 1, 2  # how the snake's world shows them, as numbers of markers
MEALS = 20


class DoorKey(ScoredTask):
    """Take the key, which opens the door, and lay it on the target in the other room."""

    settings: ClassVar[Mapping[str, Mapping[str, Any]]] = {"hprl": {}, "paper": {}}
    any_size = False
    zero_everywhere = True
    cap = 2

    doors = ((2, 4), (3, 4))
    left_room = tuple((row, col) for row in range(1, 7) for col in range(1, 4))
    right_room = tuple((row, col) for row in range(1, 7) for col in range(5, 7))

    def layout(self, stream: Stream) -> World:
        """Two rooms; the agent and the key in the left one, the target in the right one."""
        agent = (1 + stream.below(6), 1 + stream.below(3))
        key = (1 + stream.below(6), 1 + stream.below(3))
        target = (1 + stream.below(6), 5 + stream.below(2))
        world = room(self.height, self.width, agent, EAST)
        world.walls |= {(row, 4) for row in range(1, 7)}
        world.markers = {key: 1, target: 1}
        return world

    def start(self) -> None:
        """The key is the marker of the left room, the target that of the right room."""
        self.key = first_marked(self.world, self.left_room)
        self.target = first_marked(self.world, self.right_room)

    def score(self, action: int, change: int) -> tuple[float, bool]:
        """Half for the key, half for the delivery, less a little for each stray marker."""
        world = self.world
        has_key = self.key in world.zero
        if has_key:
            world.walls -= set(self.doors)
        delivered = has_key and world.markers.get(self.target, 0) == 2
        stray = max(0, len(world.markers) - 2) if self.variant == "hprl" else 0
        score = 0.5 * has_key + 0.5 * delivered - 0.0001 * stray
        return score, delivered and stray == 0


class OneStroke(ScoredTask):
    """Visit every cell once; a cell that has been left becomes a wall."""

    settings: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "hprl": {"lag": True},
        "paper": {"lag": False},
    }

    def layout(self, stream: Stream) -> World:
        """An empty room; the agent anywhere in it."""
        agent = (1 + stream.below(self.height - 2), 1 + stream.below(self.width - 2))
        return room(self.height, self.width, agent, EAST)

    def start(self) -> None:
        """The agent's cell has been visited; visited cells carry the task's flag."""
        self.world.flagged = {self.world.cell}
        self.to_visit = len(free_interior(self.world))

    def transition(self, action: int) -> int:
        """Wall up the cell that the agent leaves."""
        left = self.world.cell
        change = super().transition(action)
        self.collided = action == MOVE and self.world.cell == left
        if self.world.cell != left:
            self.world.walls.add(left)
            self.world.show(left, 0)
            self.world.zero.discard(left)
        return change

    def score(self, action: int, change: int) -> tuple[float, bool]:
        """Share of the cells visited; with `lag`, before this action."""
        visited_before = len(self.world.flagged)
        self.world.flagged.add(self.world.cell)
        visited = visited_before if self.options["lag"] else len(self.world.flagged)
        return visited / self.to_visit, self.collided or visited == self.to_visit


class Seeder(ScoredTask):
    """Put exactly one marker on every cell."""

    settings: ClassVar[Mapping[str, Mapping[str, Any]]] = {"hprl": {}, "paper": {}}
    cap = 2

    def layout(self, stream: Stream) -> World:
        """An empty room; the agent in the lower left corner."""
        return room(self.height, self.width, (self.height - 2, 1), EAST)

    def start(self) -> None:
        """Every free cell is to be sown."""
        self.to_sow = len(free_interior(self.world))

    def score(self, action: int, change: int) -> tuple[float, bool]:
        """Share of the cells with exactly one marker; a second one on a cell ends the task."""
        counts = list(self.world.markers.values())
        singles = counts.count(1)
        has_double = any(count >= 2 for count in counts)
        return singles / self.to_sow, has_double or singles == self.to_sow


class Snake(ScoredTask):
    """Eat and grow without biting oneself; the agent is the head."""

    settings: ClassVar[Mapping[str, Mapping[str, Any]]] = {"hprl": {}, "paper": {}}
    any_size = False

    def layout(self, stream: Stream) -> World:
        """An empty room with a snake of two cells behind its head, and the first food."""
        world = room(self.height, self.width, (1, 3), EAST)
        world.markers = {(1, 1): BODY, (1, 2): BODY, (1, 6): FOOD}
        return world

    def start(self) -> None:
        """The body is what looks like one, taken row by row, oldest cell first."""
        self.body = sorted(c for c, count in self.world.markers.items() if count == BODY)
        self.length = 2
        self.pointer = 0

    def transition(self, action: int) -> int:
        """Until done, a move drags the body along."""
        left = self.world.cell
        change = super().transition(action)
        if not self.done and self.world.cell != left:
            self.drag(left)
        return change

    def drag(self, left: tuple[int, int]) -> None:
        """Let the body follow the head, which just left a cell."""
        world = self.world
        world.write(left, BODY)
        if world.cell in self.body:
            self.done = True
            self.logged = False
            return
        self.body.append(left)
        if world.markers.get(world.cell, 0) == FOOD and self.length < 2 + MEALS:
            self.length += 1
            world.show(world.cell, 0)
            self.serve()
        if len(self.body) > self.length:
            tail = self.body.pop(0)
            world.show(tail, 0)
            world.zero.discard(tail)

    def serve(self) -> None:
        """Put food on the next cell of the list that has nothing at all on it."""
        world = self.world
        for _ in SNAKE_FOOD:
            cell = SNAKE_FOOD[self.pointer]
            self.pointer = (self.pointer + 1) % len(SNAKE_FOOD)
            if cell not in {world.cell, *world.walls, *world.markers, *world.zero}:
                world.show(cell, FOOD)
                return

    def score(self, action: int, change: int) -> tuple[float, bool]:
        """Share of the meals eaten."""
        eaten = self.length - 2
        return eaten / MEALS, eaten == MEALS


TASKS: dict[str, type[ReferenceTask]] = {
    task.__name__: task for task in (DoorKey, OneStroke, Seeder, Snake)
}
