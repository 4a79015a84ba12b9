"""The fifteen tasks in plain Python: slow, obvious, the oracle that the compiled tasks meet.

A task is played by `reset` or `begin`, then `act` as often as wanted; it never stops by itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pomp.conformance.reference.world import Cell, Execution, Stream, World, execute

__all__ = ["ReferenceTask", "Stream", "World", "execute", "reference_task", "run"]

LEAPS_CAP = 9
"""Most markers on a cell in the variant `leaps`, whatever the task."""


class ReferenceTask(ABC):
    """One task with its settings, and one episode of it.

    A subclass says what worlds start like (`layout`), what it remembers (`start`), how an action
    changes the world (`transition`) and what that pays (`reward`).
    """

    settings: ClassVar[Mapping[str, Mapping[str, Any]]]
    """Options and their values for every variant; the first variant is the default."""
    default_size: ClassVar[tuple[int, int]] = (8, 8)
    any_size: ClassVar[bool] = True
    has_scale: ClassVar[bool] = False
    zero_everywhere: ClassVar[bool] = False
    """Whether at the start the zero flag is set on all cells without marker, or nowhere."""
    cap: int = 1
    """Most markers that a put leaves on a cell, except in `leaps`."""

    world: World
    stream: Stream
    done: bool
    actions: int
    """Actions logged so far."""
    logged: bool
    """Whether the last action was logged."""
    total: float
    """Sum of all rewards."""
    last_reward: float
    progress: float
    """Share of the task that has been paid for."""

    def __init__(
        self,
        variant: str | None = None,
        options: Mapping[str, Any] | None = None,
        scale: int = 1,
        size: tuple[int, int] | None = None,
    ) -> None:
        """Settle variant, options, scale and size, which mean what they do for `reference_task`."""
        self.variant = next(iter(self.settings)) if variant is None else variant
        if self.variant not in self.settings:
            raise ValueError(f"variant must be one of {list(self.settings)}, got {variant!r}")
        self.options = {**self.settings[self.variant], **(options or {})}
        unknown = set(self.options) - set(self.settings[self.variant])
        if unknown:
            raise ValueError(f"unknown options {sorted(unknown)}")
        if self.variant == "leaps":
            self.cap = LEAPS_CAP
        self.height, self.width = size or self.default_size
        if not self.any_size and (self.height, self.width) != self.default_size:
            raise ValueError(f"size must be {self.default_size}, got {size}")
        self.scale = scale
        if scale != 1 and not self.has_scale:
            raise ValueError(f"this task has no scale, got {scale}")

    def reset(self, stream: Stream) -> None:
        """Start an episode in a world drawn from the stream, which is kept for later draws."""
        self.begin(self.layout(stream), stream)

    def begin(self, world: World, stream: Stream) -> None:
        """Start an episode in a given world, which is changed from then on."""
        if (world.height, world.width) != (self.height, self.width):
            raise ValueError(
                f"the world must be {self.height} x {self.width}, got "
                f"{world.height} x {world.width}"
            )
        self.world = world
        self.stream = stream
        if self.zero_everywhere:
            world.zero = set(world.cells()) - set(world.markers)
        self.done = False
        self.actions = 0
        self.logged = True
        self.total = self.last_reward = self.progress = 0.0
        self.start()

    def act(self, action: int) -> float:
        """Carry out one action and return its reward."""
        self.logged = True
        change = self.transition(action)
        if not self.logged:
            return 0.0
        self.last_reward = self.reward(action, change)
        self.total += self.last_reward
        self.actions += 1
        return self.last_reward

    def value(self) -> float:
        """What the episode is worth so far."""
        if self.variant != "leaps":
            return self.total
        return self.last_reward if self.actions >= 2 else 0.0

    @abstractmethod
    def layout(self, stream: Stream) -> World:
        """Draw a world to start in."""

    def start(self) -> None:  # noqa: B027 - a task may have nothing to remember
        """Derive what the task remembers from the world it starts in."""

    def transition(self, action: int) -> int:
        """Change the world; return the change of the usable markers under the agent."""
        return self.world.act(action, self.cap)

    @abstractmethod
    def reward(self, action: int, change: int) -> float:
        """Pay for the action just carried out; may set done and change the world."""


class ScoredTask(ReferenceTask):
    """A task with a score: `leaps` pays its level, the other variants its growth until done."""

    def reward(self, action: int, change: int) -> float:
        """Pay the score, or what it has grown by."""
        score, finished = self.score(action, change)
        if self.variant == "leaps":
            self.done = self.done or finished
            return score
        if self.done:
            return 0.0
        self.done = finished
        gain = score - self.progress
        self.progress = score
        return gain

    @abstractmethod
    def score(self, action: int, change: int) -> tuple[float, bool]:
        """The score after an action, and whether the task is done with it."""


def room(height: int, width: int, agent: Cell, facing: int) -> World:
    """An empty room: walls around, nothing inside but the agent."""
    world = World(height, width, *agent, facing)
    world.walls = set(world.cells()) - set(interior(world))
    return world


def interior(world: World) -> list[Cell]:
    """All cells but those of the outer ring, row by row."""
    return [(row, col) for row in range(1, world.height - 1) for col in range(1, world.width - 1)]


def free_interior(world: World) -> list[Cell]:
    """The cells of the interior that are no walls, row by row."""
    return [cell for cell in interior(world) if cell not in world.walls]


def first_marked(world: World, cells: Sequence[Cell]) -> Cell:
    """The first of the cells that has a marker; the goal of a task that has one."""
    for cell in cells:
        if cell in world.markers:
            return cell
    raise ValueError("the world lacks a marker that the task needs")


def reference_task(
    name: str,
    variant: str | None = None,
    options: Mapping[str, Any] | None = None,
    scale: int = 1,
    size: tuple[int, int] | None = None,
) -> ReferenceTask:
    """Make a task.

    Args:
        name: one of the fifteen names, such as `StairClimber` or `InfHarvester`.
        variant: `hprl`, `leaps`, `paper` or `hipo`, as far as the task has it; by default `hprl`
            for KAREL and KAREL-HARD and `hipo` for KAREL-LONG.
        options: values that differ from the variant's.
        scale: how many times longer a KAREL-LONG task is.
        size: height and width of the grid, outer walls included.

    Returns:
        The task, which still has to be reset.
    """
    from pomp.conformance.reference import karel, karel_hard, karel_long  # they import this module

    tasks = {**karel.TASKS, **karel_hard.TASKS, **karel_long.TASKS}
    if name not in tasks:
        raise ValueError(f"unknown task {name!r}; known: {', '.join(tasks)}")
    return tasks[name](variant, options, scale, size)


def run(task: ReferenceTask, programs: Sequence[str], cap: str) -> list[Execution]:
    """Run programs one after another from the task's current state, each under a fresh cap."""
    return [
        execute(program, task.act, lambda name: task.world.perceive(name), cap)
        for program in programs
    ]
