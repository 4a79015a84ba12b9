"""Results, one JSON file for each cell; many of them packed into one file can be read as well.

A folder has `store.json`, which says which version it is of, `cells/` with a file for each cell,
`machines/` with what was learned, and `set-aside/` with files that were damaged.
"""

import gzip
import json
import logging
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, TextIO

from pomp.core.errors import ConfigError, DataFileError, OutputError
from pomp.core.schemas import FREE, NUMBER, TEXT, Listed, Named, Record, Whole
from pomp.core.storage import (
    MOST_JSON_BYTES,
    parse_json,
    read_bytes,
    read_json,
    read_text,
    with_checksum,
    write_atomically,
    write_text,
)
from pomp.experiments.cells import CELL, Cell

STORE_FILE, FORMAT = "store.json", 1
PACKED = ".jsonl.gz"
_MOST_UNPACKED = 1 << 31
_CELLS, _MACHINES, _ASIDE = "cells", "machines", "set-aside"
_CELL = Record(
    {"cell": CELL, "fingerprint": Named(FREE), "programs": Listed(TEXT)},
    {"mean": NUMBER, "returns": Listed(NUMBER), "cost": Named(FREE), "made": Named(FREE)},
    is_open=True,
)
_STORE = Record({"format": Whole()}, is_open=True)

Files = Mapping[str, bytes]
"""The files of a machine that belongs to a cell, by name."""


@dataclass(frozen=True)
class CellResult:
    """What is known of a finished cell.

    Attributes:
        cell: which.
        values: everything that its file holds; `docs/REPRODUCING.md` lists the fields.
    """

    cell: Cell
    values: dict[str, Any]

    @property
    def mean(self) -> float:
        """The mean return over episodes, or the expected one over all starts."""
        return float(self.values["mean"])

    @property
    def programs(self) -> tuple[str, ...]:
        """The programs that were found: modes, or one that is executed once."""
        return tuple(self.values["programs"])

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What the cell was computed with, as `Cell.fingerprint` has it."""
        return dict(self.values["fingerprint"])

    def to_text(self) -> str:
        """Return its file's text: a line of JSON with a checksum."""
        return json.dumps(with_checksum(self.values), sort_keys=True) + "\n"

    @classmethod
    def from_text(cls, text: str) -> "CellResult":
        """Read what `to_text` returned.

        Raises:
            ValueError: it is damaged, or something else; so are a `KeyError` and a `TypeError`.
        """
        values = parse_json(text, _CELL, is_sealed=True)
        return cls(Cell.from_json(values["cell"]), values)


