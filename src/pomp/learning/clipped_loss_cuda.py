"""The loop of `clipped_loss` on a GPU; imported only where there is one."""

from numba import cuda

from pomp.core.cuda import device_kernel
from pomp.learning.clipped_loss import ppo_loss_of_step


@device_kernel
def ppo_loss_cuda(first, settings, outputs, collected, loss):
    """Run `ppo_loss_of_step` for every step of a mini-batch, one thread each."""
    thread, size = cuda.grid(1), outputs.logits.shape[1]
    member, place = thread // size, thread % size
    if member < outputs.logits.shape[0]:
        ppo_loss_of_step(member, place, first, settings, outputs, collected, loss)
