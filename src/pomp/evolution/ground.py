"""The worlds in which machines are judged: of the task's own size and horizon, and of others."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.core.configs import parse_size
from pomp.core.cuda import is_on_device, to_device
from pomp.core.errors import ConfigError
from pomp.core.streams import Purpose
from pomp.engine.starts import begin, draw_starts
from pomp.evolution.config import EvolveConfig
from pomp.karel.world import WorldBatch, Worlds, memory_of
from pomp.machine.config import EpisodeConfig
from pomp.tasks.task import Setting

_MOST_STEPS = EpisodeConfig().most_steps
_FEWER = 4  # times fewer worlds there are of every other size and horizon


@dataclass(frozen=True, eq=False)
class Ground:
    """B worlds, those of the task's own size and horizon first.

    Attributes:
        largest: the setting whose worlds are the largest here.
        worlds: all worlds, the smaller ones padded; on the CPU or the GPU.
        constants: `[B, N]` int64, the numbers of each world's setting; where the worlds are.
        most: `[B]` int64, programs after which an episode is stopped.
        goals: `[B]` float64, what a search aims at.
        is_own: `[B]` bool, whether a world has the task's own size and horizon.
    """

    largest: Setting
    worlds: Worlds
    constants: Any
    most: NDArray[np.int64]
    goals: NDArray[np.float64]
    is_own: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.most)

    def take(self, part: slice) -> "Ground":
        """Return some of the worlds, which are on the CPU."""
        worlds = Worlds(*(array[part] for array in self.worlds))
        constants, most = self.constants[part], self.most[part]
        return Ground(self.largest, worlds, constants, most, self.goals[part], self.is_own[part])

    @property
    def is_on_device(self) -> bool:
        """Whether the worlds are on the GPU."""
        return is_on_device(self.constants)

    @classmethod
    def of(cls, parts: Sequence[tuple[Setting, WorldBatch]]) -> "Ground":
        """Put worlds of several settings of one task together; the first is the task's own."""
        settings = [setting for setting, worlds in parts for _ in range(len(worlds))]
        largest = max((setting for setting, _ in parts), key=lambda one: one.height * one.width)
        if len(parts) == 1:
            worlds = memory_of(parts[0][1])
        else:
            groups = zip(*(memory_of(worlds.to("cpu")) for _, worlds in parts), strict=True)
            worlds = Worlds(*map(_join, groups))
        constants: Any = np.stack([one.constants for one in settings])
        if parts[0][1].device == "cuda":
            constants = to_device(constants)
            worlds = Worlds(*(one if is_on_device(one) else to_device(one) for one in worlds))
        return cls(
            largest,
            worlds,
            constants,
            np.array([_MOST_STEPS * one.stretch for one in settings], np.int64),
            np.array([one.goal for one in settings]),
            np.array([one == settings[0] for one in settings]),
        )


def _join(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Put arrays `[B, ...]` behind each other, their rows padded with zeros to the longest."""
    if arrays[0].ndim == 1:
        return np.concatenate(arrays)
    longest = max(array.shape[1] for array in arrays)
    return np.concatenate(
        [np.pad(array, ((0, 0), (0, longest - array.shape[1]))) for array in arrays]
    )


def settings_of(setting: Setting, config: EvolveConfig) -> list[Setting]:
    """Return the setting of a search and the other sizes and horizons that it judges by.

    Raises:
        ConfigError: the task cannot have such a size or horizon.
    """
    own, task = (setting.height, setting.width), setting.task
    wanted = [(own, setting.scale)]
    wanted += [(parse_size(text), setting.scale) for text in config.sizes]
    wanted += [(own, scale) for scale in config.scales]
    return [
        task.configure(setting.variant, setting.option_texts, size, scale)
        for size, scale in dict.fromkeys(wanted)
    ]


def some_ground(
    setting: Setting, config: EvolveConfig, count: int, seed: int, purpose: Purpose, device: str
) -> Ground:
    """Return `count` worlds of a search, and a quarter as many of every other setting.

    Args:
        setting: the task.
        config: of the search.
        count: how many; all starts if there are few and nothing is random later.
        seed: decides which are drawn.
        purpose: what they are drawn for.
        device: cpu or cuda.
    """
    own, *others = settings_of(setting, config)
    parts = [(own, some_starts(own, count, seed, purpose))]
    fewer = max(1, count // _FEWER)
    parts += [(other, some_starts(other, fewer, seed, purpose)) for other in others]
    return Ground.of([(one, worlds.to(device)) for one, worlds in parts])


def some_starts(setting: Setting, count: int, seed: int, purpose: Purpose) -> WorldBatch:
    """Return all starts if there are few and nothing is random later, else draw `count` starts."""
    if setting.task.starts is not None and not setting.task.draws(setting):
        with suppress(ConfigError):  # there are more
            return begin(setting, [start.map for start in setting.list_starts(count)])
    return draw_starts(setting, count, seed, purpose)
