"""The Karel world and the program executor in plain Python: slow, obvious, the tests' oracle.

Nothing here shares code with the compiled world and interpreter, names and numbers included, so
that a mistake in one is not a mistake in both.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

Cell = tuple[int, int]  # row and column, from the upper left
Node = tuple[Any, ...]  # of a program's tree: its kind, then its parts
Act = Callable[[int], object]
Perceive = Callable[[str], bool]

MOVE, TURN_LEFT, TURN_RIGHT, PICK_MARKER, PUT_MARKER = range(5)
NORTH, EAST, SOUTH, WEST = range(4)
STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))  # north, east, south, west
ACTIONS = {"move": 0, "turnLeft": 1, "turnRight": 2, "pickMarker": 3, "putMarker": 4}
SIDES = {"frontIsClear": 0, "leftIsClear": -1, "rightIsClear": 1}  # quarter turns to the right
COUNT_BITS, WALL_BIT, ZERO_BIT, FLAG_BIT = 15, 16, 32, 64
WORD = 2**64 - 1


class Stream:
    """A stream of random numbers: splitmix64, whose whole state is one 64-bit word."""

    def __init__(self, state: int) -> None:
        """Start the stream at `state`, taken modulo 2**64."""
        self.state = state & WORD

    def next(self) -> int:
        """Draw 64 random bits."""
        self.state = (self.state + 0x9E3779B97F4A7C15) & WORD
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
        return z ^ (z >> 31)

    def below(self, n: int) -> int:
        """Draw one of 0, 1, ..., n - 1."""
        return ((self.next() >> 32) * n) >> 32


@dataclass
class World:
    """A grid with walls and markers, and the agent in it."""

    height: int
    width: int
    row: int
    col: int
    facing: int
    markers: dict[Cell, int] = field(default_factory=dict)
    """How many markers are seen on a cell; cells without any are absent."""
    walls: set[Cell] = field(default_factory=set)
    zero: set[Cell] = field(default_factory=set)
    """Cells whose "no markers" flag is set; not always those without markers."""
    flagged: set[Cell] = field(default_factory=set)
    """Cells with the task's own flag: visited, or holding a marker that counts."""

    @classmethod
    def from_bytes(
        cls, cells: Iterable[int], height: int, width: int, row: int, col: int, facing: int
    ) -> World:
        """Read a world from one byte per cell, row by row, as `to_bytes` writes them."""
        world = cls(height, width, int(row), int(col), int(facing))
        given = dict(zip(world.cells(), bytes(cells), strict=True))
        world.markers = {cell: b & COUNT_BITS for cell, b in given.items() if b & COUNT_BITS}
        world.walls = {cell for cell, b in given.items() if b & WALL_BIT}
        world.zero = {cell for cell, b in given.items() if b & ZERO_BIT}
        world.flagged = {cell for cell, b in given.items() if b & FLAG_BIT}
        return world

    def to_bytes(self) -> bytes:
        """One byte per cell: markers seen (bits 0-3), wall (16), zero flag (32), task flag (64)."""
        return bytes(
            self.markers.get(cell, 0)
            + WALL_BIT * (cell in self.walls)
            + ZERO_BIT * (cell in self.zero)
            + FLAG_BIT * (cell in self.flagged)
            for cell in self.cells()
        )

    @property
    def cell(self) -> Cell:
        """The agent's cell."""
        return self.row, self.col

    def cells(self) -> Iterator[Cell]:
        """Every cell, row by row."""
        return ((row, col) for row in range(self.height) for col in range(self.width))

    def neighbour(self, turn: int) -> Cell:
        """The cell next to the agent after `turn` quarter turns to the right."""
        step = STEPS[(self.facing + turn) % 4]
        return self.row + step[0], self.col + step[1]

    def is_clear(self, cell: Cell) -> bool:
        """Whether the agent could enter a cell: inside the grid and no wall."""
        inside = 0 <= cell[0] < self.height and 0 <= cell[1] < self.width
        return inside and cell not in self.walls

    def perceive(self, name: str) -> bool:
        """Answer one of the five perceptions."""
        if name in SIDES:
            return self.is_clear(self.neighbour(SIDES[name]))
        if name == "markersPresent":
            return self.cell in self.markers
        if name == "noMarkersPresent":
            return self.cell not in self.markers
        raise ValueError(f"unknown perception {name!r}")

    def show(self, cell: Cell, count: int) -> None:
        """Change the markers seen on a cell and leave its zero flag as it is."""
        if count:
            self.markers[cell] = count
        else:
            self.markers.pop(cell, None)

    def write(self, cell: Cell, count: int) -> None:
        """Give a cell `count` markers, with the zero flag set exactly when there are none."""
        self.show(cell, count)
        if count:
            self.zero.discard(cell)
        else:
            self.zero.add(cell)

    def usable(self, cell: Cell) -> int:
        """The count that pick and put start from: none where the zero flag is set."""
        return 0 if cell in self.zero else self.markers.get(cell, 0)

    def change_markers(self, change: int, cap: int) -> int:
        """Change the usable count under the agent by -1, 0 or 1, as far as 0 and `cap` allow.

        The cell is written anew in any case: where a marker is seen but the zero flag is set, it
        disappears, and where neither is, the flag appears.

        Returns:
            By how much the usable count has changed.
        """
        before = self.usable(self.cell)
        after = max(before + change, 0) if change <= 0 else min(before + change, cap)
        self.write(self.cell, after)
        return after - before

    def act(self, action: int, cap: int) -> int:
        """Apply one action by the rules all tasks share; return the change of the usable count."""
        if action not in range(5):
            raise ValueError(f"action must be 0 to 4, got {action}")
        if action == PICK_MARKER:
            return self.change_markers(-1, cap)
        if action == PUT_MARKER:
            return self.change_markers(+1, cap)
        if action == TURN_LEFT:
            self.facing = (self.facing - 1) % 4
        elif action == TURN_RIGHT:
            self.facing = (self.facing + 1) % 4
        elif self.is_clear(self.neighbour(0)):
            self.row, self.col = self.neighbour(0)
        else:
            self.facing = (self.facing + 2) % 4  # a blocked move turns the agent round
        return 0


