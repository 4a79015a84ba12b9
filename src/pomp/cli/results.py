"""`pomp results`: ask a store of results, take it elsewhere, compare two."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg, subcommand

from pomp.cli.inputs import check_output
from pomp.cli.output import say
from pomp.core.errors import ConfigError

if TYPE_CHECKING:
    from pomp.experiments.differences import CellDifference, StoreDifference
    from pomp.experiments.queries import QueryAnswer

_WIDEST, _LISTED = 60, 8


@dataclass(frozen=True, kw_only=True)
class ResultsQuery:
    """Ask a store in SQL: one select over the tables cells, episodes and curves."""

    sql: Annotated[Positional[str], arg(metavar="SQL")]
    """As in "select method, task, avg(mean) from cells group by all"; describe cells lists the
    columns."""
    store: str
    """A folder of results, or a packed file (.jsonl.gz)."""
    json: bool = False
    """Print one JSON document: a dictionary for each row."""

    def run(self) -> int:
        """Print what the query has found."""
        from pomp.experiments.queries import query_results
        from pomp.experiments.store import read_results

        found = query_results(read_results(self.store), self.sql)
        say(json.dumps(found.to_json()) if self.json else "\n".join(_table(found)))
        return 0


@dataclass(frozen=True, kw_only=True)
class ResultsExport:
    """Write results as a file: .parquet or .csv (a table), or .jsonl.gz (all, packed)."""

    store: str
    """A folder of results, or a packed file (.jsonl.gz)."""
    out: str
    """The file to write; its ending decides what it is."""
    table: Literal["cells", "episodes", "curves"] = "cells"
    """What a .parquet or a .csv holds."""

    def run(self) -> int:
        """Write the file."""
        path = check_output(self.out)
        from pomp.experiments.queries import export_results
        from pomp.experiments.store import PACKED, read_results

        if self.out.endswith(PACKED) and self.table != "cells":
            raise ConfigError(f"--table goes with .parquet and .csv; {PACKED} holds everything")
        results = read_results(self.store)
        export_results(results, path, self.table)
        say(f"{path}: {len(results)} cells, {path.stat().st_size:,} bytes")
        return 0


@dataclass(frozen=True, kw_only=True)
class ResultsDiff:
    """Compare two stores cell by cell; status 1 if they differ."""

    first: Annotated[Positional[str], arg(metavar="A")]
    """A folder of results, or a packed file (.jsonl.gz)."""
    second: Annotated[Positional[str], arg(metavar="B")]
    """Another."""
    json: bool = False
    """Print one JSON document."""

    def run(self) -> int:
        """Print in what they differ."""
        from pomp.experiments.differences import compare_stores
        from pomp.experiments.store import read_results

        found = compare_stores(read_results(self.first), read_results(self.second))
        say(json.dumps(found.to_json()) if self.json else "\n".join(self._lines(found)))
        return 0 if found.is_none else 1

    def _lines(self, found: "StoreDifference") -> list[str]:
        """Return the comparison as lines."""
        lines = []
        for name, only in ((self.first, found.first), (self.second, found.second)):
            if only:
                lines += [f"only in {name}: {_count(only)}", *(f"  {one}" for one in only)]
        if found.differing:
            lines.append(f"differing: {_count(found.differing)}")
            lines += [line for one in found.differing for line in _difference(one)]
        return [*lines, f"same: {_count(found.same)}"]


Results = (
    Annotated[ResultsQuery, subcommand("query")]
    | Annotated[ResultsExport, subcommand("export")]
    | Annotated[ResultsDiff, subcommand("diff")]
)


def _count(cells: tuple[Any, ...]) -> str:
    return "1 cell" if len(cells) == 1 else f"{len(cells)} cells"


def _difference(one: "CellDifference") -> list[str]:
    """Return in what a cell's results differ."""
    lines = [f"  {one.name}"]
    if one.returns:
        numbers = [str(number) for number in one.returns]
        more = ", ..." if len(numbers) > _LISTED else ""
        listed = ", ".join(numbers[:_LISTED]) + more
        lines.append(
            f"    returns of {len(numbers)} of {one.episodes} episodes ({listed}), by at most "
            f"{one.most:.3g}; mean {_shown(one.means[0])} -> {_shown(one.means[1])}"
        )
    for what, pairs in (("fingerprint", one.fingerprint), ("settings", one.settings)):
        if pairs:
            changes = [f"{name} {_shown(a)} -> {_shown(b)}" for name, (a, b) in pairs.items()]
            lines.append(f"    {what}: {', '.join(changes)}")
    if one.fields:
        lines.append(f"    other fields: {', '.join(one.fields)}")
    return lines


def _table(found: "QueryAnswer") -> list[str]:
    """Return an answer as a table: numbers to the right, long texts cut."""
    body = [[_shown(value) for value in row] for row in found.rows]
    widths = [
        max(len(name), *(len(row[column]) for row in body), 0)
        for column, name in enumerate(found.columns)
    ]
    is_number = [
        any(row[column] is not None for row in found.rows)
        and all(isinstance(row[column], int | float | None) for row in found.rows)
        for column in range(len(widths))
    ]
    return [
        "  ".join(
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(row, widths, is_number, strict=True)
        ).rstrip()
        for row in ([_shown(name) for name in found.columns], *body)
    ]


def _shown(value: Any) -> str:
    """Return a value in a few printable characters."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = value if isinstance(value, str) else json.dumps(value)
    plain = "".join(sign if sign.isprintable() else "?" for sign in text)
    return plain if len(plain) <= _WIDEST else plain[: _WIDEST - 3] + "..."
