"""Episodes of meta-policies in training: the rollouts they learn from, those that validate them.

The axes are E members, A actors (worlds) of each, T macro steps of a rollout, S parameters of a
member, Z numbers of a latent, and H that a network remembers. Decoding needs the host at every
macro step, so on a GPU what comes before it is one CUDA graph, and what comes after it another.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pomp.core.graphs import Replayed, exact
from pomp.core.streams import draw_normal
from pomp.hprl.config import HprlConfig
from pomp.hprl.episodes import LatentViews, Played
from pomp.hprl.network import MetaNetwork
from pomp.learning.gaussian_loss import (
    DrawnVectors,
    GaussianOutputs,
    gaussian_loss,
    log_densities,
)
from pomp.learning.ppo import (
    Learner,
    estimate_advantages,
    loss_settings,
    normalise_advantages,
)
from pomp.learning.rollouts import EpisodeOutcomes, Rollouts, ValidationEpisodes


@dataclass(frozen=True)
class LatentBatch:
    """The macro steps of a rollout, actor by actor, or those of some actors.

    Attributes:
        observations: `[E, A, T, 8, H, W]` uint8, what the network saw.
        memory: `[E, A, H]` float32, what it remembered before the first step.
        goes_on: `[E, A, T]` float32, 1 where a step goes on with an episode, 0 where one begins.
        latents: `[E, A, T, Z]` float32, what was drawn, before tanh.
        log_probs: `[E, A, T]` float32, the logarithms of their densities then.
        values: `[E, A, T]` float32, the network's values then.
        advantages: `[E, A, T]` float32, normalised.
        returns: `[E, A, T]` float32, the targets of the values.
    """

    observations: Tensor
    memory: Tensor
    goes_on: Tensor
    latents: Tensor
    log_probs: Tensor
    values: Tensor
    advantages: Tensor
    returns: Tensor

    def select(self, rows: Tensor) -> "LatentBatch":
        """Return some actors of every member, in the order of `rows`, `[E, M]` int64."""
        members = torch.arange(len(rows), device=rows.device).unsqueeze(1)
        return LatentBatch(*(part[members, rows] for part in self.parts))

    @property
    def parts(self) -> list[Tensor]:
        """Its fields, `[E, A, ...]` each."""
        return list(vars(self).values())


class MetaLearner(Learner):
    """PPO's updates of meta-policies: a row of a rollout is all macro steps of an actor."""

    batch_type = LatentBatch

    def _differentiate(
        self, batch: LatentBatch, part: slice
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], Tensor]:
        """Compute the loss of a mini-batch, which is some actors of a batch.

        Returns:
            The network's outputs, `[E, ...]` each, the gradients of the loss by them, of the same
            shapes, and the terms of the loss, `[3, E, M]`.
        """
        rows = (batch.observations[:, part], batch.memory[:, part], batch.goes_on[:, part])
        means, log_stds, values = self.network(self.parameters, *rows)
        vectors, *numbers = (
            getattr(batch, name).flatten(1, 2)
            for name in ("latents", "log_probs", "values", "advantages", "returns")
        )
        detached = (one.detach().contiguous() for one in (means, log_stds, values))
        loss = gaussian_loss(
            part.start * batch.goes_on.shape[2],
            loss_settings(self.config),
            GaussianOutputs(*detached),
            DrawnVectors(vectors, *numbers),
        )
        slopes = (loss.grad_means, loss.grad_log_stds.sum(dim=1), loss.grad_values)
        return (means, log_stds, values), slopes, loss.terms


class Drawn(NamedTuple):
    """What a network saw and drew at a macro step.

    Attributes:
        observations: `[E, A, 8, H, W]` uint8.
        goes_on: `[E, A]` float32, 1 where an episode goes on, 0 where one begins.
        latents: `[E, A, Z]` float32, before tanh.
        log_probs: `[E, A]` float32, the logarithms of their densities.
        values: `[E, A]` float32.
    """

    observations: Tensor
    goes_on: Tensor
    latents: Tensor
    log_probs: Tensor
    values: Tensor


class LatentActor:
    """Draws latents for worlds, macro step by macro step, and remembers their episodes.

    Attributes:
        memory: `[E, A, H]` float32, what is remembered of each world's episode.
    """

    def __init__(self, network: MetaNetwork, parameters: Tensor, views: LatentViews) -> None:
        """Remember nothing yet.

        Args:
            network: proposes latents.
            parameters: `[E, S]` float32, read at every step.
            views: the episodes.
        """
        self._network, self._parameters, self._views = network, parameters, views
        shape = (views.members, views.actors, network.shape.hidden)
        self.memory = torch.zeros(shape, device=parameters.device)
        self._run = Replayed(self._draw, list, parameters.device)

    @property
    def latent(self) -> int:
        """Z."""
        return self._network.shape.latent

    def draw(self, noise: Tensor) -> Drawn:
        """Look at the worlds and draw the next latents.

        Args:
            noise: `[E, A, Z]` float32, standard normal; zeros: the likeliest latents.
        """
        with exact(self._parameters.device):
            found = self._run(self.memory, noise)
        *drawn, self.memory = (tensor.clone() for tensor in found)
        return Drawn(*drawn)

    @torch.no_grad()
    def _draw(self, memory: Tensor, noise: Tensor) -> tuple[Tensor, ...]:
        """Draw latents; returns what `Drawn` has, and the new memory.

        `memory` is `[E, A, H]`, `noise` is `[E, A, Z]`, and so are the tensors returned.
        """
        observations, goes_on = self._views.look(), (self._views.taken() > 0).float()
        means, log_stds, values, memory = self._network.propose(
            self._parameters, observations, memory * goes_on.unsqueeze(-1)
        )
        latents = means + torch.exp(log_stds).unsqueeze(1) * noise
        log_probs = log_densities(latents, means, log_stds)
        return observations, goes_on, latents, log_probs, values, memory


