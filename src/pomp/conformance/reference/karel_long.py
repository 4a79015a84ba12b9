"""The five KAREL-LONG tasks in plain Python."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from pomp.conformance.reference import ReferenceTask, first_marked, interior, room
from pomp.conformance.reference.karel import stair_cells, staircase, valid_positions
from pomp.conformance.reference.world import EAST, PICK_MARKER, PUT_MARKER, Cell, Stream, World

COST = 0.0001  # of every action, divided by the scale


class LongTask(ReferenceTask):
    """A task of many equal events; every action costs a little, after done it only costs."""

    has_scale = True
    events: int
    """Events so far that pay."""
    events_in_all: int
    """Events that a whole episode is made of."""

    def reward(self, action: int, change: int) -> float:
        """Pay the growth of the progress, less the cost of the action."""
        cost = COST / self.scale
        if self.done:
            return -cost
        extra = self.after(action, change)
        before, self.progress = self.progress, self.events / self.events_in_all
        return self.progress - before - cost + extra

    @abstractmethod
    def after(self, action: int, change: int) -> float:
        """Count events, change the world, set done; return what else the action pays."""


class Seesaw(LongTask):
    """Pick up markers that appear by turns in the two chambers at the ends of a corridor."""

    settings: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "hipo": {"start": "fixed"},
        "paper": {"start": "random"},
    }
    default_size = (16, 16)

    def chamber(self, first_col: int) -> list[Cell]:
        """The cells of the chamber that begins at a column, row by row."""
        middle, length = self.height // 2, (self.width - 2) // 3
        columns = range(first_col, first_col + length)
        return [(row, col) for row in range(middle - 2, middle + 2) for col in columns]

    def layout(self, stream: Stream) -> World:
        """Two chambers and the corridor between them; a marker in the left chamber."""
        middle = self.height // 2
        left, right = self.chambers()
        corridor = {(row, col) for row in (middle - 1, middle) for col in range(1, self.width - 1)}
        world = World(self.height, self.width, middle, 1, EAST)
        world.walls = set(world.cells()) - set(left) - set(right) - corridor
        first = (middle - 2, 3)
        if self.options["start"] == "random":
            first = left[stream.below(len(left))]
        world.markers[first] = 1
        return world

    def chambers(self) -> tuple[list[Cell], list[Cell]]:
        """The left and the right chamber."""
        return self.chamber(1), self.chamber(self.width - 1 - (self.width - 2) // 3)

    def start(self) -> None:
        """Nothing picked yet."""
        self.events = 0
        self.events_in_all = 64 * self.scale

    def transition(self, action: int) -> int:
        """A put never adds a marker; it only writes the cell anew."""
        if action == PUT_MARKER:
            return self.world.change_markers(0, self.cap)
        return super().transition(action)

    def after(self, action: int, change: int) -> float:
        """A pick makes a marker appear in the other chamber; after the last it is erased."""
        if change >= 0:
            return 0.0
        self.events += 1
        self.done = self.events >= self.events_in_all
        left, right = self.chambers()
        if self.world.cell in left:
            self.mark(right)
        elif self.world.cell in right:
            self.mark(left)
        return 0.0

    def mark(self, chamber: list[Cell]) -> None:
        """Draw the cell of the next marker."""
        cell = chamber[self.stream.below(len(chamber))]
        self.world.write(cell, 0 if self.done else 1)


class UpNDown(LongTask):
    """Go up and down the stairs to goals that appear above and below by turns."""

    settings: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "hipo": {"psi": 0.0005},
        "paper": {"psi": 0.005},
    }
    zero_everywhere = True

    def layout(self, stream: Stream) -> World:
        """Stairs; the agent on the second, the first goal on the top one."""
        stairs = stair_cells(self.height, self.width)
        world = staircase(self.height, self.width, stairs[1])
        world.markers[stairs[-1]] = 1
        return world

    def start(self) -> None:
        """The marked cell is the first goal, one that lies above."""
        self.goal = first_marked(self.world, list(self.world.cells()))
        self.valid = valid_positions(self.height, self.width)
        self.events = 0
        self.events_in_all = 100 * self.scale

    def is_above_stairs(self) -> bool:
        """Whether the agent is on a cell that costs extra."""
        return self.world.row + self.world.col < self.height - 2

    def after(self, action: int, change: int) -> float:
        """Being on the goal counts, whatever the action; then the next goal appears."""
        if self.world.cell == self.goal:
            self.world.write(self.goal, 0)
            self.goal = self.next_goal()
            self.events += 1
            self.done = self.events >= self.events_in_all
            self.world.write(self.goal, 0 if self.done else 1)
        return -self.options["psi"] / self.scale if self.is_above_stairs() else 0.0

    def next_goal(self) -> Cell:
        """Draw a valid cell below a goal that lay above, or above one that lay below."""
        if self.events % 2 == 0:
            candidates = [cell for cell in self.valid if cell[0] > self.goal[0]]
        else:
            candidates = [cell for cell in self.valid if cell[0] < self.goal[0]]
        return candidates[self.stream.below(len(candidates))]


class Farmer(LongTask):
    """Sow the field, harvest it, and again."""

    settings: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "hipo": {"clean_signal": False},
        "paper": {"clean_signal": False},
    }

    def layout(self, stream: Stream) -> World:
        """An empty field with a signal marker in the upper right corner."""
        world = room(self.height, self.width, (self.height - 2, 1), EAST)
        world.markers[1, self.width - 2] = 1
        return world

    def start(self) -> None:
        """The first round begins with sowing; the signal counts as sown."""
        self.field = len(interior(self.world))
        self.harvesting = False
        self.in_a_row = 1
        self.rounds = 0
        self.picked = self.put = 0
        self.events = 0
        self.rounds_in_all = 10 * self.scale
        self.events_in_all = 2 * self.field * self.rounds_in_all

    def transition(self, action: int) -> int:
        """A put works only when sowing, a pick only when harvesting; else the cell is rewritten."""
        if action not in (PICK_MARKER, PUT_MARKER):
            return super().transition(action)
        if self.done:
            return self.world.change_markers(0, self.cap)
        self.switch(action)
        allowed = self.harvesting == (action == PICK_MARKER)
        if not allowed:
            return self.world.change_markers(0, self.cap)
        change = super().transition(action)
        self.in_a_row += abs(change)
        self.put += max(change, 0)
        self.picked -= min(change, 0)
        return change

    def switch(self, action: int) -> None:
        """Go over to harvesting at a pick once 5/6 are sown, and back at a put once all is in."""
        if not self.harvesting and action == PICK_MARKER and 6 * self.in_a_row >= 5 * self.field:
            self.harvesting = True
            self.in_a_row = 0
        elif self.harvesting and action == PUT_MARKER and self.in_a_row >= self.field:
            self.harvesting = False
            self.in_a_row = 1

    def after(self, action: int, change: int) -> float:
        """An empty field ends the round; the signal is set again, over a zero flag or not."""
        self.events = self.picked + self.put
        if self.world.markers:
            return 0.0
        self.rounds += 1
        self.done = self.rounds >= self.rounds_in_all
        if not self.done:
            signal = (1, self.width - 2)
            self.world.show(signal, 1)
            if self.options["clean_signal"]:
                self.world.zero.discard(signal)
            self.harvesting = False
            self.in_a_row = 1
        return 0.0


class InfDoorKey(LongTask):
    """Carry keys round through four chambers; each event opens the next door."""

    settings: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "hipo": {"clean_signal": False, "done_ratio": 0.99, "redraw_per_lap": False},
        "paper": {"clean_signal": False, "done_ratio": 1.0, "redraw_per_lap": True},
    }
    any_size = False

    doors = ((2, 4), (4, 6), (6, 4), (4, 2))
    """Door s is opened by the event of stage s, and closed by the next one."""
    chambers = (
        tuple((row, col) for row in (1, 2, 3) for col in (1, 2, 3)),  # key 1
        tuple((row, col) for row in (1, 2, 3) for col in (5, 6)),  # target 1
        tuple((row, col) for row in (5, 6) for col in (5, 6)),  # key 2
        tuple((row, col) for row in (5, 6) for col in (1, 2, 3)),  # target 2
    )

    def layout(self, stream: Stream) -> World:
        """A cross of walls, all doors closed; a marker in each chamber."""
        agent = (1 + stream.below(2), 1 + stream.below(2))
        key_1 = (1 + stream.below(3), 1 + stream.below(3))
        target_1 = (1 + stream.below(3), 5 + stream.below(2))
        key_2 = (5 + stream.below(2), 5 + stream.below(2))
        target_2 = (5 + stream.below(2), 1 + stream.below(3))
        world = room(self.height, self.width, agent, EAST)
        world.walls |= {(4, i) for i in range(8)} | {(i, 4) for i in range(8)}
        world.markers = dict.fromkeys((key_1, target_1, key_2, target_2), 1)
        return world

    def start(self) -> None:
        """The goals, one per stage, are the markers of the chambers."""
        self.goals = [first_marked(self.world, chamber) for chamber in self.chambers]
        self.stage = 0
        self.events = 0
        self.events_in_all = 100 * self.scale

    def transition(self, action: int) -> int:
        """A put never adds a marker; it only writes the cell anew."""
        if action == PUT_MARKER:
            return self.world.change_markers(0, self.cap)
        return super().transition(action)

    def after(self, action: int, change: int) -> float:
        """Pick on a key, put on a target: the place and the action count, not the marker."""
        wanted = PICK_MARKER if self.stage % 2 == 0 else PUT_MARKER
        goal = self.goals[self.stage]
        if action != wanted or self.world.cell != goal:
            return 0.0
        self.events += 1
        self.done = self.events / self.events_in_all >= self.options["done_ratio"]
        self.world.walls.discard(self.doors[self.stage])
        self.world.walls.add(self.doors[self.stage - 1])
        if action == PUT_MARKER:
            self.world.show(goal, 0)
        self.stage = (self.stage + 1) % 4
        if self.stage == 0 and self.options["redraw_per_lap"] and not self.done:
            self.redraw()
        self.mark(self.goals[self.stage])
        return 0.0

    def mark(self, goal: Cell) -> None:
        """Show a marker on the next goal, over a zero flag or not; after the last event, none."""
        self.world.show(goal, 0 if self.done else 1)
        if self.options["clean_signal"] and not self.done:
            self.world.zero.discard(goal)

    def redraw(self) -> None:
        """Draw new goals for the next lap."""
        k = self.stream.below(9 * 6 * 4 * 6)
        indices = (k % 9, k // 9 % 6, k // 54 % 4, k // 216)
        self.goals = [chamber[index] for chamber, index in zip(self.chambers, indices, strict=True)]


class InfHarvester(LongTask):
    """Pick up markers that come back now and then."""

    settings: ClassVar[Mapping[str, Mapping[str, Any]]] = {"hipo": {}, "paper": {}}
    default_size = (16, 16)

    def layout(self, stream: Stream) -> World:
        """A room full of markers; the agent in the lower left corner."""
        world = room(self.height, self.width, (self.height - 2, 1), EAST)
        world.markers = dict.fromkeys(interior(world), 1)
        return world

    def start(self) -> None:
        """The markers of the start count; their cells carry the task's flag."""
        self.world.flagged = set(self.world.markers)
        self.events = 0
        self.events_in_all = 2 * len(list(interior(self.world))) * self.scale

    def reward(self, action: int, change: int) -> float:
        """As for every long task, but done changes nothing."""
        was_done, self.done = self.done, False
        reward = super().reward(action, change)
        self.done = was_done or self.events >= self.events_in_all
        return reward

    def after(self, action: int, change: int) -> float:
        """A marker that counts is picked: one may come back where there is none."""
        cell = self.world.cell
        if change >= 0 or cell not in self.world.flagged:
            return 0.0
        self.world.flagged.remove(cell)
        self.events += 1
        emptied = sorted(self.world.zero)
        k = self.stream.below(len(emptied) * 2 * self.scale)
        outcome, place = divmod(k, len(emptied))
        if outcome != 0:
            self.world.write(emptied[place], 1)
            self.world.flagged.add(emptied[place])
        return 0.0


TASKS: dict[str, type[ReferenceTask]] = {
    task.__name__: task for task in (Seesaw, UpNDown, Farmer, InfDoorKey, InfHarvester)
}
