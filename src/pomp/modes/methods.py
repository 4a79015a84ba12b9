"""The methods by name: which settings each of them changes, and for which task.

Tables keyed by a task's name hold published settings and nothing else; a task that is not in them,
as one from outside the package, gets the method's general settings.
"""

from collections.abc import Collection, Mapping
from functools import cache
from itertools import islice, product
from typing import Any

from pomp.core.configs import changed, check_changes, check_preset, from_json
from pomp.core.errors import ConfigError, UnknownNameError
from pomp.core.sources import load_object, require_source
from pomp.engine.kernels import SHARE
from pomp.engine.rollouts import check_calls
from pomp.karel.interpreter import Cap
from pomp.modes.beam import BeamRun
from pomp.modes.cem import CemRun
from pomp.modes.climb import ClimbRun
from pomp.modes.config import (
    BeamConfig,
    CemConfig,
    ClimbConfig,
    Init,
    SearchConfig,
)
from pomp.modes.proposers import Method, check_method
from pomp.tasks.catalog import find_task
from pomp.tasks.task import Setting

TASK_MODES = 0
"""As a method's `mode.modes`: as many as the task asks for."""

_OF_TASK = {"mode.modes": TASK_MODES}
_DIVERSE = {"mode.runs": 10, "mode.diversity": "modes+runs"}
_AS_WRITTEN = {
    **{"proposer.reduce": "mean", "score.bonus": 0.0, "mode.select": "diversified"},
    **{"mode.least_list": "ten", "proposer.stop": "never"},
}
"""The paper's procedure: what differs from the published code's, which are the fields' defaults.

Paper: a run ends when its score converges or after 1,000 iterations. The published code calls
scores converged that differ by 0.001; without its bonus whole scores are as small, so every run
would end as soon as it may, after 100 iterations."""
_ANNEAL = {"proposer.acceptance": "anneal", "proposer.mutations": "rich", "proposer.max_depth": 6}
_PROGRAMS = {"score.starts": 32}
_LEAPS = {
    **{"proposer.stop": "solved", "proposer.keep": "last"},
    **{"score.invalid": 0.01, "score.redraw": 100},
}
_SHIPPED = (
    Method(
        "pomp",
        *(CemConfig, CemRun, True),
        {**_AS_WRITTEN, **_OF_TASK, "mode.runs": 10, "mode.diversity": "modes", "mode.lists": True},
    ),
    Method("cem", CemConfig, CemRun, True, _AS_WRITTEN),
    Method(
        "cem-diversity",
        *(CemConfig, CemRun, True),
        {**_AS_WRITTEN, **_DIVERSE, "mode.diversity": "runs"},
    ),
    Method("cem-xm", CemConfig, CemRun, True, {**_AS_WRITTEN, **_OF_TASK}),
    Method(
        "cem-diversity-topk",
        *(CemConfig, CemRun, True),
        {**_AS_WRITTEN, **_DIVERSE, **_OF_TASK, "mode.choose": "top", "mode.diversity": "runs"},
    ),
    Method("cem-diversity-xm", CemConfig, CemRun, True, {**_AS_WRITTEN, **_DIVERSE, **_OF_TASK}),
    Method("leaps", CemConfig, CemRun, True, _LEAPS),
    Method("leaps-grid", CemConfig, CemRun, True, {**_LEAPS, "mode.grid": True}),
    Method("hill-climbing", ClimbConfig, ClimbRun, False, _PROGRAMS),
    Method("cebs", BeamConfig, BeamRun, True, _PROGRAMS),
    Method("annealing", ClimbConfig, ClimbRun, False, {**_ANNEAL, "score.starts": 128}),
    Method(
        "annealing-modes",
        *(ClimbConfig, ClimbRun, False),
        {
            **{**_ANNEAL, "mode.modes": 3, "score.rounds": 10, "score.starts": 16},
            "proposer.candidates": 200_000,
        },
    ),
    Method(
        "pomp-program-space",
        *(ClimbConfig, ClimbRun, False),
        {
            **{**_DIVERSE, **_ANNEAL, **_OF_TASK, "mode.lists": True},
            **{"proposer.chain_length": 40, "proposer.candidates": 15_000},
            **{"proposer.solved_score": 1e6, "mode.vector": "behaviour"},
        },
    ),
)
_BY_NAME = {method.name: method for method in _SHIPPED}
METHODS = tuple(_BY_NAME)
"""The names of the methods that come with the package."""
SEVERAL = tuple(method.name for method in _SHIPPED if method.finds_several)
"""Those of them that find several modes."""

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


