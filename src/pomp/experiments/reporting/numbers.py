"""All numbers of a report, computed from a store."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pomp.experiments.reporting.costs import (
    MethodCost,
    count_costs,
    count_origins,
    list_fingerprints,
)
from pomp.experiments.reporting.figures import (
    BandChart,
    ShownMachine,
    show_machines,
    trace_curves,
    trace_horizons,
    trace_paths,
)
from pomp.experiments.tables import (
    OverTasks,
    PaperTable,
    compare_over_tasks,
    make_tables,
    read_together,
)
from pomp.runs.survey import Paths


@dataclass(frozen=True)
class ReportNumbers:
    """Everything that a report shows.

    Attributes:
        path: the store.
        cells: how many results it is made from.
        budget: the share of every method's work that was done.
        preset: whose settings.
        tables: both of the paper, as far as there are results.
        over_tasks: what methods are worth over the tasks of a table, by its name.
        curves: how the best return grew.
        horizons: what policies earn in longer tasks.
        paths: of searches.
        machines: the best in validation.
        costs: of every method.
        origins: how many cells are of which commit, version, hardware, ...
        fingerprints: of the settings behind every method, by task.
    """

    path: Path
    cells: int
    budget: float
    preset: str
    tables: tuple[PaperTable, ...]
    over_tasks: Mapping[str, Sequence[OverTasks]]
    curves: Sequence[BandChart]
    horizons: Sequence[BandChart]
    paths: Sequence[Paths]
    machines: Sequence[ShownMachine]
    costs: Sequence[MethodCost]
    origins: Mapping[str, Mapping[str, int]]
    fingerprints: Mapping[str, Mapping[str, str]]

    def to_json(self) -> dict[str, Any]:
        """Return all of it but the paths and the pictures of machines, as JSON can hold it."""
        return {
            "cells": self.cells,
            "budget": self.budget,
            "preset": self.preset,
            "tables": [asdict(table) for table in self.tables],
            "over_tasks": {
                name: [asdict(one) for one in own] for name, own in self.over_tasks.items()
            },
            "curves": [asdict(chart) for chart in self.curves],
            "horizons": [asdict(chart) for chart in self.horizons],
            "machines": [
                {**one.cell.to_json(), "mean": one.mean, "text": one.text} for one in self.machines
            ],
            "costs": [asdict(one) for one in self.costs],
            "origins": self.origins,
            "fingerprints": self.fingerprints,
        }


def read_numbers(
    path: str | Path, parts: Collection[str] = (), repetitions: int = 2000
) -> ReportNumbers:
    """Read a store, and compute everything that a report on it shows.

    Args:
        path: a folder of results, or a packed file, which has neither paths nor rules.
        parts: what the names of cells may begin with, as `paper` or `paper-0.001`; none: anything.
        repetitions: how often bootstraps draw.

    Raises:
        DataFileError: there are no results, or they are damaged.
        ConfigError: results do not belong together.
    """
    results = read_together(path, parts)
    tables = tuple(make_tables(results))
    first = results[0].fingerprint
    return ReportNumbers(
        Path(path),
        len(results),
        float(first["budget"]),
        str(first["preset"]),
        tables,
        {table.name: compare_over_tasks(table, repetitions) for table in tables},
        trace_curves(results),
        trace_horizons(results),
        trace_paths(path, results),
        show_machines(path, results),
        count_costs(results),
        count_origins(results),
        list_fingerprints(results),
    )
