"""What a worker of Ray does with a piece: check that it is the driver's pomp, then compute."""

import pickle
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pomp.core.cuda import check_device
from pomp.core.errors import FolderInUseError, PompError
from pomp.core.extras import LEARN, require
from pomp.core.locks import locked
from pomp.experiments.backends import PieceOutcome, compute
from pomp.experiments.pieces import WorkPiece
from pomp.experiments.rows import ENGINE_REVISION
from pomp.experiments.store import STORE_FILE, ResultStore
from pomp.version import __version__

_LOOK_SECONDS = 0.25
_LOCK_SECONDS = 120.0  # for which a dead node's lock on a shared folder may last


def make_task() -> Callable[[str, Mapping[str, int], bytes], PieceOutcome | str]:
    """Return what a worker does with a piece.

    It travels as code, not as a name: the worker's pomp may be another, or none. So nothing in it
    refers to the package, its annotations included, before the version is known.
    """

    def compute_piece(version: str, revisions: Mapping[str, int], given: bytes) -> Any:
        import socket

        try:
            from pomp.version import __version__ as found
        except ImportError:
            found = "none"
        if found != version:
            where = f"the worker on {socket.gethostname()} has pomp {found}, the driver {version}"
            return f"{where}; install the same version on all nodes"
        from pomp.experiments.ray_worker import compute_on_node

        return compute_on_node(revisions, given)

    return compute_piece


def revisions_of(piece: WorkPiece) -> dict[str, int]:
    """Return the revisions of the engine and of a piece's methods."""
    cells = (*piece.cells, *piece.needs)
    return {"engine": ENGINE_REVISION, **{cell.method: cell.row.revision for cell in cells}}


def compute_on_node(revisions: Mapping[str, int], given: bytes) -> PieceOutcome | str:
    """Compute a piece in a worker.

    Args:
        revisions: the driver's, as `revisions_of` returns them.
        given: the piece, its inputs, its folder and that of results where these are shared, and
            its cells that are done.

    Returns:
        What became of it, with the results; or in one line why this node cannot compute it.
    """
    host = socket.gethostname()
    piece, inputs, folder, store, done = pickle.loads(given)
    for name, own in revisions_of(piece).items():
        if own != revisions.get(name):
            return (
                f"the worker on {host} has revision {own} of {name}, the driver "
                f"{revisions.get(name)} (both pomp {__version__}); install the same on all nodes"
            )
    try:
        require(LEARN, "a piece of a table")
        check_device(piece.device)
    except PompError as error:
        return f"the worker on {host} cannot compute: {error}"
    if store is not None and not (store / STORE_FILE).is_file():
        return f"the folder of results, {store}, is not there on {host}; leave --shared out"
    with _interrupts_noted() as is_stopped, ExitStack() as held:
        try:
            place = held.enter_context(_place_of(folder, is_stopped))
        except OSError as error:
            return PieceOutcome(False, None if is_stopped() else f"on {host}: {error}")
        outcome = compute(piece, inputs, place, store, is_stopped, done)
    return outcome if store is None else _with_results(outcome, piece, ResultStore(store))


def _with_results(outcome: PieceOutcome, piece: WorkPiece, store: ResultStore) -> PieceOutcome:
    """Add the results that are in a shared folder: the driver may not see them there yet."""
    found = [one for cell in piece.cells if (one := store.read(cell)) is not None]
    return replace(outcome, results=tuple((one.to_text(), store.files(one.cell)) for one in found))


@contextmanager
def _interrupts_noted() -> Iterator[Callable[[], bool]]:
    """Note when the driver cancels this task, instead of being interrupted; yields what asks."""
    noted = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: noted.set())
    try:
        yield noted.is_set
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _place_of(folder: Path | None, is_stopped: Callable[[], bool]) -> Iterator[Path]:
    """Yield a piece's folder, a temporary one if None, held for this process alone.

    Raises:
        FolderInUseError: another process goes on computing there.
        OSError: there is no space, or the folder cannot be written.
    """
    if folder is None:
        with TemporaryDirectory(prefix="pomp-") as path:
            yield Path(path)
        return
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        _wait_for_lock(held, folder, is_stopped)
        yield folder


def _wait_for_lock(held: ExitStack, folder: Path, is_stopped: Callable[[], bool]) -> None:
    """Hold a folder's lock; that of a node that died may last for a while."""
    until = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            held.enter_context(locked(folder))
            return
        except FolderInUseError:
            if is_stopped() or time.monotonic() > until:
                raise
        time.sleep(_LOOK_SECONDS)
