"""Every task, once, in a fixed order; and tasks of one's own, found by `module:NAME`.

Finding a task by `module:NAME` runs that module. A name that a person typed may do that; a name
that stands in a file may do it only if the person allowed the module.
"""

import importlib
import re
import sys
from collections.abc import Collection
from typing import Any

from pomp.core.errors import ConfigError, UnknownNameError, UntrustedModuleError
from pomp.tasks.karel.clean_house import CLEAN_HOUSE
from pomp.tasks.karel.four_corner import FOUR_CORNER
from pomp.tasks.karel.harvester import HARVESTER
from pomp.tasks.karel.maze import MAZE
from pomp.tasks.karel.stair_climber import STAIR_CLIMBER
from pomp.tasks.karel.top_off import TOP_OFF
from pomp.tasks.karel_hard.door_key import DOOR_KEY
from pomp.tasks.karel_hard.one_stroke import ONE_STROKE
from pomp.tasks.karel_hard.seeder import SEEDER
from pomp.tasks.karel_hard.snake import SNAKE
from pomp.tasks.karel_long.farmer import FARMER
from pomp.tasks.karel_long.inf_door_key import INF_DOOR_KEY
from pomp.tasks.karel_long.inf_harvester import INF_HARVESTER
from pomp.tasks.karel_long.seesaw import SEESAW
from pomp.tasks.karel_long.up_n_down import UP_N_DOWN
from pomp.tasks.task import Task

TASKS: tuple[Task, ...] = (
    *(STAIR_CLIMBER, FOUR_CORNER, TOP_OFF, MAZE, CLEAN_HOUSE, HARVESTER),
    *(DOOR_KEY, ONE_STROKE, SEEDER, SNAKE),
    *(SEESAW, UP_N_DOWN, FARMER, INF_DOOR_KEY, INF_HARVESTER),
)


_SOURCE = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)")
_FOUND: dict[int, tuple[Task, str]] = {}
"""Tasks that were found by `module:NAME`, by their identity."""


def find_task(name: str | Task, allow: Collection[str] | None = None) -> Task:
    """Find a task by its name, or a task of your own by `module:NAME`.

    Case and hyphens do not matter: `Up-N-Down` is UpNDown. A module is looked for in the current
    folder first, then among the installed packages.

    Args:
        name: what to look for; a task itself is returned as it is.
        allow: modules that may be imported, for a name that comes from a file; None: any, because
            the name comes from the caller.

    Raises:
        UnknownNameError: no such task.
        UntrustedModuleError: the name stands for a module that is not allowed.
        ConfigError: the module cannot be imported, or the name in it is no task.
    """
    if isinstance(name, Task):
        return name
    if ":" in name:
        return _import_task(name, allow)
    folded = {task.name.lower(): task for task in TASKS}
    wanted = name.lower().replace("-", "").replace("_", "")
    if wanted not in folded:
        raise UnknownNameError("task", name, (task.name for task in TASKS))
    return folded[wanted]


def source_of(task: Task) -> str:
    """Return what `find_task` finds a task by: its name, or `module:NAME` for one of your own.

    Raises:
        ConfigError: no module that can be imported holds the task.
    """
    if is_shipped(task):
        return task.name
    if id(task) in _FOUND:
        return _FOUND[id(task)][1]
    home = getattr(task.step, "__module__", "")
    for module in sorted(sys.modules, key=lambda one: one != home):
        named = vars(sys.modules[module]) if sys.modules[module] is not None else {}
        for name, value in list(named.items()) if module != "__main__" else ():
            if value is task:
                _FOUND[id(task)] = task, f"{module}:{name}"
                return _FOUND[id(task)][1]
    raise ConfigError(
        f"the task {task.name} is no name at the top of an imported module, so no file and no "
        "other process could find it; write NAME = Task(...) in a file of its own and import it"
    )


def is_shipped(task: Task) -> bool:
    """Whether a task comes with the package."""
    return any(task is known for known in TASKS)


def _import_task(source: str, allow: Collection[str] | None) -> Task:
    match = _SOURCE.fullmatch(source)
    if not match:
        raise ConfigError(f"a task of your own is module:NAME, as in lawn:LAWN, got '{source}'")
    module, name = match.groups()
    if allow is not None and module not in allow:
        raise UntrustedModuleError(source, module)
    try:
        found = getattr(_import_from_here(module), name)
    except AttributeError as error:
        raise ConfigError(f"cannot load task '{source}': {module} has no '{name}'") from error
    except Exception as error:  # whatever a module of somebody else's does when it is run
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ConfigError(f"cannot load task '{source}': {reason}") from error
    if not isinstance(found, Task):
        raise ConfigError(f"'{source}' is a {type(found).__name__}, not a pomp Task")
    found.configure()  # what does not fit shows here, before any work begins
    _FOUND[id(found)] = found, source
    return found


def _import_from_here(module: str) -> Any:
    """Import a module, from the current folder if it is there.

    Afterwards the folder stays at the end of the search path, for what the module imports later
    and for other processes; at the front it could replace modules of the package's own.
    """
    if module in sys.modules:
        return sys.modules[module]
    sys.path.insert(0, "")
    try:
        importlib.invalidate_caches()
        return importlib.import_module(module)
    finally:
        sys.path.remove("")
        if "" not in sys.path:
            sys.path.append("")
