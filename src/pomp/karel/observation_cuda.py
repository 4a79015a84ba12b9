"""The launch loop of `observe` on a GPU; imported only where there is one."""

import numpy as np
from numba import cuda

from pomp.karel.lanes import WALL_PLANE, plane_bit


@cuda.jit(cache=True)
def observe_cells(cells, pose, planes):
    """One thread per cell: neighbours write neighbouring bytes of every plane."""
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
