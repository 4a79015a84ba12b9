"""The GPU's side of `rollout`: arrays on the device in, arrays on the device out."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.core.cuda import (
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
from pomp.engine.loading import cuda_kernels_of
from pomp.engine.units import Launch, Units
from pomp.karel.interpreter import Cap
from pomp.karel.world import WorldBatch
from pomp.tasks.task import Setting

RESULTS = (np.float64, np.int32, np.int32, np.bool_)
"""Types of values, actions, calls and completed."""
Results = tuple[DeviceArray, ...]
Found = tuple[NDArray[np.float64], NDArray[np.int32]]  # values and actions


def run_cuda(
    setting: Setting, code: Code, units: Units, worlds: WorldBatch, after: WorldBatch, cap: Cap
) -> Results:
    """Run units; see `rollout`. Returns values, actions, calls, completed by lane."""
    results = _results(units.lanes)
    inputs = [as_launchable(array) for array in (code.on_device, *map(to_device, units.arrays))]
    _prepare(setting, code.depth, inputs, units, worlds, after, cap, results)(0)
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
        self._results: Results = _results(1)
        self._inputs: dict[str, Any] = {}

    def prepare(self, launch: Launch) -> Callable[[Any], None]:
        units, worlds = launch.units, launch.worlds
        if len(self._results[0]) < units.lanes:
            self._results = _results(2 * units.lanes)
        code = self._bring("code", launch.code.instructions)
        names = ("lists", "table", "salts")
        inputs = [self._bring(*pair) for pair in zip(names, units.arrays, strict=True)]
        nothing = _no_worlds(worlds.task, *_shape_of(worlds))
        return _prepare(
            launch.setting, launch.code.depth, [code, *inputs], units, worlds, nothing,
            Cap.parse(launch.cap), self._results,
        )  # fmt: skip

    def _bring(self, name: str, array: Any) -> Any:
        """An array in this slot's memory, or where it is if that is on the device already."""
        if is_on_device(array):
            return as_launchable(array)
        if not len(array):
            return as_launchable(_empty(array.dtype))
        kept = self._inputs.get(name)
        if kept is None or len(kept) < len(array) or kept.shape[1:] != array.shape[1:]:
            shape = (2 * len(array), *array.shape[1:])
            kept = self._inputs[name] = as_launchable(room(shape, array.dtype))
        part = kept[: len(array)]
        part.copy_to_device(np.ascontiguousarray(array))
        return part

    def read(self, lanes: int) -> Found:
        values, actions, *_ = self._results
        return values.array[:lanes].copy_to_host(), actions.array[:lanes].copy_to_host()


@cache
def _empty(dtype: np.dtype[Any]) -> DeviceArray:
    return to_device(np.empty(0, dtype))


def _shape_of(worlds: WorldBatch) -> tuple[int, int, int]:
    return worlds.height, worlds.width, worlds.memory.shape[1]


@cache
def _no_worlds(task: str, height: int, width: int, slots: int) -> WorldBatch:
    """Room for no worlds, for launches whose final states are not wanted."""
    return WorldBatch.empty(task, 0, height, width, slots).to("cuda")


def _prepare(
    setting: Setting, depth: int, inputs: list[Any], units: Units, worlds: WorldBatch,
    after: WorldBatch, cap: Cap, results: Results,
) -> Callable[[Any], None]:  # fmt: skip
    """What starts the kernel on a stream, all its inputs being on the device."""
    arrays = [as_launchable(array) for array in (*worlds.arrays, *after.arrays, *results)]
    kernels = cuda_kernels_of(setting, depth)

    def start(stream: Any) -> None:
        if units.lanes:
            kernels.run_lanes[blocks_for(units.lanes), THREADS, stream](
                units.span, *inputs, units.rounds, units.patience,
                cap.by_calls, cap.limit, constants_on_device(setting), *arrays,
            )  # fmt: skip

    return start


def act_cuda(setting: Setting, worlds: WorldBatch, actions: Any) -> DeviceArray:
    """One action in every world; returns the rewards."""
    rewards = room(len(worlds), np.float64)
    chosen = as_launchable(actions, "actions", shape=(len(worlds),))
    arrays = map(as_launchable, (*worlds.arrays, rewards))
    cuda_kernels_of(setting).act_on_worlds[blocks_for(len(worlds)), THREADS](
        chosen, constants_on_device(setting), *arrays
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
def constants_on_device(setting: Setting) -> Any:
    """A setting's rules in GPU memory, as kernels take them; copied there once."""
    return as_launchable(to_device(setting.constants))
