"""What is left of a list of cells, cut into pieces: begun ones first, then those that can begin."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from pomp.core.errors import ConfigError
from pomp.experiments.cells import STAGES, Cell, Stage
from pomp.experiments.pieces import ON_CPU, PIECE_FILE, Inputs, Needed, WorkPiece, cut, read_told
from pomp.experiments.store import ResultStore

_RUNS = "runs"
_KINDS = ("search", "evolve", "learn", "evaluate")  # in this order, so that batches are large


class CellQueue:
    """Cells to be computed, and the results that are there.

    Args:
        cells: which, those that others need before these.
        store: where results are.
        device: cpu or cuda.
        stages: compute cells of these stages alone.
        again: compute cells again that were computed otherwise than they would be now.

    Attributes:
        finished: the cells whose results are there.
        failed: why a cell could not be computed, by its name.

    Raises:
        ConfigError: a cell that is there was computed with other settings or an older revision.
    """

    def __init__(
        self,
        cells: Sequence[Cell],
        store: ResultStore,
        device: str,
        *,
        stages: Collection[Stage] = STAGES,
        again: bool = False,
    ) -> None:
        self.cells, self.store, self.device = tuple(cells), store, device
        self._stages = frozenset(stages)
        self.finished: dict[Cell, None] = {}
        self.failed: dict[str, str] = {}
        self._running: set[Cell] = set()
        for cell in cells:
            self._look(cell, again=again)

    def _look(self, cell: Cell, *, again: bool) -> None:
        """Find out whether a cell's result is there, and whether it is what it should be."""
        found = self.store.read(cell)
        if found is None:
            return
        if (now := cell.fingerprint()) == found.fingerprint:
            self.finished[cell] = None
            return
        if again:
            self.store.set_aside(cell)
            return
        differing = [name for name, value in now.items() if found.fingerprint.get(name) != value]
        raise ConfigError(
            f"'{self.store.place(cell)}' was computed with other {' and '.join(differing)} than "
            "now; compute such cells --again, or give another folder"
        )

    @property
    def left(self) -> list[Cell]:
        """The cells to be computed that are neither finished nor failed nor being computed."""
        return [
            cell
            for cell in self.cells
            if cell.stage in self._stages
            and cell not in self.finished
            and cell not in self._running
            and cell.name not in self.failed
        ]

    @property
    def is_finished(self) -> bool:
        """Whether all results are there."""
        return len(self.finished) == len(self.cells)

    def ready(self) -> list[WorkPiece]:
        """Return the pieces that could be computed now, the first one first.

        A piece that was begun, by this or an earlier call, goes on with the cells it was begun
        with. What needs cells that are not finished waits.
        """
        left = self.left
        begun = [piece for piece in self._begun() if set(piece.cells) & set(left)]
        taken = {cell for piece in begun for cell in piece.cells}
        free = [
            cell
            for cell in left
            if cell not in taken and all(one in self.finished for one in cell.needs)
        ]
        fresh = sorted(cut(free, self.device), key=lambda piece: _KINDS.index(piece.kind))
        return [*begun, *fresh]

    def _begun(self) -> Iterator[WorkPiece]:
        """Yield the unfinished pieces of this device whose folders are there."""
        for path in sorted((self.store.path / _RUNS).glob(f"*/{PIECE_FILE}")):
            try:
                piece = WorkPiece.from_json(read_told(path))
            except (ValueError, LookupError):
                continue  # damaged: its cells are begun anew
            is_ready = all(self._is_there(cell) for cell in piece.needs)
            is_left = not all(self._is_there(cell) for cell in piece.cells)
            is_free = not self._running & set(piece.cells)
            is_here = piece.device == self.device or piece.kind in ON_CPU
            if is_here and is_ready and is_left and is_free:
                yield piece

    def _is_there(self, cell: Cell) -> bool:
        return cell in self.finished or self.store.place(cell).is_file()

    def folder(self, piece: WorkPiece) -> Path:
        """Return the folder of a piece."""
        return self.store.path / _RUNS / piece.name

    def inputs(self, piece: WorkPiece) -> Inputs:
        """Read what a piece needs.

        Raises:
            ConfigError: a file was damaged meanwhile.
        """
        found = {}
        for cell in piece.needs:
            result = self.store.read(cell)
            if result is None:
                raise ConfigError(f"{cell.name}, which {piece.title} needs, is gone; run it again")
            found[cell] = Needed(result, self.store.files(cell))
        return found

    def begin(self, piece: WorkPiece) -> None:
        """Note that a piece is being computed."""
        self._running |= set(piece.cells)

    def end(self, piece: WorkPiece, error: str | None = None) -> None:
        """Note that a piece is not computed any more, and why it failed if it did."""
        self._running -= set(piece.cells)
        for cell in piece.cells:
            if self.store.read(cell) is not None:
                self.finished[cell] = None
            elif error is not None:
                self.failed[cell.name] = error

    def done(self, piece: WorkPiece) -> list[Cell]:
        """Return the cells of a piece whose results are there."""
        return [cell for cell in piece.cells if self._is_there(cell)]