def find_method(method: str | Method, allow: Collection[str] | None = None) -> Method:
    """Find a method by its name, or a method of your own by `module:NAME`.

    Args:
        method: what to look for; a method itself is returned as it is.
        allow: modules that may be imported, for a name that comes from a file; None: any, because
            the name comes from the caller.

    Raises:
        UnknownNameError: no such method.
        UntrustedModuleError: the name stands for a module that is not allowed.
        ConfigError: the module cannot be imported, or the name in it is no method.
    """
    if isinstance(method, str) and ":" not in method:
        if method not in _BY_NAME:
            raise UnknownNameError("method", method, METHODS)
        return _BY_NAME[method]
    if isinstance(method, Method):
        return method
    return load_object(method, "method", Method, allow)


def configure(
    method: str | Method, preset: str, task: str | Setting, changes: Mapping[str, Any] | None = None
) -> SearchConfig:
    """Return the settings of a method for a task.

    Args:
        method: one of `METHODS`, or a method of your own: `module:NAME`, or the method itself.
        preset: paper; code: what the published code does where the paper is silent; or best.
        task: its name or setting; some settings depend on it.
        changes: fields to change, as `proposer.sigma` -> value.

    Raises:
        UnknownNameError: no such method, preset or field.
        ConfigError: a value that does not fit.
    """
    chosen = find_method(method)
    if not _is_shipped(chosen):
        check_method(chosen)
    source = method_source(chosen)
    check_preset(preset)
    if "method" in check_changes(changes):
        raise ConfigError("a method is chosen by its name, not by changing the field 'method'")
    setting = task if isinstance(task, Setting) else find_task(task).configure()
    own = _changes_of(chosen, preset)
    for_task = _for_task(chosen.name if _is_shipped(chosen) else None, setting)
    for_preset = _for_preset(chosen.proposer, preset, is_certain=is_certain(setting))
    settings = {**_for_published_code(setting), **own, **for_task, **for_preset}
    if settings.get("mode.modes") == TASK_MODES:
        settings["mode.modes"] = setting.task.modes
    config: SearchConfig = changed(
        SearchConfig(method=source, proposer=chosen.proposer()), settings
    )
    config = changed(config, changes or {})
    return _check_time(config)


def _check_time(config: SearchConfig) -> SearchConfig:
    """Return settings of a search whose episodes end soon enough for Ctrl-C to be heard.

    Raises:
        ConfigError: the cap is none, or there are too many rounds under it.
    """
    check_calls(Cap.of(config.score.cap), config.score.rounds, SHARE)
    return config


def read_search_config(values: Mapping[str, Any], allow: Collection[str]) -> SearchConfig:
    """Read the settings of a search as `to_json` wrote them.

    Args:
        values: plain values by name.
        allow: modules that they may name as homes of a method.

    Raises:
        UntrustedModuleError: they name another module.
        ConfigError: a field is missing, unknown or has a value it cannot have.
    """
    proposer: Any = from_json(find_method(values["method"], allow).proposer, values["proposer"])
    return _check_time(from_json(SearchConfig, {**values, "proposer": proposer}))


def method_source(method: Method) -> str:
    """Return what `find_method` finds a method by: its name, or `module:NAME` for one of your own.

    Raises:
        ConfigError: no module that can be imported holds the method.
    """
    if _is_shipped(method):
        return method.name
    home = getattr(method.begin, "__module__", "")
    return require_source(method, "method", method.name, home)


def _is_shipped(method: Method) -> bool:
    """Whether a method comes with the package; one of your own may have the same name."""
    return any(method is known for known in _SHIPPED)


def _changes_of(method: Method, preset: str) -> dict[str, Any]:
    """Return what a method changes, by the paper's procedure or by that of the published code."""
    changes = dict(method.changes)
    if preset != "code" or not _is_shipped(method):
        return changes
    if method.name == "pomp":
        changes |= {"mode.diversity": "modes+runs", "mode.shared_draws": True}
    return {name: value for name, value in changes.items() if name not in _AS_WRITTEN}


def _for_task(method: str | None, setting: Setting) -> dict[str, Any]:
    """Return what a shipped method (None: one of your own) changes for a task."""
    settings: dict[str, Any] = {}
    task = setting.task.name
    if is_certain(setting):
        settings["score.starts"] = 1
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


def is_certain(setting: Setting) -> bool:
    """Whether all episodes of a program are the same: one start, and steps draw nothing."""
    if setting.task.starts is None or setting.task.draws(setting):
        return False
    return len(list(islice(setting.task.starts(setting), 2))) == 1


def _for_published_code(setting: Setting) -> dict[str, Any]:
    """Return what the published code changes for a task, where the method does not say."""
    return {"mode.least_list": "square"} if setting.task.name in _SQUARE_LISTS else {}


def _for_preset(kind: type, preset: str, *, is_certain: bool) -> dict[str, Any]:
    if preset == "paper":
        return {"embedding": "paper"}
    if preset == "code":
        return {"embedding": "paper", "score.fresh_draws": True}
    if kind is CemConfig:
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
