"""Results as tables for SQL, by DuckDB, and as files that other programs read.

There are three tables: `cells` with a row for each cell, `episodes` with one for each return, and
`curves` with one for each point of how the best return grew.
"""

import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pomp.core.errors import ConfigError, DataFileError, OutputError
from pomp.core.extras import RESULTS, require
from pomp.core.storage import write_atomically
from pomp.experiments.outcomes import COSTS
from pomp.experiments.store import PACKED, CellResult, pack

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_PLACE = {
    "cell": "VARCHAR", "method": "VARCHAR", "task": "VARCHAR", "seed": "BIGINT", "stage": "VARCHAR",
    "scale": "INTEGER", "preset": "VARCHAR", "budget": "DOUBLE",
}  # fmt: skip
_OUTCOME = {
    "variant": "VARCHAR", "cap": "VARCHAR", "mean": "DOUBLE", "episodes": "INTEGER",
    "exact": "BOOLEAN", "evaluation_seed": "BIGINT", "ceiling": "DOUBLE", "fraction": "DOUBLE",
    "validation": "DOUBLE", "validations": "INTEGER", "best_of_runs": "DOUBLE",
    "search_return": "DOUBLE", "ended": "VARCHAR", "asked_steps": "BIGINT", "modes_run": "DOUBLE",
    "actions_taken": "DOUBLE", "programs": "VARCHAR[]", "settings": "JSON",
}  # fmt: skip
_COST = {name: "BIGINT" for name in (*COSTS, "shared_by")} | {"seconds": "DOUBLE"}
_MADE = {"commit": "VARCHAR", "device": "VARCHAR", "hardware": "VARCHAR", "date": "DATE"}
_VERSIONS = ("pomp", "python", "numpy", "numba", "torch")
_REVISIONS = {"engine": "engine_revision", "method": "method_revision", "settings": "settings_id"}

TABLES: dict[str, dict[str, str]] = {
    "cells": {
        **_PLACE, "label": "VARCHAR", "kind": "VARCHAR", "changes": "JSON", **_OUTCOME,
        "sd": "DOUBLE", "published_mean": "DOUBLE", "published_sd": "DOUBLE", **_COST, **_MADE,
        **{f"{name}_version": "VARCHAR" for name in _VERSIONS}, "engine_revision": "INTEGER",
        "method_revision": "INTEGER", "settings_id": "VARCHAR", "other": "JSON",
    },
    "episodes": {**_PLACE, "episode": "INTEGER", "return": "DOUBLE"},
    "curves": {**_PLACE, "executions": "BIGINT", "best": "DOUBLE"},
}  # fmt: skip
"""The columns of every table, with their types."""
_KNOWN = {"cell", "fingerprint", "returns", "curve", "cost", "made", "std", *_OUTCOME}


@dataclass(frozen=True)
class QueryAnswer:
    """What a query has found.

    Attributes:
        columns: their names.
        rows: values of JSON, one for each column.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def to_json(self) -> list[dict[str, Any]]:
        """Return a dictionary for each row."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def query_results(results: Iterable[CellResult], sql: str) -> QueryAnswer:
    """Answer a question about results: one `select` over cells, episodes and curves.

    The tables are in memory, and the query can reach nothing else: no files, no network, no
    variables of this process.

    Args:
        results: of any cells.
        sql: in the dialect of DuckDB.

    Raises:
        ConfigError: it is no query, or one that does not work.
        MissingExtraError: DuckDB is not installed.
    """
    with _open_tables(results) as tables:
        import duckdb

        tables.execute("set enable_external_access = false")
        tables.execute("set lock_configuration = true")
        try:
            statements = tables.extract_statements(sql)
            if len(statements) != 1:
                got = f"got {len(statements) or 'none'}"
                raise ConfigError(f"a query is one statement, as in 'select * from cells'; {got}")
            if statements[0].type != duckdb.StatementType.SELECT:
                raise ConfigError("a query only reads, as in 'select * from cells'")
            answer = tables.execute(statements[0])
            columns = tuple(column[0] for column in answer.description or ())
            rows = tuple(tuple(_plain(value) for value in row) for row in answer.fetchall())
        except duckdb.PermissionException as error:
            names = ", ".join(TABLES)
            raise ConfigError(f"a query reads the tables {names}, and no files") from error
        except duckdb.Error as error:
            told = str(error).split("\n\n")[0]
            raise ConfigError(f"the query does not work: {' '.join(told.split())}") from error
    return QueryAnswer(columns, rows)


