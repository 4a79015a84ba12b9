"""The paper's tables as grids: compact, with all numbers, and at a glance."""

from collections.abc import Sequence
from math import ceil

from pomp.experiments.reporting.documents import (
    MISSING,
    Grid,
    GridEntry,
    GridRow,
    show_interval,
    show_number,
)
from pomp.experiments.rows import ROWS
from pomp.experiments.statistics import LEVEL
from pomp.experiments.tables import PaperTable, TableEntry, TableLine, as_printed

_GLANCE = ("pomp", "text", "best")
_LEGEND = (
    "Mean ± standard deviation over seeds, below it the paper's; both deviations are the "
    "population's, which the paper's is taken for. Bold: the best of a column, to the digits "
    "printed. Underlined: the best of the paper's methods, where another is the best. ▲ ▼: above "
    "or below the paper's by more than noise (Welch's test, p < 0.05, with what may hide behind "
    "two decimals)."
)
_BEST_OF_RUNS = (
    "Best of runs: the largest return among the programs that all runs of a search ended with, as "
    "the paper reports it; the evaluation itself chooses there, so it is no candidate for bold. "
    "Where it is left out, it is the same."
)


def grid_of_table(table: PaperTable) -> Grid:
    """Return a table as the paper has it: a row for each method, a column for each task."""
    rows = list[GridRow]()
    groups = (("Methods of the paper", True), ("Beside them", False))
    for title, is_paper in groups:
        own = [line for line in table.lines if line.is_paper is is_paper]
        if own:
            rows.append(GridRow(title))
            rows += [_row_of(table, line) for line in own]
    caption = f"{_seeds_of(table)} {_LEGEND} {_marks_of(table)}"
    if any(line.is_best_of_runs for line in table.lines):
        caption += f" {_BEST_OF_RUNS}"
    return Grid(table.name, ("method", *table.tasks), tuple(rows), caption)


def _row_of(table: PaperTable, line: TableLine) -> GridRow:
    entries = tuple(_entry_of(table, line, task) for task in table.tasks)
    below = "paper" if any(entry.below for entry in entries) else ""
    return GridRow(_name_of(line), entries, below, line.is_best_of_runs)


def _name_of(line: TableLine) -> str:
    """Return what a row is called; that of the best of runs stands below its method's."""
    return "best of runs" if line.is_best_of_runs else line.label


def _entry_of(table: PaperTable, line: TableLine, task: str) -> GridEntry:
    own = line.entries[task]
    below = "" if own.published is None else _plus_minus(*own.published)
    if own.summary is None:
        return GridEntry(text=MISSING, below=below)
    is_best = table.is_best(line, task)
    return GridEntry(
        text=_plus_minus(own.summary.mean, own.summary.population_sd),
        note=_seeds_note(table, own),
        below=below,
        hint=_hint(own),
        mark=own.mark,
        is_best=is_best,
        is_best_of_paper=not is_best and table.is_best(line, task, of_paper=True),
        share=own.summary.fraction,
    )


def _plus_minus(mean: float, sd: float) -> str:
    return f"{show_number(mean, 2)} ± {show_number(sd, 2)}"


def _seeds_note(table: PaperTable, own: TableEntry) -> str:
    """Return how many seeds an entry has, if these are not all."""
    count, every = len(own.seeds), len(table.seeds)
    return "" if count == every else f"({count} of {every} seeds)"


def _hint(own: TableEntry) -> str:
    """Return what else is known of an entry."""
    summary = own.summary
    assert summary is not None
    parts = [f"seeds {' '.join(show_number(value) for value in own.values)}"]
    if summary.interval:
        parts.append(f"95 % interval {show_interval(summary.interval)}")
    if own.shift is not None:
        test = own.difference
        more = f" ({show_interval(test.interval)}, p = {test.p_value:.2g})" if test else ""
        parts.append(f"ours less the paper's {own.shift:+.3f}{more}")
    if summary.fraction is not None:
        parts.append(f"{summary.fraction:.0%} of the ceiling")
        parts.append(f"solved {summary.solved} of {summary.n}")
    return "; ".join(parts)


def _seeds_of(table: PaperTable) -> str:
    count = len(table.seeds)
    return "One seed." if count == 1 else f"{count} seeds."


def _marks_of(table: PaperTable) -> str:
    """Say how many marks there are, and how many of them chance would set."""
    tested = [
        entry
        for line in table.lines
        for entry in line.entries.values()
        if not line.is_best_of_runs and entry.difference is not None
    ]
    if not tested:
        return "Nothing is tested with a single seed."
    marked = sum(bool(entry.mark) for entry in tested)
    chance = max(1, ceil(LEVEL * len(tested)))
    return (
        f"{marked} of {len(tested)} comparisons are marked, best of runs aside; if no method "
        f"differed, about {chance} would be."
    )


