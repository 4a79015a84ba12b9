"""Training on a GPU: steps replayed as CUDA graphs, and the switches that make them exact."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

_WARM_UP = 3  # calls before the capture, which let libraries choose and allocate


class Replayed:
    """Calls a function; on a GPU the first call with new shapes captures it, later ones replay.

    The function may write to tensors it holds (weights, optimiser state): `changed` lists them, so
    that what warming up did to them can be undone. What it returns is overwritten by the next call.
    """

    def __init__(
        self, function: Callable[..., Tensor], changed: Callable[[], Sequence[Tensor]]
    ) -> None:
        self._function, self._changed = function, changed
        self._graphs: dict[tuple[Any, ...], tuple[Any, tuple[Tensor, ...], Tensor]] = {}
        self._pool: Any = None

    def __call__(self, *inputs: Tensor) -> Tensor:
        """Call the function with tensors on one device."""
        if inputs[0].device.type != "cuda":
            return self._function(*inputs)
        key = tuple(tensor.shape for tensor in inputs)
        if key not in self._graphs:
            self._graphs[key] = self._capture(inputs)
        graph, held, result = self._graphs[key]
        for mine, given in zip(held, inputs, strict=True):
            mine.copy_(given, non_blocking=True)
        graph.replay()
        return result

    def _capture(self, inputs: tuple[Tensor, ...]) -> tuple[Any, tuple[Tensor, ...], Tensor]:
        held = tuple(tensor.clone() for tensor in inputs)
        before = [tensor.clone() for tensor in self._changed()]
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_WARM_UP):
                self._function(*held)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            result = self._function(*held)
        self._pool = self._pool or graph.pool()
        after = self._changed()
        for tensor, value in zip(after, before, strict=False):
            tensor.copy_(value)
        for tensor in after[len(before) :]:  # state that came into being on the way
            tensor.zero_()
        return graph, held, result


def prepare(device: torch.device) -> None:
    """Tell cuBLAS to be deterministic; it asks once, before its first product."""
    if device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


@contextmanager
def exact(device: torch.device) -> Iterator[None]:
    """On a GPU: deterministic kernels, and products in TF32, which training can bear."""
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
