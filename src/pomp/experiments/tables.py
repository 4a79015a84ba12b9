"""The numbers of the paper's tables: ours beside its own, and what methods are worth over tasks."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pomp.core.errors import ConfigError, DataFileError
from pomp.experiments.cells import Cell
from pomp.experiments.rows import ROWS
from pomp.experiments.specs import EXPERIMENTS, Experiment
from pomp.experiments.statistics import (
    Difference,
    Summary,
    bootstrap_interval,
    compare_with_published,
    interquartile_mean,
    probability_of_improvement,
    summarise,
)
from pomp.experiments.store import CellResult, check_alike, read_results
from pomp.runs.published import published_rows

TABLE_NAMES = ("table1", "table2")
PRINTED = 0.005
"""How far a number that is printed with two decimals may be from the true one."""
REFERENCE = "pomp"
"""The method whose probability of improvement over the others is told."""

Mark = Literal["", "above", "below"]


@dataclass(frozen=True)
class TableEntry:
    """What a method earned on a task, beside the paper.

    Attributes:
        seeds: those whose results are there.
        values: what each of them earned.
        summary: of these; None if there are none.
        published: the paper's mean and standard deviation; None if it has none.
        difference: ours less the paper's, with its test; None where one of them has no deviation.
    """

    seeds: tuple[int, ...] = ()
    values: tuple[float, ...] = ()
    summary: Summary | None = None
    published: tuple[float, float] | None = None
    difference: Difference | None = None

    @property
    def shift(self) -> float | None:
        """Our mean less the paper's."""
        if self.summary is None or self.published is None:
            return None
        return self.summary.mean - self.published[0]

    @property
    def mark(self) -> Mark:
        """Whether ours is above or below the paper's by more than noise."""
        if self.difference is None or not self.difference.is_beyond_noise:
            return ""
        return "above" if self.difference.mean > 0 else "below"


@dataclass(frozen=True)
class TableLine:
    """A row of a table.

    Attributes:
        method: its name.
        label: what it is called in the table.
        is_paper: whether the paper has the method.
        is_best_of_runs: whether it shows the best of all programs that the runs of a search ended
            with, chosen by the evaluation itself, as the paper does.
        entries: by the names of tasks.
    """

    method: str
    label: str
    is_paper: bool
    is_best_of_runs: bool
    entries: Mapping[str, TableEntry]


@dataclass(frozen=True)
class PaperTable:
    """One of the paper's tables, with our numbers.

    Attributes:
        name: of the experiment.
        title: what it is called.
        tasks: those of which there is a result, in the order of the experiment.
        lines: methods of which there is a result.
        seeds: all that occur.
        absent_methods: labels of methods of which there is none.
        absent_tasks: tasks of which there is none.
        paper_only: what the paper calls its methods that have no row here.
    """

    name: str
    title: str
    tasks: tuple[str, ...]
    lines: tuple[TableLine, ...]
    seeds: tuple[int, ...]
    absent_methods: tuple[str, ...]
    absent_tasks: tuple[str, ...]
    paper_only: tuple[str, ...]

    def best(self, task: str, *, of_paper: bool = False) -> float:
        """Return the largest mean on a task, as it is printed; no choice by evaluation counts."""
        return max(
            (
                as_printed(summary.mean)
                for line in self.lines
                if not line.is_best_of_runs and (line.is_paper or not of_paper)
                if (summary := line.entries[task].summary) is not None
            ),
            default=float("nan"),
        )

    def is_best(self, line: TableLine, task: str, *, of_paper: bool = False) -> bool:
        """Whether a method is the best on a task, of all or of the paper's methods."""
        summary = line.entries[task].summary
        if summary is None or line.is_best_of_runs or (of_paper and not line.is_paper):
            return False
        return as_printed(summary.mean) == self.best(task, of_paper=of_paper)


@dataclass(frozen=True)
class OverTasks:
    """What a method is worth over the tasks of a table, in shares of their ceilings.

    Attributes:
        method: its name.
        tasks: how many of the table's tasks it has results of.
        mean: the interquartile mean.
        mean_interval: 95 % bootstrap interval of it; None where a task has a single seed.
        shared_tasks: how many of them the reference has results of, too.
        improvement: how likely a seed of the reference beats one of this method; None: nothing is
            shared, or it is the reference itself.
        improvement_interval: 95 % bootstrap interval of that.
    """

    method: str
    tasks: int
    mean: float
    mean_interval: tuple[float, float] | None
    shared_tasks: int
    improvement: float | None
    improvement_interval: tuple[float, float] | None


def as_printed(value: float) -> float:
    """Return a number with two decimals, and zero without a sign."""
    return round(value, 2) + 0.0


def read_together(path: str | Path, parts: Collection[str] = ()) -> list[CellResult]:
    """Read results that belong into one report.

    Args:
        path: a folder of results, or a packed file.
        parts: what the names of cells may begin with, as `paper` or `paper-0.001`; none: anything.

    Raises:
        DataFileError: there are no results, or they are damaged.
        ConfigError: there are none of these parts, or results do not belong together.
    """
    every = read_results(path)
    if not every:
        raise DataFileError(f"there are no results in '{path}'")
    known = Counter(_part_of(one.cell) for one in every)
    listed = ", ".join(f"{part} ({count} cells)" for part, count in sorted(known.items()))
    if unknown := [part for part in parts if part not in known]:
        raise ConfigError(f"there are no results of '{unknown[0]}'; there are: {listed}")
    chosen = [one for one in every if not parts or _part_of(one.cell) in parts]
    twice = [name for name, count in Counter(one.cell.name for one in chosen).items() if count > 1]
    if twice:
        raise DataFileError(f"'{path}' has {twice[0]} twice")
    try:
        check_alike(chosen)
    except ConfigError as error:
        if len(known) < 2:
            raise
        raise ConfigError(f"{error}. Parts that can be chosen: {listed}") from error
    return chosen


