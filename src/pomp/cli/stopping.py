"""Runs on the command line: they show progress; Ctrl-C, SIGTERM and the end of time stop them."""

import shlex
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from pomp.cli.output import say
from pomp.cli.progress import ProgressLine
from pomp.core.errors import ConfigError
from pomp.core.extras import TENSORBOARD, require

_EVENTS_EVERY = 10.0  # seconds between two looks at the metrics for TensorBoard

if TYPE_CHECKING:
    from pomp.runs.results import LearnedMachine
    from pomp.runs.work import Event


def check_minutes(minutes: float | None) -> None:
    """Refuse a time that is none."""
    if minutes is not None and not minutes > 0:
        raise ConfigError(f"--minutes must be positive, got {minutes}")


class Stop:
    """Says whether to stop: after some time, or at the first Ctrl-C; the second one interrupts.

    Attributes:
        status: the exit status of a run that was stopped: 0 by its time, 128 and its number by a
            signal, which is 130 for Ctrl-C and 143 for SIGTERM.
    """

    def __init__(self, minutes: float | None) -> None:
        self.status = 0
        self._end = None if minutes is None else time.monotonic() + 60 * minutes

    def ask(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        if self.status:
            raise KeyboardInterrupt
        self.status = 128 + number
        say("\npomp: stopping after this step; once more interrupts", to_errors=True)

    def __call__(self) -> bool:
        """Whether to stop now."""
        return self.status > 0 or (self._end is not None and time.monotonic() > self._end)


def how_to_resume(command: str, out: str, modules: Iterable[str] = ()) -> str:
    """Return what to type to go on with a run.

    Args:
        command: what ran, as `pomp train`.
        out: the run's folder.
        modules: modules of tasks and methods of one's own, which the folder may name.
    """
    allowed = "".join(f" --allow {module}" for module in dict.fromkeys(modules))
    return f"go on with: {command} --out {shlex.quote(out)} --resume{allowed}"


def modules_in(*names: str | None) -> list[str]:
    """Return the modules of the names on a command line that are `module:NAME`."""
    return [name.partition(":")[0] for name in names if name and ":" in name]


@contextmanager
def stopping(minutes: float | None) -> Iterator[Stop]:
    """Let signals stop a loop between two steps."""
    stop = Stop(minutes)
    before = {number: signal.signal(number, stop.ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Shown:
    """What a run on the command line is told of its progress: shows it, and says when to stop."""

    def __init__(self, stop: Stop, events: Path | None) -> None:
        self._stop, self._stage = stop, ""
        self._events, self._written = events, time.monotonic()
        self._line: ProgressLine | None = None
        self._learned: LearnedMachine | None = None  # what was announced last

    def __call__(self, event: "Event") -> bool:
        """Show an event; returns whether to stop."""
        if self._line is None or event.stage != self._stage:
            self.close()
            self._line, self._stage = ProgressLine(event.stage, event.progress.total), event.stage
        done = event.progress
        self._line.share(done.finished, done.share, done.tell)
        if done.learned is not None and done.learned is not self._learned:
            self.close()
            self._line, self._learned = None, done.learned
            _announce(done.learned)
        if time.monotonic() - self._written >= _EVENTS_EVERY:
            self.write_events()
        return self._stop()

    def write_events(self) -> None:
        """Write the run's metrics for TensorBoard, if that is asked for."""
        if self._events is not None:
            from pomp.runs.event_files import write_events

            write_events(self._events)
        self._written = time.monotonic()

    def close(self) -> None:
        """Remove the line from a terminal."""
        if self._line is not None:
            self._line.close()


def _announce(found: "LearnedMachine") -> None:
    """Say what a machine that was just written earns, and where its files are."""
    name, files = f"{found.setting.task.name}, seed {found.seed}", found.files
    say(
        f"pomp: {name}: machine found by the search, return {found.mean:.3f}; its files:",
        *(f"  {file}" for file in files),
        to_errors=True,
    )


@contextmanager
def showing(minutes: float | None, events: str | None = None) -> Iterator[tuple[Shown, Stop]]:
    """Show the progress of what runs inside, and let signals and time stop it.

    Args:
        minutes: after which it stops, to be resumed; None: it goes on.
        events: the run's folder if its metrics are written for TensorBoard, now and then and at the
            end.

    Raises:
        MissingExtraError: the package tensorboard is not installed.
    """
    if events is not None:
        require(TENSORBOARD, "what is written for TensorBoard")
    with stopping(minutes) as stop:
        shown = Shown(stop, None if events is None else Path(events))
        try:
            yield shown, stop
            shown.write_events()
        finally:
            shown.close()
