"""What a report on a store says, section by section."""

from collections.abc import Mapping, Sequence

from pomp.experiments.reporting.chart_sections import (
    growth_section,
    horizons_section,
    machines_section,
    paths_section,
)
from pomp.experiments.reporting.cost_sections import costs_section, origins_section
from pomp.experiments.reporting.documents import (
    MISSING,
    Block,
    Details,
    Document,
    Gallery,
    Grid,
    GridEntry,
    GridRow,
    Paragraph,
    Picture,
    Section,
    show_interval,
    show_number,
)
from pomp.experiments.reporting.numbers import ReportNumbers
from pomp.experiments.reporting.table_grids import grid_of_numbers, grid_of_table, grid_of_tasks
from pomp.experiments.rows import ROWS
from pomp.experiments.tables import REFERENCE, OverTasks, PaperTable

TITLE = "Program machine policies: results"
_COVERAGE = (
    "Intervals are 95 % percentile bootstraps in which seeds are drawn anew within every task. "
    "With five seeds such an interval of a mean over ten tasks holds the true one in 91 % of all "
    "cases, over more tasks in at most 92 %, and on a single one in 83 %: they are a little too "
    "narrow."
)


def write_document(
    numbers: ReportNumbers, pictures: Mapping[str, str], missing: str = ""
) -> Document:
    """Return a report.

    Args:
        numbers: what it shows.
        pictures: SVG by name, drawn elsewhere: `over-TABLE-mean`, `over-TABLE-improvement`,
            `growth-TASK`, `horizons-TASK` and `paths-NUMBER`; sections do without those that
            are not there.
        missing: why there are none, if there are none.
    """
    sections = (
        _summary_section(numbers),
        *(_table_section(table) for table in numbers.tables),
        _over_tasks_section(numbers, pictures),
        growth_section(numbers, pictures),
        horizons_section(numbers, pictures),
        paths_section(numbers, pictures),
        machines_section(numbers),
        costs_section(numbers),
        origins_section(numbers),
    )
    facts = {**_facts(numbers), **({"Without pictures": missing} if missing else {})}
    kept = tuple(section for section in sections if section is not None)
    return Document(TITLE, facts, _warnings(numbers), kept)


def _facts(numbers: ReportNumbers) -> dict[str, str]:
    seeds = sorted({seed for table in numbers.tables for seed in table.seeds})
    dates = list(numbers.origins["date"])
    return {
        "Cells": f"{numbers.cells:,}",
        "Seeds": ", ".join(map(str, seeds)) or MISSING,
        "Preset": numbers.preset,
        "Budget": f"{100 * numbers.budget:g} %",
        "Hardware": ", ".join(numbers.origins["hardware"]),
        "Computed": dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}",
    }


def _warnings(numbers: ReportNumbers) -> tuple[str, ...]:
    if numbers.budget >= 1:
        return ()
    return (
        f"A REHEARSAL: every method did {100 * numbers.budget:g} % of its work (budget "
        f"{numbers.budget:g}). These numbers show that everything runs; they say nothing about the "
        "methods.",
    )


def _summary_section(numbers: ReportNumbers) -> Section | None:
    grid = grid_of_tasks(numbers.tables)
    return None if grid is None else Section("summary", "At a glance", (grid,))


def _table_section(table: PaperTable) -> Section:
    lacks = []
    if table.absent_methods:
        lacks.append(f"No result yet: {'; '.join(table.absent_methods)}.")
    if table.absent_tasks:
        lacks.append(f"Tasks without a result: {', '.join(table.absent_tasks)}.")
    if table.paper_only:
        lacks.append(f"In the paper's table alone: {'; '.join(table.paper_only)}.")
    blocks: list[Block] = [grid_of_table(table)]
    if lacks:
        blocks.append(Paragraph(" ".join(lacks)))
    folded = Details("All numbers: intervals, differences, solved seeds", (grid_of_numbers(table),))
    return Section(table.name, table.title, (*blocks, folded))


def _over_tasks_section(numbers: ReportNumbers, pictures: Mapping[str, str]) -> Section | None:
    blocks: list[Block] = []
    for table in numbers.tables:
        names = [f"over-{table.name}-{what}" for what in ("mean", "improvement")]
        drawn = tuple(Picture(name, pictures[name]) for name in names if name in pictures)
        blocks += [Gallery(drawn)] if drawn else []
        blocks.append(_over_tasks_grid(table, numbers.over_tasks[table.name]))
    if not blocks:
        return None
    return Section("over-tasks", "Over all tasks", (*blocks, Paragraph(_COVERAGE)))


def _over_tasks_grid(table: PaperTable, own: Sequence[OverTasks]) -> Grid:
    count = len(table.tasks)
    best = max((round(one.mean, 3) for one in own if one.tasks == count), default=None)
    rows = tuple(
        GridRow(
            ROWS[one.method].label,
            (
                GridEntry(text=f"{one.tasks} of {count}"),
                GridEntry(
                    text=show_number(one.mean),
                    is_best=one.tasks == count and round(one.mean, 3) == best,
                    share=one.mean,
                ),
                GridEntry(text=show_interval(one.mean_interval)),
                GridEntry(text=MISSING if one.improvement is None else f"{one.improvement:.2f}"),
                GridEntry(text=show_interval(one.improvement_interval, 2)),
            ),
        )
        for one in own
    )
    reference = ROWS[REFERENCE].label
    caption = (
        f"{table.title}. IQM: the interquartile mean of all seeds on all tasks, in shares of the "
        f"tasks' ceilings. P({reference} better): how likely a seed of {reference} earns more than "
        "a seed of the method on a task drawn at random; one half says that they are alike."
    )
    head = ("method", "tasks", "IQM", "95 % interval", f"P({reference} better)", "95 % interval")
    return Grid(f"over-{table.name}", head, rows, caption)
