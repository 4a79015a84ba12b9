"""`pomp play`: a machine, or a person, acts in the terminal.

In this order: the command and its loop; and the terminal, which shows frames and is restored
whatever happens. What is told is `pomp.play.story`'s, how it is drawn `pomp.cli.frames`'s.
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
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from tyro.conf import Positional, arg

from pomp.cli.frames import Span, draw_screen, draw_strip, paint, style
from pomp.cli.inputs import Allowed, check_output, check_seed
from pomp.cli.output import say, say_styled
from pomp.core.configs import parse_size
from pomp.core.errors import ConfigError, DataFileError, PompError, UnknownNameError

if TYPE_CHECKING:
    from pomp.engine.starts import StartName
    from pomp.machine.policy import ProgramMachine
    from pomp.play.story import Acting, Moment, View, Watching
    from pomp.tasks.task import Setting

_ESCAPE_SECONDS = 0.05  # how long the rest of an arrow key may take
_QUIT = ("q", "escape")


@dataclass(frozen=True, kw_only=True)
class Play:
    """Watch a machine act in the terminal, or act yourself (--manual), or print it (--print)."""

    machine: Annotated[Positional[str], arg(metavar="TASK|MACHINE")]
    """A task, for the machine shipped for it (also zoo:TASK), or a machine's folder or
    file (*.machine)."""
    seed: int = 0
    """Seed of the start and of the machine's choices."""
    start: Annotated[str | None, arg(metavar="N|SEED:N")] = None
    """A start that `pomp verify` names: one of the task's list, or of those drawn for a seed."""
    scale: int = 1
    """Horizon of a long task: 1, 2, 4, 8 or 16 times."""
    size: Annotated[str | None, arg(metavar="HxW")] = None
    """Rows and columns of the grid, if not those the machine was made for."""
    cap: Annotated[str | None, arg(metavar="callsN|actionsN")] = None
    """How long one program may run, if not as the machine has it."""
    greedy: bool = False
    """Take the likeliest choice instead of drawing one."""
    speed: float = 8.0
    """Actions per second."""
    manual: bool = False
    """You act; a machine, if one is named (zoo:TASK or a folder), says what it would choose."""
    print: bool = False
    """Print the machine and some moments of its episode instead; this needs no terminal."""
    html: Annotated[str | None, arg(metavar="FILE")] = None
    """Write the episode with a player into one file of HTML instead: it needs no server."""
    allow: Allowed = ()
    """A module that the file may name as the home of its task or a sensor, and that is run then."""

    def run(self) -> int:
        """Play until a key ends it, then print the return; or print or write the whole episode."""
        check_seed(self.seed)
        if self.manual and (self.start, self.size, self.cap) != (None, None, None):
            raise ConfigError("--start, --size and --cap are for watching a machine, not --manual")
        if self.html is not None:
            return self._write_page(self.html)
        if self.print:
            return self._print()
        machine = None if self.manual else self._load()
        _check_terminal()
        player: Player = self._acting() if machine is None else self._watching(machine)
        with open_terminal() as terminal:
            _play(player, terminal)
        say(_summarise(player.moment, player.setting, self._began(player.seed)))
        return 0

    def _print(self) -> int:
        """Print the machine, some moments of its episode side by side, and the return."""
        if self.manual:
            raise ConfigError("--print shows what a machine does: it does not go with --manual")
        from pomp.play.story import Story

        machine = self._load()
        setting = machine.configure(self.scale)
        say(f"{_tell(machine)}\n")
        sys.stdout.flush()  # before anything is compiled
        story = Story(machine, setting, seed=self.seed, greedy=self.greedy, start=self._start())
        moments = list(story)
        colours = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        for line in draw_strip(moments, shutil.get_terminal_size().columns):
            say_styled(style(line, colours=colours))
        say(f"\n{_summarise(moments[-1], setting, self._began(self.seed))}")
        return 0

    def _write_page(self, file: str) -> int:
        """Write the episode as a page, and print the return."""
        if self.manual or self.print:
            raise ConfigError("--html writes what a machine does: without --manual and --print")
        if self.start is not None:
            raise ConfigError("--html writes the episode of a --seed; --start is for watching")
        path = check_output(file)
        from pomp.studio.pages import save_page
        from pomp.studio.recording import record_episode, tell_ending

        machine = self._load()
        episode = record_episode(machine, seed=self.seed, scale=self.scale, greedy=self.greedy)
        save_page(episode, path, self.machine)
        name = f"{episode.setting.task.name} x{self.scale}, seed {self.seed}"
        told = f"return {episode.worth:.6f} after {episode.actions} actions"
        say(f"{name}: {told}; {tell_ending(episode)}; written to {path}")
        return 0

    def _load(self) -> "ProgramMachine":
        """Load the machine, or say what can be done with a task that has none."""
        from pomp.machine.zoo import load_machine

        try:
            machine = load_machine(self.machine, self.allow).under(self.cap)
            return machine if self.size is None else replace(machine, size=parse_size(self.size))
        except (DataFileError, UnknownNameError):
            self._refuse_task()
            raise

    def _watching(self, machine: "ProgramMachine") -> "Watching":
        from pomp.play.story import Watching

        setting = machine.configure(self.scale)
        return Watching(
            machine, setting, self.seed, self.speed, greedy=self.greedy, start=self._start()
        )

    def _began(self, seed: int) -> str:
        """Say where the last episode began, given its seed; only the first can be a named start."""
        is_named = self.start is not None and seed == self.seed
        return f"start {self.start}" if is_named else f"seed {seed}"

    def _start(self) -> "StartName | None":
        """Return the start that is named."""
        from pomp.engine.starts import StartName

        return None if self.start is None else StartName.parse(self.start)

    def _refuse_task(self) -> None:
        """Say what can be done with a task that has no machine; nothing if it is no task."""
        from pomp.tasks.catalog import find_task

        if self.machine.startswith("zoo:") or Path(self.machine).exists():
            return
        try:
            name = find_task(self.machine).name
        except PompError:
            return
        raise ConfigError(
            f"there is no machine for {name} in the zoo: act yourself with --manual, or name a "
            "machine's folder or file"
        )

    def _acting(self) -> "Acting":
        from pomp.play.story import Acting
        from pomp.tasks.catalog import find_task

        if self.machine.startswith("zoo:") or Path(self.machine).exists():
            from pomp.machine.zoo import load_machine

            machine = load_machine(self.machine, self.allow)
            return Acting(machine.configure(self.scale), self.seed, machine)
        return Acting(find_task(self.machine).configure(scale=self.scale), self.seed)


