"""What a finished cell's file says: returns, settings, costs, and what it was computed on."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from pomp.core.hardware import name_processor, version_of
from pomp.engine.units import DEFAULT_CAP
from pomp.experiments.cells import Cell
from pomp.experiments.store import CellResult
from pomp.machine.evaluation import Evaluation
from pomp.version import __version__

COSTS = ("candidates", "executions", "actions", "steps", "seconds")
"""What a cell costs: programs or machines proposed, programs executed, actions these took,
environment steps of PPO, and wall-clock; None where it is not counted."""


def make_result(
    cell: Cell,
    *,
    programs: tuple[str, ...],
    cost: dict[str, Any],
    curve: list[tuple[int, float]],
    found: Evaluation | None = None,
    device: str,
    about: dict[str, Any] | None = None,
) -> CellResult:
    """Gather everything that is known of a finished cell.

    Args:
        cell: which.
        programs: what was found.
        cost: what that cost, some of `COSTS`; `shared_by` says how many cells share the seconds.
        curve: programs executed, and the best return so far, whenever that grew.
        found: its evaluation, on starts that nothing before has seen; None: modes have none.
        device: what it was computed on, cpu or cuda.
        about: what else is to be kept: validation, best_of_runs, ...
    """
    setting = cell.setting
    values = {
        "cell": cell.to_json(),
        "fingerprint": cell.fingerprint(),
        "settings": cell.settings(),
        "variant": setting.variant,
        "cap": _cap_of(cell),
        "programs": list(programs),
        "curve": [[at, value] for at, value in curve],
        "cost": {name: cost.get(name) for name in (*COSTS, "shared_by")},
        "made": describe_maker(device),
        **(about or {}),
    }
    if found is not None:
        told = found.to_json()
        told |= {"modes_run": told.pop("programs"), "actions_taken": told.pop("actions")}
        values |= {**told, "interval": None, "evaluation_seed": None if found.is_exact else 0}
        del values["interval"]  # of episodes; what a table shows is over seeds
    return CellResult(cell, values)


def _cap_of(cell: Cell) -> str:
    """Return how long one execution of a program may last."""
    if cell.row.kind == "program" or cell.stage == "search":
        return cell.search.score.cap
    if cell.row.kind == "latents":
        return cell.meta.policy.cap
    return cell.learning.episode.cap if cell.has_network else DEFAULT_CAP


def describe_maker(device: str) -> dict[str, Any]:
    """Return with what and on what a result is made: versions, commit, hardware, date."""
    libraries = ("numpy", "numba", "torch")
    return {
        "pomp": __version__,
        "commit": _commit(),
        "python": platform.python_version(),
        **{name: version_of(name) for name in libraries},
        "device": device,
        "hardware": name_processor(device),
        "date": datetime.now(UTC).date().isoformat(),
    }


@cache
def _commit() -> str | None:
    """Return the commit of the package's sources, or `POMP_COMMIT` where they are no repository."""
    try:
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=10,
        )
        if found.returncode == 0:
            return found.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        pass
    return os.environ.get("POMP_COMMIT")
