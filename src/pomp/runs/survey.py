"""What a run's folder tells to the eye: how its returns grew, and the paths of a search."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.core.errors import DataFileError, PompError
from pomp.core.schemas import TEXT, Array, Record
from pomp.core.storage import read_arrays
from pomp.runs.kept import TRAJECTORY_FILE, KeptRun, read_metrics, read_search

MACRO_STEPS = "macro steps (programs run) in training"
RECORDS = "records of training"
STEPS = "steps"
"""The name under which metrics of a training have the macro steps so far."""


@dataclass(frozen=True)
class Paths:
    """The means of some runs of one job, in the plane that shows most of their spread."""

    name: str
    points: list[NDArray[np.float64]]
    """A run each: `[T, 2]`."""
    share: float
    """How much of the variance the plane shows."""


@dataclass(frozen=True)
class Curve:
    """Returns of a task and a seed, or of a task on average, as a run went on.

    Attributes:
        task: the task's name.
        seeds: those that are in it: one, or all that the mean is of.
        at: how much had been done at each point; does not fall.
        returns: the return at each point, or what else the chart is of.
    """

    task: str
    seeds: tuple[int, ...]
    at: list[int]
    returns: list[float]


@dataclass(frozen=True)
class Chart:
    """Learning curves that are drawn together.

    Attributes:
        what: what is on the vertical axis.
        over: what the horizontal axis counts.
        curves: one for each task and seed.
        means: one for each task that has several seeds.
        is_best: whether the curves are of the best so far, which holds until there is a better one.
        is_log: whether the horizontal axis is logarithmic.
    """

    what: str
    over: str
    curves: list[Curve]
    means: list[Curve]
    is_best: bool = True
    is_log: bool = False


def read_charts(run: KeptRun) -> list[Chart]:
    """Return the learning curves of a search, an evolution or a training, stage by stage.

    Raises:
        DataFileError: there is nothing to draw yet, or the files are damaged.
    """
    try:
        charts = [chart for chart in _charts_of(run) if chart.curves]
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        if isinstance(error, PompError):
            raise
        raise DataFileError(
            f"the metrics in '{run.path}' are damaged, or of another version"
        ) from error
    if not charts:
        raise DataFileError(f"nothing in '{run.path}' has come far enough to be drawn")
    return charts


def _charts_of(run: KeptRun) -> Iterator[Chart]:
    """Yield the charts of a run; those of stages that have not begun are empty."""
    if run.kind == "search":
        curves = [_best_so_far(run, *place) for place in run.places]
        what, over = "best return so far (per program of a list)", "programs executed"
        yield _chart(what, over, curves, is_log=True)
    elif run.kind == "evolve":
        curves = [_rounds(run, *place) for place in run.places]
        yield _chart("best score so far (validation, penalties included)", "machines tried", curves)
    elif run.kind == "train":
        if search := read_search(run):
            yield from _charts_of(search)
        if "own" in run.config:
            yield from _own_charts(run)
            return
        for what, field in (
            ("return in validation", "return"),
            ("return of training episodes", "training_return"),
        ):
            curves = [_validations(run, *place, field) for place in run.places]
            yield _chart(what, MACRO_STEPS, curves, is_best=False)


def _own_charts(run: KeptRun) -> Iterator[Chart]:
    """Yield a chart of each number that a learning method of one's own noted.

    The horizontal axis is its `steps`, or counts its records if one of them has none.
    """
    found = {place: read_metrics(run.place(*place)) for place in run.places}
    records = [record for own in found.values() for record in own]
    has_steps = all(STEPS in record for record in records)
    for name in dict.fromkeys(name for record in records for name in record if name != STEPS):
        curves = []
        for (task, seed), own in found.items():
            numbered = [(n, one) for n, one in enumerate(own, 1) if name in one]
            at = [int(one[STEPS]) if has_steps else n for n, one in numbered]
            curves.append(Curve(task, (seed,), at, [float(one[name]) for _, one in numbered]))
        yield _chart(name, MACRO_STEPS if has_steps else RECORDS, curves, is_best=False)


def _chart(
    what: str, over: str, curves: list[Curve], *, is_best: bool = True, is_log: bool = False
) -> Chart:
    """Make a chart of the curves that have points, with the means over seeds."""
    drawn = [curve for curve in curves if curve.at]
    tasks: dict[str, list[Curve]] = {}
    for curve in drawn:
        tasks.setdefault(curve.task, []).append(curve)
    means = [_mean_of(own) for own in tasks.values() if len(own) > 1]
    return Chart(what, over, drawn, means, is_best, is_log)


def _mean_of(curves: list[Curve]) -> Curve:
    """Return the mean of a task's curves from where all have begun; each holds its last value."""
    begin = max(curve.at[0] for curve in curves)
    at = sorted({point for curve in curves for point in curve.at if point >= begin})
    held = hold_returns(curves, at)
    seeds = tuple(seed for curve in curves for seed in curve.seeds)
    return Curve(curves[0].task, seeds, at, np.mean(held, axis=0).tolist())


