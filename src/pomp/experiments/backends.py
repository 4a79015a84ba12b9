"""Where pieces are computed: in this process, or in others on this computer."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing.connection import wait as wait_for
from multiprocessing.synchronize import Event as Flag
from pathlib import Path
from typing import Any, Protocol

from pomp.core.errors import OutputError, PompError
from pomp.core.processes import main_hidden
from pomp.experiments.cells import Cell
from pomp.experiments.computing import run_piece
from pomp.experiments.pieces import Inputs, WorkPiece
from pomp.experiments.queue import CellQueue
from pomp.experiments.store import CellResult, Files, ResultStore
from pomp.runs.work import Event, Progress

RETRIES = 3
"""How often a piece whose process was killed is tried again."""
_LOOK_SECONDS = 0.25

IsOver = Callable[[Event], bool]
"""Told of progress; returns whether to stop."""


class Backend(Protocol):
    """Computes the pieces of a queue."""

    def run(self, queue: CellQueue, is_over: IsOver) -> None:
        """Compute what is left of a queue, until a stop is asked for.

        Args:
            queue: what is left; results go into its store.
            is_over: told of progress; if it returns True, pieces are saved and left.
        """
        ...


class InProcess:
    """Computes one piece after the other in this process."""

    def run(self, queue: CellQueue, is_over: IsOver) -> None:
        """Compute what is left; see `Backend`."""
        was_stopped = False

        def watch(event: Event) -> bool:
            nonlocal was_stopped
            was_stopped = was_stopped or is_over(_numbered(event, queue))
            return was_stopped

        while not was_stopped and (ready := queue.ready()):
            piece, error = ready[0], None
            queue.begin(piece)
            try:
                run_piece(
                    piece,
                    queue.inputs(piece),
                    queue.folder(piece),
                    queue.store.write,
                    watch,
                    queue.done(piece),
                )
            except OutputError:  # nothing that comes after could be written
                raise
            except PompError as found:
                error = str(found)
            queue.end(piece, error)


def _numbered(event: Event, queue: CellQueue) -> Event:
    """Return an event of a piece whose stage says how many cells are finished."""
    stage = f"{len(queue.finished)} of {len(queue.cells)} cells; {event.stage}"
    return Event(stage, event.progress, event.seconds)


@dataclass(frozen=True)
class PieceOutcome:
    """What another process says about a piece.

    Attributes:
        is_finished: whether it came to its end.
        error: why not, if something was wrong.
        cannot_write: whether that is a folder that cannot be written, or a full disk.
        results: texts of results and the files of their machines, where they were not written into
            the store over there.
    """

    is_finished: bool
    error: str | None = None
    cannot_write: bool = False
    results: tuple[tuple[str, Mapping[str, bytes]], ...] = ()


def compute(
    piece: WorkPiece,
    inputs: Inputs,
    folder: Path,
    store: Path | None,
    is_stopped: Callable[[], bool],
    done: Collection[Cell] = (),
) -> PieceOutcome:
    """Compute a piece in a process that is not the driver's.

    Args:
        piece: which.
        inputs: the finished cells that it needs.
        folder: its folder.
        store: the folder of results, if this process can write there; else they are returned.
        is_stopped: asked several times a second.
        done: cells whose results are known and not asked for again.
    """
    returned = list[tuple[str, Mapping[str, bytes]]]()

    def emit(result: CellResult, files: Files) -> None:
        if store is None:
            returned.append((result.to_text(), dict(files)))
        else:
            ResultStore(store).write(result, files)

    try:
        is_finished = run_piece(piece, inputs, folder, emit, lambda _: is_stopped(), done)
    except PompError as error:
        cannot_write = isinstance(error, OutputError)
        return PieceOutcome(False, str(error), cannot_write, tuple(returned))
    return PieceOutcome(is_finished, results=tuple(returned))


def take_outcome(queue: CellQueue, piece: WorkPiece, outcome: PieceOutcome) -> None:
    """Keep what another process has found."""
    for text, files in outcome.results:
        queue.store.write(CellResult.from_text(text), files)
    queue.end(piece, outcome.error)


@dataclass
class ProcessPool:
    """Computes pieces in processes of this computer, each on one core.

    Attributes:
        processes: how many.
    """

    processes: int
    _tries: dict[str, int] = field(default_factory=dict)

    def run(self, queue: CellQueue, is_over: IsOver) -> None:
        """Compute what is left; see `Backend`."""
        began, is_stopped = time.monotonic(), False
        while not is_stopped and queue.ready():
            context = multiprocessing.get_context("spawn")
            flag = context.Event()
            pool = ProcessPoolExecutor(
                self.processes, context, initializer=_prepare, initargs=(flag, context.Value("i"))
            )
            try:
                is_stopped = self._fill(queue, pool, flag, is_over, began)
            except BrokenProcessPool:
                pass  # begun anew with what is left
            finally:
                flag.set()
                pool.shutdown(wait=True, cancel_futures=True)

    def _fill(
        self,
        queue: CellQueue,
        pool: ProcessPoolExecutor,
        flag: Flag,
        is_over: IsOver,
        began: float,
    ) -> bool:
        """Keep all processes busy until nothing is left; returns whether a stop was asked for."""
        futures: dict[Future[PieceOutcome], WorkPiece] = {}
        is_stopped = False
        try:
            while True:
                for piece in queue.ready() if not is_stopped else ():
                    if len(futures) == self.processes:
                        break
                    queue.begin(piece)
                    given = piece, queue.inputs(piece), queue.folder(piece), queue.store.path
                    with main_hidden():
                        futures[pool.submit(_compute_here, *given, queue.done(piece))] = piece
                if not futures:
                    return is_stopped
                ended, _ = wait(futures, _LOOK_SECONDS, FIRST_COMPLETED)
                for future in ended:
                    outcome = future.result()
                    take_outcome(queue, futures.pop(future), outcome)
                    if outcome.cannot_write:
                        raise OutputError(outcome.error)
                is_stopped = is_stopped or is_over(tell(queue, began))
                if is_stopped:
                    flag.set()
        except BrokenProcessPool:
            self._give_up(queue, list(futures.values()))
            raise

    def _give_up(self, queue: CellQueue, pieces: list[WorkPiece]) -> None:
        """Put pieces back whose process was killed; after some tries they have failed."""
        for piece in pieces:
            self._tries[piece.name] = self._tries.get(piece.name, 0) + 1
            is_last = self._tries[piece.name] > RETRIES
            why = "its process was killed again and again (perhaps too little memory)"
            queue.end(piece, why if is_last else None)


def tell(queue: CellQueue, began: float) -> Event:
    """Return an event that says how many cells are finished."""
    done, total = len(queue.finished), len(queue.cells)
    progress = Progress(done, total, done / total, lambda: f"{len(queue.failed)} failed")
    return Event("cells", progress, time.monotonic() - began)


_stop: Flag | None = None  # this process's


def _prepare(flag: Flag, number: Any) -> None:
    """Give a process a core of its own, leave signals to its parent, and let it end with that."""
    global _stop
    _stop = flag
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with number.get_lock():
        own, number.value = number.value, number.value + 1
    take_one_core(own)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def take_one_core(number: int) -> None:
    """Let this process compute on one core, before torch is imported."""
    os.environ["OMP_NUM_THREADS"] = "1"
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[number % len(cores)]})


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait_for([parent.sentinel])
    os._exit(1)


def _compute_here(
    piece: WorkPiece, inputs: Inputs, folder: Path, store: Path, done: Collection[Cell]
) -> PieceOutcome:
    assert _stop is not None
    return compute(piece, inputs, folder, store, _stop.is_set, done)
