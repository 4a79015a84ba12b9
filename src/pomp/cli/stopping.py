"""Work that stops between two steps: at Ctrl-C, or when its time is over."""

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from pomp.core.errors import ConfigError


def check_minutes(minutes: float | None) -> None:
    """Refuse a time that is none."""
    if minutes is not None and not minutes > 0:
        raise ConfigError(f"--minutes must be positive, got {minutes}")


class Stop:
    """Says whether to stop: after some time, or at the first Ctrl-C; the second one interrupts."""

    def __init__(self, minutes: float | None) -> None:
        self.was_asked = False
        self._end = None if minutes is None else time.monotonic() + 60 * minutes

    def ask(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        if self.was_asked:
            raise KeyboardInterrupt
        self.was_asked = True
        print("\npomp: stopping after this step; once more interrupts", file=sys.stderr)

    def __call__(self) -> bool:
        """Whether to stop now."""
        return self.was_asked or (self._end is not None and time.monotonic() > self._end)


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
