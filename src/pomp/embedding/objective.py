"""The losses of a batch, and the rewards of sampled programs' behaviour.

Axes: B programs of L tokens, Z the latent, N demonstrations of T steps. `noise` `[B, Z]` float32 is
standard normal noise for the latents.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pomp.dsl.bytecode import Code, compile_ids
from pomp.dsl.vocabulary import Vocabulary
from pomp.embedding.batches import BehaviourBatch, Planes, ProgramBatch, SpreadStates
from pomp.embedding.comparison import agreement
from pomp.embedding.config import ReinforceConfig
from pomp.embedding.demonstrations import Demonstrations, demonstrate, random_worlds
from pomp.embedding.losses import (
    kl_divergence,
    latent_behaviour_reconstruction,
    program_behaviour_reconstruction,
    program_reconstruction,
)
from pomp.embedding.model import NO_OP, EmbeddingModel

VALID_BONUS, INVALID_REWARD = 0.1, 0.01


@dataclass(frozen=True)
class Terms:
    """The terms of the supervised loss, scalar tensors `[]` float32.

    Attributes:
        reconstruction: the reconstruction of programs.
        kl: the KL term.
        behaviour: the reconstruction of behaviours; zero without demonstrations.
        total: their weighted sum, which is minimised.
    """

    reconstruction: Tensor
    kl: Tensor
    behaviour: Tensor
    total: Tensor

    def stacked(self) -> Tensor:
        """Return all terms as one tensor, `[4]` float32, without gradients."""
        return torch.stack([term.detach() for term in vars(self).values()])


def supervised_terms(
    model: EmbeddingModel,
    planes: Planes,
    programs: ProgramBatch,
    behaviours: BehaviourBatch | None,
    noise: Tensor,
    beta: float,
    weight: float,
) -> Terms:
    """Return L_P and L_L of a batch.

    Args:
        model: the networks.
        planes: turns worlds into the planes the policy sees.
        programs: B programs.
        behaviours: N demonstrations of them, the same number of each, or None: no L_L.
        noise: `[B, Z]` float32, standard normal noise for the latents.
        beta: the weight of the KL term.
        weight: the weight of L_L.
    """
    posterior = model.posterior(programs.ids, programs.lengths)
    latent = model.sample(posterior, noise)
    logits = model.token_logits(latent, programs.read, programs.states)
    reconstruction = program_reconstruction(logits, programs.targets, model.vocabulary.pad)
    kl = kl_divergence(posterior)
    behaviour = torch.zeros_like(kl)
    if behaviours is not None:
        actions = policy_logits(model, planes, latent, behaviours)
        behaviour = latent_behaviour_reconstruction(actions, behaviours.targets, NO_OP)
    total = reconstruction + beta * kl + weight * behaviour
    return Terms(reconstruction, kl, behaviour, total)


def policy_logits(
    model: EmbeddingModel, planes: Planes, latent: Tensor, behaviours: BehaviourBatch
) -> Tensor:
    """Run the condition policy along demonstrations, fed the true actions.

    Args:
        model: the networks.
        planes: turns worlds into the planes the policy sees.
        latent: `[B, Z]` float32, the programs' latents.
        behaviours: N demonstrations of them, the same number of each.

    Returns:
        `[N, T, 6]` float32, the logits of the actions.
    """
    times = len(behaviours.targets) // len(latent)
    repeated = latent.unsqueeze(1).expand(-1, times, -1).flatten(0, 1)
    features = model.policy.see(planes(behaviours.cells, behaviours.pose))
    seen: Tensor = SpreadStates.apply(features, behaviours)  # type: ignore[no-untyped-call]  # torch's
    return model.policy(repeated, seen, behaviours.previous)[0]


def reinforce_loss(
    model: EmbeddingModel,
    originals: ProgramBatch,
    sampled: ProgramBatch,
    rewards: Tensor,
    noise: Tensor,
    config: ReinforceConfig,
) -> Tensor:
    """Return L_R of a minibatch, `[]` float32.

    Paper: the published code computes the log-probabilities anew with fresh noise, so they belong
    to a slightly other latent than the programs were sampled from; so does this.

    Args:
        model: the networks.
        originals: B programs.
        sampled: the programs sampled from their latents.
        rewards: `[B]` float32, the normalised rewards of the sampled programs.
        noise: `[B, Z]` float32, standard normal noise for the latents.
        config: the weights of the terms.
    """
    posterior = model.posterior(originals.ids, originals.lengths)
    latent = model.sample(posterior, noise)
    logits = model.token_logits(latent, sampled.read, sampled.states)
    loss = program_behaviour_reconstruction(
        logits, sampled.targets, rewards, model.vocabulary.pad, config.entropy
    )
    return loss + config.kl * kl_divergence(posterior)


@dataclass(frozen=True)
class Originals:
    """Programs, and random worlds on which all of their branches are seen."""

    code: Code
    starts: Demonstrations


def show_originals(
    ids: NDArray[np.uint8],
    streams: NDArray[np.uint64],
    vocabulary: Vocabulary,
    config: ReinforceConfig,
) -> Originals:
    """Find random worlds on which all branches of programs are seen.

    Args:
        ids: `[B, L]` uint8, the programs' token ids.
        streams: `[B]` uint64, the random streams of their worlds, written.
        vocabulary: the tokens they are made of.
        config: how many worlds, and of which kind.
    """
    code = compile_ids(ids, vocabulary)
    starts = demonstrate(
        code, streams, random_worlds(config.walls), wanted=config.states, trials=config.trials,
        least_states=1, most_states=config.most_states, stop_on_error=False,
    )  # fmt: skip
    return Originals(code, starts)


def behaviour_rewards(
    originals: Originals,
    sampled: NDArray[np.uint8],
    vocabulary: Vocabulary,
    config: ReinforceConfig,
) -> NDArray[np.float32]:
    """Reward sampled programs for behaving like the originals.

    Args:
        originals: B programs and their worlds.
        sampled: `[B, L]` uint8, token ids of the sampled programs.
        vocabulary: the tokens they are made of.
        config: the kind of worlds.

    Returns:
        `[B]` float32, agreement and bonus; a fixed reward for what is no program.
    """
    code = compile_ids(sampled, vocabulary)
    agreed = agreement(originals.code, code, originals.starts, random_worlds(config.walls))
    return np.where(code.valid, agreed + VALID_BONUS, INVALID_REWARD).astype(np.float32)
