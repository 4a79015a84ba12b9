"""A GRU for the members of an ensemble: one step, and episodes of a known most length at once.

The axes are E members, B worlds of each, A actors of a rollout of T steps, F inputs and H numbers
that are remembered. The parameters are `parts`, by name, `[E, outputs, ...]` each, of the layers
that `gru_layers` returns.
"""

import torch
from torch import Tensor

from pomp.machine.layers import Layer
from pomp.machine.network import linear

_INPUT, _MEMORY = "gru.input", "gru.memory"
_GATES = 3  # reset, update, new


def gru_layers(inputs: int, hidden: int) -> list[Layer]:
    """Return the layers of a GRU: what it makes of the inputs, and of what it remembers."""
    sizes = ((_INPUT, inputs), (_MEMORY, hidden))
    return [Layer(name, _GATES * hidden, (size,), 1.0, has_norm=False) for name, size in sizes]


def gru_step(parts: dict[str, Tensor], inputs: Tensor, memory: Tensor) -> Tensor:
    """Take one step.

    Args:
        parts: the parameters.
        inputs: `[E, B, F]` float32.
        memory: `[E, B, H]` float32, what was remembered.

    Returns:
        `[E, B, H]` float32, what is remembered now.
    """
    return _remember(parts, linear(parts, _INPUT, inputs), memory)


def _remember(parts: dict[str, Tensor], gates: Tensor, memory: Tensor) -> Tensor:
    """Return the new memory, `[E, B, H]`, given the inputs' `gates`, `[E, B, 3 * H]`.

    `memory`, `[E, B, H]`, is what was remembered.
    """
    reset, update, new = gates.chunk(_GATES, dim=-1)
    old_reset, old_update, old_new = linear(parts, _MEMORY, memory).chunk(_GATES, dim=-1)
    keep = torch.sigmoid(update + old_update)
    fresh = torch.tanh(new + torch.sigmoid(reset + old_reset) * old_new)
    return fresh + keep * (memory - fresh)


def unroll_episodes(
    parts: dict[str, Tensor], inputs: Tensor, first: Tensor, goes_on: Tensor, longest: int
) -> Tensor:
    """Remember along the steps of a rollout, episodes side by side.

    What is remembered at a step depends on at most the `longest - 1` steps before it. So all steps
    of all actors are computed together, `longest` times, each time from what was computed for the
    step before: after as many rounds every episode is exact, and so is its gradient.

    Args:
        parts: the parameters.
        inputs: `[E, A, T, F]` float32.
        first: `[E, A, H]` float32, what was remembered before the first step.
        goes_on: `[E, A, T]` float32, 1 where a step goes on with an episode, 0 where one begins.
        longest: steps of the longest episode.

    Returns:
        `[E, A, T, H]` float32, what is remembered after each step.
    """
    steps = inputs.shape[2]
    gates = linear(parts, _INPUT, inputs.flatten(1, 2))  # [E, A * T, 3 * H]
    carried, start = goes_on.unsqueeze(-1), first.unsqueeze(2)
    memory = torch.zeros_like(start).expand(-1, -1, steps, -1)
    for _ in range(min(longest, steps)):
        before = torch.cat([start, memory[:, :, :-1]], dim=2) * carried
        memory = _remember(parts, gates, before.flatten(1, 2)).view_as(before)
    return memory