def _part_of(cell: Cell) -> str:
    return cell.name.split("/")[0]


# Tables


def make_tables(results: Sequence[CellResult]) -> list[PaperTable]:
    """Return the paper's tables, as far as there are results.

    Raises:
        DataFileError: a result lacks its numbers.
    """
    tables = [_make_table(EXPERIMENTS[name], results) for name in TABLE_NAMES]
    return [table for table in tables if table.lines]


def _make_table(experiment: Experiment, results: Sequence[CellResult]) -> PaperTable:
    own = [
        one
        for one in results
        if is_policy(one.cell)
        and one.cell.method in experiment.methods
        and one.cell.task in experiment.tasks
    ]
    tasks = tuple(task for task in experiment.tasks if any(one.cell.task == task for one in own))
    lines, absent = list[TableLine](), list[str]()
    for method in experiment.methods:
        found = [one for one in own if one.cell.method == method]
        if not found:
            absent.append(ROWS[method].label)
            continue
        lines.append(_make_line(method, tasks, found))
        if not any("best_of_runs" in one.values for one in found):
            continue
        best = _make_line(method, tasks, found, "best_of_runs")
        if any(best.entries[task].values != lines[-1].entries[task].values for task in tasks):
            lines.append(best)
    ours = {name for row in ROWS.values() for name in row.paper}
    paper = {name: None for task in experiment.tasks for name in published_rows(task)}
    return PaperTable(
        experiment.name,
        experiment.title,
        tasks,
        tuple(lines),
        tuple(sorted({one.cell.seed for one in own})),
        tuple(absent),
        tuple(task for task in experiment.tasks if task not in tasks),
        tuple(name for name in paper if name not in ours),
    )


def is_policy(cell: Cell) -> bool:
    """Whether a cell is one that tables show."""
    return cell.stage == "policy" and cell.scale == 1


def _make_line(
    method: str, tasks: Sequence[str], found: Sequence[CellResult], field: str = "mean"
) -> TableLine:
    row, is_best_of_runs = ROWS[method], field == "best_of_runs"
    entries = {
        task: _make_entry([one for one in found if one.cell.task == task], task, method, field)
        for task in tasks
    }
    label = f"{row.label}, best of runs" if is_best_of_runs else row.label
    return TableLine(method, label, bool(row.paper), is_best_of_runs, entries)


def _make_entry(found: Sequence[CellResult], task: str, method: str, field: str) -> TableEntry:
    """Return what the seeds of a method earned on a task."""
    paper = ROWS[method].published(task)
    published = (paper["mean"], paper["std"]) if paper else None
    values = {one.cell.seed: read_number(one, field) for one in found if field in one.values}
    if not values:
        return TableEntry(published=published)
    seeds = tuple(sorted(values))
    own = tuple(values[seed] for seed in seeds)
    difference = (
        compare_with_published(own, *published, rounding=PRINTED)
        if published is not None and len(own) > 1
        else None
    )
    return TableEntry(seeds, own, summarise(own, found[0].values["ceiling"]), published, difference)


def read_number(result: CellResult, field: str) -> float:
    """Return a number of a result.

    Raises:
        DataFileError: it has none, or something else.
    """
    value = result.values.get(field)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DataFileError(f"the result of {result.cell.name} has no {field}")
    return float(value)


# Over tasks


def compare_over_tasks(table: PaperTable, repetitions: int = 2000) -> list[OverTasks]:
    """Return what every method of a table is worth over its tasks.

    Args:
        table: which.
        repetitions: how often bootstraps draw.
    """
    shares = {line.method: _shares_of(line) for line in table.lines if not line.is_best_of_runs}
    reference = shares.get(REFERENCE, {})
    found = []
    for method, own in shares.items():
        if not own:
            continue
        shared = [task for task in own if task in reference] if method != REFERENCE else []
        pair = [reference[task] for task in shared], [own[task] for task in shared]
        improvement = probability_of_improvement(*pair) if shared else None
        values = list(own.values())
        found.append(
            OverTasks(
                method,
                len(own),
                interquartile_mean(values),
                _interval(interquartile_mean, values, repetitions=repetitions),
                len(shared),
                improvement,
                _interval(probability_of_improvement, *pair, repetitions=repetitions)
                if shared
                else None,
            )
        )
    return found


def _shares_of(line: TableLine) -> dict[str, list[float]]:
    """Return what the seeds of a method earned, as shares of the ceilings, by task."""
    return {
        task: [value / entry.summary.ceiling for value in entry.values]
        for task, entry in line.entries.items()
        if entry.summary is not None and entry.summary.ceiling is not None
    }


def _interval(
    statistic: Any, *methods: list[list[float]], repetitions: int
) -> tuple[float, float] | None:
    """Return a bootstrap interval; None if a task has a single seed, which never varies."""
    if any(len(seeds) < 2 for tasks in methods for seeds in tasks):
        return None
    return bootstrap_interval(statistic, *methods, seed=0, repetitions=repetitions)