class ResultStore:
    """The results of cells in a folder.

    Args:
        path: the folder; it is made with the first result.

    Raises:
        DataFileError: the folder holds something else, or is of another version.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._check()

    def _check(self) -> None:
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise DataFileError(f"'{self.path}' is no folder of results")
        names = {one.name for one in self.path.iterdir() if not one.name.startswith(".")}
        if not names:
            return
        try:
            found = read_json(self.path / STORE_FILE, "folder of results", _STORE)["format"]
        except DataFileError as error:
            why = f"it has no readable {STORE_FILE}"
            raise DataFileError(f"'{self.path}' is no folder of results: {why}") from error
        if found != FORMAT:
            raise DataFileError(
                f"'{self.path}' was begun by another version of pomp (format {found}, expected "
                f"{FORMAT}); give another folder"
            )

    def make(self) -> None:
        """Make the folder, if it is not there.

        Raises:
            OutputError: it cannot be made.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"cannot write '{self.path}': {error.strerror}") from error
        if not (self.path / STORE_FILE).exists():
            write_text(self.path / STORE_FILE, json.dumps({"format": FORMAT}) + "\n")

    def place(self, cell: Cell) -> Path:
        """Return a cell's file, whether it is there or not."""
        return self.path / _CELLS / f"{cell.name}.json"

    def machine(self, cell: Cell) -> Path:
        """Return the folder of a cell's machine, whether it is there or not."""
        return self.path / _MACHINES / cell.name

    def read(self, cell: Cell) -> CellResult | None:
        """Return a cell's result; None: it is not there, or was damaged and is set aside now."""
        path = self.place(cell)
        try:
            if not path.exists():
                return None
            found = CellResult.from_text(read_text(path, "result"))
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            self._set_aside(path)
            return None
        if found.cell != cell:
            self._set_aside(path)
            return None
        return found

    def _set_aside(self, path: Path) -> None:
        """Move a damaged file out of the way, so that its cell is computed again."""
        aside = self.path / _ASIDE / path.relative_to(self.path / _CELLS)
        aside.parent.mkdir(parents=True, exist_ok=True)
        path.replace(aside)
        logging.getLogger("pomp").warning(
            "warning: '%s' is damaged; it is in '%s' now, and its cell is computed again",
            path,
            aside.parent,
        )

    def set_aside(self, cell: Cell) -> None:
        """Move a cell's result out of the way, so that it is computed again."""
        self._set_aside(self.place(cell))

    def files(self, cell: Cell) -> dict[str, bytes]:
        """Return the files of a cell's machine; none if it has none."""
        folder = self.machine(cell)
        paths = sorted(folder.iterdir()) if folder.is_dir() else []
        return {path.name: read_bytes(path, "machine") for path in paths if path.is_file()}

    def write(self, result: CellResult, files: Files | None = None) -> None:
        """Keep a result, whole or not at all: the machine first, then the file that says it is.

        Raises:
            OutputError: the disk is full, or the folder cannot be written.
        """
        self.make()
        folder, place = self.machine(result.cell), self.place(result.cell)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            for name, content in (files or {}).items():
                folder.mkdir(parents=True, exist_ok=True)
                write_atomically(folder / name, content)
            write_atomically(place, result.to_text().encode())
        except OSError as error:
            raise OutputError(f"cannot write '{place}': {error.strerror or error}") from error

    def __iter__(self) -> Iterator[CellResult]:
        """Go through all results, in the order of their names."""
        for path in sorted((self.path / _CELLS).rglob("*.json")):
            try:
                yield CellResult.from_text(read_text(path, "result"))
            except (OSError, ValueError, LookupError, TypeError, AttributeError):
                self._set_aside(path)


def read_results(path: str | Path) -> list[CellResult]:
    """Read the results in a folder, or in a file that `pack` wrote.

    Raises:
        DataFileError: there are none, or the file is damaged.
    """
    path = Path(path)
    if path.is_dir():
        return list(ResultStore(path))
    if not path.exists():
        raise DataFileError(f"there are no results in '{path}'")
    try:
        content = read_bytes(path, "pack of results")
        with gzip.open(BytesIO(content), "rt", encoding="utf-8") as file:
            return [CellResult.from_text(line) for line in _lines_of(file)]
    except (OSError, EOFError, zlib.error, ValueError, LookupError) as error:
        raise DataFileError(f"'{path}' holds no results, or is damaged") from error


def _lines_of(file: TextIO) -> Iterator[str]:
    """Yield the lines of a file that unpacks while it is read, up to a bounded length.

    Raises:
        DataFileError: there is more.
    """
    left = _MOST_UNPACKED
    while line := file.readline(MOST_JSON_BYTES):
        left -= len(line)
        if left < 0:
            raise DataFileError(f"it unpacks to over {_MOST_UNPACKED} characters")
        yield line


def pack(results: Iterable[CellResult]) -> bytes:
    """Return results as one compressed file; the same results give the same bytes."""
    ordered = sorted(results, key=lambda one: one.cell.name)
    return gzip.compress("".join(one.to_text() for one in ordered).encode(), mtime=0)


def check_alike(results: Collection[CellResult]) -> None:
    """Refuse results that do not belong into one table.

    Raises:
        ConfigError: a cell was computed with other settings or another revision than the others.
    """
    seen: dict[tuple[str, ...], tuple[Any, Cell]] = {}
    for one in results:
        cell, own = one.cell, one.fingerprint
        of_method = (cell.method, cell.stage)
        groups = {"method": of_method, "settings": (*of_method, cell.task, str(cell.scale))}
        for name, value in own.items():
            expected, first = seen.setdefault((name, *groups.get(name, ())), (value, cell))
            if value != expected:
                raise ConfigError(
                    f"{cell.name} does not belong beside {first.name}: its {name} is {value}, the "
                    f"other's {expected}; compute one of them again, or leave it out"
                )
