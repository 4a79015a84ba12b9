"""ProgressLine of work that takes longer than two seconds, on standard error."""

import shutil
import sys
import time
from collections.abc import Callable

QUIET_SECONDS = 2.0
_PLAIN_WIDTH = 160
_TERMINAL_EVERY = 0.1  # seconds between changes of the line on a terminal
_PLAIN_EVERY = 10.0  # seconds between lines where there is no terminal


class ProgressLine:
    """Counts finished parts; silent until two seconds have passed."""

    def __init__(self, label: str, total: int) -> None:
        self._label, self._total, self._finished = label, total, 0
        self._started = self._shown = time.monotonic()
        self._is_terminal = sys.stderr.isatty()
        self._has_line = False
        self._done_before: float | None = None

    def step(self, name: str = "", parts: int = 0) -> None:
        """Say what comes next, after so many more parts are finished."""
        self._finished += parts
        self._show(f"{self._label}: {self._finished}/{self._total} {name}".rstrip())

    def share(self, finished: int, done: float, note: Callable[[], str]) -> None:
        """Say how many parts are finished, which share of the work is done, and a note."""
        if self._done_before is None:
            self._done_before = done  # by an earlier run
        if not self._is_time():
            return
        here = done - self._done_before
        left = ""
        if here > 0:
            seconds = (time.monotonic() - self._started) * (1 - done) / here
            left = f", {int(seconds) // 60}:{int(seconds) % 60:02} left"
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
            sys.stderr.write(f"\r\x1b[K{text[:width]}")
            sys.stderr.flush()
        else:
            print(text[:_PLAIN_WIDTH], file=sys.stderr, flush=True)
        self._has_line = True
        self._shown = time.monotonic()

    def close(self) -> None:
        """Remove the line from a terminal."""
        if self._has_line and self._is_terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
