"""Runs below the root: which there are, grouped by everything but the seed, and their curves."""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from pomp.core.errors import DataFileError, PompError
from pomp.core.texts import visible
from pomp.machine.policy import MACHINE_FILE
from pomp.runs.folder import CONFIG_FILE, METRICS_FILE
from pomp.runs.kept import KeptRun, read_run
from pomp.runs.reports import is_finished
from pomp.runs.results import MACHINE_FOLDER
from pomp.runs.survey import Curve, hold_returns, read_charts
from pomp.studio.finding import RUN_PREFIX, Root
from pomp.studio.limits import LIMITS

_DEEPEST = 4  # folders below the root in which runs are looked for
_ABOUT = ("seeds", "seed", "searches", "pomp", "format", "checksum", "extended")
"""What of a config does not tell groups apart."""


def list_runs(root: Root) -> dict[str, Any]:
    """Return the runs below the root in groups that differ in the seed alone."""
    if root.path is None:
        return {"root": None, "groups": []}
    groups: dict[str, dict[str, Any]] = {}
    for run in _find_runs(root.path):
        settings = {name: value for name, value in run.config.items() if name not in _ABOUT}
        tasks = sorted({task for task, _ in run.places})
        key = json.dumps([run.kind, tasks, settings], sort_keys=True)
        kinds = f"{run.kind} {', '.join(tasks)}".strip()
        new = {"name": visible(kinds), "kind": run.kind, "tasks": tasks, "settings": settings}
        groups.setdefault(key, new | {"runs": []})["runs"].append(_run_data(run, root.path))
    return {"root": visible(root.path.name), "groups": list(groups.values())}


def _find_runs(root: Path) -> Iterator[KeptRun]:
    """Yield the runs below a folder, without following links; parts of runs are left out."""
    found = 0
    for folder, names, files in os.walk(root):
        here = Path(folder)
        names.sort()
        if len(here.relative_to(root).parts) >= _DEEPEST:
            names.clear()
        if CONFIG_FILE not in files or (here / CONFIG_FILE).is_symlink():
            continue
        try:
            run = read_run(here)
        except PompError:  # the config of something else
            continue
        names.clear()
        yield run
        found += 1
        if found == LIMITS.runs:
            return


def _run_data(run: KeptRun, root: Path) -> dict[str, Any]:
    try:
        has_ended = is_finished(run)
    except (PompError, OSError):  # a file of it is damaged
        has_ended = False
    return {
        "path": _name_in(run.path, root),
        "kind": run.kind,
        "seeds": sorted({seed for _, seed in run.places}),
        "is_finished": has_ended,
        "changed": _changed(run),
        "machines": [
            {"name": RUN_PREFIX + _name_in(folder, root), "task": visible(task), "seed": seed}
            for task, seed in run.places
            if ((folder := run.place(task, seed) / MACHINE_FOLDER) / MACHINE_FILE).is_file()
        ],
    }


def _name_in(path: Path, root: Path) -> str:
    """Return what a path below the root is called; the root itself is `.`."""
    return visible(path.relative_to(root).as_posix())


def _changed(run: KeptRun) -> float:
    """Return when the metrics of a run last changed, in seconds since 1970."""
    files = [run.path / CONFIG_FILE, *(run.place(*place) / METRICS_FILE for place in run.places)]
    return max((file.stat().st_mtime for file in files if file.is_file()), default=0.0)


def chart_runs(names: Sequence[str], root: Root, since: float) -> dict[str, Any] | None:
    """Return the curves of runs, with mean and standard error over seeds; None: nothing is new.

    Args:
        names: paths below the root.
        root: where runs are.
        since: the answer's `changed` that the client has.

    Raises:
        DataFileError: there is no such run, or its files are damaged.
    """
    runs = [(name, read_run(root.inside(name))) for name in dict.fromkeys(names)]
    changed = max(_changed(run) for _, run in runs)
    if changed <= since:
        return None
    charts: dict[tuple[str, str], dict[str, Any]] = {}
    for name, run in runs:
        try:
            found = read_charts(run)
        except DataFileError:  # nothing to draw yet
            continue
        for chart in found:
            new = {"what": chart.what, "over": chart.over, "is_log": chart.is_log}
            kept = charts.setdefault((chart.what, chart.over), new | {"is_best": chart.is_best})
            drawn = [(name, _finite(curve)) for curve in chart.curves]
            kept.setdefault("curves", []).extend(pair for pair in drawn if pair[1].at)
    return {"charts": [_chart_data(chart) for chart in charts.values()], "changed": changed}


def _finite(curve: Curve) -> Curve:
    """Return a curve without the points at which nothing was scored yet."""
    points = [pair for pair in zip(curve.at, curve.returns, strict=True) if isfinite(pair[1])]
    return replace(curve, at=[at for at, _ in points], returns=[worth for _, worth in points])


def _chart_data(chart: dict[str, Any]) -> dict[str, Any]:
    tasks: dict[str, list[Curve]] = {}
    for _, curve in chart["curves"]:
        tasks.setdefault(curve.task, []).append(curve)
    told = [
        {"run": visible(name), "task": visible(curve.task), "seed": curve.seeds[0],
         "at": curve.at, "returns": curve.returns}
        for name, curve in chart["curves"]
    ]  # fmt: skip
    bands = [_band(own) for own in tasks.values() if len(own) > 1]
    return {**chart, "curves": told, "bands": bands}


def _band(curves: list[Curve]) -> dict[str, Any]:
    """Return the mean of a task's curves and its standard error, from where all have begun."""
    begin = max(curve.at[0] for curve in curves)
    at = sorted({point for curve in curves for point in curve.at if point >= begin})
    held = hold_returns(curves, at)
    mean, error = held.mean(axis=0), held.std(axis=0, ddof=1) / np.sqrt(len(curves))
    return {
        "task": visible(curves[0].task),
        "seeds": [curve.seeds[0] for curve in curves],
        "at": at,
        "mean": mean.tolist(),
        "low": (mean - error).tolist(),
        "high": (mean + error).tolist(),
    }
