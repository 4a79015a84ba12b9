"""Pieces of work: cells that are computed together, in a folder from which they can go on."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from pomp.core.configs import to_json
from pomp.core.errors import DataFileError
from pomp.core.schemas import Listed, Number, OneOf, Record
from pomp.core.storage import read_json
from pomp.experiments.cells import CELL, Cell
from pomp.experiments.store import CellResult, Files
from pomp.runs.folder import DEVICE

PieceKind = Literal["search", "evolve", "learn", "evaluate"]
PIECE_FILE = "piece.json"
ON_CPU = ("evaluate", "evolve")
"""Kinds of pieces that a GPU has no part in."""


@dataclass(frozen=True)
class Needed:
    """A finished cell from which another one is computed."""

    result: CellResult
    files: Files


Inputs = Mapping[Cell, Needed]
Emit = Callable[[CellResult, Files], None]
"""Called with each result as soon as it is there, and with the files of its machine."""


@dataclass(frozen=True)
class WorkPiece:
    """Cells that are computed together.

    Attributes:
        kind: search: programs or modes. evolve: a machine with rules. learn: transitions.
            evaluate: what was found before, in another way.
        cells: which; in a fixed order.
        device: cpu or cuda.
    """

    kind: PieceKind
    cells: tuple[Cell, ...]
    device: str

    @property
    def name(self) -> str:
        """What its folder is called: the same cells on the same device, the same name."""
        text = "\n".join([self.device, *(cell.name for cell in self.cells)])
        return f"{self.kind}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    @property
    def title(self) -> str:
        """What it is called in events."""
        first, count = self.cells[0], len(self.cells)
        others = f" and {count - 1} more" if count > 1 else ""
        return f"{self.kind} {first.name}{others}"

    @property
    def needs(self) -> tuple[Cell, ...]:
        """The cells whose results it needs."""
        return tuple(dict.fromkeys(one for cell in self.cells for one in cell.needs))

    def to_json(self) -> dict[str, Any]:
        """Return its fields."""
        cells = [cell.to_json() for cell in self.cells]
        return {"kind": self.kind, "device": self.device, "cells": cells}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "WorkPiece":
        """Read what `to_json` returned, and perhaps the seconds that were spent.

        Raises:
            DataFileError: it is something else.
        """
        _PIECE.check(dict(values))
        cells = tuple(Cell.from_json(one) for one in values["cells"])
        if any(kind_of(cell) != values["kind"] for cell in cells):
            raise DataFileError(
                f"a cell is computed by another kind of piece than {values['kind']}"
            )
        return cls(values["kind"], cells, values["device"])


_PIECE = Record(
    {"kind": OneOf(get_args(PieceKind)), "device": DEVICE, "cells": Listed(CELL, 1)},
    {"seconds": Number(0.0, 1e12)},
)


def read_told(path: Path) -> dict[str, Any]:
    """Return what the file of a piece that was begun says.

    Raises:
        DataFileError: it is damaged.
    """
    return dict(read_json(path, "piece of an experiment", _PIECE))


def kind_of(cell: Cell) -> PieceKind:
    """Return what kind of piece computes a cell."""
    if cell.is_choice:
        return "evaluate"
    if cell.stage != "policy":
        return cell.stage
    if cell.scale > 1 or cell.has_network or cell.row.kind == "random":
        return "evaluate"
    return "evolve" if cell.row.kind == "rules" else "search"


def cut(cells: Sequence[Cell], device: str) -> list[WorkPiece]:
    """Divide cells into pieces.

    On a GPU the searches of a method are one batch, and trainings with the same settings on grids
    of one size are one ensemble. Everything else is one piece for each cell, so that cores can
    share them, and evaluations run on the CPU, where they are the same everywhere.
    """
    groups: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in cells:
        kind = kind_of(cell)
        group: tuple[Any, ...] = (kind, cell.name)
        if device == "cuda" and kind == "search":
            group = (kind, cell.method, cell.stage, cell.preset, cell.budget, cell.changes)
        elif device == "cuda" and kind == "learn":
            size = cell.setting.height, cell.setting.width
            group = (kind, json.dumps(to_json(cell.training)), size)
        groups.setdefault(group, []).append(cell)
    return [
        WorkPiece(kind, tuple(sorted(own, key=_order)), "cpu" if kind in ON_CPU else device)
        for (kind, *_), own in groups.items()
    ]


def _order(cell: Cell) -> tuple[str, str, int, str]:
    return cell.task, cell.method, cell.seed, cell.name  # tasks side by side, for ensembles
