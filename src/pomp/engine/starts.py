"""Worlds at the start of an episode: drawn, listed, or taken from maps."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pomp.core.arrays import check_streams
from pomp.core.configs import check_count
from pomp.core.cuda import THREADS, as_launchable_group, blocks_for, fill
from pomp.core.errors import ConfigError, WorldError
from pomp.core.resources import check_memory, slices
from pomp.core.streams import Purpose, open_streams
from pomp.engine.checks import check_places, check_setting
from pomp.engine.loading import constants_on_device, cuda_kernels_of, kernels_of
from pomp.karel.dynamics import CAP, COUNT
from pomp.karel.world import Map, WorldBatch, Worlds, memory_of
from pomp.tasks.task import MAX_STARTS, Setting, Start


class StartName(NamedTuple):
    """Which start of a setting: `17`, of the task's list, or `3:17`, of those drawn for a seed.

    Attributes:
        number: counted from 0.
        seed: of the evaluation that draws it; None: it is one of the task's list.
    """

    number: int
    seed: int | None = None

    @classmethod
    def parse(cls, text: str) -> "StartName":
        """Read what `str` gives.

        Raises:
            ConfigError: the text is something else.
        """
        match = re.fullmatch(r"(?:([0-9]{1,18}):)?([0-9]{1,9})", text)
        if not match:
            expected = "a number (17) of the task's list, or SEED:NUMBER (0:17) of drawn ones"
            raise ConfigError(f"a start is {expected}, got '{text}'")
        return cls(int(match[2]), None if match[1] is None else int(match[1]))

    def __str__(self) -> str:
        return str(self.number) if self.seed is None else f"{self.seed}:{self.number}"

    def open(self, setting: Setting) -> WorldBatch:
        """Return the start as one world.

        Raises:
            ConfigError: the task cannot list its starts, or has fewer.
        """
        if self.seed is not None:
            streams = open_streams(Purpose.EVALUATION, self.seed, worlds=1, first=self.number)
            return reset(setting, streams)
        worlds, starts = enumerate_starts(setting)
        if self.number >= len(starts):
            last = f"its starts are 0 to {len(starts) - 1}"
            raise ConfigError(f"{setting.task.name} has no start {self.number}: {last}")
        return worlds.take(np.array([self.number]))


_CELLS_AT_ONCE = 1 << 22
"""Cells that one launch draws: a fraction of a second, after which Ctrl-C is heard."""


def empty_worlds(setting: Setting, count: int) -> WorldBatch:
    """Return so many worlds of a setting, all zero."""
    return WorldBatch.empty(setting.task.name, count, setting.height, setting.width, setting.slots)


def reset(setting: Setting, streams: NDArray[np.uint64], device: str = "cpu") -> WorldBatch:
    """Return fresh worlds; each draws its start from its own of `streams` `[B]` uint64.

    Raises:
        ConfigError: the streams are none.
        TooLargeError: there is no memory for so many worlds.
    """
    check_setting(setting)
    streams = check_streams(streams)
    check_memory(f"{len(streams)} worlds", len(streams), bytes_of_world(setting))
    return _drawn(setting, streams, device)


def _drawn(setting: Setting, streams: NDArray[np.uint64], device: str) -> WorldBatch:
    """Return fresh worlds of `streams` `[B]` uint64, for which there is memory."""
    worlds = empty_worlds(setting, len(streams)).to(device)
    reset_again(setting, worlds, streams)
    return worlds


def bytes_of_world(setting: Setting) -> int:
    """Return how much memory a world takes."""
    return setting.height * setting.width + 4 * setting.slots + 12


def reset_again(setting: Setting, worlds: WorldBatch, streams: NDArray[np.uint64]) -> None:
    """Draw a start for each world, in place, from its own of `streams` `[B]` uint64."""
    fill(memory_of(worlds).stream, streams)
    if worlds.device == "cuda":
        cuda_kernels_of(setting).reset_worlds[blocks_for(len(worlds)), THREADS](
            constants_on_device(setting), as_launchable_group(memory_of(worlds))
        )
    else:
        draw, arrays = kernels_of(setting.task).reset_worlds, memory_of(worlds)
        if arrays.cells.size <= _CELLS_AT_ONCE:
            draw(setting.constants, arrays)
        else:
            for part in slices(len(worlds), _CELLS_AT_ONCE // arrays.cells.shape[1]):
                draw(setting.constants, Worlds(*(array[part] for array in arrays)))
    worlds.vouch(setting.task)


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
        TooLargeError: there is no memory for so many worlds.
        CudaError: CUDA was asked for and cannot be used.
    """
    check_setting(setting)
    check_count("the number of starts", count)
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ConfigError(f"a seed is a whole number, not negative, got {seed!r:.80}")
    if not isinstance(purpose, Purpose):
        raise ConfigError(f"starts are drawn for a Purpose, got {purpose!r:.80}")
    check_memory(f"{count} worlds", count, bytes_of_world(setting))
    return _drawn(setting, open_streams(purpose, seed, worlds=count), device)


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
        ConfigError: these are no maps, or not as many streams.
    """
    check_setting(setting)
    if isinstance(maps, Map | str) or not isinstance(maps, Sequence):
        raise ConfigError("maps are given as a list; put brackets around a single one")
    if streams is None:
        streams = open_streams(Purpose.EVALUATION, 0, worlds=len(maps))
    worlds = empty_worlds(setting, len(maps))
    memory_of(worlds).stream[:] = check_streams(streams, len(maps))
    for index, start in enumerate(maps):
        if not isinstance(start, Map):
            raise ConfigError(f"worlds begin from maps, got a {type(start).__name__}")
        if start.grid.shape != (setting.height, setting.width):
            got = "x".join(map(str, start.grid.shape))
            expected = f"{setting.height}x{setting.width}"
            raise WorldError(f"{setting.task.name} was set to {expected}, the map is {got}")
        memory_of(worlds).cells[index] = start.grid.reshape(-1)
        memory_of(worlds).pose[index] = (start.row * setting.width + start.col) << 2 | start.facing
    return take_up(setting, worlds)


def most_markers(setting: Setting) -> int:
    """Return how many markers a cell of a map may show."""
    return setting.task.most_shown or int(setting.constants[CAP])


def take_up(setting: Setting, worlds: WorldBatch) -> WorldBatch:
    """Let the task begin on worlds whose cells and poses are set; in place.

    Raises:
        WorldError: the task cannot start there.
    """
    check_places(worlds)
    most = most_markers(setting)
    if (worlds.cells & COUNT).max(initial=0) > most:
        found = (worlds.cells & COUNT).max()
        rule = f"{setting.task.name} ({setting.variant}) has at most {most} markers on a cell"
        raise WorldError(f"{rule}, the map shows {found}")
    is_usable = np.zeros(len(worlds), np.bool_)
    kernels_of(setting.task).begin_worlds(setting.constants, memory_of(worlds), is_usable)
    if not is_usable.all():
        which = int(np.argmin(is_usable))
        raise WorldError(
            f"{setting.task.name} cannot start from this map (world {which}): "
            f"it needs {setting.task.needs}"
        )
    return worlds.vouch(setting.task)


def enumerate_starts(setting: Setting, most: int = MAX_STARTS) -> tuple[WorldBatch, list[Start]]:
    """Every start of a setting as a world, beside the list with the probabilities.

    Raises:
        ConfigError: the task cannot list its starts, or has more than `most`.
    """
    starts = setting.list_starts(most)
    streams = open_streams(Purpose.EVALUATION, 0, worlds=len(starts))
    return begin(setting, [start.map for start in starts], streams), starts
