"""What a run is asked for: tasks and seeds, in any of the ways a caller may give them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pomp.core.compiling import reason_of
from pomp.core.errors import ConfigError
from pomp.engine.starts import draw_starts
from pomp.karel.sensor_set import find_sensors
from pomp.karel.sensors import Sensor
from pomp.tasks.catalog import find_task, is_shipped
from pomp.tasks.task import Setting, Task

TaskLike = str | Task | Setting
"""A task: its name, `module:NAME`, the task itself, or the task with everything decided."""

OWN_SENSORS = "own_sensors"
"""The setting of a search for machines that has sensors of one's own."""

Seeds = int | Iterable[int]
"""One seed or several."""


def read_settings(tasks: TaskLike | Sequence[TaskLike]) -> list[Setting]:
    """Return the settings of the tasks that were asked for.

    A task that does not come with the package is compiled and begun once, so that what it lacks is
    told before any work begins.

    Raises:
        UnknownNameError: no such task.
        ConfigError: a task comes twice, none is given, or one does not fit.
    """
    listed = [tasks] if isinstance(tasks, str | Task | Setting) else list(tasks)
    if not listed:
        raise ConfigError("name a task, as in UpNDown")
    chosen = [one if isinstance(one, Setting) else find_task(one).configure() for one in listed]
    names = [setting.task.name for setting in chosen]
    if len(set(names)) < len(names):
        raise ConfigError("a task is named twice")
    for setting in chosen:
        if not is_shipped(setting.task):
            _try_out(setting)
    return chosen


def with_sources(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return changes of a search's settings in which `own_sensors` are known by `module:NAME`.

    The sensors are tried, so that what they lack is told before any work begins.

    Raises:
        ConfigError: one cannot be found, does not fit, or is at the top of no module.
    """
    given = changes.get(OWN_SENSORS, ())
    listed = [given] if isinstance(given, str | Sensor) else list(given)
    return {**changes, OWN_SENSORS: tuple(find_sensors(listed).sources())}


def read_seeds(seeds: Seeds) -> list[int]:
    """Return the seeds that were asked for.

    Raises:
        ConfigError: one is no whole number from 0, or comes twice, or there is none.
    """
    listed = [seeds] if isinstance(seeds, int) else list(seeds)
    for seed in listed:
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise ConfigError(f"a seed is a whole number, not negative, got {seed!r}")
    if not listed or len(set(listed)) < len(listed):
        raise ConfigError(f"seeds are one or more different numbers, got {listed}")
    return listed


def _try_out(setting: Setting) -> None:
    """Compile a task's functions and draw one start."""
    from numba.core.errors import NumbaError

    try:
        draw_starts(setting, 1, 0)
    except NumbaError as error:
        why = reason_of(error)
        raise ConfigError(f"task {setting.task.name} cannot be compiled: {why}") from error
