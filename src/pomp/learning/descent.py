"""A gradient step of PPO, compiled: the losses with their gradients, and Adam.

Written out as loops, since a step has few numbers and many operations: as tensor operations the
calls would cost more than the arithmetic. `[E]` is the axis of members, `[N]` of a rollout's steps,
`[M]` of those in the mini-batch, `[S]` of a member's parameters.
"""

import math

import numpy as np
from torch import Tensor

from pomp.core.compiling import kernel, scalar
from pomp.core.cuda import blocks_for
from pomp.core.graphs import launch_on_stream

POLICY_LOSS, VALUE_LOSS, ENTROPY = range(3)  # planes of `losses`

# Entries of `pace`, the numbers of one step of Adam: what multiplies the learning rate; what is
# added to the spread; how fast the first moment moves; how much of the second stays, and how much
# is new; how long a gradient may be, and what is added to its length.
RATE, EPSILON, NEW, OLDER, NEWER, LONGEST, TINY = range(7)


@scalar
def weigh_step(
    member, place, first, clip, clips_value, value_weight, entropy_weight,
    logits, values, choices, chances, expected, advantages, returns,
    by_logits, by_values, losses,
):  # fmt: skip
    """The losses of one step of a mini-batch, and their gradients.

    Args:
        member: which.
        place: of the step in the mini-batch.
        first: of the mini-batch in the rollout.
        clip: how far the probability's ratio may move, and the value.
        clips_value: whether the value is clipped.
        value_weight: of the value's loss.
        entropy_weight: of the entropy.
        logits: `[E, M, K]`, now.
        values: `[E, M]`, now.
        choices: `[E, N]` int64; the rollout follows.
        chances: `[E, N]`, logarithms of the choices' probabilities then.
        expected: `[E, N]`, the values then.
        advantages: `[E, N]`.
        returns: `[E, N]`.
        by_logits: `[E, M, K]`, written: the gradient of the whole loss, a mean over the mini-batch.
        by_values: `[E, M]`, written: likewise.
        losses: `[3, E, M]`, written: the policy's loss, the value's, and the entropy.
    """
    step, count, size = first + place, logits.shape[2], logits.shape[1]
    largest = np.float64(logits[member, place, 0])
    for choice in range(1, count):
        largest = max(largest, np.float64(logits[member, place, choice]))
    total = 0.0
    for choice in range(count):
        total += math.exp(np.float64(logits[member, place, choice]) - largest)
    shift, entropy = largest + math.log(total), 0.0
    for choice in range(count):
        chance = np.float64(logits[member, place, choice]) - shift
        entropy -= math.exp(chance) * chance
    chosen = choices[member, step]
    chance = np.float64(logits[member, place, chosen]) - shift
    ratio, advantage = math.exp(chance - chances[member, step]), advantages[member, step]
    gain = ratio * advantage
    clipped = min(max(ratio, 1.0 - clip), 1.0 + clip) * advantage
    slope = -gain if gain <= clipped else 0.0
    for choice in range(count):
        chance = np.float64(logits[member, place, choice]) - shift
        share = math.exp(chance)
        pull = slope * ((1.0 if choice == chosen else 0.0) - share)
        by_logits[member, place, choice] = (
            pull + entropy_weight * share * (chance + entropy)
        ) / size
    error = np.float64(values[member, place]) - returns[member, step]
    worst, pull = error * error, error
    if clips_value:
        before = np.float64(expected[member, step])
        moved = min(max(values[member, place] - before, -clip), clip)
        other = before + moved - returns[member, step]
        if not worst >= other * other:
            worst, pull = other * other, 0.0
    by_values[member, place] = value_weight * pull / size
    losses[POLICY_LOSS, member, place] = -gain if gain <= clipped else -clipped
    losses[VALUE_LOSS, member, place] = 0.5 * worst
    losses[ENTROPY, member, place] = entropy


@scalar
def move_parameter(place, length, rate, pace, flat, slow, slower, gradient):
    """Adam for one parameter.

    Args:
        place: which.
        length: of the member's gradient.
        rate: the member's learning rate.
        pace: `[7]`, see above.
        flat: `[S]`, the parameters, written; `slow` and `slower`, their moments, too.
        slow: see `flat`.
        slower: see `flat`.
        gradient: `[S]`.
    """
    slope = gradient[place] * (pace[LONGEST] / max(length + pace[TINY], pace[LONGEST]))
    slow[place] += pace[NEW] * (slope - slow[place])
    slower[place] = pace[OLDER] * slower[place] + pace[NEWER] * slope * slope
    spread = math.sqrt(slower[place]) + pace[EPSILON]
    flat[place] -= rate * pace[RATE] * slow[place] / spread


@kernel
def _weigh_steps(first, clip, clips_value, value_weight, entropy_weight, logits, values, choices,
    chances, expected, advantages, returns, by_logits, by_values, losses,
):  # fmt: skip
    for member in range(logits.shape[0]):
        for place in range(logits.shape[1]):
            weigh_step(
                member, place, first, clip, clips_value, value_weight, entropy_weight,
                logits, values, choices, chances, expected, advantages, returns,
                by_logits, by_values, losses,
            )  # fmt: skip


@kernel
def _move_parameters(lengths, rates, pace, flat, slow, slower, gradient):
    for member in range(len(flat)):
        for place in range(flat.shape[1]):
            move_parameter(
                place, lengths[member], rates[member], pace,
                flat[member], slow[member], slower[member], gradient[member],
            )  # fmt: skip


def weigh_steps(first: int, clips: tuple[float, bool, float, float], *tensors: Tensor) -> None:
    """The losses of a mini-batch and their gradients.

    Args:
        first: of the mini-batch in the rollout.
        clips: clip, clips_value, value_weight, entropy_weight.
        tensors: logits and all after it; see `weigh_step`.
    """
    if tensors[0].device.type == "cuda":
        from pomp.learning.descent_cuda import weigh_steps as loop

        threads = tensors[0].shape[0] * tensors[0].shape[1]
        launch_on_stream(loop, blocks_for(threads), first, *clips, *tensors)
    else:
        _weigh_steps(first, *clips, *(tensor.numpy() for tensor in tensors))


def move_parameters(*tensors: Tensor) -> None:
    """A step of Adam in place.

    Args:
        tensors: the gradients' lengths `[E]`, learning rates `[E]`, and from `pace` on those of
            `move_parameter`, the last four with a row for each member.
    """
    if tensors[0].device.type == "cuda":
        from pomp.learning.descent_cuda import move_parameters as loop

        launch_on_stream(loop, blocks_for(tensors[-1].numel()), *tensors)
    else:
        _move_parameters(*(tensor.numpy() for tensor in tensors))
