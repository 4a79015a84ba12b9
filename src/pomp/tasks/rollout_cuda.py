"""The GPU's side of `rollout`: arrays on the device in, arrays on the device out."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp._cuda import (
    THREADS,
    DeviceArray,
    as_launchable,
    blocks_for,
    is_on_device,
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
    _prepare(setting, code, units, worlds, after, cap, results)(0)
    return results


class LaunchPad:
    """Runs several launches at once, each on a stream of its own, with memory that stays.

    To ask for GPU memory, and to wrap it, takes longer than most launches; so there is one set of
    results for each stream, which grows when it must.
    """

    def __init__(self) -> None:
        self._streams: list[Any] = []
        self._results: list[Results] = []
        self._nothing: dict[tuple[int, int], WorldBatch] = {}

    def run(self, launches: Sequence[Any]) -> list[tuple[NDArray[np.float64], NDArray[np.int32]]]:
        """Values and actions of every `Launch`, by lane, on the CPU."""
        cuda = load_cuda()
        prepared = []
        for place, launch in enumerate(launches):
            results = self._room(place, launch.units.lanes)
            work = (launch.setting, launch.code, launch.units, launch.worlds)
            after = self._no_worlds(launch.worlds)
            prepared.append(_prepare(*work, after, Cap.parse(launch.cap), results))
        # All copies to the device come first: they would wait for the kernels before them.
        for start, stream in zip(prepared, self._streams, strict=False):
            start(stream)
        cuda.synchronize()
        found = []
        for launch, (values, actions, *_) in zip(launches, self._results, strict=False):
            lanes = launch.units.lanes
            parts = (array.array[:lanes].copy_to_host() for array in (values, actions))
            found.append((next(parts), next(parts)))
        return found

    def _room(self, place: int, lanes: int) -> Results:
        if place == len(self._results):
            self._streams.append(load_cuda().stream())
            self._results.append(_results(lanes))
        elif len(self._results[place][0]) < lanes:
            self._results[place] = _results(2 * lanes)
        return self._results[place]

    def _no_worlds(self, worlds: WorldBatch) -> WorldBatch:
        sizes = (worlds.cells.shape[1], worlds.memory.shape[1])
        if sizes not in self._nothing:
            self._nothing[sizes] = worlds.room(0)
        return self._nothing[sizes]


def _prepare(
    setting: Setting, code: Code, units: Units, worlds: WorldBatch, after: WorldBatch, cap: Cap,
    results: Results,
) -> Callable[[Any], None]:  # fmt: skip
    """Bring the inputs to the device; what comes back starts the kernel on a stream."""
    arrays = [as_launchable(array) for array in (*worlds.arrays, *after.arrays, *results)]
    inputs = [as_launchable(array) for array in (code.on_device, *map(_on_device, units.arrays))]
    kernels = cuda_kernels_of(setting, code.depth)

    def start(stream: Any) -> None:
        if units.lanes:
            kernels.run_lanes[blocks_for(units.lanes), THREADS, stream](
                units.span, *inputs, units.rounds, units.patience,
                cap.by_calls, cap.limit, _rules(setting), *arrays,
            )  # fmt: skip

    return start


def _on_device(array: Any) -> Any:
    """An array in GPU memory; an empty one is always the same."""
    if is_on_device(array):
        return array
    return to_device(array) if len(array) else _empty(array.dtype)


@cache
def _empty(dtype: np.dtype[Any]) -> DeviceArray:
    return to_device(np.empty(0, dtype))


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
