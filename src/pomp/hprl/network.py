"""The networks of meta-policies, for many members at once.

What a network makes of the grid goes through a GRU, which remembers the episode so far. The axes
are E members, whose S parameters are the rows of one tensor, B worlds of each, A actors of a
rollout of T macro steps, Z numbers of a latent, and H that are remembered.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pomp.core.errors import DataFileError
from pomp.learning.recurrence import gru_layers, gru_step, unroll_episodes
from pomp.machine.layers import Arrays, Layer, ParameterLayout, draw_weights, grid_layers
from pomp.machine.network import linear, see_grid

_LOG_STD = "log_std"


class Proposal(NamedTuple):
    """What networks say about the next programs.

    Attributes:
        means: `[E, B, Z]` float32, of the normal distributions of latents.
        log_stds: `[E, Z]` float32, the logarithms of their deviations, wherever the agent is.
        values: `[E, B]` float32, the returns that are expected.
        memory: `[E, B, H]` float32, what is remembered now.
    """

    means: Tensor
    log_stds: Tensor
    values: Tensor
    memory: Tensor


@dataclass(frozen=True)
class MetaShape(ParameterLayout):
    """What the network of a meta-policy is made of.

    Attributes:
        height: rows of the grid.
        width: its columns.
        latent: Z.
        hidden: H.
    """

    height: int
    width: int
    latent: int
    hidden: int

    @cached_property
    def layers(self) -> list[Layer]:
        """The layers, in the order of their parameters."""
        heads = (("actor", self.latent, 0.01), ("critic", 1, 1.0))
        return [
            *grid_layers(self.height, self.width, self.hidden, has_norm=False),
            *gru_layers(self.hidden, self.hidden),
            *(Layer(name, outputs, (self.hidden,), gain, False) for name, outputs, gain in heads),
        ]

    @property
    def parts(self) -> list[tuple[str, tuple[int, ...]]]:
        """The names and shapes of all parameters, in order."""
        return [*super().parts, (_LOG_STD, (self.latent,))]

    def draw(self, stream: np.uint64) -> Arrays:
        """Draw first weights from a stream; the deviations are 1."""
        return {**draw_weights(self, stream), _LOG_STD: np.zeros(self.latent, np.float32)}

    def pack(self, arrays: Arrays) -> NDArray[np.float32]:
        """Join the named arrays of a member.

        Returns:
            `[S]` float32.

        Raises:
            DataFileError: an array is missing, too many, or does not fit.
        """
        found = {name: array.shape for name, array in arrays.items()}
        if found != dict(self.parts):
            wrong = sorted(dict(self.parts).items() ^ found.items())[0][0]
            expected = dict(self.parts).get(wrong, "nothing")
            got = found.get(wrong, "nothing")
            raise DataFileError(f"its network should have {wrong} of {expected}, got {got}")
        return np.concatenate([arrays[name].ravel() for name, _ in self.parts])


class MetaNetwork:
    """E networks of one shape, ready to compute.

    Attributes:
        shape: theirs.
        programs: the most macro steps of an episode.
    """

    def __init__(self, shape: MetaShape, programs: int) -> None:
        self.shape, self.programs = shape, programs

    def propose(self, parameters: Tensor, observations: Tensor, memory: Tensor) -> Proposal:
        """Look at worlds, and say what to run there.

        Args:
            parameters: `[E, S]` float32.
            observations: `[E, B, 8, H, W]` uint8 planes.
            memory: `[E, B, H]` float32, what is remembered; zeros when an episode begins.
        """
        parts = self.shape.split(parameters)
        memory = gru_step(parts, see_grid(parts, observations), memory)
        return self._conclude(parts, memory)

    def __call__(
        self, parameters: Tensor, observations: Tensor, first: Tensor, goes_on: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute all steps of a rollout again.

        Args:
            parameters: `[E, S]` float32.
            observations: `[E, A, T, 8, H, W]` uint8 planes.
            first: `[E, A, H]` float32, what was remembered before the first step.
            goes_on: `[E, A, T]` float32, 0 where a step begins an episode, else 1.

        Returns:
            Means `[E, A * T, Z]`, logarithms of deviations `[E, Z]`, and values `[E, A * T]`.
        """
        parts = self.shape.split(parameters)
        features = see_grid(parts, observations.flatten(1, 2)).view(*goes_on.shape, -1)
        memory = unroll_episodes(parts, features, first, goes_on, self.programs)
        return self._conclude(parts, memory.flatten(1, 2))[:3]

    def _conclude(self, parts: dict[str, Tensor], memory: Tensor) -> Proposal:
        """Return what follows from what is remembered, `memory` `[E, B, H]`."""
        values = linear(parts, "critic", memory).squeeze(-1)
        return Proposal(linear(parts, "actor", memory), parts[_LOG_STD], values, memory)
