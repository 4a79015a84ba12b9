"""`pomp reproduce`."""

import json
import shlex
import sys
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from pomp.cli.inputs import Changes, Device, parse_changes, parse_seeds
from pomp.cli.output import say
from pomp.cli.stopping import check_minutes, showing
from pomp.core.configs import Preset
from pomp.core.errors import ConfigError

if TYPE_CHECKING:
    from pomp.experiments.reproduction import Reproduction


@dataclass(frozen=True, kw_only=True)
class Reproduce:
    """Compute a table or a figure of the paper, cell by cell; again: go on. Ctrl-C saves."""

    experiment: Annotated[
        Positional[
            Literal[
                "table1",
                "table2",
                "sample-efficiency",
                "generalisation",
                "search-trajectories",
                "state-machines",
                "all",
            ]
        ],
        arg(metavar="WHAT"),
    ]
    """table1, table2, sample-efficiency, generalisation, search-trajectories, state-machines, or
    all."""
    out: str
    """The folder of results. What is there is not computed again; what was begun goes on."""
    preset: Preset = "paper"
    """Whose settings."""
    seeds: str = "0-4"
    """One number, a list (0,3) or a range (0-4)."""
    methods: tuple[str, ...] = ()
    """Rows to compute; without it all that the experiment has."""
    tasks: tuple[str, ...] = ()
    """Tasks to compute; without it all that the experiment has."""
    budget: float = 1.0
    """Share of every method's work that is done, from 0.0001 to 1: a rehearsal."""
    set: Changes = ()
    """Change a setting in all cells, as in search.embedding=paper; may be given several times.
    Such cells stand apart from the others."""
    device: Device = "cpu"
    """Where it runs: cpu, cuda or auto. On a GPU cells share batches."""
    processes: int | None = None
    """Compute cells in so many processes of this computer, one core each; without it in this
    one."""
    ray: Annotated[str | None, arg(metavar="ADDRESS")] = None
    """Compute cells by Ray: local (this computer), auto (the cluster that it is a node of), or a
    cluster's host:port."""
    shared: bool = False
    """With --ray: the folder of results is the same on all nodes, so what was begun goes on after
    a stop, or where a node died."""
    minutes: float | None = None
    """Stop after so many minutes, saved; the same command goes on."""
    stages: tuple[Literal["search", "learn", "policy"], ...] = ("search", "learn", "policy")
    """Compute only cells of these stages: search (modes), learn (transitions), policy (all else,
    evaluations included)."""
    again: bool = False
    """Compute cells again that were computed with other settings or by an older version."""
    json: bool = False
    """Print one JSON document."""

    def run(self) -> int:
        """Compute what is left, and say what there is."""
        check_minutes(self.minutes)
        if self.ray is not None and self.processes is not None:
            raise ConfigError("cells are computed by --ray or in --processes, not both")
        if self.shared and self.ray is None:
            raise ConfigError("--shared says something about the nodes of --ray, which is missing")
        changes = parse_changes(self.set, "search.embedding=paper")
        from pomp.experiments.ray_backend import RayCluster
        from pomp.experiments.reproduction import reproduce
        from pomp.experiments.specs import list_cells

        cells = list_cells(
            self.experiment,
            seeds=parse_seeds(self.seeds),
            methods=self.methods or None,
            tasks=self.tasks or None,
            preset=self.preset,
            budget=self.budget,
            settings=changes,
        )
        backend = self.processes if self.ray is None else RayCluster(self.ray, self.shared)
        # Ray tells of dead workers on standard output, which is for the results.
        told = redirect_stdout(sys.stderr) if self.ray else nullcontext()
        with showing(self.minutes) as (shown, stop), told:
            found = reproduce(
                cells,
                out=self.out,
                device=self.device,
                backend=backend,
                on_event=shown,
                stages=self.stages,
                again=self.again,
            )
        if self.json:
            say(json.dumps(_to_json(found)))
        else:
            say("\n".join(_lines(found)))
        for name, why in found.failed.items():
            say(f"pomp: {name} failed: {why}", to_errors=True)
        if not found.is_finished and not found.failed and not self.json:
            say(f"go on with: {shlex.join(['pomp', *sys.argv[1:]])}")
        return stop.status or (1 if found.failed else 0)


def _to_json(found: "Reproduction") -> dict[str, Any]:
    return {
        "finished": found.is_finished,
        "cells": len(found.cells),
        "computed": found.computed,
        "failed": dict(found.failed),
        "results": [
            {**one.cell.to_json(), "mean": one.values.get("mean")} for one in found.results
        ],
    }


def _lines(found: "Reproduction") -> list[str]:
    """Return the means that are there, method by method and task by task, beside the paper's."""
    import numpy as np

    from pomp.experiments.rows import ROWS

    values: dict[tuple[str, str, int], list[float]] = {}
    for one in found.results:
        if one.cell.stage == "policy":
            key = one.cell.method, one.cell.task, one.cell.scale
            values.setdefault(key, []).append(one.mean)
    lines = [f"{'method':<20} {'task':<14} {'seeds':>5} {'return':>14} {'paper':>13}"]
    for (method, task, scale), own in sorted(values.items(), key=lambda item: _place(item[0])):
        paper = ROWS[method].published(task) if scale == 1 else None
        shown = f"{paper['mean']:.2f} ± {paper['std']:.2f}" if paper else "-"
        name = task if scale == 1 else f"{task} x{scale}"
        mean = f"{np.mean(own):.3f} ± {np.std(own):.3f}"
        lines.append(f"{ROWS[method].label:<20} {name:<14} {len(own):>5} {mean:>14} {shown:>13}")
    done, total = len(found.results), len(found.cells)
    return [*lines, f"{found.path}: {done} of {total} cells, {found.computed} of them new"]


def _place(key: tuple[str, str, int]) -> tuple[int, str, int]:
    from pomp.experiments.rows import ROWS

    return list(ROWS).index(key[0]), key[1], key[2]
