"""The GPU's side of `rollout`: arrays on the device in, arrays on the device out."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from pomp._cuda import (
    THREADS,
    DeviceArray,
    as_launchable,
    blocks_for,
    load_cuda,
    room,
    to_device,
)
from pomp.dsl.bytecode import Code
from pomp.karel.interpreter import Cap
from pomp.karel.world import WorldBatch
from pomp.tasks.engine import cuda_kernels_of
from pomp.tasks.task import Setting
from pomp.tasks.units import Units

RESULTS = (np.float64, np.int32, np.int32, np.bool_)
"""Types of values, actions, calls and completed."""
Results = tuple[DeviceArray, ...]


def run_cuda(
    setting: Setting, code: Code, units: Units, worlds: WorldBatch, after: WorldBatch, cap: Cap
) -> Results:
    """Run units; see `rollout`. Returns values, actions, calls, completed by lane."""
    results = _results(units.lanes)
    prepared = _prepare(setting, code, units, worlds, after, cap, results)
    prepared(0)
    return results


def run_cuda_together(launches: Sequence[Any]) -> list[Results]:
    """Run several `Launch`es at once, each on a stream of its own."""
    if not launches:
        return []
    results = [_results(launch.units.lanes) for launch in launches]
    prepared = [
        _prepare(
            launch.setting, launch.code, launch.units, launch.worlds, launch.worlds.room(0),
            Cap.parse(launch.cap), room,
        )
        for launch, room in zip(launches, results, strict=True)
    ]  # fmt: skip
    for start, stream in zip(prepared, _streams(len(launches)), strict=True):
        start(stream)
    load_cuda().synchronize()
    return results


def _prepare(
    setting: Setting, code: Code, units: Units, worlds: WorldBatch, after: WorldBatch, cap: Cap,
    results: Results,
) -> Callable[[Any], None]:  # fmt: skip
    """Bring the inputs to the device; what comes back starts the kernel on a stream."""
    arrays = [as_launchable(array) for array in (*worlds.arrays, *after.arrays, *results)]
    inputs = [as_launchable(array) for array in (code.on_device, *map(to_device, units.arrays))]
    kernels = cuda_kernels_of(setting, code.depth)

    def start(stream: Any) -> None:
        if units.lanes:
            kernels.run_lanes[blocks_for(units.lanes), THREADS, stream](
                units.span, *inputs, units.rounds, units.patience,
                cap.by_calls, cap.limit, _rules(setting), *arrays,
            )  # fmt: skip

    return start


@cache
def _streams(count: int) -> list[Any]:
    return [load_cuda().stream() for _ in range(count)]


def act_cuda(setting: Setting, worlds: WorldBatch, actions: Any) -> DeviceArray:
    """One action in every world; returns the rewards."""
    rewards = room(len(worlds), np.float64)
    chosen = as_launchable(actions, "actions", shape=(len(worlds),))
    arrays = map(as_launchable, (*worlds.arrays, rewards))
    cuda_kernels_of(setting).act_on_worlds[blocks_for(len(worlds)), THREADS](
        chosen, _rules(setting), *arrays
    )
    return rewards


def _results(lanes: int) -> Results:
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
