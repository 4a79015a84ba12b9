"""Progress of work that takes longer than two seconds, on standard error."""

import sys
import time

QUIET_SECONDS = 2.0
_PLAIN_EVERY = 10.0  # seconds between lines where there is no terminal


class Progress:
    """Counts finished parts; silent until two seconds have passed."""

    def __init__(self, label: str, total: int) -> None:
        self._label, self._total, self._finished = label, total, 0
        self._started = self._shown = time.monotonic()
        self._is_terminal = sys.stderr.isatty()
        self._has_line = False

    def step(self, name: str = "", parts: int = 0) -> None:
        """Say what comes next, after so many more parts are finished."""
        self._finished += parts
        now = time.monotonic()
        if now - self._started < QUIET_SECONDS:
            return
        text = f"{self._label}: {self._finished}/{self._total} {name}".rstrip()
        if self._is_terminal:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
            self._has_line = True
        elif not self._has_line or now - self._shown >= _PLAIN_EVERY:
            print(text, file=sys.stderr, flush=True)
            self._shown = now
            self._has_line = True

    def close(self) -> None:
        """Remove the line from a terminal."""
        if self._has_line and self._is_terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
