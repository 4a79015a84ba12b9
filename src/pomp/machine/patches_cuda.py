"""Patches of planes on a GPU: a convolution is their product with its filters."""

from typing import Any

import torch
from numba import cuda
from torch import Tensor

from pomp._cuda import THREADS, as_launchable, blocks_for
from pomp.graphs import numba_stream


@cuda.jit(cache=True)
def cut_patches(planes, is_last, side, patches):
    """One thread per number of `patches` `[R, H', W', k * k * C]`.

    `planes` are `[R, H, W, C]` if the channels come last, else `[R, C, H, W]`.
    """
    thread = cuda.grid(1)
    if thread < patches.size:
        within, place = thread % patches.shape[3], thread // patches.shape[3]
        column, place = place % patches.shape[2], place // patches.shape[2]
        row, image = place % patches.shape[1], place // patches.shape[1]
        channels = planes.shape[3] if is_last else planes.shape[1]
        channel, shift = within % channels, within // channels
        down, right = row + shift // side, column + shift % side
        if is_last:
            patches[image, row, column, within] = planes[image, down, right, channel]
        else:
            patches[image, row, column, within] = planes[image, channel, down, right]


@cuda.jit(cache=True)
def join_patches(patches, side, planes):
    """One thread per number of `planes` `[R, H, W, C]`: the sum of what patches hold of it."""
    thread = cuda.grid(1)
    if thread < planes.size:
        channel, place = thread % planes.shape[3], thread // planes.shape[3]
        column, place = place % planes.shape[2], place // planes.shape[2]
        row, image = place % planes.shape[1], place // planes.shape[1]
        planes[image, row, column, channel] = 0
        for shift in range(side * side):
            up, left = row - shift // side, column - shift % side
            if 0 <= up < patches.shape[1] and 0 <= left < patches.shape[2]:
                within = shift * planes.shape[3] + channel
                planes[image, row, column, channel] += patches[image, up, left, within]


def _launch(loop: Any, threads: int, *arguments: Any) -> None:
    given = [as_launchable(one) if isinstance(one, Tensor) else one for one in arguments]
    loop[blocks_for(threads), THREADS, numba_stream()](*given)


class _Patches(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, planes: Tensor, is_last: bool, side: int) -> Tensor:
        images, *shape = planes.shape
        height, width, channels = shape if is_last else (*shape[1:], shape[0])
        size = (images, height - side + 1, width - side + 1, side * side * channels)
        patches = torch.empty(size, dtype=torch.float32, device=planes.device)
        _launch(cut_patches, patches.numel(), planes.detach(), is_last, side, patches)
        context.side, context.size = side, planes.shape
        return patches

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        planes = torch.empty(context.size, dtype=gradient.dtype, device=gradient.device)
        _launch(join_patches, planes.numel(), gradient.contiguous(), context.side, planes)
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
