"""The loss of PPO for choices that are vectors, drawn from normal distributions; compiled.

The clipping is that of `clipped_loss`. The axes are E members of the ensemble, N macro steps of a
rollout, M of those in a mini-batch, and Z numbers of a choice. The deviations do not depend on what
a network sees.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pomp.core.compiling import kernel, scalar
from pomp.core.cuda import blocks_for
from pomp.core.graphs import launch_on_stream, share_arrays
from pomp.learning.clipped_loss import (
    ENTROPY,
    POLICY_LOSS,
    VALUE_LOSS,
    LossSettings,
    clip_policy_loss,
    clip_value_loss,
)

_HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)


class GaussianOutputs(NamedTuple):
    """What the network says now about the steps of a mini-batch; read.

    Attributes:
        means: `[E, M, Z]` float32.
        log_stds: `[E, Z]` float32, the logarithms of the standard deviations.
        values: `[E, M]` float32.
    """

    means: Tensor
    log_stds: Tensor
    values: Tensor


class DrawnVectors(NamedTuple):
    """What was done and expected when the rollout was collected; read.

    Attributes:
        vectors: `[E, N, Z]` float32, the choices.
        log_probs: `[E, N]` float32, the logarithms of their densities then.
        values: `[E, N]` float32, the network's values then.
        advantages: `[E, N]` float32, normalised.
        returns: `[E, N]` float32, the targets of the values.
    """

    vectors: Tensor
    log_probs: Tensor
    values: Tensor
    advantages: Tensor
    returns: Tensor


class GaussianLoss(NamedTuple):
    """The loss of a mini-batch, for each of its steps; written.

    Attributes:
        grad_means: `[E, M, Z]` float32, the gradient of the whole loss, which is a mean over the
            mini-batch.
        grad_log_stds: `[E, M, Z]` float32, each step's share of the gradient.
        grad_values: `[E, M]` float32.
        terms: `[3, E, M]` float32: policy loss, value loss and entropy of each step.
    """

    grad_means: Tensor
    grad_log_stds: Tensor
    grad_values: Tensor
    terms: Tensor


def log_densities(vectors: Tensor, means: Tensor, log_stds: Tensor) -> Tensor:
    """Return the logarithms of the densities of vectors.

    Args:
        vectors: `[E, B, Z]` float32.
        means: `[E, B, Z]` float32.
        log_stds: `[E, Z]` float32.

    Returns:
        `[E, B]` float32.
    """
    spread = log_stds.unsqueeze(1)
    scaled = (vectors - means) * torch.exp(-spread)
    return -(0.5 * scaled * scaled + spread + _HALF_LOG_TAU).sum(dim=-1)


@scalar
def gaussian_loss_of_step(member, place, first, settings, outputs, collected, loss):
    """Compute the loss of one step of a mini-batch, and its gradients.

    Args:
        member: the step's member of the ensemble.
        place: the step's place in the mini-batch.
        first: the place of the mini-batch's first step in the rollout.
        settings: a `LossSettings`.
        outputs: a `GaussianOutputs`, read.
        collected: a `DrawnVectors`, read.
        loss: a `GaussianLoss`, of which the entries of this step are written.
    """
    means, step = outputs.means, first + place
    size, width = means.shape[1], means.shape[2]
    log_prob, entropy = 0.0, 0.0
    for number in range(width):
        log_std = np.float64(outputs.log_stds[member, number])
        drawn = np.float64(collected.vectors[member, step, number])
        scaled = (drawn - means[member, place, number]) * math.exp(-log_std)
        log_prob -= 0.5 * scaled * scaled + log_std + _HALF_LOG_TAU
        entropy += log_std + _HALF_LOG_TAU + 0.5
    policy_loss, slope = clip_policy_loss(
        log_prob,
        collected.log_probs[member, step],
        collected.advantages[member, step],
        settings.clip_ratio,
    )
    for number in range(width):
        narrow = math.exp(-np.float64(outputs.log_stds[member, number]))
        drawn = np.float64(collected.vectors[member, step, number])
        scaled = (drawn - means[member, place, number]) * narrow
        loss.grad_means[member, place, number] = slope * scaled * narrow / size
        loss.grad_log_stds[member, place, number] = (
            slope * (scaled * scaled - 1.0) - settings.entropy_weight
        ) / size
    value_loss, grad = clip_value_loss(
        outputs.values[member, place],
        np.float64(collected.values[member, step]),
        collected.returns[member, step],
        settings,
    )
    loss.grad_values[member, place] = settings.value_weight * grad / size
    loss.terms[POLICY_LOSS, member, place] = policy_loss
    loss.terms[VALUE_LOSS, member, place] = value_loss
    loss.terms[ENTROPY, member, place] = entropy


@kernel
def _gaussian_loss(first, settings, outputs, collected, loss):
    for member in range(outputs.means.shape[0]):
        for place in range(outputs.means.shape[1]):
            gaussian_loss_of_step(member, place, first, settings, outputs, collected, loss)


def gaussian_loss(
    first: int, settings: LossSettings, outputs: GaussianOutputs, collected: DrawnVectors
) -> GaussianLoss:
    """Compute the loss of the mini-batch that begins at step `first` of the rollout.

    All tensors are contiguous and on one device; their shapes stand with the classes.
    """
    means, values = outputs.means, outputs.values
    terms = values.new_empty(3, *values.shape)
    loss = GaussianLoss(
        torch.empty_like(means), torch.empty_like(means), torch.empty_like(values), terms
    )
    if means.device.type == "cuda":
        from pomp.learning.gaussian_loss_cuda import gaussian_loss_cuda

        blocks = blocks_for(values.numel())
        launch_on_stream(gaussian_loss_cuda, blocks, first, settings, outputs, collected, loss)
    else:
        _gaussian_loss(first, settings, *map(share_arrays, (outputs, collected, loss)))
    return loss