def hold_returns(curves: Sequence[Curve], at: Sequence[int]) -> NDArray[np.float64]:
    """Return what curves are at some points, `[seeds, T]`; each holds a value until the next.

    Args:
        curves: one for each seed.
        at: the points, none before a curve begins.
    """
    return np.array(
        [
            np.array(curve.returns)[np.searchsorted(curve.at, at, side="right") - 1]
            for curve in curves
        ],
        np.float64,
    )


def read_best(place: Path) -> list[tuple[int, float]]:
    """How the best return of a search grew, over all its finished runs.

    Args:
        place: the folder of a task and a seed.

    Returns:
        Programs executed, and the best return then: whenever it grew, and at the end.
    """
    before, best = 0, -np.inf
    points = list[tuple[int, float]]()
    for record in read_metrics(place, "curve", "executions"):
        for _, spent, value in record["curve"]:
            if value > best:
                best = float(value)
                points.append((before + int(spent), best))
        before += int(record["executions"])
    return [*points, (before, best)] if points else []


def _best_so_far(run: KeptRun, task: str, seed: int) -> Curve:
    """How a job's best return grew with the programs it executed."""
    points = read_best(run.place(task, seed))
    return Curve(task, (seed,), [at for at, _ in points], [best for _, best in points])


def _rounds(run: KeptRun, task: str, seed: int) -> Curve:
    """How the best score of an evolution grew with the machines it tried.

    A machine's score is its return on validation starts less the penalties of the search, before
    it is simplified: see `pomp.evolution.config`.
    """
    records = read_metrics(run.place(task, seed), "evaluated", "score")
    at = [int(record["evaluated"]) for record in records]
    return Curve(task, (seed,), at, [float(record["score"]) for record in records])


def _validations(run: KeptRun, task: str, seed: int, field: str) -> Curve:
    """What the best transitions of a task and a seed earned at each validation."""
    records = best_member(read_metrics(run.place(task, seed), STEPS, field))
    known = [record for record in records if record[field] is not None]
    at = [int(record[STEPS]) for record in known]
    return Curve(task, (seed,), at, [float(record[field]) for record in known])


def best_member(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the records of the member of a training that is best in validation so far.

    The metrics of a task and a seed hold one member after the other, which differ in learning
    rate, modes or attempt.
    """
    members: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for record in records:
        which = tuple(map(record.get, ("learning_rate", "modes", "attempt")))
        members.setdefault(which, []).append(record)
    return max(members.values(), key=lambda own: own[-1].get("best") or 0.0, default=[])


def read_paths(run: KeptRun, task: str | None = None, seed: int | None = None) -> Paths | None:
    """The paths of one job of a search; None if no job has kept any.

    Raises:
        DataFileError: the job that was asked for has none, or they are damaged.
    """
    for own_task, own_seed in run.places:
        file = run.place(own_task, own_seed) / TRAJECTORY_FILE
        if task in (None, own_task) and seed in (None, own_seed) and file.is_file():
            return project_paths(f"{own_task}, seed{own_seed}", file)
    if task is not None or seed is not None:
        raise DataFileError(f"'{run.path}' holds no paths of that task and seed")
    return None


def project_paths(name: str, file: Path) -> Paths:
    """Read the means of some runs, and project them onto the plane of their largest spread.

    Args:
        name: what the paths are called.
        file: what a search has kept of its first runs.

    Raises:
        DataFileError: there is no such file, or it is damaged.
    """
    arrays, _ = read_arrays(file, "trajectory", Record({"task": TEXT}))
    runs = [arrays[run] for run in sorted(arrays)]
    width = runs[0].shape[-1] if runs and runs[0].ndim else 0
    for run, path in arrays.items():
        Array("float16", (None, width)).check(path, run)
    if not runs or not all(path.size for path in runs):
        raise DataFileError(f"'{file}' holds no paths, or an empty one")
    return _project(name, [path.astype(np.float64) for path in runs])


def _project(name: str, runs: list[NDArray[np.float64]]) -> Paths:
    """Project the paths of some `runs`, `[T, Z]` each, onto the plane of their largest spread."""
    whole = np.concatenate(runs)
    mean = whole.mean(axis=0)
    _, spread, axes = np.linalg.svd(whole - mean, full_matrices=False)
    plane = np.zeros((2, whole.shape[1]))
    plane[: len(axes[:2])] = axes[:2]
    total = float((spread**2).sum())
    share = float((spread[:2] ** 2).sum()) / total if total else 1.0
    return Paths(name, [(run - mean) @ plane.T for run in runs], share)
