"""What networks see of episodes, as tensors that share the worlds' memory where they can.

The axes are E members and B worlds of each.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pomp.core.graphs import numba_stream
from pomp.karel.observation import observe
from pomp.karel.world import memory_of
from pomp.machine.config import Inputs
from pomp.machine.episodes import Episodes
from pomp.machine.layers import CHANNELS


def as_tensor(array: Any) -> Tensor:
    """Return a tensor of an array's shape `[...]` and type, on its device and in its memory."""
    if isinstance(array, np.ndarray):
        return torch.from_numpy(array)
    return torch.as_tensor(array, device="cuda")


class Views:
    """Several batches of episodes as one: `[E, B, ...]`, E members in the order of the batches.

    On a GPU all launches are prepared once, on fixed memory, and may be captured in a graph; each
    batch has a stream of its own, since a step lasts as long as its longest program.
    """

    def __init__(self, batches: Sequence[Episodes], inputs: Inputs, members: int) -> None:
        """Allocate what the networks will see.

        Args:
            batches: the episodes, on one device and with grids of one size.
            inputs: what the networks see.
            members: E, among whom all worlds are dealt out in equal shares, in order.
        """
        self.batches, self.members = batches, members
        self._sees_grid = inputs != "perceptions+mode"
        first = batches[0].worlds
        count = sum(len(batch) for batch in batches)
        self.actors = count // members
        shape = (CHANNELS, first.height, first.width) if self._sees_grid else ()
        kind = torch.uint8 if self._sees_grid else torch.int16
        self._seen = torch.empty((count, *shape), dtype=kind, device=first.device)
        self._outs = self._split(self._seen)
        self._modes = [as_tensor(batch.mode) for batch in batches]
        self._choices = torch.zeros(count, dtype=torch.int64, device=first.device)
        if first.device == "cuda":
            parts = self._split(self._choices)
            new_stream: Any = torch.cuda.Stream  # torch leaves it untyped
            self._streams = [new_stream() for _ in batches]
            self._steps = [one.stepper(part) for one, part in zip(batches, parts, strict=True)]
            self._looks = [
                self._prepare_look(*pair) for pair in zip(batches, self._outs, strict=True)
            ]

    def _prepare_look(self, batch: Episodes, out: Tensor) -> Callable[[Any], None]:
        """Prepare looking at a batch: into `out`, `[worlds, 8, H, W]` or `[worlds]`."""
        if not self._sees_grid:
            return batch.sensor(out, compass=False)
        from pomp.karel.observation_cuda import observer

        return observer(batch.worlds, out)[0]

    def _split(self, tensor: Tensor) -> list[Tensor]:
        """Split a `tensor`, `[E * B, ...]`, into the parts of the batches; views."""
        return list(torch.split(tensor, [len(batch) for batch in self.batches]))

    def _launch(self, launches: list[Callable[[Any], None]]) -> None:
        """Launch the batches' kernels side by side, each on its stream."""
        now = torch.cuda.current_stream()
        for stream, start in zip(self._streams, launches, strict=True):
            stream.wait_stream(now)
            with torch.cuda.stream(stream):
                start(numba_stream())
        for stream in self._streams:
            now.wait_stream(stream)

    def look(self) -> Tensor:
        """Return what the networks see, but for the last modes.

        Returns:
            `[E, B, 8, H, W]` uint8 planes, or `[E, B]` int16 readings; the next look overwrites
            them.
        """
        if self._seen.device.type == "cuda":
            self._launch(self._looks)
        else:
            for batch, out in zip(self.batches, self._outs, strict=True):
                if self._sees_grid:
                    observe(batch.worlds, CHANNELS, out.numpy())
                else:
                    batch.sense(out.numpy(), compass=False)
        return self._seen.view(self.members, self.actors, *self._seen.shape[1:])

    def mode(self) -> Tensor:
        """Return the modes that ran last, `[E, B]` int64; -1 before the first of an episode."""
        modes = self._modes[0] if len(self._modes) == 1 else torch.cat(self._modes)
        return modes.view(self.members, self.actors)

    def gather(self, name: str) -> Tensor:
        """Return one of the arrays of the episodes by its name, as `[E, B]`; a copy."""
        parts = [as_tensor(getattr(batch, name)) for batch in self.batches]
        return torch.cat(parts).view(self.members, self.actors)

    def take(self, choices: Tensor) -> None:
        """Take one macro step in all episodes, with `choices`, `[E, B]` int64."""
        self._choices.copy_(choices.reshape(-1))
        if choices.device.type == "cuda":
            self._launch(self._steps)
            return
        for batch, part in zip(self.batches, self._split(self._choices), strict=True):
            batch.step(part.numpy())

    def changed(self) -> list[Tensor]:
        """Return what steps write to: tensors `[worlds, ...]` in the memory of the episodes."""
        arrays = [array for one in self.batches for array in (*memory_of(one.worlds), *one.state)]
        return [as_tensor(array) for array in arrays]