def grid_of_numbers(table: PaperTable) -> Grid:
    """Return all that is known of every method on every task, a row each."""
    rows = list[GridRow]()
    for task in table.tasks:
        rows.append(GridRow(task))
        rows += [_numbers_row(table, line, task) for line in table.lines]
    head = (
        *("method", "seeds", "mean", "sd", "95 % interval", "paper", "difference"),
        *("95 % interval", "p", "of ceiling", "solved", "95 % interval"),
    )
    caption = (
        "Intervals of means are Student's t, of differences Welch's, of solved seeds Wilson's (a "
        "seed that earns 99.5 % of the ceiling has solved the task). p is not corrected for the "
        "number of comparisons."
    )
    return Grid(f"{table.name}-numbers", head, tuple(rows), caption)


def _numbers_row(table: PaperTable, line: TableLine, task: str) -> GridRow:
    own = line.entries[task]
    published = MISSING if own.published is None else _plus_minus(*own.published)
    if own.summary is None:
        texts = ["0", MISSING, MISSING, MISSING, published, *[MISSING] * 6]
        entries = tuple(GridEntry(text=text) for text in texts)
        return GridRow(_name_of(line), entries, is_aside=line.is_best_of_runs)
    one, test = own.summary, own.difference
    share = one.solved_interval
    entries = (
        GridEntry(text=str(one.n)),
        GridEntry(text=show_number(one.mean), is_best=table.is_best(line, task)),
        GridEntry(text=show_number(one.population_sd)),
        GridEntry(text=show_interval(one.interval)),
        GridEntry(text=published),
        GridEntry(text=MISSING if own.shift is None else f"{own.shift:+.3f}", mark=own.mark),
        GridEntry(text=MISSING if test is None else show_interval(test.interval)),
        GridEntry(text=MISSING if test is None else f"{test.p_value:.2g}"),
        GridEntry(text=MISSING if one.fraction is None else f"{one.fraction:.0%}"),
        GridEntry(text=MISSING if one.solved is None else f"{one.solved} of {one.n}"),
        GridEntry(text=MISSING if share is None else f"{share[0]:.0%} to {share[1]:.0%}"),
    )
    return GridRow(_name_of(line), entries, is_aside=line.is_best_of_runs)


def grid_of_tasks(tables: Sequence[PaperTable]) -> Grid | None:
    """Return the paper's method and machines with rules on all tasks; None: there is no result."""
    lines = {
        (table.name, line.method): line
        for table in tables
        for line in table.lines
        if line.method in _GLANCE and not line.is_best_of_runs
    }
    shown = [method for method in _GLANCE if any(own == method for _, own in lines)]
    rows = list[GridRow]()
    for table in tables if shown else ():
        for task in table.tasks:
            own = [lines.get((table.name, method)) for method in shown]
            entries = [line.entries[task] if line else TableEntry() for line in own]
            ceilings = [one.summary.ceiling for one in entries if one.summary is not None]
            if ceilings:
                best = max(as_printed(one.summary.mean) for one in entries if one.summary)
                cells = [_glance_entry(table, one, best) for one in entries]
                ceiling = MISSING if ceilings[0] is None else f"{ceilings[0]:.3g}"
                rows.append(GridRow(task, (_paper_entry(task), *cells, GridEntry(text=ceiling))))
    if not rows:
        return None
    names = [ROWS[method].label for method in shown]
    caption = (
        "Mean ± standard deviation over seeds. ▲ ▼: above or below the paper's number for the same "
        "method by more than noise. Rules are no method of the paper; bold is the best of ours."
    )
    return Grid("summary", ("task", "POMP, paper", *names, "ceiling"), tuple(rows), caption)


def _paper_entry(task: str) -> GridEntry:
    paper = ROWS["pomp"].published(task)
    return GridEntry(text=_plus_minus(paper["mean"], paper["std"]) if paper else MISSING)


def _glance_entry(table: PaperTable, own: TableEntry, best: float) -> GridEntry:
    if own.summary is None:
        return GridEntry(text=MISSING)
    return GridEntry(
        text=_plus_minus(own.summary.mean, own.summary.population_sd),
        note=_seeds_note(table, own),
        hint=_hint(own),
        mark=own.mark,
        is_best=as_printed(own.summary.mean) == best,
        share=own.summary.fraction,
    )
