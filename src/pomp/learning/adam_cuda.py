"""The loop of `adam` on a GPU; imported only where there is one."""

from numba import cuda

from pomp.core.cuda import device_kernel
from pomp.learning.adam import adam_step_of_parameter


@device_kernel
def adam_step_cuda(corrections, settings, state, given):
    """Run `adam_step_of_parameter` for every parameter, one thread each.

    Args:
        corrections: `[2]`, the factor of the learning rate, and eps.
        settings: an `AdamSettings`.
        state: an `AdamState`, written.
        given: a `Gradients`.
    """
    thread, size = cuda.grid(1), state.parameters.shape[1]
    member, place = thread // size, thread % size
    if member < state.parameters.shape[0]:
        adam_step_of_parameter(member, place, corrections, settings, state, given)
