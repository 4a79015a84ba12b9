"""Proximal policy optimisation, for an ensemble of members that never meet.

It knows tensors alone: what was seen and done comes in, parameters are changed in place. `[E]` is
the axis of members, `[T]` of steps, `[A]` of actors, `[N]` of the T * A steps of a rollout.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pomp.graphs import Replayed
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


def pick(chances: Tensor, choices: Tensor) -> Tensor:
    """`[..., K]` and `[...]` int64 -> `[...]`; a product, whose gradient adds in one order."""
    every = torch.arange(chances.shape[-1], device=choices.device)
    return (chances * (choices.unsqueeze(-1) == every)).sum(dim=-1)


def losses_of(logits: Tensor, values: Tensor, steps: Steps, config: PpoConfig) -> Tensor:
    """`[3, E]`: the policy's loss, the value's loss and the entropy of each member."""
    chances = torch.log_softmax(logits, dim=-1)
    ratio = (pick(chances, steps.choices) - steps.chances).exp()
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
        """`[gradient steps, 2]`: what each multiplies the learning rate and Adam's epsilon by.

        The learning rate decays; both hold Adam's corrections for its first steps.
        """
        config = self.config
        share = 1.0 - update / config.updates if config.decay else 1.0
        slow, slower = _BETAS
        first, steps = self.count + 1, config.epochs * config.rollout // config.minibatch
        self.count += steps
        rights = [(1 - slower**count) ** 0.5 for count in range(first, first + steps)]
        rates = [share / (1 - slow**count) for count in range(first, first + steps)]
        pairs = [(rate * right, right) for rate, right in zip(rates, rights, strict=True)]
        return torch.tensor(pairs, dtype=torch.float64)

    def _descend_all(self, orders: Tensor, paces: Tensor, *parts: Tensor) -> Tensor:
        steps, size, told = Steps(*parts), self.config.minibatch, []
        pace = iter(paces)
        for order in orders:
            shuffled = steps.take(order)
            for first in range(0, self.config.rollout, size):
                told.append(self._descend(shuffled.cut(first, first + size), next(pace)))
        return torch.stack(told).mean(dim=0)

    def _descend(self, part: Steps, pace: Tensor) -> Tensor:
        logits, values = self.forward(self.flat, part.seen, part.mode)
        policy, value, entropy = losses = losses_of(logits, values, part, self.config)
        loss = policy + self.config.value_weight * value - self.config.entropy * entropy
        (gradient,) = torch.autograd.grad(loss.sum(), self.flat)
        length = gradient.norm(dim=1, keepdim=True)
        gradient = gradient * (self.config.gradient_norm / (length + _SHORT)).clamp(max=1.0)
        self._follow(gradient, *pace)
        return torch.cat([losses.detach().T, length], dim=1)

    @torch.no_grad()
    def _follow(self, gradient: Tensor, faster: Tensor, right: Tensor) -> None:
        """One step of Adam."""
        slow, slower = _BETAS
        self._first.lerp_(gradient, 1 - slow)
        self._second.mul_(slower).addcmul_(gradient, gradient, value=1 - slower)
        spread = self._second.sqrt().add_(self.config.adam_epsilon * right)
        self.flat.addcdiv_(self._first * (self._rates * faster), spread, value=-1)

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
