"""The loop of `gaussian_loss` on a GPU; imported only where there is one."""

from numba import cuda

from pomp.core.cuda import device_kernel
from pomp.learning.gaussian_loss import gaussian_loss_of_step


@device_kernel
def gaussian_loss_cuda(first, settings, outputs, collected, loss):
    """Run `gaussian_loss_of_step` for every step of a mini-batch, one thread each."""
    thread, size = cuda.grid(1), outputs.means.shape[1]
    member, place = thread // size, thread % size
    if member < outputs.means.shape[0]:
        gaussian_loss_of_step(member, place, first, settings, outputs, collected, loss)
