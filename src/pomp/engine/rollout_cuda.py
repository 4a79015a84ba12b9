"""The GPU's side of `rollout`: arrays on the device in, arrays on the device out."""

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.core.cuda import (
    THREADS,
    DeviceArray,
    as_launchable,
    as_launchable_group,
    blocks_for,
    empty_on_device,
    is_on_device,
    load_cuda,
    to_device,
)
from pomp.engine.lanes import LaneResults, UnitArrays
from pomp.engine.loading import constants_on_device, cuda_kernels_of
from pomp.engine.units import Launch
from pomp.karel.world import WorldBatch, memory_of
from pomp.tasks.task import Setting

RESULTS = (np.float64, np.int32, np.int32, np.bool_)
"""Types of `LaneResults`."""
SMALL_BYTES = 64
"""Arrays up to this size, as a list of one program or no table of units, are kept on the device."""
_BROUGHT = ("lists", "table", "salts")  # the arrays among `UnitArrays`
Found = tuple[NDArray[np.float64], NDArray[np.int32]]  # values and actions


def run_cuda(launch: Launch, after: WorldBatch, results: LaneResults | None = None) -> LaneResults:
    """Run units; returns what came of each lane.

    Args:
        launch: what runs; its worlds are on the GPU.
        after: memory for the final states of all lanes, or for none; they may be the start states.
        results: memory for the results on the GPU; None: new.
    """
    results = results or _results(launch.units.lanes)
    units = launch.units.arrays
    lists, table, salts = (_brought(array) for array in units[:3])
    units = units._replace(lists=lists, table=table, salts=salts)
    _prepare(launch, as_launchable(launch.code.on_device), units, after, results)(0)
    return results


class LaunchPad:
    """Runs several launches at once, each on a stream of its own, with memory that stays.

    To ask for GPU memory takes longer than most launches; so each stream has its own, which grows
    when it must.
    """

    def __init__(self) -> None:
        self._slots: list[_Slot] = []

    def run(self, launches: Sequence[Launch]) -> list[Found]:
        """Values and actions of every `Launch`, by lane, on the CPU."""
        while len(self._slots) < len(launches):
            self._slots.append(_Slot())
        pairs = list(zip(self._slots, launches, strict=False))
        # All copies to the device come first: they would wait for the kernels before them.
        prepared = [slot.prepare(launch) for slot, launch in pairs]
        for start, (slot, _) in zip(prepared, pairs, strict=True):
            start(slot.stream)
        load_cuda().synchronize()
        return [slot.read(launch.units.lanes) for slot, launch in pairs]


class _Slot:
    """A stream, and the memory of the launches on it."""

    def __init__(self) -> None:
        self.stream = load_cuda().stream()
        self._results = _results(1)
        self._inputs: dict[str, Any] = {}

    def prepare(self, launch: Launch) -> Callable[[Any], None]:
        worlds, lanes = launch.worlds, launch.units.lanes
        if len(self._results.values) < lanes:
            self._results = _results(2 * lanes)
        code = self._bring("code", launch.code.instructions)
        units = launch.units.arrays
        brought = {name: self._bring(name, getattr(units, name)) for name in _BROUGHT}
        nothing = _no_worlds(worlds.task, *_shape_of(worlds))
        return _prepare(launch, code, units._replace(**brought), nothing, self._results)

    def _bring(self, name: str, array: Any) -> Any:
        """An array in this slot's memory, or where it is if that is on the device already."""
        if is_on_device(array):
            return as_launchable(array)
        if array.nbytes <= SMALL_BYTES:
            return _brought(array)
        kept = self._inputs.get(name)
        if kept is None or len(kept) < len(array) or kept.shape[1:] != array.shape[1:]:
            shape = (2 * len(array), *array.shape[1:])
            kept = self._inputs[name] = as_launchable(empty_on_device(shape, array.dtype))
        part = kept[: len(array)]
        part.copy_to_device(np.ascontiguousarray(array))
        return part

    def read(self, lanes: int) -> Found:
        values, actions = self._results.values, self._results.actions
        return values.array[:lanes].copy_to_host(), actions.array[:lanes].copy_to_host()


def _brought(array: NDArray[Any]) -> Any:
    """Return a copy of an `array` `[...]` on the device; small ones are copied there only once."""
    if array.nbytes <= SMALL_BYTES:
        return as_launchable(_small(array.shape, array.dtype, array.tobytes()))
    return as_launchable(to_device(array))


@lru_cache(maxsize=256)
def _small(shape: tuple[int, ...], dtype: np.dtype[Any], content: bytes) -> DeviceArray:
    return to_device(np.frombuffer(content, dtype).reshape(shape))


def _shape_of(worlds: WorldBatch) -> tuple[int, int, int]:
    return worlds.height, worlds.width, worlds.memory.shape[1]


@cache
def _no_worlds(task: str, height: int, width: int, slots: int) -> WorldBatch:
    """Room for no worlds, for launches whose final states are not wanted."""
    return WorldBatch.empty(task, 0, height, width, slots).to("cuda")


def _prepare(
    launch: Launch, code: Any, units: UnitArrays, after: WorldBatch, results: LaneResults
) -> Callable[[Any], None]:
    """Return what starts the kernel on a stream.

    Args:
        launch: what runs.
        code: its programs, `[P, L]` uint32, on the device.
        units: its units, on the device.
        after: memory for the final states on the device, or for none.
        results: memory for the results on the device.
    """
    worlds = launch.worlds
    taken = (memory_of(worlds), memory_of(after), results)
    groups = [as_launchable_group(group) for group in taken]
    kernels = cuda_kernels_of(launch.setting, launch.code.depth)
    lanes, constants = launch.units.lanes, constants_on_device(launch.setting)

    def start(stream: Any) -> None:
        if lanes:
            kernels.run_lanes[blocks_for(lanes), THREADS, stream](
                units, code, launch.limits, constants, *groups
            )

    return start


def act_cuda(setting: Setting, worlds: WorldBatch, actions: Any) -> DeviceArray:
    """One action in every world; returns the rewards."""
    rewards = empty_on_device(len(worlds), np.float64)
    chosen = as_launchable(actions, "actions", shape=(len(worlds),))
    cuda_kernels_of(setting).act_on_worlds[blocks_for(len(worlds)), THREADS](
        chosen,
        constants_on_device(setting),
        as_launchable_group(memory_of(worlds)),
        as_launchable(rewards),
    )
    return rewards


def _results(lanes: int) -> LaneResults:
    """Return memory for the results, asked for once: each request stops the device for a moment."""
    widths = [np.dtype(dtype).itemsize for dtype in RESULTS]  # widest first: all stay aligned
    whole = empty_on_device(lanes * sum(widths), np.uint8).array
    parts, first = [], 0
    for dtype, width in zip(RESULTS, widths, strict=True):
        last = first + lanes * width
        parts.append(DeviceArray(whole[first:last].view(dtype)))
        first = last
    return LaneResults(*parts)
