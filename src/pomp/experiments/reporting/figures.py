"""The numbers behind a report's figures: curves, longer horizons, paths of searches, machines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pomp.experiments.cells import Cell
from pomp.experiments.rows import ROWS
from pomp.experiments.specs import EXPERIMENTS
from pomp.experiments.statistics import summarise
from pomp.experiments.store import STORE_FILE, CellResult, ResultStore
from pomp.experiments.tables import is_policy, read_number
from pomp.machine.drawing import draw_machine
from pomp.machine.text import print_machine
from pomp.machine.zoo import load_machine
from pomp.runs.kept import TRAJECTORY_FILE
from pomp.runs.survey import Curve, Paths, hold_returns, project_paths

CURVES, HORIZONS = EXPERIMENTS["sample-efficiency"], EXPERIMENTS["generalisation"]
PATHS, MACHINES = EXPERIMENTS["search-trajectories"], EXPERIMENTS["state-machines"]
_POINTS = 160  # of a curve: what an eye can tell apart on a logarithmic axis


@dataclass(frozen=True)
class Band:
    """A method's mean over seeds along an axis.

    Attributes:
        method: its name.
        label: what it is called.
        seeds: how many there are; where the axis has several points, the fewest at one.
        at: the points.
        means: over seeds.
        low: lower ends of 95 % Student t intervals; with one seed, the mean.
        high: upper ends.
    """

    method: str
    label: str
    seeds: int
    at: tuple[float, ...]
    means: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True)
class BandChart:
    """The methods of an experiment on one task.

    Attributes:
        task: which.
        bands: one for each method.
        ceiling: the most that can be earned, by points of the axis, where that is known.
    """

    task: str
    bands: tuple[Band, ...]
    ceiling: Mapping[float, float]


@dataclass(frozen=True)
class ShownMachine:
    """A machine that a report shows: of several seeds, the one that was best in validation.

    Attributes:
        cell: which.
        mean: what it earned in its evaluation.
        text: modes and rules; the modes alone where a network chooses or no rules are kept.
        svg: a picture of it; empty where it has no rules.
    """

    cell: Cell
    mean: float
    text: str
    svg: str = ""


def trace_curves(results: Sequence[CellResult]) -> list[BandChart]:
    """Return how the best return grew with the programs executed, task by task.

    A seed holds its last value where others go on; a mean begins where all seeds have.
    """
    charts = []
    for task in CURVES.tasks:
        bands, ceilings = [], set[float]()
        for method in CURVES.methods:
            own = _of(results, method, task)
            curves = [_curve_of(one) for one in own if one.values.get("curve")]
            if curves:
                bands.append(_band(method, *_grow(curves)))
                ceilings |= {one.values["ceiling"] for one in own if one.values.get("ceiling")}
        if bands:
            ends = (min(band.at[0] for band in bands), max(band.at[-1] for band in bands))
            ceiling = dict.fromkeys(ends, max(ceilings)) if ceilings else {}
            charts.append(BandChart(task, tuple(bands), ceiling))
    return charts


def _of(results: Sequence[CellResult], method: str, task: str) -> list[CellResult]:
    """Return the policies of a method on a task, in the order of seeds."""
    found = [one for one in results if (one.cell.method, one.cell.task) == (method, task)]
    return sorted((one for one in found if is_policy(one.cell)), key=lambda one: one.cell.seed)


def _curve_of(result: CellResult) -> Curve:
    at, returns = zip(*result.values["curve"], strict=True)
    return Curve(result.cell.task, (result.cell.seed,), [max(1, one) for one in at], list(returns))


def _grow(curves: Sequence[Curve]) -> tuple[list[float], list[list[float]]]:
    """Return points at which curves are drawn, and what the seeds had reached there."""
    begin, end = max(curve.at[0] for curve in curves), max(curve.at[-1] for curve in curves)
    at = np.unique(np.geomspace(begin, end, _POINTS).round().astype(np.int64))
    return at.tolist(), hold_returns(curves, at.tolist()).T.tolist()


def _band(method: str, at: Sequence[float], values: Sequence[Sequence[float]]) -> Band:
    """Return the mean and the intervals of what the seeds of a method have at some points."""
    found = [summarise(seeds) for seeds in values]
    ends = [one.interval or (one.mean, one.mean) for one in found]
    return Band(
        method,
        ROWS[method].label,
        min(one.n for one in found),
        tuple(float(one) for one in at),
        tuple(one.mean for one in found),
        tuple(low for low, _ in ends),
        tuple(high for _, high in ends),
    )


def trace_horizons(results: Sequence[CellResult]) -> list[BandChart]:
    """Return what policies earn where the task is several times as long, task by task."""
    charts = []
    for task in HORIZONS.tasks:
        bands, ceiling = [], dict[float, float]()
        for method in HORIZONS.methods:
            values: dict[float, list[float]] = {}
            for one in results:
                if (one.cell.method, one.cell.task, one.cell.stage) == (method, task, "policy"):
                    values.setdefault(one.cell.scale, []).append(read_number(one, "mean"))
                    if one.values.get("ceiling"):
                        ceiling[one.cell.scale] = one.values["ceiling"]
            if len(values) > 1:
                bands.append(_band(method, sorted(values), [values[at] for at in sorted(values)]))
        if bands:
            charts.append(BandChart(task, tuple(bands), dict(sorted(ceiling.items()))))
    return charts


def trace_paths(path: str | Path, results: Sequence[CellResult]) -> list[Paths]:
    """Return the paths of searches, of the first seed of each method that has kept some.

    Args:
        path: a folder of results; a packed file has no paths.
        results: those that it holds.

    Raises:
        DataFileError: a file of paths is damaged.
    """
    if not is_folder(path):
        return []
    store, found = ResultStore(path), []
    for task in PATHS.tasks:
        for method in PATHS.methods:
            files = [
                store.machine(one.cell) / TRAJECTORY_FILE for one in _of(results, method, task)
            ]
            kept = [(number, file) for number, file in enumerate(files) if file.is_file()]
            if kept:
                number, file = kept[0]
                seed = _of(results, method, task)[number].cell.seed
                found.append(project_paths(f"{ROWS[method].label} on {task}, seed {seed}", file))
    return found


def is_folder(path: str | Path) -> bool:
    """Whether results are in a folder, which has machines and paths beside them."""
    return (Path(path) / STORE_FILE).is_file()


def show_machines(path: str | Path, results: Sequence[CellResult]) -> list[ShownMachine]:
    """Return the machine of each method and task that was best in validation.

    Args:
        path: a folder of results; from a packed file, the modes alone are known.
        results: those that it holds.

    Raises:
        DataFileError: a machine is damaged.
    """
    found = []
    for task in MACHINES.tasks:
        for method in MACHINES.methods:
            own = [one for one in _of(results, method, task) if "validation" in one.values]
            if own:
                found.append(_show(path, max(own, key=lambda one: read_number(one, "validation"))))
    return found


def _show(path: str | Path, result: CellResult) -> ShownMachine:
    cell, mean = result.cell, read_number(result, "mean")
    if cell.row.kind == "rules" and is_folder(path):
        folder = ResultStore(path).machine(cell)
        if folder.is_dir():
            machine = load_machine(folder)
            return ShownMachine(cell, mean, print_machine(machine), draw_machine(machine))
    modes = [f"mode {number}: {text}" for number, text in enumerate(result.programs, 1)]
    return ShownMachine(cell, mean, "\n".join(modes) + "\n")
