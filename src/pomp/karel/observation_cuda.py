"""The launch loops of `observe` on a GPU; imported only where there is one."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda

from pomp.core.cuda import THREADS, as_launchable, blocks_for, device_kernel
from pomp.karel.observation import WALL_PLANE, plane_bit
from pomp.karel.world import WorldBatch

_BYTES = 4  # of a word


@device_kernel
def observe_cells(cells, pose, planes):
    """Write the planes with one thread per cell: neighbours write neighbouring bytes.

    Args:
        cells: `[B, H * W]` uint8, read.
        pose: `[B]` int32, read.
        planes: `[B, C, H * W]` uint8, written.
    """
    place = cuda.grid(1)
    size = cells.shape[1]
    world, cell = place // size, place % size
    if world >= len(pose):
        return
    byte, here = np.int64(cells[world, cell]), np.int64(pose[world])
    for direction in range(WALL_PLANE):
        planes[world, direction, cell] = here >> 2 == cell and here & 3 == direction
    for plane in range(WALL_PLANE, planes.shape[1]):
        planes[world, plane, cell] = plane_bit(byte, plane, planes.shape[1] - 1)


@device_kernel
def observe_words(cells, pose, planes):
    """Write the planes with one thread for four cells, which are one word.

    Args:
        cells: `[B, H * W / 4]` uint32, four bytes a piece, read.
        pose: `[B]` int32, read.
        planes: `[B, C, H * W / 4]` uint32, written.
    """
    place = cuda.grid(1)
    size = cells.shape[1]
    world, word = place // size, place % size
    if world >= len(pose):
        return
    four, here = np.int64(cells[world, word]), np.int64(pose[world])
    agent = 1 << 8 * ((here >> 2) & 3) if here >> 4 == word else 0
    for direction in range(WALL_PLANE):
        planes[world, direction, word] = agent if here & 3 == direction else 0
    for plane in range(WALL_PLANE, planes.shape[1]):
        bits = 0
        for byte in range(_BYTES):
            holds = plane_bit(four >> 8 * byte & 255, plane, planes.shape[1] - 1)
            bits |= int(holds) << 8 * byte
        planes[world, plane, word] = bits


def observer(worlds: WorldBatch, planes: Any) -> tuple[Callable[[Any], None], tuple[Any, ...]]:
    """A launch that writes worlds' planes, prepared once; and the arrays it reads and writes.

    Args:
        worlds: B states on the device.
        planes: `[B, C, H, W]` uint8 on the device.

    Returns:
        A function of the stream to launch on (0: the default one), and what must be kept alive.
    """
    size = worlds.height * worlds.width
    flat = as_launchable(planes).reshape(len(worlds), -1, size)
    cells, pose = as_launchable(worlds.cells), as_launchable(worlds.pose)
    is_wide = size % _BYTES == 0
    if is_wide:
        flat, cells = flat.view(np.uint32), cells.view(np.uint32)
    loop = observe_words if is_wide else observe_cells
    blocks = blocks_for(len(worlds) * cells.shape[1])

    def show(stream: Any) -> None:
        loop[blocks, THREADS, stream](cells, pose, flat)

    return show, (cells, pose, flat)
