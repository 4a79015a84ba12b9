"""The tables and figures of the paper as lists of cells."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from pomp.core.errors import ConfigError, UnknownNameError
from pomp.experiments.cells import Cell
from pomp.experiments.rows import find_row
from pomp.runs.asked import Seeds, read_seeds
from pomp.tasks.catalog import TASKS, find_task

_LONG = tuple(task.name for task in TASKS if len(task.scales) > 1)
_SHORT = tuple(task.name for task in TASKS if task.name not in _LONG)
_FIGURES = ("Farmer", "InfHarvester", "InfDoorKey")
_BESIDE = (
    *("pomp-bound", "pomp-taught", "hill-climbing", "cebs", "annealing", "perception-ppo"),
    *("text", "best"),
)


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A table or a figure: every one of its methods on every one of its tasks.

    Attributes:
        name: as `pomp reproduce` takes it.
        title: what it is called in reports.
        methods: names of its rows, those of the paper first.
        tasks: names of its tasks.
        scales: how many times longer the tasks are; each is a cell of its own.
    """

    name: str
    title: str
    methods: tuple[str, ...]
    tasks: tuple[str, ...]
    scales: tuple[int, ...] = (1,)


_EXPERIMENTS = (
    Experiment(
        name="table1",
        title="Table 1: Karel and Karel-Hard",
        methods=("cem", "cem-diversity", "leaps", "hprl", "drl", "pomp", *_BESIDE),
        tasks=_SHORT,
    ),
    Experiment(
        name="table2",
        title="Table 2: Karel-Long",
        methods=(
            *("cem-xm", "cem-diversity-topk", "cem-diversity-xm", "drl", "random", "psmp"),
            *("mmn", "leaps", "hprl", "pomp", *_BESIDE),
        ),
        tasks=_LONG,
    ),
    Experiment(
        name="sample-efficiency",
        title="Program sample efficiency",
        methods=("leaps", "pomp", "text", "best"),
        tasks=_FIGURES,
    ),
    Experiment(
        name="generalisation",
        title="Longer horizons",
        methods=("drl", "psmp", "pomp", "text", "best"),
        tasks=_FIGURES,
        scales=(1, 2, 4, 8, 16),
    ),
    Experiment(
        name="search-trajectories",
        title="Search trajectories of CEM+diversity",
        methods=("cem", "cem-diversity"),
        tasks=("FourCorner",),
    ),
    Experiment(
        name="state-machines",
        title="Machines",
        methods=("pomp", "text", "best"),
        tasks=_FIGURES,
    ),
)
EXPERIMENTS = {one.name: one for one in _EXPERIMENTS}
ALL = "all"


def find_experiments(name: str) -> tuple[Experiment, ...]:
    """Find an experiment by its name, or all of them.

    Raises:
        UnknownNameError: there is no such experiment.
    """
    if name == ALL:
        return _EXPERIMENTS
    if name not in EXPERIMENTS:
        raise UnknownNameError("experiment", name, (*EXPERIMENTS, ALL))
    return (EXPERIMENTS[name],)


def list_cells(
    experiment: str,
    *,
    seeds: Seeds = range(5),
    methods: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    preset: str = "paper",
    budget: float = 1.0,
    settings: Mapping[str, Any] | None = None,
) -> list[Cell]:
    """List the cells of a table or a figure, each once, those that others need before these.

    Args:
        experiment: table1, table2, sample-efficiency, generalisation, search-trajectories,
            state-machines or all.
        seeds: one seed or several; the paper has five.
        methods: names of rows to which the experiment is restricted; None: all that it has.
        tasks: names of tasks likewise.
        preset: whose settings: paper, code or best.
        budget: the share of every method's work that is done, for a rehearsal.
        settings: settings to change in all cells, as `{"search.embedding": "paper"}`.

    Raises:
        UnknownNameError: no such experiment, method, task, preset or setting.
        ConfigError: a value that does not fit, or nothing is left of the experiment.
    """
    changes = tuple(sorted((settings or {}).items()))
    wanted = None if methods is None else {find_row(name).name for name in methods}
    on = None if tasks is None else {find_task(name).name for name in tasks}
    cells: dict[Cell, None] = {}
    for one in find_experiments(experiment):
        every = product(one.methods, one.tasks, read_seeds(seeds), one.scales)
        for method, task, seed, scale in every:
            if (wanted and method not in wanted) or (on and task not in on):
                continue
            cell = Cell(
                method=method,
                task=task,
                seed=seed,
                scale=scale,
                preset=preset,
                budget=budget,
                changes=changes,
            )
            _add(cells, cell)
    if not cells:
        raise ConfigError("nothing is left: no experiment has one of these methods on these tasks")
    for cell in cells:
        cell.fingerprint()  # refuses settings that do not fit
    return list(cells)


def _add(cells: dict[Cell, None], cell: Cell) -> None:
    """Add a cell behind those that it needs."""
    for needed in cell.needs:
        _add(cells, needed)
    cells.setdefault(cell)
