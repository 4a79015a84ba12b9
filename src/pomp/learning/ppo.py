"""Proximal policy optimisation, for an ensemble of members that never meet.

It knows tensors alone: observations and choices come in, parameters are changed in place. The axes
are E members, T macro steps of each of A actors, N = T * A macro steps of a rollout, M of those in
a mini-batch, S parameters of a member, and K + 1 choices (the modes, and the end).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from pomp.core.graphs import Replayed
from pomp.learning.adam import AdamSettings, AdamState, Gradients, adam_step, correct_bias
from pomp.learning.clipped_loss import Collected, LossSettings, Outputs, PpoLoss, write_ppo_loss
from pomp.learning.config import PpoConfig
from pomp.machine.network import Ensemble

if TYPE_CHECKING:
    from pomp.learning.fused import FusedStep

STATISTICS = ("policy_loss", "value_loss", "entropy", "gradient_norm")
"""What is reported about an update, as means over its gradient steps."""

_ADVANTAGE_EPS = 1e-5  # added to the standard deviation of the advantages


class Network(Protocol):
    """Networks of E members, as `pomp.machine.network.Ensemble`; only some remember."""

    def __call__(
        self, parameters: Tensor, observations: Tensor, modes: Tensor, /
    ) -> tuple[Tensor, Tensor]:
        """Compute logits `[E, B, K + 1]` and values `[E, B]`.

        Args:
            parameters: `[E, S]`.
            observations: `[E, B, ...]`.
            modes: `[E, B]` int64.
        """

    def recall(
        self, parameters: Tensor, observations: Tensor, modes: Tensor, states: Tensor, steps: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute logits, values and the next states in sequences of macro steps.

        Args:
            parameters: `[E, S]`.
            observations: `[E, T * B, ...]`, a step of all sequences, then the next.
            modes: `[E, T * B]` int64.
            states: `[E, B, U]`, what is remembered before the first step.
            steps: T.
        """


@dataclass(frozen=True)
class RolloutBatch:
    """The macro steps of a rollout, or a part of them.

    Attributes:
        observations: `[E, N, ...]` uint8, what the network saw.
        modes: `[E, N]` int64, the mode that ran before, which it saw, too.
        choices: `[E, N]` int64, the actions taken: a mode, or the end.
        log_probs: `[E, N]` float32, the logarithms of their probabilities then.
        values: `[E, N]` float32, the network's values then.
        advantages: `[E, N]` float32, normalised.
        returns: `[E, N]` float32, the targets of the values.
        states: `[E, N, U]` float32, what the network remembered before each step then; None: it
            does not remember.
    """

    observations: Tensor
    modes: Tensor
    choices: Tensor
    log_probs: Tensor
    values: Tensor
    advantages: Tensor
    returns: Tensor
    states: Tensor | None = None

    @property
    def parts(self) -> list[Tensor]:
        """Its fields, `[E, N, ...]` each, without states that nobody has."""
        return [part for part in vars(self).values() if part is not None]

    def select(self, rows: Tensor) -> "RolloutBatch":
        """Return some steps of every member, in the order of `rows`, `[E, M]` int64."""
        members = torch.arange(len(rows), device=rows.device).unsqueeze(1)
        return RolloutBatch(*(part[members, rows] for part in self.parts))

    @property
    def collected(self) -> Collected:
        """What was done and expected when it was collected, `[E, N]` each."""
        return Collected(self.choices, self.log_probs, self.values, self.advantages, self.returns)


def order_sequences(actors: Tensor, steps: int, together: int) -> Tensor:
    """Return the order of a rollout's steps in which mini-batches are whole sequences of actors.

    Args:
        actors: `[..., A]` int64, the order of the actors.
        steps: T, of each actor.
        together: the actors of a mini-batch.

    Returns:
        `[..., T * A]` int64: within a mini-batch a step of all its actors, then the next.
    """
    groups = actors.reshape(*actors.shape[:-1], -1, 1, together)
    first = torch.arange(steps, device=actors.device).unsqueeze(1) * actors.shape[-1]
    return (groups + first).flatten(-3)


def estimate_advantages(
    rewards: Tensor,
    values: Tensor,
    ended: Tensor,
    last_values: Tensor,
    discount: float,
    gae_lambda: float,
) -> Tensor:
    """Generalised advantage estimation.

    Args:
        rewards: `[E, T, A]` float.
        values: `[E, T, A]` float, expected before each step.
        ended: `[E, T, A]` bool, whether the step ended its episode.
        last_values: `[E, A]` float, expected after the last step.
        discount: factor of the value one step later.
        gae_lambda: factor, beside the discount, of the advantage one step later.

    Returns:
        `[E, T, A]` float.
    """
    advantages = torch.empty_like(rewards)
    advantage, next_values = torch.zeros_like(last_values), last_values
    for step in range(rewards.shape[1] - 1, -1, -1):
        goes_on = (~ended[:, step]).to(rewards.dtype)
        error = rewards[:, step] + discount * next_values * goes_on - values[:, step]
        advantage = error + discount * gae_lambda * goes_on * advantage
        advantages[:, step] = advantage
        next_values = values[:, step]
    return advantages


