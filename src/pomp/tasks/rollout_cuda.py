"""The GPU's side of `rollout`: arrays on the device in, arrays on the device out."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp._cuda import THREADS, DeviceArray, as_launchable, blocks_for, room, to_device
from pomp.dsl.bytecode import Code
from pomp.karel.interpreter import Cap
from pomp.karel.world import WorldBatch
from pomp.tasks.engine import cuda_kernels_of
from pomp.tasks.task import Setting

RESULTS = (np.float64, np.int32, np.int32, np.bool_)
"""Types of values, actions, calls and completed."""


def run_cuda(
    setting: Setting, code: Code, rows: NDArray[np.int32], worlds: WorldBatch, after: WorldBatch,
    cap: Cap, *, paired: bool,
) -> tuple[DeviceArray, ...]:  # fmt: skip
    """Run lists of programs; see `rollout`. Returns values, actions, calls, completed by lane."""
    lanes = len(rows) if paired else len(rows) * len(worlds)
    results = _results(lanes)
    arrays = map(as_launchable, (*worlds.arrays, *after.arrays, *results))
    inputs = (as_launchable(code.on_device), as_launchable(to_device(rows)))
    kernels = cuda_kernels_of(setting, code.depth)
    if lanes:
        kernels.run_lanes[blocks_for(lanes), THREADS](
            *inputs, cap.by_calls, cap.limit, paired, _rules(setting), *arrays
        )
    return results


def act_cuda(setting: Setting, worlds: WorldBatch, actions: Any) -> DeviceArray:
    """One action in every world; returns the rewards."""
    rewards = room(len(worlds), np.float64)
    chosen = as_launchable(actions, "actions", shape=(len(worlds),))
    arrays = map(as_launchable, (*worlds.arrays, rewards))
    cuda_kernels_of(setting).act_on_worlds[blocks_for(len(worlds)), THREADS](
        chosen, _rules(setting), *arrays
    )
    return rewards


def _results(lanes: int) -> tuple[DeviceArray, ...]:
    """Room for the results, asked for once: each request stops the device for a moment."""
    widths = [np.dtype(dtype).itemsize for dtype in RESULTS]  # widest first: all stay aligned
    whole = room(lanes * sum(widths), np.uint8).array
    parts, first = [], 0
    for dtype, width in zip(RESULTS, widths, strict=True):
        last = first + lanes * width
        parts.append(DeviceArray(whole[first:last].view(dtype)))
        first = last
    return tuple(parts)


@cache
def _rules(setting: Setting) -> Any:
    return as_launchable(to_device(setting.rules))
