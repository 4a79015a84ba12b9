"""What a search's folder tells: the paths of its runs, and how its best return grew."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pomp.core.errors import DataFileError
from pomp.core.storage import read_arrays
from pomp.runs.searches import TRAJECTORY_FILE, find_jobs, read_records


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
    """The best return of a job so far, whenever it grew."""

    task: str
    seed: str
    executions: list[int]
    returns: list[float]


def read_paths(folder: Path, task: str | None = None, seed: int | None = None) -> Paths | None:
    """The paths of one job; None if no job has kept any.

    Raises:
        DataFileError: the job that was asked for has none.
    """
    for job in find_jobs(folder):
        fits = task in (None, job.parent.name) and (seed is None or job.name == f"seed{seed}")
        if not fits or not (job / TRAJECTORY_FILE).exists():
            continue
        arrays, _ = read_arrays(job / TRAJECTORY_FILE, "trajectory")
        runs = [arrays[name].astype(np.float64) for name in sorted(arrays)]
        return _project(f"{job.parent.name}, {job.name}", runs)
    if task is not None or seed is not None:
        raise DataFileError(f"'{folder}' holds no paths of that task and seed")
    return None


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


def read_curves(folder: Path) -> list[Curve]:
    """How each job's best return grew with the programs it executed, over all its runs.

    Raises:
        DataFileError: no run has finished.
    """
    curves = []
    for job in find_jobs(folder):
        before, best = 0, -np.inf
        executions, returns = list[int](), list[float]()
        for record in read_records(job):
            for _, spent, value in record.curve:
                if value > best:
                    best = value
                    executions.append(before + spent)
                    returns.append(value)
            before += record.executions
        if executions:
            executions.append(before)
            returns.append(float(best))
            curves.append(Curve(job.parent.name, job.name, executions, returns))
    if not curves:
        raise DataFileError(f"no run in '{folder}' has finished yet")
    return curves
