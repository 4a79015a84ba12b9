"""Results of cells that nothing has computed, and stores of them; no tests."""

from pomp.experiments import Cell, CellResult, ResultStore
from pomp.experiments.outcomes import COSTS

MADE = {
    "commit": "c0ffee", "pomp": "0.1.0", "python": "3.12.1", "numpy": "2.0.0", "numba": "0.60.0",
    "torch": None, "device": "cpu", "hardware": "an abacus", "date": "2026-01-31",
}  # fmt: skip
PROGRAM = "DEF run m( move m)"


def make_cell(method="pomp", task="Farmer", seed=0, **more):
    """Make a cell."""
    return Cell(method=method, task=task, seed=seed, **more)


def finish(cell, returns=(0.5,), fingerprint=(), made=(), cost=(), **values):
    """Make the result of a cell: its mean is that of the returns; what is given replaces the rest.

    The cell's true settings and fingerprint are not computed.
    """
    ceiling = values.get("ceiling", 1.0)
    mean = sum(returns) / len(returns) if returns else None
    told = {
        "cell": cell.to_json(),
        "fingerprint": {
            "preset": cell.preset, "budget": cell.budget, "engine": 1, "method": 1,
            "settings": f"{cell.method}-{cell.task}-{cell.stage}-x{cell.scale}",
            **dict(fingerprint),
        },
        "settings": {"task": {"task": cell.task}},
        "variant": "hprl",
        "cap": "calls220",
        "programs": [PROGRAM],
        "curve": [],
        "cost": {**dict.fromkeys((*COSTS, "shared_by")), **dict(cost)},
        "made": {**MADE, **dict(made)},
    }  # fmt: skip
    if returns:
        told |= {
            "mean": mean, "std": 0.0, "returns": list(returns), "episodes": len(returns),
            "exact": False, "evaluation_seed": 0, "ceiling": ceiling,
            "fraction": None if ceiling is None else mean / ceiling,
        }  # fmt: skip
    return CellResult(cell, {**told, **values})


def seeds_of(method, task, means, **more):
    """Make the results of seeds 0, 1, ... of a method on a task, each with one episode."""
    options = {name: more.pop(name) for name in ("scale", "budget", "preset") if name in more}
    return [
        finish(make_cell(method, task, seed, **options), (mean,), **more)
        for seed, mean in enumerate(means)
    ]


def keep(folder, results, files=None):
    """Write results into a folder, with the files of machines by cell; returns the folder."""
    store = ResultStore(folder)
    for one in results:
        store.write(one, (files or {}).get(one.cell))
    return folder
