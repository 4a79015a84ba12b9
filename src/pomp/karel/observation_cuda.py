"""The launch loop of `observe` on a GPU; imported only where there is one."""

from numba import cuda

from pomp.karel.lanes import observe_cell


@cuda.jit(cache=True)
def observe_cells(cells, pose, planes):
    """One thread per cell: neighbours write neighbouring bytes of every plane."""
    place = cuda.grid(1)
    size = cells.shape[1]
    world = place // size
    if world < len(pose):
        observe_cell(world, place % size, cells, pose, planes)
