"""Every task, once, in a fixed order; and tasks of one's own, found by `module:NAME`."""

from collections.abc import Collection

from pomp.core.errors import ConfigError, UnknownNameError
from pomp.core.sources import load_object, require_source
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
    if not isinstance(name, str):
        raise ConfigError(f"a task is a name, as in UpNDown, module:NAME, or a Task, got {name!r}")
    if ":" in name:
        found = load_object(name, "task", Task, allow)
        found.configure()  # what does not fit shows here, before any work begins
        return found
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
    return require_source(task, "task", task.name, getattr(task.step, "__module__", ""))


def is_shipped(task: Task) -> bool:
    """Whether a task comes with the package."""
    return any(task is known for known in TASKS)