def normalise_advantages(advantages: Tensor) -> Tensor:
    """Shift and scale `advantages`, `[E, N]`, to mean 0 and deviation 1 for each member."""
    mean = advantages.mean(dim=1, keepdim=True)
    return (advantages - mean) / (advantages.std(dim=1, keepdim=True) + _ADVANTAGE_EPS)


def select_log_probs(log_probs: Tensor, choices: Tensor) -> Tensor:
    """Return the log probabilities of what was chosen.

    Args:
        log_probs: `[..., K + 1]` float, of all choices.
        choices: `[...]` int64.

    Returns:
        `[...]` float: a sum of products, whose gradient adds in one order on every device.
    """
    every = torch.arange(log_probs.shape[-1], device=choices.device)
    return (log_probs * (choices.unsqueeze(-1) == every)).sum(dim=-1)


def ppo_loss(
    logits: Tensor, values: Tensor, batch: RolloutBatch, first: int, config: PpoConfig
) -> PpoLoss:
    """Compute the clipped loss of PPO, its gradients and its terms.

    Args:
        logits: `[E, M, K + 1]` float32, what the network says now about the mini-batch.
        values: `[E, M]` float32, likewise.
        batch: the rollout, in the order in which its mini-batches follow each other.
        first: the place of the mini-batch's first step in `batch`.
        config: clipping and weights.
    """
    grad_logits, grad_values = torch.empty_like(logits), torch.empty_like(values)
    loss = PpoLoss(grad_logits, grad_values, values.new_empty(3, *values.shape))
    outputs = Outputs(logits.detach(), values.detach())
    write_ppo_loss(first, loss_settings(config), outputs, batch.collected, loss)
    return loss


def loss_settings(config: PpoConfig) -> LossSettings:
    """Return the numbers of the loss."""
    return LossSettings(config.clip_ratio, config.clip_value, config.value_weight, config.entropy)