@dataclass(frozen=True)
class Execution:
    """How one run of a program went."""

    calls: int
    """Final value of the call counter; under a cap on actions, the actions executed."""
    completed: bool
    """Whether the program ran to its end."""
    executed: int
    """Actions carried out, logged by the task or not."""


def execute(program: str, act: Act, perceive: Perceive, cap: str) -> Execution:
    """Run a program once.

    Args:
        program: text of a valid program.
        act: carries out the action with this index.
        perceive: answers the perception with this name, in the current state.
        cap: `callsN`, a budget of calls charged node by node, or `actionsN`, at most N actions.

    Returns:
        The counters, and whether the program came to its end.
    """
    run = _run_under(cap, act, perceive)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + 8 * len(program.split()))  # a long sequence is a deep tree
    try:
        run.program(_Parser(program).program())
    except _CutShortError:
        return Execution(run.calls, completed=False, executed=run.executed)
    finally:
        sys.setrecursionlimit(limit)
    return Execution(run.calls, completed=True, executed=run.executed)


class _Parser:
    """Reads a valid program into nested tuples, one token after another."""

    def __init__(self, program: str) -> None:
        self.tokens = program.split()[::-1]

    def take(self, expected: str | None = None) -> str:
        token = self.tokens.pop()
        if expected is not None and token != expected:
            raise ValueError(f"expected {expected!r}, got {token!r}")
        return token

    def program(self) -> Node:
        self.take("DEF")
        self.take("run")
        return self.block("m(", "m)")

    def block(self, opening: str, closing: str) -> Node:
        """A sequence `a b c` becomes the pair of the pair of `a` and `b`, and `c`."""
        self.take(opening)
        node = self.statement()
        while self.tokens[-1] != closing:
            node = ("pair", node, self.statement())
        self.take(closing)
        return node

    def statement(self) -> Node:
        token = self.take()
        if token in ACTIONS:
            return ("action", ACTIONS[token])
        if token == "REPEAT":
            return ("repeat", int(self.take().removeprefix("R=")), self.block("r(", "r)"))
        if token == "WHILE":
            return ("while", self.condition(), self.block("w(", "w)"))
        if token == "IF":
            return ("if", self.condition(), self.block("i(", "i)"))
        if token == "IFELSE":
            condition, body = self.condition(), self.block("i(", "i)")
            self.take("ELSE")
            return ("ifelse", condition, body, self.block("e(", "e)"))
        raise ValueError(f"expected a statement, got {token!r}")

    def condition(self) -> Node:
        self.take("c(")
        token = self.take()
        node = ("not", self.condition()) if token == "not" else ("perception", token)
        self.take("c)")
        return node


