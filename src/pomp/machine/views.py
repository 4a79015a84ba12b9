"""What networks see of episodes, as tensors that share the worlds' memory where they can."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pomp.karel.observation import observe
from pomp.machine.config import Inputs
from pomp.machine.episodes import Episodes, perceive
from pomp.machine.network import CHANNELS


def as_tensor(array: Any) -> Tensor:
    """A tensor on the array's device, in the same memory."""
    if isinstance(array, np.ndarray):
        return torch.from_numpy(array)
    return torch.as_tensor(array, device="cuda")


class Views:
    """Several batches of episodes as one: `[E, B, ...]`, E members in the order of the batches."""

    def __init__(self, batches: Sequence[Episodes], inputs: Inputs, members: int) -> None:
        self.batches, self.members = batches, members
        self._sees_grid = inputs != "perceptions+mode"
        first = batches[0].worlds
        count = sum(len(batch) for batch in batches)
        self.actors = count // members
        shape = (CHANNELS, first.height, first.width) if self._sees_grid else ()
        self._seen = torch.empty((count, *shape), dtype=torch.uint8, device=first.device)
        self._outs = self._split(self._seen)
        self._modes = [as_tensor(batch.mode) for batch in batches]

    def _split(self, tensor: Tensor) -> list[Tensor]:
        return list(torch.split(tensor, [len(batch) for batch in self.batches]))

    def look(self) -> Tensor:
        """`[E, B, 8, H, W]` uint8 planes, or `[E, B]` perceptions; overwritten by the next look."""
        for batch, out in zip(self.batches, self._outs, strict=True):
            target = out.numpy() if out.device.type == "cpu" else out
            if self._sees_grid:
                observe(batch.worlds, CHANNELS, target)
            else:
                perceive(batch.setting, batch.worlds, target)
        return self._seen.view(self.members, self.actors, *self._seen.shape[1:])

    def mode(self) -> Tensor:
        """`[E, B]` int64: the modes that ran last; ends are taken for the start."""
        modes = self._modes[0] if len(self._modes) == 1 else torch.cat(self._modes)
        return modes.view(self.members, self.actors)

    def gather(self, name: str) -> Tensor:
        """`[E, B]`: one of the arrays of the episodes."""
        parts = [as_tensor(getattr(batch, name)) for batch in self.batches]
        return torch.cat(parts).view(self.members, self.actors)

    def share(self, choices: Tensor) -> list[Any]:
        """`[E, B]` choices as each batch of episodes takes them."""
        parts = self._split(choices.reshape(-1))
        return [part.numpy() if part.device.type == "cpu" else part for part in parts]