def draw_noise(
    streams: NDArray[np.uint64], steps: int, shape: tuple[int, int, int], device: torch.device
) -> Tensor:
    """Draw standard normal numbers for macro steps.

    Args:
        streams: `[E * A]` uint64, written.
        steps: T.
        shape: E, A and Z.
        device: where the numbers go.

    Returns:
        `[T, E, A, Z]` float32.
    """
    members, actors, latent = shape
    drawn = torch.from_numpy(draw_normal(streams, steps * latent)).to(device)
    return drawn.view(members, actors, steps, latent).permute(2, 0, 1, 3)


class LatentRollouts(Rollouts):
    """Collects rollouts; episodes go on from one to the next, and begin anew where they end.

    Attributes:
        spent: `[E, 2]` int64, how many programs ran so far, and how many actions they took.
    """

    def __init__(
        self,
        config: HprlConfig,
        network: MetaNetwork,
        parameters: Tensor,
        views: LatentViews,
        streams: NDArray[np.uint64],
    ) -> None:
        """Prepare the first rollout.

        Args:
            config: settings of HPRL.
            network: proposes latents.
            parameters: `[E, S]` float32, read at every macro step.
            views: the episodes.
            streams: `[E * A]` uint64, from which latents are drawn.
        """
        super().__init__(config.ppo, network, parameters, views, streams)
        self._cost, self._playing = config.invalid_cost, views
        self._actor = LatentActor(network, parameters, views)
        self.spent = np.zeros((views.members, 2), np.int64)

    def collect(self) -> tuple[Any, EpisodeOutcomes]:
        """Play the macro steps of one rollout; returns a `LatentBatch` and what became of it."""
        views, actor, config = self._playing, self._actor, self._config
        memory, rows = actor.memory, list[tuple[Tensor, ...]]()
        shape = (views.members, views.actors, actor.latent)
        for noise in draw_noise(self._streams, config.steps, shape, memory.device):
            drawn = actor.draw(noise)
            rows.append((*drawn, *(told.clone() for told in views.play(drawn.latents))))
        whole = [torch.stack(column, dim=1) for column in zip(*rows, strict=True)]  # [E, T, A, ...]
        drawn, played = Drawn(*whole[: len(drawn)]), Played(*whole[len(drawn) :])
        counts = (played.is_program, played.acted)
        self.spent += torch.stack([one.sum(dim=(1, 2)) for one in counts], dim=1).cpu().numpy()
        last = actor.memory
        last_values = actor.draw(torch.zeros_like(noise)).values
        actor.memory = last  # the next rollout looks at these worlds again
        rewards = played.rewards - self._cost * (~played.is_program) - config.step_cost
        rewards, values = (config.reward_scale * rewards).to(torch.float32), drawn.values
        advantages = estimate_advantages(
            rewards, values, played.ending != 0, last_values, config.discount, config.gae_lambda
        )
        targets = advantages + values
        normal = normalise_advantages(advantages.flatten(1)).view_as(advantages)
        parts = (*drawn, normal, targets)
        first, *rest = (part.transpose(1, 2).contiguous() for part in parts)
        outcomes = EpisodeOutcomes(played.returns.cpu().numpy(), played.ending.cpu().numpy())
        return LatentBatch(first, memory, *rest), outcomes

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return what a checkpoint keeps: streams, worlds, memories and costs, `[E * A, ...]`."""
        memory = self._actor.memory.flatten(0, 1).cpu().numpy()
        return {**super().to_arrays(), "memory": memory, "spent": self.spent}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Go on from a checkpoint: `arrays`, `[E * A, ...]` each, that `to_arrays` gave."""
        super().restore(arrays)
        self.spent = np.array(arrays["spent"])
        kept = torch.from_numpy(np.array(arrays["memory"])).to(self._actor.memory.device)
        self._actor.memory = kept.view_as(self._actor.memory)


class LatentValidation(ValidationEpisodes):
    """Plays fresh episodes to their ends, with drawn latents."""

    views: LatentViews

    def __init__(self, network: MetaNetwork, parameters: Tensor, views: LatentViews) -> None:
        """Prepare the first validation.

        Args:
            network: proposes latents.
            parameters: `[E, S]` float32, read at every validation.
            views: the episodes, which do not begin anew where they end.
        """
        super().__init__(network, parameters, views)
        self._actor, self._programs = LatentActor(network, parameters, views), network.programs

    def _play(self, choices: NDArray[np.uint64]) -> None:
        """Play episodes that have just begun, with the streams `choices` `[E * A]` uint64."""
        views, actor = self.views, self._actor
        shape = (views.members, views.actors, actor.latent)
        for noise in draw_noise(choices, self._programs, shape, self._device):
            views.play(actor.draw(noise).latents)
