"""The methods by name: which settings each of them changes, and for which task.

Tables keyed by a task's name hold published settings and nothing else; a task that is not in them,
as one from outside the package, gets the method's general settings.
"""

from collections.abc import Mapping
from functools import cache
from itertools import islice, product
from typing import Any, Literal, get_args

from pomp.core.configs import changed
from pomp.core.errors import ConfigError, UnknownNameError
from pomp.karel.interpreter import Cap
from pomp.modes.config import (
    BeamConfig,
    CemConfig,
    ClimbConfig,
    Init,
    Proposer,
    SearchConfig,
)
from pomp.tasks.catalog import find_task
from pomp.tasks.task import Setting

Preset = Literal["paper", "code", "best"]
TASK_MODES = 0  # stands for the number of modes that the task asks for

_DIVERSE = {"mode.runs": 10, "mode.diversity": "modes+runs"}
_ANNEAL = {"proposer.acceptance": "anneal", "proposer.mutations": "rich", "proposer.max_depth": 6}
_PROGRAMS = {"score.starts": 32}
_LEAPS = {
    **{"proposer.stop": "solved", "proposer.keep": "last"},
    **{"score.invalid": 0.01, "score.redraw": 100},
}
_METHODS: dict[str, tuple[type[Proposer], dict[str, Any]]] = {
    "pomp": (CemConfig, {**_DIVERSE, "mode.modes": TASK_MODES, "mode.lists": True}),
    "cem": (CemConfig, {}),
    "cem-diversity": (CemConfig, {**_DIVERSE, "mode.diversity": "runs"}),
    "cem-xm": (CemConfig, {"mode.modes": TASK_MODES}),
    "cem-diversity-topk": (
        CemConfig,
        {**_DIVERSE, "mode.modes": TASK_MODES, "mode.choose": "top", "mode.diversity": "runs"},
    ),
    "cem-diversity-xm": (CemConfig, {**_DIVERSE, "mode.modes": TASK_MODES}),
    "leaps": (CemConfig, _LEAPS),
    "leaps-grid": (CemConfig, {**_LEAPS, "mode.grid": True}),
    "hill-climbing": (ClimbConfig, _PROGRAMS),
    "cebs": (BeamConfig, _PROGRAMS),
    "annealing": (ClimbConfig, {**_ANNEAL, "score.starts": 128}),
    "annealing-modes": (
        ClimbConfig,
        {
            **{**_ANNEAL, "mode.modes": 3, "score.rounds": 10, "score.starts": 16},
            "proposer.candidates": 200_000,
        },
    ),
    "pomp-program-space": (
        ClimbConfig,
        {
            **{**_DIVERSE, **_ANNEAL, "mode.modes": TASK_MODES, "mode.lists": True},
            **{"proposer.chain_length": 40, "proposer.candidates": 15_000},
            **{"proposer.solved_score": 1e6, "mode.vector": "behaviour"},
        },
    ),
}
METHODS = tuple(_METHODS)
"""The names of all methods."""
SEVERAL = tuple(name for name in METHODS if "mode.modes" in _METHODS[name][1])
"""The methods that find several modes."""

_LEAPS_NAMES = ("init", "population", "elite_fraction", "sigma", "decay")
_LEAPS_TASKS: dict[str, tuple[Init, int, float, float, bool]] = {
    "StairClimber": ("tiny_normal", 32, 0.05, 0.25, True),
    "FourCorner": ("tiny_normal", 64, 0.2, 0.5, False),
    "TopOff": ("tiny_normal", 64, 0.05, 0.25, False),
    "Maze": ("ones", 16, 0.1, 0.1, False),
    "CleanHouse": ("ones", 32, 0.05, 0.25, True),
    "Harvester": ("normal", 32, 0.1, 0.5, True),
    # The first mean of the others is not published, their other settings by a later study only.
    "DoorKey": ("normal", 32, 0.1, 0.25, False),
    "OneStroke": ("normal", 64, 0.05, 0.5, True),
    "Seeder": ("normal", 32, 0.1, 0.25, False),
    "Snake": ("normal", 32, 0.2, 0.25, False),
}
"""LEAPS's published settings, as `_LEAPS_NAMES`; for any other task it searches the whole grid."""
_BEAM_SIGMA = {"Harvester": 0.5, "FourCorner": 0.5, "OneStroke": 0.5, "Maze": 0.1}
"""Published sigmas of the beam search; any other task has `BeamConfig`'s."""
_SQUARE_LISTS = ("Farmer",)
"""Tasks whose shortest list of programs grows with the modes in the published code."""


