"""What is minimised: the losses of a batch, and the pass that rewards behaviour."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pomp.dsl.bytecode import Code, compile_ids
from pomp.dsl.vocabulary import Vocabulary
from pomp.embedding.batches import BehaviourBatch, Planes, ProgramBatch, SpreadStates
from pomp.embedding.config import ReinforceConfig
from pomp.embedding.demonstrations import Demonstrations, agreement, demonstrate, random_worlds
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
    """The terms of the supervised loss, and what they add up to."""

    reconstruction: Tensor
    kl: Tensor
    behaviour: Tensor
    total: Tensor

    def stacked(self) -> Tensor:
        """All of them as one tensor, cut off from their gradients."""
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
    """L_P and L_L of a batch; the latter is zero without behaviours."""
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
    """The condition policy along demonstrations, fed the true actions: `[N, T, 6]`."""
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
    """L_R of a mini-batch.

    Paper: the published code computes the log-probabilities anew with fresh noise, so they belong
    to a slightly other latent than the programs were sampled from; so does this.
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
    """Programs and random worlds on which their behaviour shows."""

    code: Code
    starts: Demonstrations


def show_originals(
    ids: NDArray[np.uint8],
    streams: NDArray[np.uint64],
    vocabulary: Vocabulary,
    config: ReinforceConfig,
) -> Originals:
    """Find random worlds for programs: `[B, L]` token ids and `[B]` streams, which are written."""
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
    """What sampled programs `[B, L]` are worth: agreement with the originals, and a bonus."""
    code = compile_ids(sampled, vocabulary)
    worth = agreement(originals.code, code, originals.starts, random_worlds(config.walls))
    return np.where(code.valid, worth + VALID_BONUS, INVALID_REWARD).astype(np.float32)
