"""Tables and figures of the paper, computed cell by cell."""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pomp.core.cuda import check_device
from pomp.core.errors import ConfigError
from pomp.core.extras import LEARN, require
from pomp.core.locks import locked
from pomp.experiments.backends import Backend, InProcess, IsOver, ProcessPool
from pomp.experiments.cells import STAGES, Cell, Stage
from pomp.experiments.queue import CellQueue
from pomp.experiments.ray_backend import RayCluster
from pomp.experiments.store import CellResult, ResultStore, check_alike
from pomp.runs.work import Event, OnEvent


@dataclass(frozen=True)
class Reproduction:
    """What `pomp.reproduce` returns.

    Attributes:
        cells: all that were asked for.
        results: of those that are finished.
        failed: why cells could not be computed, by their names.
        computed: how many of the results are new.
        path: the folder of results.
    """

    cells: tuple[Cell, ...]
    results: tuple[CellResult, ...]
    failed: Mapping[str, str]
    computed: int
    path: Path

    @property
    def is_finished(self) -> bool:
        """Whether all results are there."""
        return len(self.results) == len(self.cells)


def reproduce(
    cells: Sequence[Cell],
    *,
    out: str | Path,
    device: str = "cpu",
    backend: Backend | int | None = None,
    on_event: OnEvent | None = None,
    stages: Collection[Stage] = STAGES,
    again: bool = False,
) -> Reproduction:
    """Compute what is left of a list of cells.

    Every cell (a method on a task with a seed) has a file of its own in the folder; one that is
    there is not computed again, and whatever was begun goes on where it was left.

    Args:
        cells: which, as `list_cells` lists those of a table.
        out: the folder of results; new, or one that this made before.
        device: cpu, cuda or auto, which is what this computer has.
        backend: where cells are computed; a number: in so many processes; None: in this one.
        on_event: told of progress; if it returns True, everything is saved and left.
        stages: compute only cells of these stages, as search and learn, where the GPU is, and
            policy elsewhere.
        again: compute cells again that were computed otherwise than they would be now.

    Raises:
        ConfigError: results that are there were computed otherwise.
        DataFileError: the folder holds something else.
        OutputError: the folder cannot be written, or is in use.
        ClusterError: a Ray cluster does not answer, or has another version of pomp.
        MissingExtraError: torch is not installed.
    """
    chosen = _choose(backend)
    is_elsewhere = isinstance(chosen, RayCluster) and chosen.is_elsewhere
    where = device if is_elsewhere and device == "cuda" else check_device(device)
    store = ResultStore(out)
    queue = CellQueue(cells, store, where, stages=stages, again=again)
    before = len(queue.finished)
    if not queue.is_finished:
        require(LEARN, "a table of the paper")
        store.make()
        with locked(store.path):
            chosen.run(queue, _over(on_event))
    results = [one for cell in cells if (one := store.read(cell)) is not None]
    check_alike(results)
    computed = len(queue.finished) - before
    return Reproduction(tuple(cells), tuple(results), queue.failed, computed, store.path)


def _choose(backend: Backend | int | None) -> Backend:
    if backend is None:
        return InProcess()
    if isinstance(backend, int):
        if not 1 <= backend <= 1024:
            raise ConfigError(f"processes are from 1 to 1024, got {backend}")
        return ProcessPool(backend)
    return backend


def _over(on_event: OnEvent | None) -> IsOver:
    """Return what tells `on_event` of progress, with the time since this call."""
    began = time.monotonic()

    def is_over(event: Event) -> bool:
        if on_event is None:
            return False
        told = Event(event.stage, event.progress, time.monotonic() - began)
        return on_event(told) is True

    return is_over