def configure(
    method: str, preset: str, task: str | Setting, changes: Mapping[str, Any] | None = None
) -> SearchConfig:
    """Return the settings of a method for a task.

    Args:
        method: one of `METHODS`.
        preset: paper; code: what the published code does where the paper is silent; or best.
        task: its name or setting; some settings depend on it.
        changes: fields to change, as `proposer.sigma` -> value.

    Raises:
        UnknownNameError: no such method, preset or field.
        ConfigError: a value that does not fit.
    """
    if method not in _METHODS:
        raise UnknownNameError("method", method, METHODS)
    if preset not in get_args(Preset):
        raise UnknownNameError("preset", preset, get_args(Preset))
    if "method" in (changes or {}):
        raise ConfigError("a method is chosen by its name, not by changing the field 'method'")
    kind, settings = _METHODS[method]
    setting = task if isinstance(task, Setting) else find_task(task).configure()
    for_preset = _for_preset(kind, preset, is_certain=_is_certain(setting))
    settings = {**settings, **_for_task(method, setting), **for_preset}
    if settings.get("mode.modes") == TASK_MODES:
        settings["mode.modes"] = setting.task.modes
    config: SearchConfig = changed(SearchConfig(method=method, proposer=kind()), settings)
    config = changed(config, changes or {})
    Cap.parse(config.score.cap)  # refuses what is none
    return config


def _for_task(method: str, setting: Setting) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    task = setting.task.name
    if _is_certain(setting):
        settings["score.starts"] = 1
    if task in _SQUARE_LISTS:
        settings["mode.least_list"] = "square"
    if method == "annealing-modes" and len(setting.task.scales) > 1:  # a horizon to stretch
        settings["score.rounds"] = 100
    if method == "leaps":
        if task in _LEAPS_TASKS:
            published = zip(_LEAPS_NAMES, _LEAPS_TASKS[task], strict=True)
            settings |= {f"proposer.{name}": value for name, value in published}
        else:
            settings["mode.grid"] = True
    if method == "cebs" and task in _BEAM_SIGMA:
        settings["proposer.sigma"] = _BEAM_SIGMA[task]
    return settings


def _is_certain(setting: Setting) -> bool:
    """Whether all episodes of a program are the same: one start, and steps draw nothing."""
    if setting.task.starts is None or setting.task.draws(setting):
        return False
    return len(list(islice(setting.task.starts(setting), 2))) == 1


def _for_preset(kind: type[Proposer], preset: str, *, is_certain: bool) -> dict[str, Any]:
    if preset == "code":
        return {"score.fresh_draws": True}
    if preset == "best" and kind is CemConfig:
        return {"proposer.keep": "candidate", **({} if is_certain else {"score.starts": 32})}
    return {}


@cache
def leaps_grid() -> tuple[dict[str, Any], ...]:
    """Return the 216 settings LEAPS chooses from for a new task."""
    values = (
        *(("normal", "tiny_normal", "ones"), (8, 16, 32, 64), (0.05, 0.1, 0.2)),
        *((0.1, 0.25, 0.5), (True, False)),
    )
    return tuple(dict(zip(_LEAPS_NAMES, chosen, strict=True)) for chosen in product(*values))
