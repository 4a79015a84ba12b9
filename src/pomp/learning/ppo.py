"""Proximal policy optimisation, for an ensemble of members that never meet.

It knows tensors alone: what was seen and done comes in, parameters are changed in place. `[E]` is
the axis of members, `[T]` of steps, `[A]` of actors, `[N]` of the T * A steps of a rollout.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pomp.core.graphs import Replayed
from pomp.learning.config import PpoConfig
from pomp.learning.descent import move_parameters, weigh_steps

Forward = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]

STATISTICS = ("policy_loss", "value_loss", "entropy", "gradient_norm")
_BETAS = (0.9, 0.999)
_TINY = 1e-5  # beside the deviation of the advantages
_SHORT = 1e-6  # beside the length of a gradient


@dataclass(frozen=True)
class Steps:
    """A rollout, or a part of one.

    Attributes:
        seen: `[E, N, ...]` uint8, what the network saw.
        mode: `[E, N]` int64, the last mode it saw.
        choices: `[E, N]` int64, what was chosen.
        chances: `[E, N]`, the logarithms of the choices' probabilities then.
        values: `[E, N]`, what the network expected.
        advantages: `[E, N]`, normalised.
        returns: `[E, N]`, what the value should have been.
    """

    seen: Tensor
    mode: Tensor
    choices: Tensor
    chances: Tensor
    values: Tensor
    advantages: Tensor
    returns: Tensor

    def take(self, rows: Tensor) -> "Steps":
        """Steps `[E, M]` int64 of every member."""
        members = torch.arange(len(rows), device=rows.device).unsqueeze(1)
        return Steps(*(part[members, rows] for part in vars(self).values()))


def advantages_of(
    rewards: Tensor, values: Tensor, ended: Tensor, last: Tensor, discount: float, trace: float
) -> Tensor:
    """Generalised advantage estimation.

    Args:
        rewards: `[E, T, A]`.
        values: `[E, T, A]`, expected before each step.
        ended: `[E, T, A]` bool: the step ended its episode.
        last: `[E, A]`, expected after the last step.
        discount: of a step.
        trace: lambda.

    Returns:
        `[E, T, A]`.
    """
    found = torch.empty_like(rewards)
    carried, following = torch.zeros_like(last), last
    for step in range(rewards.shape[1] - 1, -1, -1):
        goes_on = (~ended[:, step]).to(rewards.dtype)
        error = rewards[:, step] + discount * following * goes_on - values[:, step]
        carried = error + discount * trace * goes_on * carried
        found[:, step] = carried
        following = values[:, step]
    return found


def normalise(advantages: Tensor) -> Tensor:
    """Mean 0 and deviation 1 over all steps of a member."""
    mean = advantages.mean(dim=1, keepdim=True)
    return (advantages - mean) / (advantages.std(dim=1, keepdim=True) + _TINY)


def pick(chances: Tensor, choices: Tensor) -> Tensor:
    """`[..., K]` and `[...]` int64 -> `[...]`; a product, whose gradient adds in one order."""
    every = torch.arange(chances.shape[-1], device=choices.device)
    return (chances * (choices.unsqueeze(-1) == every)).sum(dim=-1)


def weigh(
    logits: Tensor, values: Tensor, steps: Steps, first: int, config: PpoConfig
) -> tuple[Tensor, Tensor, Tensor]:
    """The loss of the mini-batch that begins at step `first`.

    Returns:
        Its gradients by the logits `[E, M, K]` and values `[E, M]`, and its parts `[3, E, M]`: the
        policy's loss, the value's loss and the entropy of each step.
    """
    by_logits, by_values = torch.empty_like(logits), torch.empty_like(values)
    losses = values.new_empty(3, *values.shape)
    given = steps.choices, steps.chances, steps.values, steps.advantages, steps.returns
    weigh_steps(
        first,
        (config.clip, config.clip_value, config.value_weight, config.entropy),
        logits.detach(), values.detach(), *given, by_logits, by_values, losses,
    )  # fmt: skip
    return by_logits, by_values, losses


class Learner:
    """Adam on the members' parameters, each with its own learning rate and gradient length.

    Attributes:
        flat: `[E, size]`, the parameters.
        count: gradient steps so far.
    """

    def __init__(
        self, config: PpoConfig, forward: Forward, flat: Tensor, learning_rates: Tensor
    ) -> None:
        self.config, self.forward = config, forward
        self.flat = flat.clone().requires_grad_()
        self._rates = learning_rates
        self._first, self._second = torch.zeros_like(flat), torch.zeros_like(flat)
        self.count = 0
        self._go_through = Replayed(self._descend_all, self._changed, flat.device)

    def _changed(self) -> list[Tensor]:
        return [self.flat.detach(), self._first, self._second]

    def learn(self, steps: Steps, orders: Tensor, update: int) -> Tensor:
        """One update from a rollout.

        Args:
            steps: the rollout.
            orders: `[epochs, E, N]` int64: in which order the steps are gone through.
            update: how many updates came before.

        Returns:
            `[E, 4]`, the means of `STATISTICS` over the gradient steps; overwritten by the next.
        """
        paces = self._paces(update).to(self.flat)
        return self._go_through(orders, paces, *vars(steps).values())

    def _paces(self, update: int) -> Tensor:
        """`[gradient steps, 7]`: Adam's numbers for each, decay and corrections included."""
        config = self.config
        share = 1.0 - update / config.updates if config.decay else 1.0
        slow, slower = _BETAS
        steps = config.epochs * config.rollout // config.minibatch
        rows = []
        for count in range(self.count + 1, self.count + steps + 1):
            right = (1 - slower**count) ** 0.5
            pace = share * right / (1 - slow**count), config.adam_epsilon * right
            rows.append((*pace, 1 - slow, slower, 1 - slower, config.gradient_norm, _SHORT))
        self.count += steps
        return torch.tensor(rows, dtype=torch.float64)

    def _descend_all(self, orders: Tensor, paces: Tensor, *parts: Tensor) -> Tensor:
        steps, places = Steps(*parts), range(0, self.config.rollout, self.config.minibatch)
        batches = ((epoch, first) for epoch in map(steps.take, orders) for first in places)
        told = [self._descend(*part, pace) for part, pace in zip(batches, paces, strict=True)]
        losses, lengths = (torch.stack(column) for column in zip(*told, strict=True))
        return torch.cat([losses.mean(dim=(0, 3)), lengths.mean(dim=0, keepdim=True)]).T

    def _descend(self, steps: Steps, first: int, pace: Tensor) -> tuple[Tensor, Tensor]:
        """One gradient step; returns the losses `[3, E, M]` and the gradients' lengths `[E]`."""
        part = slice(first, first + self.config.minibatch)
        logits, values = self.forward(self.flat, steps.seen[:, part], steps.mode[:, part])
        by_logits, by_values, losses = weigh(logits, values, steps, first, self.config)
        (gradient,) = torch.autograd.grad((logits, values), self.flat, (by_logits, by_values))
        lengths = gradient.norm(dim=1)
        moments = self._first, self._second
        move_parameters(lengths, self._rates, pace, self.flat.detach(), *moments, gradient)
        return losses, lengths

    @torch.no_grad()
    def begin_anew(self, member: int, row: Tensor) -> None:
        """Give a member other parameters, `[size]`, and no past."""
        self.flat[member] = row
        self._first[member] = 0.0
        self._second[member] = 0.0

    def to_arrays(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        tensors = {"flat": self.flat.detach(), "first": self._first, "second": self._second}
        return {name: tensor.cpu().numpy() for name, tensor in tensors.items()}

    @torch.no_grad()
    def restore(self, arrays: dict[str, Any], count: int) -> None:
        """Go on from a checkpoint."""
        self.flat.copy_(torch.from_numpy(arrays["flat"]))
        self._first.copy_(torch.from_numpy(arrays["first"]))
        self._second.copy_(torch.from_numpy(arrays["second"]))
        self.count = count
