"""Every task, once, in a fixed order."""

import importlib

from pomp.core.errors import ConfigError, UnknownNameError
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


def find_task(name: str) -> Task:
    """A task by name, or a task of your own as `module:NAME`.

    Case and hyphens do not matter: `Up-N-Down` is UpNDown.

    Raises:
        UnknownNameError: no such task.
        ConfigError: the module cannot be imported, or the name in it is no task.
    """
    if ":" in name:
        return _import_task(*name.split(":", 1))
    folded = {task.name.lower(): task for task in TASKS}
    wanted = name.lower().replace("-", "").replace("_", "")
    if wanted not in folded:
        raise UnknownNameError("task", name, (task.name for task in TASKS))
    return folded[wanted]


def _import_task(module: str, attribute: str) -> Task:
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"cannot load task '{module}:{attribute}': {error}") from error
    if not isinstance(found, Task):
        raise ConfigError(f"'{module}:{attribute}' is a {type(found).__name__}, not a pomp Task")
    return found
