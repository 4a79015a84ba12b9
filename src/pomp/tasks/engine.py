"""The compiled kernels of a setting: written, loaded and called here and nowhere else."""

import importlib.util
import re
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp._cuda import THREADS, as_launchable, blocks_for, fill, load_cuda, to_device
from pomp._numba import cache_folder, digest_of, write_atomically
from pomp.errors import ConfigError, WorldError
from pomp.karel.rules import CAP, COUNT
from pomp.karel.world import Map, WorldBatch
from pomp.streams import Purpose, open_streams
from pomp.tasks.task import Setting, Start, Task

_TASK_IMPORT = "from pomp.tasks.random_world import begin, lay_out, step  # the task"
_SIZES = "CELLS, SLOTS, DEPTH = 64, 5, 24  # the sizes"
_DEPTHS = (24, 128, 2048)
"""Loop counters a GPU kernel has room for; the first is enough for any decoded program."""


@cache
def kernels_of(task: Task) -> ModuleType:
    """The kernel module of a task on the CPU; compiled on first use, kept on disk."""
    return _fill_in("kernels", task)


def cuda_kernels_of(setting: Setting, depth: int = 0) -> ModuleType:
    """The kernel module of a setting on the GPU, with room for `depth` loop counters."""
    enough = next(room for room in _DEPTHS if room >= depth)
    return _cuda_kernels(setting.task, setting.height * setting.width, setting.slots, enough)


@cache
def _cuda_kernels(task: Task, cells: int, slots: int, depth: int) -> ModuleType:
    load_cuda()
    sizes = f"CELLS, SLOTS, DEPTH = {cells}, {slots}, {depth}"
    return _fill_in("kernels_cuda", task, (_SIZES, sizes))


