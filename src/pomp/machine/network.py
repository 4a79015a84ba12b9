"""The transition network, for many members at once.

An ensemble is E networks of one shape whose parameters are the rows of one tensor, `[E, S]`;
members never see each other. A member with fewer modes than the shape's K is padded: its missing
modes are never on as inputs and never chosen as outputs. B is the number of worlds of a member.

`pomp.machine.layers` says where parameters stand. Functions take them as `parts`: by name,
`[E, outputs, ...]` each.
"""

from functools import cache, cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from pomp.machine.layers import FILTERS, GATES, PERCEPTIONS, RECURRENT, Shape
from pomp.machine.memory import run_gru

if TYPE_CHECKING:
    from pomp.machine.fused import FusedNetwork

_ABSENT = -1e9  # added to the logit of a mode that a member does not have


class Ensemble:
    """E networks of one shape, ready to compute.

    Attributes:
        shape: theirs.
        absent: `[E, 1, K + 1]` float32, added to logits; far below 0 where a member has no mode.
    """

    def __init__(self, shape: Shape, modes: list[int], device: str) -> None:
        """Prepare members with so many modes each, on a device."""
        self.shape = shape
        self._every = torch.arange(shape.modes + 1, device=device)
        is_absent = self._every > torch.tensor(modes, device=device)[:, None]
        self.absent = (is_absent * _ABSENT)[:, None]
        self._fused: dict[int, FusedNetwork] = {}  # by the size of batches

    def __call__(
        self, parameters: Tensor, observations: Tensor, modes: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Compute logits and values, without a memory.

        Args:
            parameters: `[E, S]` float32.
            observations: `[E, B, 8, H, W]` uint8 planes, or `[E, B]` int16 readings.
            modes: `[E, B]` int64, the last modes; -1 before the first.

        Returns:
            Logits `[E, B, K + 1]`, the last of a member's own being the end, and values `[E, B]`.
        """
        if parameters.device.type == "cuda" and not torch.is_grad_enabled() and self.is_fused:
            return self.fuse(modes.shape[1])(parameters, observations, modes)
        parts = self.shape.split(parameters)
        return self.decide(parts, self.look(parts, observations), modes)

    @cached_property
    def is_fused(self) -> bool:
        """Whether the kernels of a GPU, which must be there, can compute these networks."""
        from pomp.machine.fused import fits

        return fits(self.shape)

    def fuse(self, batch: int) -> "FusedNetwork":
        """Return the kernels of a GPU for batches of one size.

        Args:
            batch: worlds of each member.
        """
        from pomp.machine.fused import FusedNetwork

        if batch not in self._fused:
            self._fused[batch] = FusedNetwork(self, batch)
        return self._fused[batch]

    def look(self, parts: dict[str, Tensor], observations: Tensor) -> Tensor:
        """Compute what networks make of their observations, before the last modes matter.

        Args:
            parts: the parameters.
            observations: `[E, B, 8, H, W]` uint8 planes, or `[E, B]` int16 readings.

        Returns:
            `[E, B, hidden]` float32 features of the grid, or `[E, B, 5]` perceptions.
        """
        if self.shape.sees_grid:
            return see_grid(parts, observations)
        return _unpack_senses(observations)

    def recall(
        self, parameters: Tensor, observations: Tensor, modes: Tensor, states: Tensor, steps: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute logits and values of networks that remember, in sequences of macro steps.

        Args:
            parameters: `[E, S]` float32.
            observations: `[E, T * B, ...]`, as for a call; a step of all sequences, then the next.
            modes: `[E, T * B]` int64, the last modes; -1 before the first, where memories are new.
            states: `[E, B, U]` float32, what is remembered before the first step.
            steps: T.

        Returns:
            Logits `[E, T * B, K + 1]`, values `[E, T * B]`, and what is remembered after the last
            step, `[E, B, U]`.
        """
        parts = self.shape.split(parameters)
        hidden = self.think(parts, self.look(parts, observations), modes)
        goes_on = (modes >= 0).view(len(modes), steps, -1).transpose(0, 1)
        found = remember(parts, hidden, states, goes_on)  # [T, E, B, U]
        return *self.answer(parts, found.transpose(0, 1).flatten(1, 2)), found[-1]

    def decide(
        self, parts: dict[str, Tensor], features: Tensor, modes: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Compute logits and values, without a memory.

        Args:
            parts: the parameters.
            features: `[E, B, F]` float32, what `look` returned.
            modes: `[E, B]` int64, the last modes; -1 before the first.

        Returns:
            Logits `[E, B, K + 1]` and values `[E, B]`.
        """
        return self.answer(parts, self.think(parts, features, modes))

    def think(self, parts: dict[str, Tensor], features: Tensor, modes: Tensor) -> Tensor:
        """Join what was seen with the last modes.

        Args:
            parts: the parameters.
            features: `[E, B, F]` float32, what `look` returned.
            modes: `[E, B]` int64, the last modes; -1 before the first.

        Returns:
            `[E, B, hidden]` float32.
        """
        if not self.shape.sees_mode:
            return features
        last = (modes.unsqueeze(-1) == self._every).to(features.dtype)
        if self.shape.sees_grid:
            last = _relu(parts, "mode", last)
        hidden = torch.cat([features, last], dim=-1)
        return _relu(parts, "trunk.1", _relu(parts, "trunk.0", hidden))

    def answer(self, parts: dict[str, Tensor], hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Compute logits and values from the last layer but one.

        Args:
            parts: the parameters.
            hidden: `[E, B, hidden]` float32, or `[E, B, U]`, what is remembered.

        Returns:
            Logits `[E, B, K + 1]` and values `[E, B]`.
        """
        logits = linear(parts, "actor", hidden) + self.absent
        return logits, linear(parts, "critic", hidden).squeeze(-1)


def see_grid(parts: dict[str, Tensor], planes: Tensor) -> Tensor:
    """Compute the features of grids by the layers of `grid_layers`.

    Args:
        parts: the parameters.
        planes: `[E, B, 8, H, W]` uint8.

    Returns:
        `[E, B, hidden]` float32.
    """
    return _relu(parts, "grid.2", _convolve_grid(parts, planes))


def remember(parts: dict[str, Tensor], inputs: Tensor, states: Tensor, goes_on: Tensor) -> Tensor:
    """Compute what networks remember after each step.

    Args:
        parts: the parameters.
        inputs: `[E, T * B, hidden]` float32; a step of all sequences, then the next.
        states: `[E, B, U]` float32, what is remembered before the first step.
        goes_on: `[T, E, B]` bool, whether a step follows the one before in an episode.

    Returns:
        `[T, E, B, U]` float32.
    """
    gates = linear(parts, GATES, inputs).view(*goes_on.transpose(0, 1).shape, -1)
    weight, bias = parts[f"{RECURRENT}.weight"], parts[f"{RECURRENT}.bias"]
    return run_gru(gates.transpose(0, 1).contiguous(), states, weight, bias, goes_on)


def _convolve_grid(parts: dict[str, Tensor], planes: Tensor) -> Tensor:
    """Run two convolutions over `planes`, `[E, B, 8, H, W]`: each member's own, to `[E, B, F]`."""
    members, batch = planes.shape[:2]
    if planes.device.type == "cuda":  # products of patches; cuDNN is slow with members as groups
        first = _convolve(parts, "grid.0", planes.flatten(0, 1), is_last=False)
        second = _convolve(parts, "grid.1", first, is_last=True)
        return second.view(members, batch, -1, FILTERS).transpose(2, 3).flatten(2)
    hidden = list(planes.to(torch.float32))
    for name in ("grid.0", "grid.1"):  # one by one: oneDNN is slow with members as groups, too
        filters = zip(_weight(parts, name), parts[f"{name}.bias"], strict=True)
        hidden = [
            functional.conv2d(own, weight, bias).relu()
            for own, (weight, bias) in zip(hidden, filters, strict=True)
        ]
    return torch.stack(hidden).flatten(2)


def _convolve(parts: dict[str, Tensor], name: str, planes: Tensor, *, is_last: bool) -> Tensor:
    """Run one convolution of F filters on a GPU.

    Args:
        parts: the parameters.
        name: the layer's.
        planes: `[E * B, H, W, C]` if the channels come last, else `[E * B, C, H, W]`.
        is_last: whether they do.

    Returns:
        `[E * B, H - k + 1, W - k + 1, F]`.
    """
    from pomp.machine.patches_cuda import patches_of

    weight, bias = _weight(parts, name), parts[f"{name}.bias"]  # [E, F, C, k, k], [E, F]
    patches = patches_of(planes, weight.shape[-1], is_last=is_last)
    filters = weight.permute(0, 3, 4, 2, 1).flatten(1, 3)
    rows = patches.view(len(weight), -1, patches.shape[3])
    return torch.baddbmm(bias.unsqueeze(1), rows, filters).relu().view(*patches.shape[:3], -1)


def _unpack_senses(senses: Tensor) -> Tensor:
    """Turn `senses`, `[E, B]`, into the five perceptions, `[E, B, 5]` float32, each 0 or 1."""
    bits = torch.stack([senses >> bit & 1 for bit in range(PERCEPTIONS - 1)], dim=-1)
    return torch.cat([bits, 1 - bits[..., -1:]], dim=-1).to(torch.float32)


def _weight(parts: dict[str, Tensor], name: str) -> Tensor:
    """Return a layer's weights, `[E, outputs, *fan]`; normalised, direction times length."""
    weight, scale = parts[f"{name}.weight"], parts.get(f"{name}.scale")
    if scale is None:
        return weight
    rows = weight.flatten(0, 1)
    lengths = scale.reshape(-1, *[1] * (rows.dim() - 1))
    return torch._weight_norm(rows, lengths, 0).view(weight.shape)


def linear(parts: dict[str, Tensor], name: str, inputs: Tensor) -> Tensor:
    """Apply a layer to `inputs`, `[E, B, columns]`, giving `[E, B, outputs]`."""
    weight = _weight(parts, name)
    return torch.baddbmm(parts[f"{name}.bias"].unsqueeze(1), inputs, weight.transpose(1, 2))


def _relu(parts: dict[str, Tensor], name: str, inputs: Tensor) -> Tensor:
    """Apply a layer to `inputs`, `[E, B, columns]`, and cut what is below 0."""
    return linear(parts, name, inputs).relu()


def choose(logits: Tensor, draws: Tensor | None) -> Tensor:
    """Choose by the probabilities that logits stand for.

    Args:
        logits: `[..., K + 1]` float32.
        draws: `[...]` float64, random numbers from 0 to 1; None: the likeliest choice is taken.

    Returns:
        `[...]` int64.
    """
    if draws is None:
        return logits.argmax(dim=-1)
    probs = torch.softmax(logits, dim=-1)
    edges = (probs.unsqueeze(-2) * _up_to(probs.shape[-1], probs.device)).sum(dim=-1)
    edges = edges[..., :-1] / edges[..., -1:]  # rounding: the last edge is 1
    return (draws.unsqueeze(-1) >= edges).sum(dim=-1)


@cache
def _up_to(count: int, device: torch.device) -> Tensor:
    """Return `[count, count]` ones up to the diagonal: times numbers, it sums those so far."""
    return torch.ones(count, count, device=device).tril()
