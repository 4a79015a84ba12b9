"""A table of speeds beside one that was stored: row by row, number by number."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pomp.core.errors import ConfigError, DataFileError
from pomp.core.schemas import FREE, Named
from pomp.core.storage import read_json

LEAST = 0.97
"""The ratio to a stored table below which speed counts as lost."""

_PEERS = ("reference_", "naive_", "minigrid_")
"""How numbers begin that tell the speed of something else."""


@dataclass(frozen=True)
class SpeedRatio:
    """A speed beside the stored one.

    Attributes:
        row: which row of the table, as `Seeder` or `what` of a list.
        name: which number in it.
        now: measured now.
        stored: measured before.
    """

    row: str
    name: str
    now: float
    stored: float

    @property
    def value(self) -> float:
        """How many times as fast as before."""
        return self.now / self.stored


def read_table(path: str, what: str, machine: dict[str, str], *, force: bool) -> dict[str, Any]:
    """Read a table that `pomp bench --json` printed.

    Args:
        path: its file.
        what: what is measured now; the table must be of the same.
        machine: the computer of now, as `describe_hardware` has it.
        force: take a table of another computer or device, too.

    Raises:
        DataFileError: there is no such file, or it holds no table.
        ConfigError: the table is of something else, or of other hardware.
    """
    if not Path(path).exists():
        raise DataFileError(f"'{path}' does not exist; expected what pomp bench --json printed")
    try:
        table = read_json(path, "table of speeds", Named(FREE))
        processor, rows = table["machine"]["processor"], dict(_rows_of(table))
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise DataFileError(
            f"'{path}' is no table of speeds; expected what pomp bench --json prints"
        ) from error
    if not rows or _kind_of(table, rows) != what:
        found = _kind_of(table, rows) or "something else"
        raise ConfigError(f"'{path}' is a table of {found}, not of {what}; give one of {what}")
    here = machine.get("threads")
    there = _threads_of(table) if here else None
    if not force and (processor != machine["processor"] or (there and there != here)):
        raise ConfigError(
            f"'{path}' was measured on {processor}{_with(there)}, this is {machine['processor']}"
            f"{_with(here)}: such ratios say little; --force shows them"
        )
    return dict(table)


def _threads_of(table: dict[str, Any]) -> str | None:
    """Return how many threads a table was measured with, if it says so."""
    known = (row["threads"] for _, row in _rows_of(table) if "threads" in row)
    found = table["machine"].get("threads", next(known, None))
    return None if found is None else str(found)


def _with(threads: str | None) -> str:
    return f" with {threads} thread{'' if threads == '1' else 's'}" if threads else ""


def compare(now: dict[str, Any], stored: dict[str, Any]) -> list[SpeedRatio]:
    """Return a ratio for each speed that both tables have.

    Raises:
        ConfigError: they have none in common.
    """
    before = dict(_rows_of(stored))
    found = [
        SpeedRatio(row, name, float(value), float(before[row][name]))
        for row, numbers in _rows_of(now)
        for name, value in numbers.items()
        if _is_speed(name) and value and before.get(row, {}).get(name)
    ]
    if not found:
        raise ConfigError("the tables have no row in common; measure what the stored one has")
    return found


def _is_speed(name: str) -> bool:
    """Whether a number is a speed of ours: more is better."""
    is_rate = name.endswith("_per_second") or name.startswith("starts_")
    return is_rate and not name.startswith(_PEERS)


def _rows_of(table: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of a table with their names."""
    for part, rows in table.items():
        if part == "tasks":
            yield from rows.items()
        elif isinstance(rows, list):
            for row in rows:
                yield str(row["what"] if "what" in row else f"batch {row['batch']}"), row
        elif part == "env":
            yield part, rows


def _kind_of(table: dict[str, Any], rows: dict[str, dict[str, Any]]) -> str:
    """Return what a table is of, as `pomp bench` calls it; nothing if it cannot be told."""
    if "tasks" in table:
        is_evolve = all("actions_per_machine" in row for row in rows.values())
        return "evolve" if is_evolve else "engine"
    return next((kind for kind in ("env", "decode", "search", "train") if kind in table), "")
