"""Worlds at the start of an episode: drawn, listed, or taken from maps."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pomp.core.cuda import THREADS, as_launchable_group, blocks_for, fill
from pomp.core.errors import ConfigError, WorldError
from pomp.core.streams import Purpose, open_streams
from pomp.engine.loading import constants_on_device, cuda_kernels_of, kernels_of
from pomp.karel.dynamics import CAP, COUNT
from pomp.karel.world import Map, WorldBatch
from pomp.tasks.task import MAX_STARTS, Setting, Start


def empty_worlds(setting: Setting, count: int) -> WorldBatch:
    """Return so many worlds of a setting, all zero."""
    return WorldBatch.empty(setting.task.name, count, setting.height, setting.width, setting.slots)


def reset(setting: Setting, streams: NDArray[np.uint64], device: str = "cpu") -> WorldBatch:
    """Return fresh worlds; each draws its start from its own of `streams` `[B]` uint64."""
    worlds = empty_worlds(setting, len(streams)).to(device)
    reset_again(setting, worlds, streams)
    return worlds


def reset_again(setting: Setting, worlds: WorldBatch, streams: NDArray[np.uint64]) -> None:
    """Draw a start for each world, in place, from its own of `streams` `[B]` uint64."""
    fill(worlds.stream, streams)
    if worlds.device == "cuda":
        cuda_kernels_of(setting).reset_worlds[blocks_for(len(worlds)), THREADS](
            constants_on_device(setting), as_launchable_group(worlds.arrays)
        )
    else:
        kernels_of(setting.task).reset_worlds(setting.constants, worlds.arrays)


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
    """Return worlds that start from given maps.

    Args:
        setting: the task.
        maps: B of them.
        streams: `[B]` uint64, the random streams of the worlds; None: those of seed 0.

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
    most = setting.task.most_shown or int(setting.constants[CAP])
    if (worlds.cells & COUNT).max(initial=0) > most:
        found = (worlds.cells & COUNT).max()
        rule = f"{setting.task.name} ({setting.variant}) has at most {most} markers on a cell"
        raise WorldError(f"{rule}, the map shows {found}")
    is_usable = np.zeros(len(worlds), np.bool_)
    kernels_of(setting.task).begin_worlds(setting.constants, worlds.arrays, is_usable)
    if not is_usable.all():
        which = int(np.argmin(is_usable))
        raise WorldError(
            f"{setting.task.name} cannot start from this map (world {which}): "
            f"it needs {setting.task.needs}"
        )
    return worlds


def enumerate_starts(setting: Setting, most: int = MAX_STARTS) -> tuple[WorldBatch, list[Start]]:
    """Every start of a setting as a world, beside the list with the probabilities.

    Raises:
        ConfigError: the task cannot list its starts, or has more than `most`.
    """
    starts = setting.list_starts(most)
    streams = open_streams(Purpose.EVALUATION, 0, worlds=len(starts))
    return begin(setting, [start.map for start in starts], streams), starts
