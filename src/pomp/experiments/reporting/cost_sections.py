"""The sections of a report about what results have cost, and where they come from."""

from collections.abc import Mapping

from pomp.experiments.reporting.costs import COUNTS
from pomp.experiments.reporting.documents import (
    MISSING,
    Details,
    Grid,
    GridEntry,
    GridRow,
    Section,
    show_count,
)
from pomp.experiments.reporting.numbers import ReportNumbers
from pomp.experiments.rows import ROWS

_COST_NAMES = {"executions": "program executions", "steps": "environment steps"}


def costs_section(numbers: ReportNumbers) -> Section | None:
    """Return what every method has cost; None: there is no policy."""
    rows = tuple(
        GridRow(
            ROWS[one.method].label,
            (
                GridEntry(text=str(one.cells)),
                *(GridEntry(text=show_count(one.counts[name])) for name in COUNTS),
                GridEntry(text=_duration(one.seconds)),
                GridEntry(text=_duration(one.all_seconds)),
                GridEntry(
                    text=MISSING if one.plateaus is None else f"{one.plateaus} of {one.cells}"
                ),
                GridEntry(text=", ".join(one.hardware)),
            ),
        )
        for one in numbers.costs
    )
    caption = (
        "Means over the cells of a method (a task and a seed each), with the search for modes "
        "where a cell needs one. Cells that were computed together share their time evenly. A "
        "training ends on a plateau when its validations have not been better for long."
    )
    names = (_COST_NAMES.get(name, name) for name in COUNTS)
    head = ("method", "cells", *names, "time", "time, all cells", "plateaus", "hardware")
    return Section("costs", "Costs", (Grid("costs", head, rows, caption),)) if rows else None


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return MISSING
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.2g} s"


def origins_section(numbers: ReportNumbers) -> Section:
    """Return which commits, versions, hardware, settings and revisions the results are of."""
    rows = tuple(
        GridRow(name, (GridEntry(text=_counted(own, numbers.cells)),))
        for name, own in numbers.origins.items()
    )
    settings = tuple(
        GridRow(
            ROWS[method].label,
            (GridEntry(text=", ".join(f"{task} {value}" for task, value in own.items())),),
        )
        for method, own in numbers.fingerprints.items()
    )
    caption = (
        "Cells of each in brackets where they are not all alike. Settings, preset, budget and "
        "revisions of cells agree in every table, or there would be no report; commits may differ."
    )
    grid = Grid("origins", ("what", "cells"), rows, caption, is_text=True)
    head = ("method", "fingerprints of its settings on every task")
    fingerprints = Grid("fingerprints", head, settings, is_text=True)
    blocks = (grid, Details("Fingerprints of settings", (fingerprints,)))
    return Section("origins", "Where the results come from", blocks)


def _counted(own: Mapping[str, int], cells: int) -> str:
    if len(own) == 1 and next(iter(own.values())) == cells:
        return next(iter(own))
    return ", ".join(f"{value} ({count})" for value, count in own.items())