def _check_terminal() -> None:
    """Refuse what cannot show frames and give keys."""
    if sys.platform == "win32":
        raise ConfigError("pomp play needs a POSIX terminal; on Windows use WSL")
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout and sys.stdout.isatty()):
        raise ConfigError(
            "pomp play needs a terminal for its input and output, also with --manual; without one, "
            "--print shows what a machine does"
        )
    if os.environ.get("TERM") == "dumb":
        raise ConfigError("this terminal (TERM=dumb) cannot place the cursor, as pomp play must")


class Player(Protocol):
    """What `pomp play` plays."""

    seed: int
    setting: "Setting"
    moment: "Moment"

    def view(self) -> "View":
        """What is to be seen now."""
        ...

    def press(self, key: str) -> None:
        """Obey a key."""
        ...

    def pass_time(self, now: float) -> float:
        """Do what is due by now, in seconds; says how long nothing will happen."""
        ...


def _play(player: Player, terminal: "Terminal") -> None:
    while True:
        wait = player.pass_time(time.monotonic())
        terminal.show(draw_screen(player.view(), *terminal.size()))
        for key in terminal.keys(wait):
            if key in _QUIT:
                return
            player.press(key)


def _tell(machine: "ProgramMachine") -> str:
    """A machine as text: the whole of one with rules, the modes of one with a network."""
    from pomp.machine.text import print_machine
    from pomp.machine.transitions import DecisionList

    if isinstance(machine.transition, DecisionList):
        return print_machine(machine).rstrip()
    modes = zip(machine.titles, machine.modes, strict=True)
    return "\n".join(f"{title}: {program}" for title, program in modes)


