"""World -> planes: what networks see."""

from typing import Any

import numpy as np

from pomp.core.compiling import kernel, launch, parts_for, pieces_for, scalar
from pomp.core.cuda import as_launchable, empty_on_device
from pomp.core.errors import ConfigError
from pomp.karel.dynamics import COUNT, WALL, ZERO
from pomp.karel.world import WorldBatch, memory_of

CHANNELS = (8, 16)
"""HPRL and HIPO show up to two markers a cell, LEAPS up to ten."""
WALL_PLANE, ZERO_PLANE, FIRST_COUNT_PLANE = 4, 5, 6  # before them: the agent, by its facing
_LEAST_WORLDS = 512  # below which another thread does not pay


@scalar
def plane_bit(byte, plane, last):
    """Whether a cell shows in one of the planes from the wall on.

    Args:
        byte: the cell.
        plane: `WALL_PLANE`, `ZERO_PLANE`, or a marker count's plane.
        last: the last plane, which stands for its count and more.
    """
    if plane == WALL_PLANE:
        return byte & WALL != 0
    if plane == ZERO_PLANE:
        return byte & ZERO != 0
    count = plane - FIRST_COUNT_PLANE + 1
    return byte & COUNT == count or (plane == last and byte & COUNT > count)


@kernel
def _observe(first, last, cells, pose, planes):
    """Write the planes of worlds `first` to `last - 1`.

    Args:
        first: the first world.
        last: the one behind the last.
        cells: `[B, H * W]` uint8, read.
        pose: `[B]` int32, read.
        planes: `[B, C, H * W]` uint8, written.
    """
    last_plane = planes.shape[1] - 1
    for world in range(first, last):
        for direction in range(WALL_PLANE):
            for cell in range(cells.shape[1]):
                planes[world, direction, cell] = 0
        planes[world, pose[world] & 3, pose[world] >> 2] = 1
        for plane in range(WALL_PLANE, planes.shape[1]):
            for cell in range(cells.shape[1]):
                planes[world, plane, cell] = plane_bit(cells[world, cell], plane, last_plane)


def observe(
    worlds: WorldBatch, channels: int = 8, out: Any = None, *, threads: int | None = None
) -> Any:
    """The worlds as `[B, C, H, W]` uint8 planes of zeros and ones, on the worlds' device.

    Args:
        worlds: B states.
        channels: 8 or 16. The planes are: agent facing north, east, south, west; wall; "zero
            markers" flag; one marker, two markers, ...; the last plane of 8 stands for two or more.
        out: where to write them; None: new memory.
        threads: CPU threads; None: all.
    """
    if channels not in CHANNELS:
        raise ConfigError(f"channels must be 8 or 16, got {channels}")
    shape = (len(worlds), channels, worlds.height, worlds.width)
    flat = (len(worlds), channels, worlds.height * worlds.width)
    if worlds.device == "cuda":
        planes = empty_on_device(shape, np.uint8) if out is None else out
        as_launchable(planes, "out", np.uint8, shape)
        from pomp.karel.observation_cuda import observer

        show, _ = observer(worlds, planes)
        show(0)
        return planes
    planes = np.empty(shape, np.uint8) if out is None else out
    if planes.shape != shape or planes.dtype != np.uint8 or not planes.flags.c_contiguous:
        raise ConfigError(f"out must be contiguous uint8 of shape {shape}")
    parts = parts_for(len(worlds), threads, least=_LEAST_WORLDS)
    pieces = pieces_for(parts, planes.size)
    edges = [len(worlds) * piece // pieces for piece in range(pieces + 1)]
    target, (cells, pose, *_) = planes.reshape(flat), memory_of(worlds)
    launch(parts, lambda one: _observe(edges[one], edges[one + 1], cells, pose, target), pieces)
    return planes