def _fill_in(template: str, task: Task, *replacements: tuple[str, str]) -> ModuleType:
    """Write a template's copy for a task into the cache folder and import it."""
    functions = {"begin": task.begin, "lay_out": task.lay_out, "step": task.step}
    imports = "\n".join(
        f"from {_module_of(function).__name__} import {function.__name__} as {name}"
        for name, function in functions.items()
    )
    source = Path(__file__).with_name(f"{template}.py").read_text()
    for old, new in ((_TASK_IMPORT, imports), *replacements):
        assert source.count(old) == 1
        source = source.replace(old, new)
    digest = digest_of(source.encode(), *_sources_of(list(functions.values())))
    name = f"{re.sub('[^a-z0-9]', '', task.name.lower())}_{digest}"
    path = cache_folder() / f"{name}.py"
    if not path.exists() or path.read_bytes() != source.encode():
        write_atomically(path, source.encode())
    spec = importlib.util.spec_from_file_location(f"pomp_kernels_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    kernels = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = kernels
    spec.loader.exec_module(kernels)
    return kernels


def _module_of(function: Callable[..., Any]) -> ModuleType:
    """The module a task's function can be imported from."""
    module = sys.modules[function.__module__]
    is_there = getattr(module, function.__name__, None) is function
    if not is_there or not getattr(module, "__file__", None) or module.__name__ == "__main__":
        raise ConfigError(
            f"a task's function must stand at the top of a module that can be imported, "
            f"'{function.__name__}' of '{module.__name__}' does not"
        )
    return module


def _sources_of(functions: list[Callable[..., Any]]) -> list[bytes]:
    """The files outside this package that the functions' code comes from, theirs and imported."""
    files: dict[str, bytes] = {}
    pending = [getattr(function, "py_func", function) for function in functions]
    while pending:
        function = pending.pop()
        path = function.__code__.co_filename
        if function.__module__.split(".")[0] == "pomp" or path in files:
            continue
        files[path] = Path(path).read_bytes()
        for value in function.__globals__.values():
            if callable(getattr(value, "py_func", None)):
                pending.append(value.py_func)
    return [files[path] for path in sorted(files)]


def empty_worlds(setting: Setting, count: int) -> WorldBatch:
    """Room for so many worlds of a setting, all zero."""
    return WorldBatch.empty(setting.task.name, count, setting.height, setting.width, setting.slots)


def reset(setting: Setting, streams: NDArray[np.uint64], device: str = "cpu") -> WorldBatch:
    """Fresh worlds, one per stream; each draws its start from its own stream."""
    worlds = empty_worlds(setting, len(streams)).to(device)
    reset_again(setting, worlds, streams)
    return worlds


def reset_again(setting: Setting, worlds: WorldBatch, streams: NDArray[np.uint64]) -> None:
    """Fresh worlds in place; see `reset`."""
    fill(worlds.stream, streams)
    if worlds.device == "cuda":
        arrays = map(as_launchable, (to_device(setting.rules), *worlds.arrays))
        cuda_kernels_of(setting).reset_worlds[blocks_for(len(worlds)), THREADS](*arrays)
    else:
        kernels_of(setting.task).reset_worlds(setting.rules, *worlds.arrays)


def draw_starts(
    setting: Setting,
    count: int,
    seed: int,
    purpose: Purpose = Purpose.EVALUATION,
    device: str = "cpu",
) -> WorldBatch:
    """The first `count` starts of a seed for a purpose, on a device.

    Raises:
        ConfigError: the count is not positive, or the seed is negative.
        CudaError: CUDA was asked for and cannot be used.
    """
    if count < 1:
        raise ConfigError(f"the number of starts must be at least 1, got {count}")
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise ConfigError(f"a seed is a whole number, not negative, got {seed!r}")
    return reset(setting, open_streams(purpose, seed, worlds=count), device)


def begin(
    setting: Setting, maps: Sequence[Map], streams: NDArray[np.uint64] | None = None
) -> WorldBatch:
    """Worlds that start from given maps; without streams, from those of seed 0.

    Raises:
        WorldError: a map has the wrong size, or the task cannot start there.
    """
    if streams is None:
        streams = open_streams(Purpose.EVALUATION, 0, worlds=len(maps))
    if np.shape(streams) != (len(maps),):
        raise ConfigError(f"{len(maps)} maps need as many streams, got {np.shape(streams)}")
    worlds = empty_worlds(setting, len(maps))
    worlds.stream[:] = streams
    for index, start in enumerate(maps):
        if start.grid.shape != (setting.height, setting.width):
            got = "x".join(map(str, start.grid.shape))
            expected = f"{setting.height}x{setting.width}"
            raise WorldError(f"{setting.task.name} was set to {expected}, the map is {got}")
        worlds.grid[index] = start.grid
        worlds.pose[index] = (start.row * setting.width + start.col) << 2 | start.facing
    return take_up(setting, worlds)


def take_up(setting: Setting, worlds: WorldBatch) -> WorldBatch:
    """Let the task begin on worlds whose cells and poses are set; in place."""
    most = setting.task.most_shown or int(setting.rules[CAP])
    if (worlds.cells & COUNT).max(initial=0) > most:
        found = (worlds.cells & COUNT).max()
        rule = f"{setting.task.name} ({setting.variant}) has at most {most} markers on a cell"
        raise WorldError(f"{rule}, the map shows {found}")
    is_usable = np.zeros(len(worlds), np.bool_)
    kernels_of(setting.task).begin_worlds(
        setting.rules, worlds.cells, worlds.pose, worlds.memory, is_usable
    )
    if not is_usable.all():
        which = int(np.argmin(is_usable))
        raise WorldError(
            f"{setting.task.name} cannot start from this map (world {which}): "
            f"it needs {setting.task.needs}"
        )
    return worlds


def enumerate_starts(setting: Setting) -> tuple[WorldBatch, list[Start]]:
    """Every start of a setting as a world, beside the list with the probabilities."""
    starts = setting.list_starts()
    streams = open_streams(Purpose.EVALUATION, 0, worlds=len(starts))
    return begin(setting, [start.map for start in starts], streams), starts
