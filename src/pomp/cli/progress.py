"""ProgressLine of work that takes longer than two seconds, on standard error."""

import shutil
import sys
import time
from collections.abc import Callable
from math import exp

from pomp.cli.output import say
from pomp.core.texts import visible

QUIET_SECONDS = 2.0
_PLAIN_WIDTH = 160
_TERMINAL_EVERY = 0.1  # seconds between changes of the line on a terminal
_PLAIN_EVERY = 10.0  # seconds between lines where there is no terminal
_LEAST_ADVANCES, _LEAST_SECONDS = 5, 5.0  # before time left can be estimated
_MEMORY = 30.0  # seconds, at least, after which an advance counts little


class TimeLeft:
    """Estimates how long a work still takes, by its speed of late.

    Nothing is estimated before the work has advanced several times over some seconds. Its first
    advance does not count: compiling, and what an earlier run did, are in it.
    """

    def __init__(self) -> None:
        self._advances, self._began, self._last, self._before = 0, 0.0, 0.0, -1.0
        self._seconds = self._share = 0.0  # of the advances of late, older ones counting less

    def estimate(self, now: float, done: float) -> float | None:
        """Return how many seconds are left, or None as long as nothing can be said.

        Args:
            now: the time in seconds, on any clock.
            done: the share of the work that is done, from 0 to 1.
        """
        if done > self._before:
            self._advance(now, done)
        if self._advances < _LEAST_ADVANCES or now - self._began < _LEAST_SECONDS:
            return None
        return max(0.0, (1 - done) * self._seconds / self._share - (now - self._last))

    def _advance(self, now: float, done: float) -> None:
        """Take an advance into account; the first two only say where counting begins."""
        self._advances += 1
        if self._advances <= 2:
            self._began = now
        else:
            seconds = now - self._last
            forgets = exp(-seconds / max(_MEMORY, (now - self._began) / 2))
            self._seconds = forgets * self._seconds + seconds
            self._share = forgets * self._share + done - self._before
        self._last, self._before = now, done


def _as_clock(seconds: float) -> str:
    """Return a time as `4:05`, or `1:04:05` from an hour on."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}:{rest:02}"
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


class ProgressLine:
    """Counts finished parts; silent until two seconds have passed."""

    def __init__(self, label: str, total: int) -> None:
        self._label, self._total, self._finished = label, total, 0
        self._started = self._shown = time.monotonic()
        self._is_terminal = sys.stderr.isatty()
        self._has_line = False
        self._time_left = TimeLeft()

    def step(self, name: str = "", parts: int = 0) -> None:
        """Say what comes next, after so many more parts are finished."""
        self._finished += parts
        self._show(f"{self._label}: {self._finished}/{self._total} {name}".rstrip())

    def share(self, finished: int, done: float, note: Callable[[], str]) -> None:
        """Say how many parts are finished, which share of the work is done, and a note."""
        seconds = self._time_left.estimate(time.monotonic(), done)
        if not self._is_time():
            return
        left = "" if seconds is None else f", {_as_clock(seconds)} left"
        self._show(f"{self._label}: {finished}/{self._total} ({done:.1%}{left}) {note()}".rstrip())

    def _is_time(self) -> bool:
        """Whether the line may change; asked before it is made, which may take a while."""
        now = time.monotonic()
        every = _TERMINAL_EVERY if self._is_terminal else _PLAIN_EVERY if self._has_line else 0.0
        return now - self._started >= QUIET_SECONDS and now - self._shown >= every

    def _show(self, text: str) -> None:
        if not self._is_time():
            return
        if self._is_terminal:
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"\r\x1b[K{visible(text)[:width]}")
            sys.stderr.flush()
        else:
            say(text[:_PLAIN_WIDTH], to_errors=True)
        self._has_line = True
        self._shown = time.monotonic()

    def close(self) -> None:
        """Remove the line from a terminal."""
        if self._has_line and self._is_terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
