"""Proximal policy optimisation, for an ensemble of members that never meet.

It knows tensors alone: what was seen and done comes in, parameters are changed in place. `[E]` is
the axis of members, `[T]` of steps, `[A]` of actors, `[N]` of the T * A steps of a rollout.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pomp.machine.config import PpoConfig

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

    def cut(self, first: int, last: int) -> "Steps":
        """Steps `first` to `last - 1` of every member; views."""
        return Steps(*(part[:, first:last] for part in vars(self).values()))


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


def losses_of(logits: Tensor, values: Tensor, steps: Steps, config: PpoConfig) -> Tensor:
    """`[3, E]`: the policy's loss, the value's loss and the entropy of each member."""
    chances = torch.log_softmax(logits, dim=-1)
    chosen = chances.gather(-1, steps.choices.unsqueeze(-1)).squeeze(-1)
    ratio = (chosen - steps.chances).exp()
    clipped = ratio.clamp(1 - config.clip, 1 + config.clip)
    gained = torch.minimum(ratio * steps.advantages, clipped * steps.advantages)
    error = (values - steps.returns).square()
    if config.clip_value:
        moved = (values - steps.values).clamp(-config.clip, config.clip)
        error = torch.maximum(error, (steps.values + moved - steps.returns).square())
    entropy = -(chances.exp() * chances).sum(dim=-1)
    return torch.stack([-gained.mean(dim=1), 0.5 * error.mean(dim=1), entropy.mean(dim=1)])


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
        self._rates = learning_rates.unsqueeze(1)  # [E, 1]
        self._first, self._second = torch.zeros_like(flat), torch.zeros_like(flat)
        self.count = 0

    def learn(self, steps: Steps, orders: Tensor, update: int) -> Tensor:
        """One update from a rollout.

        Args:
            steps: the rollout.
            orders: `[epochs, E, N]` int64: in which order the steps are gone through.
            update: how many updates came before.

        Returns:
            `[E, 4]`, the means of `STATISTICS` over the gradient steps.
        """
        config = self.config
        share = 1.0 - update / config.updates if config.decay else 1.0
        told = []
        for order in orders:
            shuffled = steps.take(order)
            for first in range(0, config.rollout, config.minibatch):
                part = shuffled.cut(first, first + config.minibatch)
                told.append(self._descend(part, share))
        return torch.stack(told).mean(dim=0)

    def _descend(self, part: Steps, share: float) -> Tensor:
        logits, values = self.forward(self.flat, part.seen, part.mode)
        policy, value, entropy = losses = losses_of(logits, values, part, self.config)
        loss = policy + self.config.value_weight * value - self.config.entropy * entropy
        (gradient,) = torch.autograd.grad(loss.sum(), self.flat)
        length = gradient.norm(dim=1, keepdim=True)
        gradient = gradient * (self.config.gradient_norm / (length + _SHORT)).clamp(max=1.0)
        self._follow(gradient, share)
        return torch.cat([losses.detach().T, length], dim=1)

    @torch.no_grad()
    def _follow(self, gradient: Tensor, share: float) -> None:
        """One step of Adam; its corrections for the first steps are in the rate and the epsilon."""
        self.count += 1
        slow, slower = _BETAS
        self._first.lerp_(gradient, 1 - slow)
        self._second.mul_(slower).addcmul_(gradient, gradient, value=1 - slower)
        right = (1 - slower**self.count) ** 0.5
        spread = self._second.sqrt().add_(self.config.adam_epsilon * right)
        rates = self._rates * (share * right / (1 - slow**self.count))
        self.flat.addcdiv_(self._first * rates, spread, value=-1)

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