class Learner:
    """PPO's updates of the members' parameters, by Adam.

    A rollout is divided into rows, of which some make a mini-batch: here each macro step is one.

    Attributes:
        network: computes logits and values.
        parameters: `[E, S]`, of all members.
        gradient_steps: how many were taken so far.
    """

    batch_type: type[Any] = RolloutBatch

    def __init__(
        self,
        config: PpoConfig,
        network: Any,
        parameters: Tensor,
        learning_rates: Tensor,
    ) -> None:
        """Begin with no past.

        Args:
            config: settings of PPO.
            network: a `Network`, or that of another kind of learner.
            parameters: `[E, S]` float, the first; copied.
            learning_rates: `[E]` float, of each member.
        """
        self.config, self.network = config, network
        self.parameters = parameters.clone().requires_grad_()
        self._learning_rates = learning_rates
        self._first_moment = torch.zeros_like(parameters)
        self._second_moment = torch.zeros_like(parameters)
        self.gradient_steps = 0
        dtype = torch.empty(0, dtype=parameters.dtype).numpy().dtype.type
        self._adam = AdamSettings.of(config.gradient_norm, dtype)
        self._run = Replayed(self._run_epochs, lambda: list(self._state), parameters.device)
        self._fused = self._fuse()

    def _fuse(self) -> "FusedStep | None":
        """Return gradient steps in few kernels, on a GPU and for networks that have them."""
        network, parameters = self.network, self.parameters.detach()
        if parameters.device.type != "cuda" or not isinstance(network, Ensemble):
            return None
        if not network.is_fused or parameters.dtype != torch.float32:
            return None
        from pomp.learning.fused import FusedStep

        return FusedStep(network.fuse(self.config.minibatch), parameters, self._learning_rates)

    @property
    def _state(self) -> AdamState:
        return AdamState(self.parameters.detach(), self._first_moment, self._second_moment)

    def learn(self, batch: Any, orders: Tensor, update: int) -> Tensor:
        """Learn from one rollout.

        Args:
            batch: the rollout.
            orders: `[epochs, E, rows]` int64, in which order each epoch goes through its rows.
            update: how many updates came before.

        Returns:
            `[E, 4]`, the means of `STATISTICS` over the gradient steps; overwritten by the next.
        """
        corrections = self._correct_steps(update).to(self.parameters)
        return self._run(orders, corrections, *batch.parts)

    def _correct_steps(self, update: int) -> Tensor:
        """Count the gradient steps of an update; return their corrections, `[steps, 2]` float64."""
        config = self.config
        decay = 1.0 - update / config.updates if config.decay else 1.0
        first = self.gradient_steps + 1
        self.gradient_steps += config.epochs * config.rollout // config.minibatch
        counts = range(first, self.gradient_steps + 1)
        rows = [correct_bias(count, config.adam_epsilon, decay) for count in counts]
        return torch.tensor(rows, dtype=torch.float64)

    def _run_epochs(self, orders: Tensor, corrections: Tensor, *parts: Tensor) -> Tensor:
        """Go through a rollout in mini-batches, once for each epoch.

        Args:
            orders: `[epochs, E, rows]` int64.
            corrections: `[steps, 2]`, Adam's, for each gradient step.
            parts: the fields of the batch, `[E, rows, ...]`.

        Returns:
            `[E, 4]`, the means of `STATISTICS`.
        """
        batch, rows = self.batch_type(*parts), orders.shape[2]
        share = rows * self.config.minibatch // self.config.rollout
        cuts = [slice(first, first + share) for first in range(0, rows, share)]
        minibatches = ((epoch, part) for epoch in map(batch.select, orders) for part in cuts)
        steps = [
            self._step_minibatch(*minibatch, correction)
            for minibatch, correction in zip(minibatches, corrections, strict=True)
        ]
        terms, norms = (torch.stack(column) for column in zip(*steps, strict=True))
        return torch.cat([terms.mean(dim=(0, 3)), norms.mean(dim=0, keepdim=True)]).T

    def _step_minibatch(
        self, batch: Any, part: slice, corrections: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Take one gradient step.

        Args:
            batch: an epoch's rows.
            part: which of them are the mini-batch.
            corrections: `[2]`, Adam's, for this gradient step.

        Returns:
            The terms of the loss, `[3, E, M]`, and the norms of the gradients, `[E]`.
        """
        if self._fused is not None:
            seen, adam = (batch.observations, batch.modes, part.start), (corrections, self._adam)
            numbers = loss_settings(self.config)
            return self._fused.step(*seen, batch.collected, numbers, self._state, adam)
        outputs, slopes, terms = self._differentiate(batch, part)
        (gradients,) = torch.autograd.grad(outputs, self.parameters, slopes)
        norms = gradients.norm(dim=1)
        given = Gradients(gradients, norms, self._learning_rates)
        adam_step(corrections, self._adam, self._state, given)
        return terms, norms

    def _differentiate(
        self, batch: Any, part: slice
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], Tensor]:
        """Compute the loss of a mini-batch, which is some rows of a batch.

        Returns:
            The network's outputs, `[E, M, ...]` each, the gradients of the loss by them, of the
            same shapes, and the terms of the loss, `[3, E, M]`.
        """
        logits, values = self._respond(batch, part)
        loss = ppo_loss(logits, values, batch, part.start, self.config)
        return (logits, values), (loss.grad_logits, loss.grad_values), loss.terms

    def _respond(self, batch: RolloutBatch, part: slice) -> tuple[Tensor, Tensor]:
        """Return logits, `[E, M, K + 1]`, and values, `[E, M]`, of a mini-batch of an epoch."""
        seen = self.parameters, batch.observations[:, part], batch.modes[:, part]
        network: Network = self.network
        if batch.states is None:
            return network(*seen)
        steps = self.config.steps
        first = batch.states[:, part][:, : self.config.minibatch // steps]
        logits, values, _ = network.recall(*seen, first, steps)
        return logits.contiguous(), values.contiguous()

    @torch.no_grad()
    def reset_member(self, member: int, parameters: Tensor) -> None:
        """Give a member other `parameters`, `[S]`, and moments of zero."""
        self.parameters[member] = parameters
        self._first_moment[member] = 0.0
        self._second_moment[member] = 0.0

    def to_arrays(self) -> dict[str, Any]:
        """Return what a checkpoint keeps: parameters and moments, `[E, S]` each."""
        return {name: tensor.cpu().numpy() for name, tensor in self._state._asdict().items()}

    @torch.no_grad()
    def restore(self, arrays: dict[str, Any], gradient_steps: int) -> None:
        """Go on from a checkpoint: what `to_arrays` gave, and the gradient steps taken before."""
        for name, tensor in self._state._asdict().items():
            tensor.copy_(torch.from_numpy(arrays[name]))
        self.gradient_steps = gradient_steps
