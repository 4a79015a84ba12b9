"""Work on a GPU replayed as CUDA graphs, and the switches that make training exact."""

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from pomp.core.cuda import THREADS, as_launchable, as_launchable_group, load_cuda

_WARM_UP = 3  # calls of a training step before its capture

Result = TypeVar("Result")
NamedTensors = TypeVar("NamedTensors", bound=tuple[Tensor, ...])


def capture(
    work: Callable[[], Result],
    changed: Callable[[], Sequence[Tensor]],
    *,
    warm_up: int = 1,
    pool: Any = None,
) -> tuple[Any, Result]:
    """Capture work on fixed tensors as a CUDA graph, and leave the tensors as they were.

    Args:
        work: launches kernels; each replay writes to the memory of what it returns.
        changed: returns the tensors, of any shapes, that `work` writes to and others read; it may
            return more after the first call.
        warm_up: calls before the capture, which compile kernels and let libraries choose theirs.
        pool: memory shared with another graph that is never replayed at the same time.

    Returns:
        The graph, and what `work` returned.
    """
    before = [tensor.clone() for tensor in changed()]
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(warm_up):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with _no_collection(), torch.cuda.graph(graph, pool=pool):
        result = work()
    after = changed()
    for tensor, value in zip(after, before, strict=False):
        tensor.copy_(value)
    for tensor in after[len(before) :]:  # state that came into being on the way
        tensor.zero_()
    return graph, result


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the garbage collector away: to free memory or a graph on a GPU ends a capture."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()


class Replayed(Generic[Result]):
    """A function of tensors; on a GPU the first call with new shapes captures it, others replay.

    The function may write to tensors it holds (weights, optimiser state): `changed` returns them,
    so that what warming up did to them can be undone. What it returns is overwritten by the next
    call.
    Its `inputs` are tensors of any shapes `[...]`; inputs of the same shapes have the same types.
    """

    def __init__(
        self,
        function: Callable[..., Result],
        changed: Callable[[], Sequence[Tensor]],
        device: torch.device,
    ) -> None:
        self._function, self._changed = function, changed
        self._is_captured = device.type == "cuda"
        self._graphs: dict[tuple[Any, ...], tuple[Any, tuple[Tensor, ...], Result]] = {}
        self._pool: Any = None

    def __call__(self, *inputs: Tensor) -> Result:
        """Call the function with tensors on one device."""
        if not self._is_captured:
            return self._function(*inputs)
        key = tuple(tensor.shape for tensor in inputs)
        if key not in self._graphs:
            self._graphs[key] = self._capture(inputs)
        graph, held, result = self._graphs[key]
        for mine, given in zip(held, inputs, strict=True):
            mine.copy_(given, non_blocking=True)
        graph.replay()
        return result

    def _capture(self, inputs: tuple[Tensor, ...]) -> tuple[Any, tuple[Tensor, ...], Result]:
        """Return a graph, the tensors `[...]` that it reads, and what it writes to."""
        held = tuple(tensor.clone() for tensor in inputs)
        graph, result = capture(
            lambda: self._function(*held), self._changed, warm_up=_WARM_UP, pool=self._pool
        )
        self._pool = self._pool or graph.pool()
        return graph, held, result


def numba_stream() -> Any:
    """Return torch's current stream as Numba's kernels take it."""
    return load_cuda().external_stream(torch.cuda.current_stream().cuda_stream)


def launch_on_stream(
    loop: Any, blocks: int | tuple[int, int], *arguments: Any, threads: int = THREADS
) -> None:
    """Launch a Numba kernel on torch's current stream.

    Args:
        loop: the kernel.
        blocks: how many blocks it runs on; in one direction, or in two.
        arguments: what it takes: tensors of any shape, handed over without a copy, numbers, and
            named tuples of both.
        threads: of each block.
    """
    loop[blocks, threads, numba_stream()](*map(_hand_over, arguments))


def _hand_over(argument: Any) -> Any:
    if isinstance(argument, tuple):
        return as_launchable_group(argument)
    return as_launchable(argument) if isinstance(argument, Tensor) else argument


def share_arrays(tensors: NamedTensors) -> NamedTensors:
    """Return a named tuple of CPU tensors as one of NumPy arrays in the same memory.

    Args:
        tensors: a named tuple of tensors of any shape, `[...]`.
    """
    return type(tensors)(*(tensor.numpy() for tensor in tensors))


def prepare(device: torch.device) -> None:
    """Tell cuBLAS to be deterministic, which it reads once, before its first product."""
    if device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


@contextmanager
def exact(device: torch.device) -> Iterator[None]:
    """Use deterministic kernels on a GPU, and products in TF32, which are exact enough to train."""
    if device.type != "cuda":
        yield
        return
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    memory: Any = torch.utils.deterministic
    before = (
        matmul.allow_tf32, cudnn.allow_tf32, cudnn.deterministic,
        torch.are_deterministic_algorithms_enabled(),
        memory.fill_uninitialized_memory,
    )  # fmt: skip
    matmul.allow_tf32 = cudnn.allow_tf32 = cudnn.deterministic = True
    torch.use_deterministic_algorithms(True)
    memory.fill_uninitialized_memory = False  # no kernel here reads any
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32, cudnn.deterministic = before[:3]
        torch.use_deterministic_algorithms(before[3])
        memory.fill_uninitialized_memory = before[4]
