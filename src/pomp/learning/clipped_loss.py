"""The loss of PPO and its gradients by the network's outputs, compiled.

Written out as loops, since a mini-batch has few numbers and many operations: as tensor operations
the calls would cost more than the arithmetic. The axes are E members of the ensemble, N macro steps
of a rollout, M of those in a mini-batch, and K + 1 choices (the modes, and the end).
"""

import math
from typing import NamedTuple

import numpy as np
from torch import Tensor

from pomp.core.compiling import kernel, scalar
from pomp.core.cuda import blocks_for
from pomp.core.graphs import launch_on_stream, share_arrays

POLICY_LOSS, VALUE_LOSS, ENTROPY = range(3)  # planes of `PpoLoss.terms`


class LossSettings(NamedTuple):
    """The numbers of the loss.

    Attributes:
        clip_ratio: how far the ratio of the probabilities may move from 1; also how far the value
            may move.
        clips_value: whether the value is clipped, too.
        value_weight: weight of the value's loss in the whole loss.
        entropy_weight: weight of the entropy, which is subtracted from the whole loss.
    """

    clip_ratio: float
    clips_value: bool
    value_weight: float
    entropy_weight: float


class Outputs(NamedTuple):
    """What the network says now about the steps of a mini-batch; read.

    Attributes:
        logits: `[E, M, K + 1]` float32.
        values: `[E, M]` float32.
    """

    logits: Tensor
    values: Tensor


class Collected(NamedTuple):
    """What was done and expected when the rollout was collected; read.

    Attributes:
        choices: `[E, N]` int64, the actions taken.
        log_probs: `[E, N]` float32, the logarithms of their probabilities then.
        values: `[E, N]` float32, the network's values then.
        advantages: `[E, N]` float32, normalised.
        returns: `[E, N]` float32, the targets of the values.
    """

    choices: Tensor
    log_probs: Tensor
    values: Tensor
    advantages: Tensor
    returns: Tensor


class PpoLoss(NamedTuple):
    """The loss of a mini-batch, for each of its steps; written.

    Attributes:
        grad_logits: `[E, M, K + 1]` float32, the gradient of the whole loss, which is a mean over
            the mini-batch.
        grad_values: `[E, M]` float32, likewise.
        terms: `[3, E, M]` float32: policy loss, value loss and entropy of each step.
    """

    grad_logits: Tensor
    grad_values: Tensor
    terms: Tensor


@scalar
def clip_policy_loss(log_prob, before, advantage, clip_ratio):
    """Compute the clipped loss of one choice.

    Args:
        log_prob: the logarithm of its probability, or density, now.
        before: the same when it was made.
        advantage: how much better than expected it was.
        clip_ratio: how far the ratio of the probabilities may move from 1.

    Returns:
        The loss, and its derivative by `log_prob`.
    """
    ratio = math.exp(log_prob - before)
    gain = ratio * advantage
    lowest, highest = 1.0 - clip_ratio, 1.0 + clip_ratio
    clipped = min(max(ratio, lowest), highest) * advantage
    if gain <= clipped:
        return -gain, -gain
    return -clipped, 0.0


@scalar
def clip_value_loss(value, before, target, settings):
    """Compute the squared error of a value, clipped if the `LossSettings` say so.

    Args:
        value: what the network expects now.
        before: what it expected when the rollout was collected.
        target: the return it should expect.
        settings: a `LossSettings`.

    Returns:
        Half the squared error, and its derivative by `value`.
    """
    error = np.float64(value) - target
    squared, grad = error * error, error
    if settings.clips_value:
        moved = min(max(value - before, -settings.clip_ratio), settings.clip_ratio)
        clipped_error = before + moved - target
        if not squared >= clipped_error * clipped_error:
            squared, grad = clipped_error * clipped_error, 0.0
    return 0.5 * squared, grad


@scalar
def ppo_loss_of_step(member, place, first, settings, outputs, collected, loss):
    """Compute the loss of one step of a mini-batch, and its gradients.

    Args:
        member: the step's member of the ensemble.
        place: the step's place in the mini-batch.
        first: the place of the mini-batch's first step in the rollout.
        settings: a `LossSettings`.
        outputs: an `Outputs`, read.
        collected: a `Collected`, read.
        loss: a `PpoLoss`, of which the entries of this step are written.
    """
    logits, step = outputs.logits, first + place
    count, size = logits.shape[2], logits.shape[1]
    largest = np.float64(logits[member, place, 0])
    for choice in range(1, count):
        largest = max(largest, np.float64(logits[member, place, choice]))
    total = 0.0
    for choice in range(count):
        total += math.exp(np.float64(logits[member, place, choice]) - largest)
    log_sum, entropy = largest + math.log(total), 0.0
    for choice in range(count):
        log_prob = np.float64(logits[member, place, choice]) - log_sum
        entropy -= math.exp(log_prob) * log_prob
    chosen, advantage = collected.choices[member, step], collected.advantages[member, step]
    log_prob = np.float64(logits[member, place, chosen]) - log_sum
    policy_loss, slope = clip_policy_loss(
        log_prob, collected.log_probs[member, step], advantage, settings.clip_ratio
    )
    for choice in range(count):
        log_prob = np.float64(logits[member, place, choice]) - log_sum
        prob = math.exp(log_prob)
        grad = slope * ((1.0 if choice == chosen else 0.0) - prob)
        loss.grad_logits[member, place, choice] = (
            grad + settings.entropy_weight * prob * (log_prob + entropy)
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
def _ppo_loss(first, settings, outputs, collected, loss):
    for member in range(outputs.logits.shape[0]):
        for place in range(outputs.logits.shape[1]):
            ppo_loss_of_step(member, place, first, settings, outputs, collected, loss)


def write_ppo_loss(
    first: int, settings: LossSettings, outputs: Outputs, collected: Collected, loss: PpoLoss
) -> None:
    """Write the loss of the mini-batch that begins at step `first` of the rollout.

    All tensors are contiguous and on one device; their shapes stand with the classes.
    """
    if outputs.logits.device.type == "cuda":
        from pomp.learning.clipped_loss_cuda import ppo_loss_cuda

        blocks = blocks_for(outputs.values.numel())
        launch_on_stream(ppo_loss_cuda, blocks, first, settings, outputs, collected, loss)
    else:
        _ppo_loss(first, settings, *map(share_arrays, (outputs, collected, loss)))
