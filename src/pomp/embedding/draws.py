"""The random draws of a training step, keyed by (seed, epoch, purpose, step): no state is kept."""

from enum import IntEnum

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pomp.core.streams import Purpose, open_streams


class For(IntEnum):
    """The purposes of draws."""

    ORDER, SUPERVISED, REINFORCE, VALIDATION, PICK, TOKENS, FRESH, WORLDS = range(8)


class Draws:
    """The draws of one training."""

    def __init__(self, seed: int, device: torch.device) -> None:
        self._seed, self._device = seed, device
        self._order: tuple[tuple[int, int], NDArray[np.int64]] = ((-1, -1), np.zeros(0, np.int64))

    def rows(self, epoch: int, phase: For, step: int, size: int, total: int) -> NDArray[np.int64]:
        """Return the programs of a step, `[size]` int64; an epoch takes all of them, shuffled."""
        if self._order[0] != (epoch, phase):
            keys = open_streams(Purpose.TRAINING, self._seed, epoch, phase, For.ORDER, worlds=total)
            self._order = ((epoch, phase), np.argsort(keys, kind="stable"))
        return self._order[1][step * size : (step + 1) * size]

    def pick(self, epoch: int, step: int, rows: int, wanted: int, there: int) -> NDArray[np.int64]:
        """Return which demonstrations of each program a step takes: `[rows, wanted]` int64."""
        if wanted == there:
            return np.tile(np.arange(there), (rows, 1))
        keys = open_streams(
            Purpose.TRAINING, self._seed, epoch, For.PICK, step, worlds=rows * there
        )
        return np.argsort(keys.reshape(rows, there), axis=1, kind="stable")[:, :wanted]

    def worlds(self, epoch: int, step: int, rows: int) -> NDArray[np.uint64]:
        """Return `[rows]` uint64, random streams of the worlds of a reinforce update."""
        return open_streams(Purpose.TRAINING, self._seed, epoch, For.WORLDS, step, worlds=rows)

    def normal(self, epoch: int, purpose: For, step: int, *shape: int) -> Tensor:
        """Return standard normal noise `[*shape]` float32 on the device."""
        generator = self._generator(epoch, purpose, step)
        return torch.randn(shape, generator=generator, device=self._device)

    def gumbel(self, epoch: int, purpose: For, step: int, *shape: int) -> Tensor:
        """Return Gumbel noise `[*shape]` float32: the largest of the noisy logits is a sample."""
        generator = self._generator(epoch, purpose, step)
        uniform = torch.rand(shape, generator=generator, device=self._device)
        return -torch.log(-torch.log(uniform.clamp_(1e-20, 1 - 1e-7)))

    def _generator(self, epoch: int, purpose: For, step: int) -> torch.Generator:
        key = open_streams(Purpose.TRAINING, self._seed, epoch, purpose, worlds=1, first=step)
        return torch.Generator(self._device).manual_seed(int(key[0] >> np.uint64(1)))
