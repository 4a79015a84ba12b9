"""The compiled kernels of a task: written from the templates and loaded, here and nowhere else.

Kernels that sense can have sensors of one's own written into them, too; whoever has none shares
the kernels of the task.
"""

import hashlib
import importlib.util
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from pomp.core.code_cache import keep_source
from pomp.core.compiling import Kernel
from pomp.core.cuda import as_launchable, load_cuda, to_device
from pomp.core.errors import ConfigError
from pomp.karel.sensors import FIRST_OWN, Sensor
from pomp.tasks.catalog import is_shipped
from pomp.tasks.task import Setting, Task

_TASK_IMPORT = "from pomp.tasks.random_world import begin, draw_start, step  # the task"
_SENSE_IMPORT = "from pomp.karel.sensors import senses_nothing as sense_own  # sensors of one's own"
_SIZES = "CELLS, SLOTS, DEPTH = 64, 5, 24  # the sizes"
_DEPTHS = (24, 128, 2048)
"""Capacities of a GPU kernel for loop counters; the first is enough for any decoded program."""


@cache
def kernels_of(task: Task, own: tuple[Sensor, ...] = ()) -> ModuleType:
    """The kernel module of a task on the CPU; compiled on first use, kept on disk.

    Args:
        task: the task.
        own: sensors of one's own that the kernels read.
    """
    return _fill_in("kernels", task, own)


def cuda_kernels_of(setting: Setting, depth: int = 0, own: tuple[Sensor, ...] = ()) -> ModuleType:
    """The kernel module of a setting on the GPU.

    Args:
        setting: the task.
        depth: how many loop counters there must be room for.
        own: sensors of one's own that the kernels read.
    """
    enough = next(capacity for capacity in _DEPTHS if capacity >= depth)
    return _cuda_kernels(setting.task, setting.height * setting.width, setting.slots, enough, own)


@cache
def _cuda_kernels(
    task: Task, cells: int, slots: int, depth: int, own: tuple[Sensor, ...]
) -> ModuleType:
    load_cuda()
    sizes = f"CELLS, SLOTS, DEPTH = {cells}, {slots}, {depth}"
    return _fill_in("kernels_cuda", task, own, (_SIZES, sizes))


@cache
def constants_on_device(setting: Setting) -> Any:
    """Return a setting's constants in GPU memory, as kernels take them; copied there once."""
    return as_launchable(to_device(setting.constants))


def _fill_in(
    template: str, task: Task, own: tuple[Sensor, ...], *replacements: tuple[str, str]
) -> ModuleType:
    """Write a template's copy for a task and sensors into the cache folder and import it."""
    functions = {"begin": task.begin, "draw_start": task.draw_start, "step": task.step}
    imports = "\n".join(_import_of(function, name) for name, function in functions.items())
    if own:
        replacements = (*replacements, (_SENSE_IMPORT, _write_sense_own(own)))
    source = Path(__file__).with_name(f"{template}.py").read_text()
    for old, new in ((_TASK_IMPORT, imports), *replacements):
        assert source.count(old) == 1
        source = source.replace(old, new)
    # The name need not say what the task's functions do: each kernel looks at that itself.
    digest = hashlib.sha256(source.encode()).hexdigest()[:16]
    name = f"{re.sub('[^a-z0-9]', '', task.name.lower())}_{digest}"
    path = keep_source(f"{name}.py", source.encode())
    spec = importlib.util.spec_from_file_location(f"pomp_kernels_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    kernels = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = kernels
    spec.loader.exec_module(kernels)
    if not is_shipped(task):
        for one in vars(kernels).values():
            if isinstance(one, Kernel):
                one.owner = f"task {task.name}"
    return kernels


def _write_sense_own(own: tuple[Sensor, ...]) -> str:
    """Return the source of a `sense_own` that reads these sensors."""
    read = {f"read_{number}": one.read for number, one in enumerate(own, FIRST_OWN)}
    lines = ["from pomp.core.compiling import scalar"]
    lines += [_import_of(function, name) for name, function in read.items()]
    lines += ["", "", "@scalar", "def sense_own(number, cells, constants, pose):"]
    for number, name in enumerate(read, FIRST_OWN):
        lines.append(f"    if number == {number}:")
        lines.append(f"        return int({name}(cells, constants, pose))")
    return "\n".join([*lines, "    return -1", ""])


def _import_of(function: Callable[..., Any] | None, name: str) -> str:
    """Return the line that imports a function of a task or a sensor under a name."""
    assert function is not None
    return f"from {_module_of(function).__name__} import {function.__name__} as {name}"


def _module_of(function: Callable[..., Any]) -> ModuleType:
    """The module that a function of a task or a sensor can be imported from."""
    module = sys.modules[function.__module__]
    is_there = getattr(module, function.__name__, None) is function
    if not is_there or not getattr(module, "__file__", None) or module.__name__ == "__main__":
        raise ConfigError(
            f"a compiled function must stand at the top of a module that can be imported, "
            f"'{function.__name__}' of '{module.__name__}' does not"
        )
    return module
