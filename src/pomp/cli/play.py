"""`pomp play`: a machine, or a person, acts in the terminal.

Three parts, in this order: the command; players, who turn keys and time into views; and what makes
a view visible, a pure function that draws it and a terminal that shows it and is always restored.
"""

import os
import re
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, Protocol

from tyro.conf import Positional, arg

from pomp.errors import ConfigError

if TYPE_CHECKING:
    from pomp.machine.policy import ProgramMachine
    from pomp.machine.story import Moment
    from pomp.tasks.task import Setting

SLOWEST, FASTEST = 0.25, 1024.0  # actions per second
_FRAME_SECONDS, _IDLE_SECONDS = 1 / 30, 0.1  # between frames; between looks at the terminal's size
_ESCAPE_SECONDS = 0.05  # how long the rest of an arrow key may take
_GAP, _LEAST_PANE = 3, 24  # columns beside the world
_QUIT = ("q", "escape")
_ACTIONS = {
    "w": "move", "up": "move", "a": "turnLeft", "left": "turnLeft", "d": "turnRight",
    "right": "turnRight", "p": "pickMarker", "o": "putMarker",
}  # fmt: skip
_ARROWS = {b"A": "up", b"B": "down", b"C": "right", b"D": "left"}
_KEYS = re.compile(rb"\x1b[\[O][0-9;]*([A-Za-z~]?)|[\x00-\xff]", re.DOTALL)
_CODES = {"agent": "1;32", "marker": "33", "wall": "2", "mark": "7", "title": "1", "dim": "2"}

Span = tuple[str, str]
"""Text, and a style: a name in `_CODES`, or empty."""


@dataclass(frozen=True, kw_only=True)
class Play:
    """Watch a machine act in the terminal, or act yourself (--manual)."""

    machine: Annotated[Positional[str], arg(metavar="TASK|MACHINE")]
    """A task, for the machine shipped for it (also zoo:TASK), or a folder with a machine."""
    seed: int = 0
    """Seed of the start and of the machine's choices."""
    scale: int = 1
    """Horizon of a long task: 1, 2, 4, 8 or 16 times."""
    greedy: bool = False
    """Take the likeliest choice instead of drawing one."""
    speed: float = 8.0
    """Actions per second."""
    manual: bool = False
    """You act; a machine, if one is named (zoo:TASK or a folder), says what it would do."""

    def run(self) -> int:
        """Play until a key ends it, then print the return."""
        _check_terminal()
        if not SLOWEST <= self.speed <= FASTEST:
            raise ConfigError(f"--speed is {SLOWEST:g} to {FASTEST:g}, got {self.speed:g}")
        if self.seed < 0:
            raise ConfigError(f"--seed must not be negative, got {self.seed}")
        player = self._acting() if self.manual else self._watching()
        with open_terminal() as terminal:
            _play(player, terminal)
        print(player.summary())
        return 0

    def _watching(self) -> "Watching":
        from pomp.machine.story import Story, lay_out, warm_up
        from pomp.machine.zoo import find_machine

        machine = find_machine(self.machine)
        setting = machine.configure(self.scale)
        warm_up(machine, setting)
        programs = [lay_out(mode)[0] for mode in machine.modes]

        def begin(seed: int) -> "Iterator[Moment]":
            return iter(Story(machine, setting, seed=seed, greedy=self.greedy))

        how = "likeliest choices" if self.greedy else "drawn choices"
        return Watching(_name(setting), how, setting.task.ceiling, programs, begin, self)

    def _acting(self) -> "Acting":
        from pomp.machine.story import Sandbox, advise

        machine, setting = self._person()
        sandbox = Sandbox(setting, self.seed)
        return Acting(machine, setting, self.seed)

    def _person(self) -> "tuple[ProgramMachine | None, Setting]":
        ...
