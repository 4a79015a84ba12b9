"""The loops of `descent` on a GPU; imported only where there is one."""

from numba import cuda

from pomp.core.cuda import device_kernel
from pomp.learning.descent import move_parameter, weigh_step


@device_kernel
def weigh_steps(
    first, clip, clips_value, value_weight, entropy_weight, logits, values, choices, chances,
    expected, advantages, returns, by_logits, by_values, losses,
):  # fmt: skip
    """One thread per step."""
    thread = cuda.grid(1)
    member, place = thread // logits.shape[1], thread % logits.shape[1]
    if member < logits.shape[0]:
        weigh_step(
            member, place, first, clip, clips_value, value_weight, entropy_weight,
            logits, values, choices, chances, expected, advantages, returns,
            by_logits, by_values, losses,
        )  # fmt: skip


@device_kernel
def move_parameters(lengths, rates, pace, flat, slow, slower, gradient):
    """One thread per parameter."""
    thread = cuda.grid(1)
    member, place = thread // flat.shape[1], thread % flat.shape[1]
    if member < flat.shape[0]:
        move_parameter(
            place, lengths[member], rates[member], pace,
            flat[member], slow[member], slower[member], gradient[member],
        )  # fmt: skip
