"""Where recordings are made: few at a time, each given up when nobody waits for it any more."""

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from pomp.core.errors import ConfigError, PompError
from pomp.studio.limits import LIMITS, StudioLimits

T = TypeVar("T")

_LOOK_SECONDS = 0.1  # between two looks whether the client is still there
_KEPT_BYTES = 32 << 20


class BusyError(PompError):
    """More recordings were asked for than are made at once."""


class AbandonedError(PompError):
    """The client that asked for a recording has gone."""


class Desk:
    """Does work in threads, and remembers the latest results."""

    def __init__(self, limits: StudioLimits = LIMITS) -> None:
        self._limits = limits
        self._pool: ThreadPoolExecutor | None = None
        self._pending = 0
        self._kept: OrderedDict[Hashable, bytes] = OrderedDict()

    async def run(
        self,
        work: Callable[[Callable[[int], None]], T],
        is_gone: Callable[[], Awaitable[bool]],
    ) -> T:
        """Do some work in a thread, unless the client goes.

        Args:
            work: called with what it must call often; that ends the work by an exception.
            is_gone: whether the client has gone.

        Raises:
            BusyError: there is too much to do.
            AbandonedError: the client has gone.
            ConfigError: it took too long.
        """
        if self._pending >= self._limits.at_once + self._limits.waiting:
            raise BusyError("too many recordings are being made; try again in a moment")
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._limits.at_once, thread_name_prefix="studio")
        gone = threading.Event()
        self._pending += 1
        loop = asyncio.get_running_loop()
        doing = loop.run_in_executor(self._pool, self._do, work, gone)
        try:
            while not (await asyncio.wait({doing}, timeout=_LOOK_SECONDS))[0]:
                if await is_gone():
                    gone.set()
            return doing.result()
        finally:
            gone.set()
            self._pending -= 1

    def _do(self, work: Callable[[Callable[[int], None]], T], gone: threading.Event) -> T:
        until = time.monotonic() + self._limits.seconds

        def look(_: int) -> None:
            if gone.is_set():
                raise AbandonedError("nobody waits for this recording any more")
            if time.monotonic() > until:
                most = f"{self._limits.seconds:g} seconds"
                raise ConfigError(f"the episode took over {most} to record: too long to be shown")

        look(0)
        return work(look)

    def recall(self, key: Hashable) -> bytes | None:
        """Return what was kept under a key, if it still is."""
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def keep(self, key: Hashable, content: bytes) -> None:
        """Keep a result until newer ones need the room."""
        self._kept[key] = content
        while sum(map(len, self._kept.values())) > _KEPT_BYTES:
            self._kept.popitem(last=False)

    def close(self) -> None:
        """Let go of the threads; the next work has new ones."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
