"""What a run is asked for: tasks and seeds, however a caller gives them, or as before."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from pomp.core.configs import check_changes
from pomp.core.errors import ConfigError
from pomp.engine.rollouts import act_on
from pomp.engine.starts import draw_starts
from pomp.karel.sensor_set import find_sensors
from pomp.karel.sensors import Sensor
from pomp.runs.folder import RunFolder, reading
from pomp.tasks.catalog import find_task, is_shipped, source_of
from pomp.tasks.task import Setting, Task

TaskLike = str | Task | Setting
"""A task: its name, `module:NAME`, the task itself, or the task with everything decided."""

OWN_SENSORS = "own_sensors"
"""The setting of a search for machines that has sensors of one's own."""

Seeds = int | Iterable[int]
"""One seed or several."""

Plan = TypeVar("Plan")
Named = TypeVar("Named")


def read_settings(tasks: TaskLike | Sequence[TaskLike]) -> list[Setting]:
    """Return the settings of the tasks that were asked for.

    A task that does not come with the package is compiled and begun once, so that what it lacks is
    told before any work begins.

    Raises:
        UnknownNameError: no such task.
        ConfigError: a task comes twice, none is given, or one does not fit.
    """
    listed = list(tasks) if isinstance(tasks, Iterable) and not isinstance(tasks, str) else [tasks]
    check_named(listed)
    chosen = [one if isinstance(one, Setting) else find_task(one).configure() for one in listed]
    names = [setting.task.name for setting in chosen]
    if len(set(names)) < len(names):
        raise ConfigError("a task is named twice")
    for setting in chosen:
        if not is_shipped(setting.task):
            _try_out(setting)
    return chosen


def with_sources(changes: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return changes of a search's settings in which `own_sensors` are known by `module:NAME`.

    The sensors are tried, so that what they lack is told before any work begins.

    Raises:
        ConfigError: they are no mapping, or a sensor cannot be found, does not fit, or is at the
            top of no module.
    """
    changes = check_changes(changes)
    if OWN_SENSORS not in changes:
        return dict(changes)
    given = changes[OWN_SENSORS]
    listed = [given] if isinstance(given, str | Sensor) else list(given)
    return {**changes, OWN_SENSORS: tuple(find_sensors(listed).sources())}


def check_named(tasks: Sequence[Named] | None) -> Sequence[Named]:
    """Return the tasks of a run, if there are any."""
    if not tasks:
        raise ConfigError("name a task, as in UpNDown")
    return tasks


def read_seeds(seeds: Seeds) -> list[int]:
    """Return the seeds that were asked for.

    Raises:
        ConfigError: one is no whole number from 0, or comes twice, or there is none.
    """
    if not isinstance(seeds, int | Iterable):
        raise ConfigError(f"seeds are whole numbers, not negative, got {seeds!r:.80}")
    listed = [seeds] if isinstance(seeds, int) else list(seeds)
    for seed in listed:
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise ConfigError(f"a seed is a whole number, not negative, got {seed!r}")
    if not listed or len(set(listed)) < len(listed):
        raise ConfigError(f"seeds are one or more different numbers, got {listed}")
    return listed


def task_modules(settings: Sequence[Setting]) -> tuple[str, ...]:
    """Return the modules of the tasks that do not come with the package.

    A run was given these by its caller, so the files in its own folder may name them.
    """
    return modules_of([source_of(one.task) for one in settings if not is_shipped(one.task)])


def modules_of(sources: Iterable[str]) -> tuple[str, ...]:
    """Return the modules of several `module:NAME`."""
    return tuple(source.partition(":")[0] for source in sources)


def plan_before(
    folder: RunFolder,
    kind: str,
    read: Callable[[Mapping[str, Any], Collection[str]], Plan],
    *,
    resume: bool,
    trusted: Callable[[], Collection[str]],
) -> Plan | None:
    """Return the plan of the run that is to be resumed; None: a run begins.

    Args:
        folder: the run's.
        kind: what is run: search, evolve, train or embedding.
        read: makes the plan from the config and the modules that it may name.
        resume: whether to go on with a run that is there.
        trusted: returns these modules.

    Raises:
        DataFileError: there is no such run, or its config is damaged.
        UntrustedModuleError: the config names another module.
    """
    config = folder.begun(kind, resume=resume)
    if config is None:
        return None
    with reading(folder):
        return read(config, trusted())


def _try_out(setting: Setting) -> None:
    """Compile a task's functions: draw one start, and act in it once."""
    act_on(setting, draw_starts(setting, 1, 0), [0])