def export_results(results: Sequence[CellResult], path: str | Path, table: str = "cells") -> None:
    """Write results as a file: a table as `.parquet` or `.csv`, or all of them as `.jsonl.gz`.

    Args:
        results: of any cells.
        path: the file; its ending decides.
        table: cells, episodes or curves; `.jsonl.gz` has everything, and can be read as a store.

    Raises:
        ConfigError: the file has another ending, or there is no such table.
        OutputError: it cannot be written.
        MissingExtraError: DuckDB is not installed; `.jsonl.gz` does not need it.
    """
    path = Path(path)
    if table not in TABLES:
        raise ConfigError(f"a table is {', '.join(TABLES)}, got '{table}'")
    try:
        if path.name.endswith(PACKED):
            write_atomically(path, pack(results))
        elif path.suffix in (".parquet", ".csv"):
            write_atomically(path, _table_as_file(results, table, path.suffix))
        else:
            raise ConfigError(f"a file of results ends in .parquet, .csv or {PACKED}, got '{path}'")
    except OSError as error:
        raise OutputError(f"cannot write '{path}': {error.strerror or error}") from error


def _table_as_file(results: Iterable[CellResult], table: str, suffix: str) -> bytes:
    """Return the content of a table's file."""
    with tempfile.TemporaryDirectory() as folder, _open_tables(results) as tables:
        file = Path(folder) / f"table{suffix}"
        tables.execute(f"copy {table} to {_quoted(file)} (format {suffix[1:]})")
        return file.read_bytes()


def _open_tables(results: Iterable[CellResult]) -> "DuckDBPyConnection":
    """Return a connection to a database in memory that holds the three tables.

    Raises:
        DataFileError: a result has values that no column can hold.
        MissingExtraError: DuckDB is not installed.
    """
    require(RESULTS, "a table of results")
    import duckdb

    options: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "python_enable_replacements": "false",
        "temp_directory": "",
    }
    tables, kept = duckdb.connect(":memory:", config=options), list(results)
    makers = {"cells": _cell_rows, "episodes": _episode_rows, "curves": _curve_rows}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.jsonl"
        try:
            for name, columns in TABLES.items():
                with file.open("w") as lines:
                    rows = (row for result in kept for row in makers[name](result))
                    lines.writelines(json.dumps(_plain(row)) + "\n" for row in rows)
                types = ", ".join(f"'{column}': '{kind}'" for column, kind in columns.items())
                tables.execute(
                    f"create table {name} as select * from read_json({_quoted(file)}, "
                    f"format = 'newline_delimited', columns = {{{types}}})"
                )
        except (duckdb.Error, ValueError, LookupError, TypeError, AttributeError) as error:
            why = str(error).split("\n")[0]
            raise DataFileError(f"a result is damaged, or of another version: {why}") from error
    return tables


def _quoted(file: Path) -> str:
    """Return a file's name as SQL has it."""
    return "'{}'".format(str(file).replace("'", "''"))


def _place_of(result: CellResult) -> dict[str, Any]:
    """Return the columns that say which cell a row belongs to."""
    told = result.cell.to_json()
    return {"cell": result.cell.name} | {name: told[name] for name in _PLACE if name != "cell"}


def _cell_rows(result: CellResult) -> Iterator[dict[str, Any]]:
    """Yield a cell's row of the table `cells`."""
    cell, values = result.cell, result.values
    is_comparable = cell.stage == "policy" and cell.scale == 1
    paper = (cell.row.published(cell.task) if is_comparable else None) or {}
    made, fingerprint = values.get("made", {}), values.get("fingerprint", {})
    yield {
        **_place_of(result),
        "label": cell.row.label,
        "kind": cell.row.kind,
        "changes": dict(cell.changes),
        **{name: values.get(name) for name in _OUTCOME},
        "sd": values.get("std"),
        "published_mean": paper.get("mean"),
        "published_sd": paper.get("std"),
        **{name: values.get("cost", {}).get(name) for name in _COST},
        **{name: made.get(name) for name in _MADE},
        **{f"{name}_version": made.get(name) for name in _VERSIONS},
        **{column: fingerprint.get(name) for name, column in _REVISIONS.items()},
        "other": {name: value for name, value in values.items() if name not in _KNOWN},
    }


def _episode_rows(result: CellResult) -> Iterator[dict[str, Any]]:
    """Yield a cell's rows of the table `episodes`."""
    place = _place_of(result)
    for number, value in enumerate(result.values.get("returns", ())):
        yield {**place, "episode": number, "return": value}


def _curve_rows(result: CellResult) -> Iterator[dict[str, Any]]:
    """Yield a cell's rows of the table `curves`."""
    place = _place_of(result)
    for at, best in result.values.get("curve", ()):
        yield {**place, "executions": at, "best": best}


def _plain(value: Any) -> Any:
    """Return a value of DuckDB as one of JSON."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, float):
        return value if isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    return value.isoformat() if isinstance(value, date) else str(value)
