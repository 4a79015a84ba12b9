"""Work that can be left at any time and taken up again: one protocol and one loop for all of it.

Training an embedding, searching modes, evolving machines, learning transitions and a whole
training are all `Work`. `drive` opens it, advances it piece by piece, saves it now and then, and
finishes it, unless a `Watch` says that it should stop.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pomp.runs.results import LearnedMachine

SAVE_SECONDS = 15.0

IsStopped = Callable[[], bool]
"""Asked between two steps of a piece: whether to leave the work here. Asking tells the progress."""


@dataclass(frozen=True)
class Progress:
    """How far a work is.

    Attributes:
        finished: parts of the work that are done: runs, epochs, members, machines.
        total: parts in all.
        share: how much of the whole work is done, from 0 to 1.
        tell: returns a line about what was found so far; it may take a while.
        learned: the machine that this work has found and written, once it is finished.
    """

    finished: int
    total: int
    share: float
    tell: Callable[[], str] = str
    learned: "LearnedMachine | None" = None


@dataclass(frozen=True)
class Event:
    """What a run tells of its progress, several times a second.

    Attributes:
        stage: what is being done, as `search` or `Farmer, seed 0`.
        progress: how far that is.
        seconds: wall-clock since the run was called.
    """

    stage: str
    progress: Progress
    seconds: float

    @property
    def note(self) -> str:
        """A line about what was found so far."""
        return self.progress.tell()


OnEvent = Callable[[Event], object]
"""Told of progress; if it returns True, the run saves what it has and stops."""


class Work(Protocol):
    """Work in pieces.

    Attributes:
        stage: what it is called in events.
        save_seconds: how much time may pass between two saves.
    """

    @property
    def stage(self) -> str: ...  # noqa: D102 - above

    @property
    def save_seconds(self) -> float: ...  # noqa: D102 - above

    @property
    def is_finished(self) -> bool:
        """Whether no piece is left."""
        ...

    def open(self) -> None:
        """Take up what an earlier run saved, or begin."""
        ...

    def advance(self, is_stopped: IsStopped) -> None:
        """Do one piece; one that lasts long asks now and then whether to leave it."""
        ...

    def save(self) -> None:
        """Keep everything that `open` needs to go on from here to the same result."""
        ...

    def close(self) -> None:
        """Stop what goes on beside this, such as other processes."""
        ...

    def finish(self) -> None:
        """Make the result of the finished pieces and write it."""
        ...

    def progress(self) -> Progress:
        """Say how far it is."""
        ...


class Watch:
    """Passes events on, and remembers whether a stop was asked for.

    Attributes:
        was_stopped: whether `on_event` has returned True.
    """

    def __init__(self, on_event: OnEvent | None) -> None:
        self._on_event, self._began = on_event, time.monotonic()
        self.was_stopped = False

    def __call__(self, work: Work) -> bool:
        """Tell how far a work is; returns whether to stop."""
        if self._on_event is not None and not self.was_stopped:
            event = Event(work.stage, work.progress(), time.monotonic() - self._began)
            self.was_stopped = self._on_event(event) is True
        return self.was_stopped


def drive(work: Work, watch: Watch) -> bool:
    """Do a work to its end, or until a stop is asked for; returns whether it came to its end."""
    work.open()

    def is_stopped() -> bool:
        return watch(work)

    saved = time.monotonic()
    try:
        while not work.is_finished and not is_stopped():
            work.advance(is_stopped)
            if time.monotonic() - saved >= work.save_seconds:
                work.save()
                saved = time.monotonic()
    finally:
        work.close()
    if watch.was_stopped or not work.is_finished:
        work.save()  # not after an error: a piece cut short is no place to go on from
        return False
    work.finish()
    return True


class Stages:
    """Works one after the other, as one work; each is made when its turn comes."""

    def __init__(self, works: Iterable[Work]) -> None:
        self._rest = iter(works)
        self._current: Work | None = None

    @property
    def stage(self) -> str:
        """The current work's."""
        return self._current.stage if self._current else ""

    @property
    def save_seconds(self) -> float:
        """The current work's."""
        return self._current.save_seconds if self._current else SAVE_SECONDS

    @property
    def is_finished(self) -> bool:
        """Whether all works are finished."""
        return self._current is None

    def open(self) -> None:
        """Open the first work."""
        self._current = next(self._rest, None)
        if self._current is not None:
            self._current.open()

    def advance(self, is_stopped: IsStopped) -> None:
        """Do a piece of the current work; after its last one finish it and open the next."""
        work = self._current
        assert work is not None
        if not work.is_finished:
            work.advance(is_stopped)
        if work.is_finished and not is_stopped():
            work.close()
            work.save()
            work.finish()
            is_stopped()  # so that what was found is told before the next work begins
            self.open()

    def save(self) -> None:
        """Save the current work."""
        if self._current is not None:
            self._current.save()

    def close(self) -> None:
        """Close the current work."""
        if self._current is not None:
            self._current.close()

    def finish(self) -> None:
        """Do nothing: each work was finished after its last piece."""

    def progress(self) -> Progress:
        """Say how far the current work is."""
        return self._current.progress() if self._current else Progress(1, 1, 1.0)
