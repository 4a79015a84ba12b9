"""The kernel of `block_steps`; imported only where there is a GPU."""

from numba import cuda, float32, uint8

from pomp.core.compiling import scalar
from pomp.core.cuda import large_kernel
from pomp.learning.block_steps import learn_epoch
from pomp.learning.blockwise import MARKS, NUMBERS, THREADS, work_of


@scalar
def _meet_block():
    """Wait for the other threads of the block."""
    cuda.syncthreads()


@scalar
def _lowest(bits):
    """Return the number of the lowest bit of `bits` that is on."""
    return cuda.ffs(bits) - 1


@large_kernel(2 * THREADS)
def learn_epoch_cuda(epoch, settings, layout, grid, memory):
    """Take the gradient steps of an epoch: a block of `THREADS` for each member.

    Args:
        epoch: the `Epoch`.
        settings: the `StepSettings`.
        layout: the `Layout`.
        grid: the `GridSizes`.
        memory: the `Memory`, written.
    """
    numbers = cuda.shared.array(NUMBERS, float32)
    marks = cuda.shared.array(MARKS, uint8)
    work = work_of(cuda.blockIdx.x, epoch, settings, layout, grid, memory, numbers, marks)
    learn_epoch(cuda.threadIdx.x, cuda.threadIdx.x + 1, _meet_block, _lowest, work)
