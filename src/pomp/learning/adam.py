"""Adam with clipped gradients, compiled, for the members of an ensemble side by side.

Each of the E members has S parameters, a learning rate and a gradient norm of its own. Written out
as one loop: as tensor operations the calls would cost more than the arithmetic.
"""

import math
from typing import Any, NamedTuple

from torch import Tensor

from pomp.core.compiling import kernel, scalar
from pomp.core.cuda import blocks_for
from pomp.core.graphs import launch_on_stream, share_arrays

BETA1, BETA2 = 0.9, 0.999
_NORM_EPS = 1e-6
STEP_SIZE, EPS = range(2)  # entries of a gradient step's corrections


class AdamSettings(NamedTuple):
    """Adam's numbers that stay the same, as scalars of the parameters' type.

    Each is rounded on its own: 1 - beta1 is not the difference of the rounded numbers.

    Attributes:
        new_first: 1 - beta1, the share of the gradient in the first moment.
        beta2: the share of the second moment that stays.
        new_second: 1 - beta2, the share of the squared gradient in the second moment.
        max_norm: the norm to which longer gradients are cut.
        norm_eps: added to a gradient's norm before it divides.
    """

    new_first: Any
    beta2: Any
    new_second: Any
    max_norm: Any
    norm_eps: Any

    @classmethod
    def of(cls, max_norm: float, dtype: Any) -> "AdamSettings":
        """Round the numbers to a NumPy scalar type, as `np.float32`."""
        return cls(*map(dtype, (1 - BETA1, BETA2, 1 - BETA2, max_norm, _NORM_EPS)))


class AdamState(NamedTuple):
    """What a gradient step changes; written. All float32, or all float64.

    Attributes:
        parameters: `[E, S]`.
        first_moment: `[E, S]`, the running mean of the gradients.
        second_moment: `[E, S]`, the running mean of their squares.
    """

    parameters: Tensor
    first_moment: Tensor
    second_moment: Tensor


class Gradients(NamedTuple):
    """What a gradient step reads, of the parameters' type.

    Attributes:
        gradients: `[E, S]`.
        norms: `[E]`, their lengths.
        learning_rates: `[E]`.
    """

    gradients: Tensor
    norms: Tensor
    learning_rates: Tensor


def correct_bias(count: int, eps: float, decay: float) -> tuple[float, float]:
    """Return what a gradient step's learning rate is multiplied by, and its eps.

    With both, Adam's moments need no correction of their own: dividing the second moment by
    1 - beta2^t is the same as multiplying the quotient and eps by the root of it.

    Args:
        count: t, the number of the gradient step, from 1.
        eps: Adam's, added to the root of the corrected second moment.
        decay: another factor of the learning rate.
    """
    root = (1 - BETA2**count) ** 0.5
    return decay * root / (1 - BETA1**count), eps * root


@scalar
def adam_step_of_parameter(member, place, corrections, settings, state, given):
    """Move one parameter of a member.

    Args:
        member: the parameter's member of the ensemble.
        place: the parameter's number.
        corrections: `[2]` of the parameters' type, read: the factor of the learning rate, and eps.
        settings: an `AdamSettings`.
        state: an `AdamState`, of which the entries of this parameter are written.
        given: a `Gradients`, read.
    """
    first, second = state.first_moment, state.second_moment
    scale = settings.max_norm / max(given.norms[member] + settings.norm_eps, settings.max_norm)
    gradient = given.gradients[member, place] * scale
    first[member, place] += settings.new_first * (gradient - first[member, place])
    second[member, place] = (
        settings.beta2 * second[member, place] + settings.new_second * gradient * gradient
    )
    divisor = math.sqrt(second[member, place]) + corrections[EPS]
    step_size = given.learning_rates[member] * corrections[STEP_SIZE]
    state.parameters[member, place] -= step_size * first[member, place] / divisor


@kernel
def _adam_step(corrections, settings, state, given):
    """Run `adam_step_of_parameter` for every parameter; `corrections` is `[2]`."""
    for member in range(state.parameters.shape[0]):
        for place in range(state.parameters.shape[1]):
            adam_step_of_parameter(member, place, corrections, settings, state, given)


def adam_step(
    corrections: Tensor, settings: AdamSettings, state: AdamState, given: Gradients
) -> None:
    """Take one step of Adam, in place.

    Args:
        corrections: `[2]` of the parameters' type and on their device: what `correct_bias` gives
            for this step, the decay of the learning rate included.
        settings: the numbers that stay the same.
        state: parameters and moments, written.
        given: gradients, their norms, and learning rates.
    """
    if corrections.device.type == "cuda":
        from pomp.learning.adam_cuda import adam_step_cuda

        blocks = blocks_for(state.parameters.numel())
        launch_on_stream(adam_step_cuda, blocks, corrections, settings, state, given)
    else:
        _adam_step(corrections.numpy(), settings, share_arrays(state), share_arrays(given))