def _summarise(moment: "Moment", setting: "Setting", began: str) -> str:
    name = f"{setting.task.name} x{setting.scale}, {began}"
    done = "done" if moment.is_done else "not done"
    ending = f"; {moment.ending}" if moment.ending else ""
    return f"{name}: return {moment.worth:.6f} after {moment.actions} actions, {done}{ending}"


# The terminal.

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[2J"  # the other screen, no cursor
_LEAVE = "\x1b[m\x1b[?25h\x1b[?1049l"
_SEQUENCE = re.compile(rb"\x1b[\[O][0-9;]*([A-Za-z~]?)|[\x00-\xff]")
_UNFINISHED = re.compile(rb"\x1b([\[O][0-9;]*)?$")
_NAMES = {b"A": "up", b"B": "down", b"C": "right", b"D": "left"}


def split_keys(data: bytes) -> list[str]:
    """What a terminal sends, as keys: arrows and escape by name, others in lower case."""
    keys = []
    for match in _SEQUENCE.finditer(data):
        if match[1] is not None:
            keys += [_NAMES[match[1]]] if match[1] in _NAMES else []
        else:
            keys.append("escape" if match[0] == b"\x1b" else match[0].decode("latin-1").lower())
    return keys


class Terminal:
    """Shows frames on standard output, reads keys from standard input."""

    def __init__(self) -> None:
        self._input, self._output = sys.stdin.fileno(), sys.stdout.fileno()
        self._colours = not os.environ.get("NO_COLOR")
        self._shown = ""
        self._before: list[Any] | None = None
        self._asked = 0  # the signal that asked for the end

    def take(self) -> None:
        """Get keys at once and unseen, and a screen of our own."""
        import termios
        import tty

        self._before, self._shown = termios.tcgetattr(self._input), ""
        tty.setcbreak(self._input)
        self._write(_ENTER)

    def give_back(self) -> None:
        """Leave everything as it was."""
        import termios

        if self._before is not None:
            try:
                self._write(_LEAVE)
            finally:
                termios.tcsetattr(self._input, termios.TCSAFLUSH, self._before)
                self._before = None

    def size(self) -> tuple[int, int]:
        """Columns and rows to draw on; the last column stays free, where cursors are stuck."""
        columns, rows = os.get_terminal_size(self._output)
        return (columns or 80) - 1, rows or 24

    def show(self, lines: Sequence[list[Span]]) -> None:
        """Show a frame, if it is not there already."""
        frame = paint(lines, colours=self._colours)
        if frame != self._shown:
            self._write(frame)
            self._shown = frame

    def _write(self, text: str) -> None:
        data = text.encode()
        while data:
            data = data[os.write(self._output, data) :]

    def keys(self, seconds: float) -> list[str]:
        """The keys pressed by now; waits so long for the first."""
        self._obey()
        if not self._is_ready(seconds):
            return []
        data = os.read(self._input, 1024)
        while _UNFINISHED.search(data) and self._is_ready(_ESCAPE_SECONDS):
            data += os.read(self._input, 1024)
        return split_keys(data) if data else ["q"]  # no data: the terminal is gone

    def _is_ready(self, seconds: float) -> bool:
        return bool(select.select([self._input], [], [], seconds)[0])

    def stop(self, number: int, frame: FrameType | None) -> None:
        """Handle Ctrl-C and SIGTERM."""
        self._asked = number
        self._obey()

    def _obey(self) -> None:
        """End if that was asked for; asked twice, since Python drops what is raised in a `del`."""
        if self._asked == signal.SIGINT:
            raise KeyboardInterrupt
        if self._asked:
            raise SystemExit(128 + self._asked)

    def suspend(self, number: int, frame: FrameType | None) -> None:
        """Handle Ctrl-Z: give the terminal back until the process goes on."""
        self.give_back()
        handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, handler)
        self.take()


@contextmanager
def open_terminal() -> Iterator[Terminal]:
    """The terminal as a stage; restored at the end, after errors, Ctrl-C and SIGTERM."""
    terminal = Terminal()
    handlers: dict[int, Callable[..., None]] = {
        signal.SIGINT: terminal.stop,
        signal.SIGTERM: terminal.stop,
        signal.SIGTSTP: terminal.suspend,
    }
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        terminal.take()
        yield terminal
    finally:
        terminal.give_back()
        for number, handler in before.items():
            signal.signal(number, handler)