class _CutShortError(Exception):
    """The program was cut short by its cap, or by a loop that would do nothing for ever."""


class _Run:
    """One run of a program, a method per node; what a cap forbids is left to its subclass."""

    def __init__(self, act: Act, perceive: Perceive, limit: int) -> None:
        self.act = act
        self.perceive = perceive
        self.limit = limit
        self.calls = 0
        self.executed = 0

    def enter(self, charge: int) -> None:
        """Called on entering every node."""

    def was_idle(self, executed_before: int) -> bool:
        """Whether the loop must not go on because its last round performed no action."""
        return False

    def program(self, body: Node) -> None:
        self.enter(1)
        self.statement(body)

    def statement(self, node: Node) -> None:
        self.enter(1)
        kind, *parts = node
        getattr(self, "run_" + kind)(*parts)

    def run_action(self, action: int) -> None:
        self.enter(0)
        self.executed += 1
        self.act(action)

    def run_pair(self, first: Node, second: Node) -> None:
        self.enter(1)
        self.statement(first)
        self.enter(0)
        self.statement(second)

    def run_if(self, condition: Node, body: Node) -> None:
        self.enter(1)
        if self.holds(condition):
            self.statement(body)

    def run_ifelse(self, condition: Node, body: Node, otherwise: Node) -> None:
        self.enter(1)
        self.statement(body if self.holds(condition) else otherwise)

    def run_while(self, condition: Node, body: Node) -> None:
        self.enter(1)
        while self.holds(condition):
            before = self.executed
            self.statement(body)
            if self.was_idle(before):
                raise _CutShortError  # the same round would come for ever

    def run_repeat(self, times: int, body: Node) -> None:
        self.enter(1)
        for _ in range(times):
            before = self.executed
            self.statement(body)
            if self.was_idle(before):
                break  # the remaining rounds would do nothing either

    def holds(self, condition: Node) -> bool:
        self.enter(0)
        kind, part = condition
        return not self.holds(part) if kind == "not" else self.perceive(part)


class _CallsRun(_Run):
    """A run on a budget of calls: no node is entered once more than `limit` are charged."""

    def enter(self, charge: int) -> None:
        if self.calls > self.limit:
            raise _CutShortError
        self.calls += charge


class _ActionsRun(_Run):
    """A run of at most `limit` actions; only they are counted."""

    def run_action(self, action: int) -> None:
        if self.executed == self.limit:
            raise _CutShortError
        super().run_action(action)
        self.calls = self.executed

    def was_idle(self, executed_before: int) -> bool:
        return self.executed == executed_before


def _run_under(cap: str, act: Act, perceive: Perceive) -> _Run:
    """A fresh run under a cap such as `calls220` or `actions200`."""
    if cap.startswith("calls"):
        return _CallsRun(act, perceive, int(cap.removeprefix("calls")))
    if cap.startswith("actions"):
        return _ActionsRun(act, perceive, int(cap.removeprefix("actions")))
    raise ValueError(f"cap must be callsN or actionsN, got {cap!r}")
