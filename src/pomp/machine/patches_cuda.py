"""Patches of planes on a GPU: a convolution is their product with its filters."""

from typing import Any

import torch
from numba import cuda
from torch import Tensor

from pomp.core.cuda import device_kernel
from pomp.core.graphs import launch_on_stream


@device_kernel
def cut_patches(planes, is_last, side, patches):
    """A block for each row of patches `[R, H', W', k * k * C]`, threads for what is within one.

    `planes` are `[R, H, W, C]` if the channels come last, else `[R, C, H, W]`.
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
    """A block for each row of `planes` `[R, H, W, C]`: the sums of what patches hold of them."""
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
    @staticmethod
    def forward(context: Any, planes: Tensor, is_last: bool, side: int) -> Tensor:
        images, *shape = planes.shape
        height, width, channels = shape if is_last else (*shape[1:], shape[0])
        size = (images, height - side + 1, width - side + 1, side * side * channels)
        patches = torch.empty(size, dtype=torch.float32, device=planes.device)
        launch_on_stream(cut_patches, size[0] * size[1], planes.detach(), is_last, side, patches)
        context.side, context.size = side, planes.shape
        return patches

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        planes = torch.empty(context.size, dtype=gradient.dtype, device=gradient.device)
        rows = planes.shape[0] * planes.shape[1]
        launch_on_stream(join_patches, rows, gradient.contiguous(), context.side, planes)
        return planes, None, None


def patches_of(planes: Tensor, side: int, *, is_last: bool) -> Tensor:
    """All patches of planes; there is a gradient only for planes whose channels come last.

    Args:
        planes: `[R, H, W, C]` if the channels come last, else `[R, C, H, W]`.
        side: k, of a patch.
        is_last: see `planes`.

    Returns:
        `[R, H - k + 1, W - k + 1, k * k * C]` float32.
    """
    found: Tensor = _Patches.apply(planes, is_last, side)
    return found
