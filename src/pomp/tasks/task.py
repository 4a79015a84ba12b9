"""A task is a value: what worlds start like, what an action does, what it is worth.

The three compiled functions of a task are the only code about it that runs in the engine:

    draw_start(cells, constants, memory, stream) -> pose      draw walls, markers and the agent
    begin(cells, constants, pose, memory) -> bool             derive flags and memory from them
    step(cells, constants, pose, memory, stream, action) -> pose   one action, its consequences

`cells` and `memory` come to `draw_start` all zero. `begin` is also given maps from files and says
whether the task can start there. A `step` draws from the stream once at most. See
`pomp.karel.dynamics` for the bytes, the memory slots and the rules every task shares.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import ceil, lcm
from numbers import Rational
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.core.arrays import read_only
from pomp.core.compiling import check_compiled
from pomp.core.configs import check_count
from pomp.core.errors import ConfigError, UnknownNameError
from pomp.karel.dynamics import FIRST_SLOT, SUM
from pomp.karel.world import LARGEST, SMALLEST, Map, WorldBatch

MAX_STARTS = 100_000
"""A task with more starts than this is not enumerated."""

_COMPILED = {
    "draw_start": ("cells", "constants", "memory", "stream"),
    "begin": ("cells", "constants", "pose", "memory"),
    "step": ("cells", "constants", "pose", "memory", "stream", "action"),
}

_CALLED = (
    "constants", "slots", "wrong_size", "is_start", "is_sound", "draws", "event_count", "forget"
)  # fmt: skip

SHORT, LONG = (1,), (1, 2, 4, 8, 16)
"""The scales of a task without and with a horizon to stretch."""


@dataclass(frozen=True)
class Option:
    """A named choice within a variant.

    Attributes:
        help: one line for `pomp tasks`.
        choices: the texts it may have; empty for a number, `("off", "on")` for a switch.
    """

    help: str
    choices: tuple[str, ...] = ()

    def parse(self, name: str, text: object) -> "OptionValue":
        """Read a value given as text or as a Python value.

        Raises:
            ConfigError: it is none of the values the option may have.
        """
        word = str(text).strip().lower()
        if self.choices == SWITCH:
            words = {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}
            if word in words:
                return words[word]
            raise ConfigError(f"option {name} is on or off, got '{text}'")
        if self.choices:
            if word in self.choices:
                return word
            listed = " or ".join(f"'{choice}'" for choice in self.choices)
            raise ConfigError(f"option {name} is {listed}, got '{text}'")
        try:
            number = Fraction(word)
        except (ValueError, ZeroDivisionError):
            raise ConfigError(f"option {name} is a number, got '{text}'") from None
        if not 0 <= number <= 1000 or number.denominator > 10**9:
            raise ConfigError(f"option {name} is a number from 0 to 1000, got '{text}'")
        return number


OptionValue = bool | str | Fraction
SWITCH = ("off", "on")


@dataclass(frozen=True, kw_only=True)
class Constants:
    """The numbers of a task in one setting.

    Attributes:
        cap: most markers a cell may hold.
        value: how rewards make a value: `SUM`, `LAST` or `MEAN`.
        pay: what one unit of the score pays.
        cost: what every action costs.
        fine: what one unit of the tally costs.
        own: the task's further integers, read from constants[FIRST_CONSTANT] on.
    """

    cap: int = 1
    value: int = SUM
    pay: Fraction = Fraction(1)
    cost: Fraction = Fraction(0)
    fine: Fraction = Fraction(0)
    own: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("pay", "cost", "fine"):
            if not isinstance(getattr(self, name), Rational):
                raise ConfigError(f"{name} is a Fraction, got {getattr(self, name)!r}")
        for name in ("cap", "value"):
            if not isinstance(getattr(self, name), int):
                raise ConfigError(f"{name} is a whole number, got {getattr(self, name)!r}")
        if not isinstance(self.own, tuple) or not all(isinstance(one, int) for one in self.own):
            raise ConfigError(f"own are whole numbers in a tuple, got {self.own!r}")


@dataclass(frozen=True, kw_only=True)
class Start:
    """One start state and how likely it is."""

    probability: Fraction
    map: Map


def no_slots(height: int, width: int) -> int:
    """For a task that needs no memory of its own."""
    return 0


def is_no_start(start: Map) -> bool:
    """For a task that neither lists its starts nor knows one when it sees it."""
    return False


def never(setting: "Setting") -> bool:
    """For a task whose steps draw nothing."""
    return False


@dataclass(frozen=True, kw_only=True)
class EventCount:
    """How a task counts the events (picks, loads, ...) that pay and after which it is done.

    The score of a world is the number of its events so far. Only an event may draw at random.

    Attributes:
        last: the number of the event that ends the task.
        phases: until then, what can still happen depends on the count modulo this number alone.
    """

    last: int
    phases: int


def counts_no_events(setting: "Setting") -> EventCount | None:
    """For a task that is not done after a number of events, or says nothing of it."""
    return None


def _is_size(size: object) -> bool:
    """Whether something is rows and columns."""
    return (
        isinstance(size, tuple)
        and len(size) == 2
        and all(isinstance(side, int) and not isinstance(side, bool) for side in size)
    )


def is_any(worlds: WorldBatch) -> NDArray[np.bool_]:
    """For a task whose `step` finds no cell by what is in memory: `[B]` bool, all true."""
    return np.ones(len(worlds), np.bool_)


def forget_nothing(worlds: WorldBatch) -> None:
    """For a task in which everything about a world may matter for its future."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """A task and its variants.

    Attributes:
        name: as in the paper, without hyphens.
        suite: `Karel`, `KarelHard`, `KarelLong` or the name of your own collection.
        summary: one sentence: what the agent has to do.
        size: rows and columns.
        ceiling: what the best play that is known returns on average: one number for every setting,
            or a function of the setting, None where it is not known. It is no bound.
        variants: variant -> option -> default; the first variant is the default.
        options: what each option means.
        draw_start: compiled; see this module's docstring.
        begin: compiled.
        step: compiled.
        needs: what `begin` wants to find in a map.
        most_shown: markers a cell of a map may show; 0: as many as the cap allows.
        constants: the numbers of a setting.
        slots: how many memory slots of its own a world of a size has.
        wrong_size: what sizes must be, if the given one is wrong.
        scales: the horizons it has.
        max_steps: actions after which an episode of an environment is cut, at scale 1.
        starts: lists every start of a setting, or None if they are too many.
        too_many: why `starts` is None.
        is_start: whether a map is a start, for a task that cannot list them.
        is_sound: tells of worlds that were made elsewhere, `[B]` bool, in which of them `step` can
            go on. A task that finds cells, or slots, by numbers in its memory must say so, since
            compiled code checks no bounds; what it accepts, each of its steps must keep so.
        draws: whether steps draw at random in a setting.
        is_restless: whether a longer horizon changes what an action does, not only how much there
            is to do.
        episodes: how many an evaluation plays if nothing else is asked for, as the paper's tables.
        event_count: how the task counts events in a setting, or None if it does not. What the best
            transitions could earn can be computed for such a task though its events draw.
        forget: sets to zero, in `pomp.karel.world.memory_of(worlds)`, what plays no part in what
            worlds can still earn, so that worlds of one future look alike. Forgetting less is
            always right, only slower.
        modes: how many modes a machine for it has, where the search method does not say.
    """

    name: str
    suite: str
    summary: str
    size: tuple[int, int]
    ceiling: float | Callable[["Setting"], float | None]
    draw_start: Callable[..., Any]
    begin: Callable[..., Any]
    step: Callable[..., Any]
    needs: str
    most_shown: int = 0
    constants: Callable[["Setting"], Constants]
    variants: Mapping[str, Mapping[str, Any]] = field(
        default_factory=lambda: MappingProxyType({"plain": {}})
    )
    options: Mapping[str, Option] = field(default_factory=dict)
    slots: Callable[[int, int], int] = no_slots
    wrong_size: Callable[[int, int], str]
    scales: tuple[int, ...] = SHORT
    max_steps: int = 1_000
    starts: Callable[["Setting"], Iterator[Start]] | None = None
    too_many: str = ""
    is_start: Callable[[Map], bool] = is_no_start
    is_sound: Callable[[WorldBatch], NDArray[np.bool_]] = is_any
    draws: Callable[["Setting"], bool] = never
    is_restless: bool = False
    episodes: int = 100
    event_count: Callable[["Setting"], EventCount | None] = counts_no_events
    forget: Callable[[WorldBatch], None] = forget_nothing
    modes: int = 5

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not re.fullmatch("[A-Za-z][A-Za-z0-9]*", self.name):
            raise ConfigError(f"a task's name has letters and digits alone, got {self.name!r}")
        for what, arguments in _COMPILED.items():
            check_compiled(f"task {self.name}", what, getattr(self, what), arguments)
        for what in _CALLED:
            if not callable(getattr(self, what)):
                got = repr(getattr(self, what))
                raise ConfigError(f"{what} of task {self.name} is a function, got {got}")
        if not _is_size(self.size):
            expected = "rows and columns, as (8, 8)"
            raise ConfigError(f"the size of task {self.name} is {expected}, got {self.size!r}")
        if not self.variants:
            raise ConfigError(f"task {self.name} needs a variant")
        if not callable(self.ceiling) and not isinstance(self.ceiling, int | float):
            expected = "a number, or a function of the setting"
            raise ConfigError(
                f"the ceiling of task {self.name} is {expected}, got {self.ceiling!r}"
            )

    def __repr__(self) -> str:
        """Say in a line which task it is."""
        return f"Task({self.name} of {self.suite})"

    def _repr_html_(self) -> str:
        """What a notebook shows: the task in its default setting."""
        return self.configure()._repr_html_()

    def configure(
        self,
        variant: str | None = None,
        options: Mapping[str, object] | None = None,
        size: tuple[int, int] | None = None,
        scale: int = 1,
    ) -> "Setting":
        """Choose variant, options, size and scale.

        Raises:
            UnknownNameError: no such variant or option.
            ConfigError: a value the task cannot have.
        """
        size = size or self.size
        if not isinstance(size, Sequence) or len(size) != 2:
            raise ConfigError(f"a size is rows and columns, as (8, 8), got {size!r:.80}")
        given: Any = {} if options is None else options
        return Setting(self, variant or next(iter(self.variants)), given, *size, scale)


@dataclass(frozen=True, eq=False)
class Setting:
    """A task with everything about it decided.

    Attributes:
        task: the task.
        variant: one of its variants.
        options: the variant's options; those that are left out have their defaults.
        height: rows.
        width: columns.
        scale: one of the task's scales.
    """

    task: Task
    variant: str
    options: Mapping[str, OptionValue]
    height: int
    width: int
    scale: int

    def __post_init__(self) -> None:
        """Refuse what the task cannot have, however the setting was made.

        Raises:
            UnknownNameError: no such variant or option.
            ConfigError: a value the task cannot have.
        """
        task = self.task
        if not isinstance(task, Task):
            raise ConfigError(f"a setting is that of a task, got {task!r:.80}")
        if self.variant not in task.variants:
            raise UnknownNameError(f"variant of {task.name}", str(self.variant), task.variants)
        size = (self.height, self.width)
        if _is_size(size) and (expected := task.wrong_size(*size)):
            got = f"{self.height}x{self.width}"
            raise ConfigError(f"{task.name} takes a grid of {expected}, got {got}")
        if not _is_size(size) or not all(SMALLEST <= side <= LARGEST for side in size):
            got = f"{self.height!r:.40} and {self.width!r:.40}"
            raise ConfigError(f"a grid has {SMALLEST} to {LARGEST} rows and columns, got {got}")
        if type(self.scale) is not int or self.scale not in task.scales:
            listed = ", ".join(map(str, task.scales))
            raise ConfigError(f"{task.name} has scale {listed}, got {self.scale!r:.40}")
        object.__setattr__(self, "options", MappingProxyType(self._chosen_options()))
        _ = self.constants  # options that do not go together show here, before anything runs

    def _chosen_options(self) -> dict[str, OptionValue]:
        """Return the options that are given, and the others' defaults."""
        task = self.task
        if not isinstance(self.options, Mapping):
            expected = "a mapping of names to values"
            raise ConfigError(f"options of {task.name} are {expected}, got {self.options!r:.80}")
        chosen = dict(task.variants[self.variant])
        for name in self.options:
            if name not in chosen:
                kind = f"option of {task.name} ({self.variant})"
                raise UnknownNameError(kind, str(name), chosen)
        return {
            name: task.options[name].parse(name, self.options.get(name, default))
            for name, default in chosen.items()
        }

    def __repr__(self) -> str:
        """Say in a line which task it is, and how it is set."""
        chosen = "".join(f", {name}={value}" for name, value in self.option_texts.items())
        scale = f", x{self.scale}" if self.scale > 1 else ""
        size = f"{self.height}x{self.width}"
        return f"Setting({self.task.name}, {self.variant}{chosen}, {size}{scale})"

    def _repr_html_(self) -> str:
        """What a notebook shows: numbers, variants and a start."""
        from pomp.tasks.notebook import show_setting

        return show_setting(self)

    def flag(self, option: str) -> bool:
        """Whether a switch is on; off where the variant lacks it."""
        return self.options.get(option, False) is True

    def number(self, option: str) -> Fraction:
        """A numeric option; zero where the variant lacks it."""
        chosen = self.options.get(option, Fraction(0))
        assert isinstance(chosen, Fraction)
        return chosen

    @property
    def is_own_size(self) -> bool:
        """Whether the grid has the task's own size."""
        return (self.height, self.width) == self.task.size

    @property
    def stretch(self) -> int:
        """How many times as many modes an episode may run as on the task's own grid at scale 1.

        The scale, times how often the task's own grid fits into this one by its cells.
        """
        own = self.task.size[0] * self.task.size[1]
        return self.scale * max(1, ceil(self.height * self.width / own))

    @cached_property
    def ceiling(self) -> float | None:
        """What the best play that is known returns on average; None: not known here."""
        ceiling = self.task.ceiling
        return ceiling(self) if callable(ceiling) else ceiling

    @property
    def goal(self) -> float:
        """What a search aims at: the ceiling, or 1, all rewards without costs, if not known."""
        return 1.0 if self.ceiling is None else self.ceiling

    @property
    def slots(self) -> int:
        """Memory slots of a world."""
        return FIRST_SLOT + self.task.slots(self.height, self.width)

    @cached_property
    def constants(self) -> NDArray[np.int64]:
        """The setting's numbers as compiled code takes them, `[N]` int64; read-only."""
        constants = self.task.constants(self)
        if not isinstance(constants, Constants):
            name = self.task.name
            raise ConfigError(f"constants of task {name} must return Constants, got {constants!r}")
        whole = lcm(
            constants.pay.denominator, constants.cost.denominator, constants.fine.denominator
        )
        money = (int(part * whole) for part in (constants.pay, constants.cost, constants.fine))
        offsets = (-self.width, 1, self.width, -1)
        shape = (self.height, self.width, constants.cap, constants.value, self.scale)
        return read_only(np.array([*offsets, *shape, *money, whole, *constants.own], np.int64))

    def describe(self) -> dict[str, Any]:
        """Its variant and options as JSON, for the configs of runs; size and scale if unusual."""
        told: dict[str, Any] = {"variant": self.variant, "options": self.option_texts}
        if (self.height, self.width) != self.task.size:
            told["size"] = [self.height, self.width]
        if self.scale != 1:
            told["scale"] = self.scale
        return told

    @property
    def option_texts(self) -> dict[str, str]:
        """The options' values as texts, which `configure` reads."""
        return {name: str(value) for name, value in self.options.items()}

    def list_starts(self, most: int = MAX_STARTS) -> list[Start]:
        """Every start with its probability.

        Args:
            most: starts that are listed; with more of them, none is.

        Raises:
            ConfigError: there are too many to list.
        """
        if self.task.starts is None:
            raise ConfigError(f"{self.task.name} cannot list its starts: {self.task.too_many}")
        check_count("the number of starts to list", most)
        starts: list[Start] = []
        for start in self.task.starts(self):
            starts.append(start)
            if len(starts) > most:
                size = f"{self.height}x{self.width}"
                raise ConfigError(f"{self.task.name} at {size} has over {most} starts")
        return starts
