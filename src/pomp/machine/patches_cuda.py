"""Patches of planes on a GPU: a convolution is their product with its filters.

The axes are R images, H rows and W columns of C channels; a patch has k rows and columns.
"""

from typing import Any

import torch
from numba import cuda
from torch import Tensor

from pomp.core.cuda import device_kernel
from pomp.core.graphs import launch_on_stream


@device_kernel
def cut_patches(planes, is_last, side, patches):
    """Write all patches: a block for each row of them, threads for what is within one.

    Args:
        planes: `[R, H, W, C]` if the channels come last, else `[R, C, H, W]`; read.
        is_last: whether the channels of `planes` come last.
        side: k.
        patches: `[R, H - k + 1, W - k + 1, k * k * C]` float32, written.
    """
    image, row = cuda.blockIdx.x // patches.shape[1], cuda.blockIdx.x % patches.shape[1]
    channels = planes.shape[3] if is_last else planes.shape[1]
    within = cuda.threadIdx.x
    while within < patches.shape[3]:
        channel, shift = within % channels, within // channels
        down, right = row + shift // side, shift % side
        for column in range(patches.shape[2]):
            if is_last:
                patches[image, row, column, within] = planes[image, down, column + right, channel]
            else:
                patches[image, row, column, within] = planes[image, channel, down, column + right]
        within += cuda.blockDim.x


@device_kernel
def join_patches(patches, side, planes):
    """Add up what patches hold of each number of the planes: a block for each row of planes.

    Args:
        patches: `[R, H - k + 1, W - k + 1, k * k * C]` float32, read.
        side: k.
        planes: `[R, H, W, C]` float32, written.
    """
    image, row = cuda.blockIdx.x // planes.shape[1], cuda.blockIdx.x % planes.shape[1]
    place = cuda.threadIdx.x
    while place < planes.shape[2] * planes.shape[3]:
        column, channel = place // planes.shape[3], place % planes.shape[3]
        total = planes.dtype.type(0)
        for shift in range(side * side):
            up, left = row - shift // side, column - shift % side
            if 0 <= up < patches.shape[1] and 0 <= left < patches.shape[2]:
                total += patches[image, up, left, shift * planes.shape[3] + channel]
        planes[image, row, column, channel] = total
        place += cuda.blockDim.x


class _Patches(torch.autograd.Function):
    """`cut_patches` with `join_patches` as its gradient.

    `planes` are `[R, H, W, C]` or `[R, C, H, W]`, patches and their `gradient`
    `[R, H - k + 1, W - k + 1, k * k * C]`.
    """

    @staticmethod
    def forward(context: Any, planes: Tensor, is_last: bool, side: int) -> Tensor:
        """Cut patches, `[R, H - k + 1, W - k + 1, k * k * C]`."""
        images, *shape = planes.shape
        height, width, channels = shape if is_last else (*shape[1:], shape[0])
        size = (images, height - side + 1, width - side + 1, side * side * channels)
        patches = torch.empty(size, dtype=torch.float32, device=planes.device)
        launch_on_stream(cut_patches, size[0] * size[1], planes.detach(), is_last, side, patches)
        context.side, context.size = side, planes.shape
        return patches

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        """Return the gradient by the planes, `[R, H, W, C]`."""
        planes = torch.empty(context.size, dtype=gradient.dtype, device=gradient.device)
        rows = planes.shape[0] * planes.shape[1]
        launch_on_stream(join_patches, rows, gradient.contiguous(), context.side, planes)
        return planes, None, None


def patches_of(planes: Tensor, side: int, *, is_last: bool) -> Tensor:
    """Return all patches of planes; there is a gradient only if the channels come last.

    Args:
        planes: `[R, H, W, C]` if the channels come last, else `[R, C, H, W]`; uint8 or float32.
        side: k, the rows and columns of a patch.
        is_last: whether the channels of `planes` come last.

    Returns:
        `[R, H - k + 1, W - k + 1, k * k * C]` float32.
    """
    found: Tensor = _Patches.apply(planes, is_last, side)
    return found
