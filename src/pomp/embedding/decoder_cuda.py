"""The folded decoder on a GPU: four kernels a step, captured as CUDA graphs of a few steps each.

A step is one product of the state, the hidden layer, one product for the logits, and a kernel that
chooses the tokens, lets the grammar read them and computes the GRU's next state. Between two graphs
the programs that have ended leave the batch, which shrinks to a size of a ladder. How many go on is
read while the next graph runs, so that the GPU need not wait for the CPU.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numba import cuda, float32
from torch import Tensor

from pomp.core.cuda import blocks_for, device_kernel, load_cuda
from pomp.core.graphs import capture, launch_on_stream
from pomp.dsl.grammar import END, ILLEGAL
from pomp.embedding.config import MAX_GENERATED
from pomp.embedding.decoder import (
    DEF,
    STACK,
    Folded,
    fold,
    grammar_tables,
    layer_unit,
    next_unit,
    read_token,
    widened,
)
from pomp.embedding.model import EmbeddingModel

LEAST_ROWS, MOST_ROWS = 64, 16_384
SIZES = tuple(
    sorted({LEAST_ROWS << k for k in range(9)} | {LEAST_ROWS * 3 // 2 << k for k in range(8)})
)
"""Rows a batch may have; the graphs of a size are captured when it is first needed."""
STEPS = 5  # of one graph; the steps of a program are a multiple
_SHRINKING_ROWS = 1024  # up to here one graph makes all steps: looking who has ended costs more
_OUTPUTS = 64  # logits of a row, filled up
_INFINITY = np.float32(np.inf)


@device_kernel
def _first_state(of_token, of_latent, of_state, state_bias, hidden):
    """The GRU's state after `DEF`; one block a row."""
    row, width = cuda.blockIdx.x, hidden.shape[1]
    for unit in range(cuda.threadIdx.x, width, cuda.blockDim.x):
        hidden[row, unit] = next_unit(
            row, unit, DEF, of_token, of_latent, of_state, state_bias, hidden
        )


@device_kernel
def _hidden_layer(tokens, of_token, of_latent, of_state, layer):
    """The hidden layer of the head; one block a row."""
    row, width = cuda.blockIdx.x, layer.shape[1]
    token = tokens[row]
    for unit in range(cuda.threadIdx.x, width, cuda.blockDim.x):
        share = of_state[row, 3 * width + unit]
        layer[row, unit] = layer_unit(row, unit, width, token, of_token, of_latent, share)


@device_kernel
def _choose(
    logits, output_bias, noise, goto, push, state, stack, height, rows, written, tokens, output,
    of_token, of_latent, of_state, state_bias, hidden,
):  # fmt: skip
    """Choose the token of a row as the CPU does, then compute its next state; one block a row."""
    row, place, width = cuda.blockIdx.x, cuda.threadIdx.x, hidden.shape[1]
    scores = cuda.shared.array(_OUTPUTS, float32)
    here = state[row]
    if here == END:
        return
    step = written[row]
    if place < goto.shape[1]:
        score = -_INFINITY
        if goto[here, place] != ILLEGAL:
            score = logits[row, place] + output_bias[place]
            if len(noise):
                score += noise[step, row, place]
        scores[place] = score
    cuda.syncthreads()
    if place == 0:
        token = 0
        for candidate in range(1, goto.shape[1]):
            if scores[candidate] > scores[token]:
                token = candidate
        read_token(row, token, goto, push, state, stack, height)
        tokens[row] = token
        output[rows[row], step] = token
        written[row] = step + 1
    cuda.syncthreads()
    token = tokens[row]
    for unit in range(place, width, cuda.blockDim.x):
        hidden[row, unit] = next_unit(
            row, unit, token, of_token, of_latent, of_state, state_bias, hidden
        )


@device_kernel
def _list_going(state, count, source):
    """List the rows that go on, in any order; `count` `[1]` begins at zero."""
    row = cuda.grid(1)
    if row < len(state) and state[row] != END:
        source[cuda.atomic.add(count, 0, 1)] = row


@device_kernel
def _take(
    count, source, hidden, of_latent, stack, tokens, rows, written, height, state,
    to_hidden, to_latent, to_stack, to_tokens, to_rows, to_written, to_height, to_state,
):  # fmt: skip
    """Copy the rows that go on to a smaller batch; one block a row. Rows past them have ended."""
    row, place = cuda.blockIdx.x, cuda.threadIdx.x
    if row >= count[0]:
        if place == 0:
            to_state[row] = END
        return
    old = source[row]
    for unit in range(place, hidden.shape[1], cuda.blockDim.x):
        to_hidden[row, unit] = hidden[old, unit]
    for unit in range(place, of_latent.shape[1], cuda.blockDim.x):
        to_latent[row, unit] = of_latent[old, unit]
    for level in range(place, stack.shape[1], cuda.blockDim.x):
        to_stack[row, level] = stack[old, level]
    if place == 0:
        to_tokens[row], to_rows[row] = tokens[old], rows[old]
        to_written[row], to_height[row] = written[old], height[old]
        to_state[row] = state[old]


class _Reading:
    """A number on its way from the GPU."""

    def __init__(self) -> None:
        self._value = torch.zeros(1, dtype=torch.int32, pin_memory=True)
        self._event = torch.cuda.Event()

    def begin(self, number: Tensor) -> None:
        """Send for it; the GPU goes on."""
        self._value.copy_(number, non_blocking=True)
        self._event.record()

    def end(self) -> int:
        """Wait for it."""
        self._event.synchronize()
        return int(self._value)


class CudaDecoder:
    """A folded decoder on the GPU."""

    def __init__(self, model: EmbeddingModel) -> None:
        load_cuda()
        self._vocabulary = model.vocabulary
        self._device = next(model.parameters()).device
        goto, push, self._start = grammar_tables(model.vocabulary)
        self._goto, self._push = (
            torch.from_numpy(table).to(self._device) for table in (goto, push)
        )
        self._weights = _padded(fold(model))
        self._output = torch.empty(
            (MOST_ROWS, MAX_GENERATED), dtype=torch.uint8, device=self._device
        )
        self._batches: dict[tuple[int, bool, int], _Batch] = {}
        self._going = _Reading()

    def refresh(self, model: EmbeddingModel) -> None:
        """Take over the weights a model has now; graphs stay valid."""
        for mine, new in zip(self._weights, _padded(fold(model)), strict=True):
            mine.copy_(new)

    def decode(self, latent: Tensor, noise: Tensor | None = None) -> Tensor:
        """The tokens behind `DEF`, padded: `[B, Z]` float32 to `[B, MAX_GENERATED]` uint8.

        Args:
            latent: the latents, on the device.
            noise: `[MAX_GENERATED, B, V]` float32, added to the logits. None: the likeliest tokens.
        """
        if len(latent) > MOST_ROWS:
            parts = zip(
                latent.split(MOST_ROWS),
                [None] * len(latent) if noise is None else noise.split(MOST_ROWS, dim=1),
                strict=False,
            )
            return torch.cat([self.decode(*part) for part in parts])
        output = self._output[: len(latent)]
        output.fill_(self._vocabulary.pad)
        with torch.no_grad(), _full_precision():
            batch = self._batch(len(latent), sampled=noise is not None)
            batch.begin(latent, noise)
            for step in range(0, MAX_GENERATED, batch.steps):
                batch.run()
                if noise is not None or step + batch.steps >= MAX_GENERATED:
                    continue  # sampled programs all stay: their noise is in place
                larger = batch
                larger.list_going()
                if step > 0:  # how many the graph before left is known by now
                    left = self._going.end()
                    if left == 0:
                        break
                    if self._size(left) < larger.size:
                        batch = self._batch(left, sampled=False, steps=STEPS)
                        batch.take(larger)
                self._going.begin(larger.going)
        return output.clone()

    @staticmethod
    def _size(rows: int) -> int:
        return next(size for size in SIZES if size >= rows)

    def _batch(self, rows: int, *, sampled: bool, steps: int = 0) -> "_Batch":
        size = self._size(rows)
        steps = steps or (MAX_GENERATED if size <= _SHRINKING_ROWS else STEPS)
        key = (size, sampled, steps)
        if key not in self._batches:
            self._batches[key] = _Batch(
                *key, self._start, self._weights, self._goto, self._push, self._output
            )
        return self._batches[key]


class _Batch:
    """Buffers for one number of rows, and the graphs that load them and advance them."""

    def __init__(
        self, size: int, sampled: bool, steps: int, start: int,
        weights: Folded, goto: Tensor, push: Tensor, output: Tensor,
    ) -> None:  # fmt: skip
        self.size, self.steps, self._start = size, steps, start
        self._weights, self._goto, self._push, self._output = weights, goto, push, output
        width, device = weights.state.shape[0], goto.device
        latent = weights.widen.shape[0] or width

        def room(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        self.hidden = room(size, width)
        self.of_latent, self.of_state = room(size, 4 * width), room(size, 4 * width)
        self.layer, self.logits = room(size, width), room(size, _OUTPUTS)
        self.tokens, self.rows = room(size, dtype=torch.int32), room(size, dtype=torch.int32)
        self.written = room(size, dtype=torch.int32)
        self.state, self.height = room(size, dtype=torch.int16), room(size, dtype=torch.int16)
        self.stack = room(size, STACK, dtype=torch.int16)
        self.noise = room(MAX_GENERATED if sampled else 0, size, goto.shape[1])
        self.latent, self.count = room(size, latent), room(1, dtype=torch.int64)
        self.going, self.source = room(1, dtype=torch.int32), room(size, dtype=torch.int32)
        self._loading = _Graph(self._load, self._written)
        self._going = _Graph(self._advance, self._written)

    def begin(self, latent: Tensor, noise: Tensor | None) -> None:
        """Load latents; rows past theirs have ended before they begin."""
        self.latent[: len(latent)].copy_(latent)
        self.count.fill_(len(latent))
        if noise is not None:
            self.noise[:, : len(latent)] = noise
        self._loading.run()

    def _load(self) -> None:
        weights = self._weights
        first, shares = widened(self.latent, self.size, weights)
        self.hidden.copy_(first)
        self.of_latent.copy_(shares)
        torch.mm(first, weights.state, out=self.of_state)
        self.tokens.fill_(DEF)
        self.written.zero_()
        self.height.zero_()
        torch.arange(self.size, out=self.rows)
        self.state.fill_(END)
        self.state.masked_fill_(self.rows < self.count, self._start)
        self._launch(_first_state, *self._shares(), weights.state_bias, self.hidden)

    def _shares(self) -> tuple[Tensor, Tensor, Tensor]:
        return self._weights.token, self.of_latent, self.of_state

    def list_going(self) -> None:
        """List the rows that go on, and how many they are."""
        self.going.zero_()
        blocks = blocks_for(self.size)
        self._launch(_list_going, self.state, self.going, self.source, blocks=blocks)

    def take(self, other: "_Batch") -> None:
        """Take over the rows a larger batch has listed."""
        self._launch(_take, other.going, other.source, *other._rows(), *self._rows())

    def _rows(self) -> tuple[Tensor, ...]:
        """What a program is on its way; the state's share is computed anew in every step."""
        return (
            *(self.hidden, self.of_latent, self.stack, self.tokens, self.rows, self.written),
            *(self.height, self.state),
        )

    def run(self) -> None:
        """Advance every row by `steps` tokens."""
        self._going.run()

    def _written(self) -> list[Tensor]:
        return [*self._rows(), self.of_state, self._output]

    def _advance(self) -> None:
        for _ in range(self.steps):
            self._step()

    def _step(self) -> None:
        weights = self._weights
        torch.mm(self.hidden, weights.state, out=self.of_state)
        self._launch(_hidden_layer, self.tokens, *self._shares(), self.layer)
        torch.mm(self.layer, weights.output, out=self.logits)
        self._launch(
            _choose, self.logits, weights.output_bias, self.noise, self._goto, self._push,
            self.state, self.stack, self.height, self.rows, self.written, self.tokens,
            self._output, *self._shares(), weights.state_bias, self.hidden,
        )  # fmt: skip

    def _launch(self, loop: Any, *tensors: Tensor, blocks: int | None = None) -> None:
        """Launch a kernel; one block a row unless said otherwise."""
        launch_on_stream(loop, blocks or self.size, *tensors)


class _Graph:
    """Kernels captured when they are first run, and replayed."""

    def __init__(self, work: Callable[[], None], written: Callable[[], list[Tensor]]) -> None:
        self._work, self._written = work, written
        self._graph: Any = None

    def run(self) -> None:
        """Do the work."""
        if self._graph is None:
            self._graph, _ = capture(self._work, self._written)
        self._graph.replay()


def _padded(weights: Folded) -> Folded:
    """The same weights with the logits' columns filled up; the fillers are never looked at."""
    missing = _OUTPUTS - weights.output.shape[1]
    output = torch.nn.functional.pad(weights.output, (0, missing))
    return weights._replace(output=output.contiguous())


@contextmanager
def _full_precision() -> Iterator[None]:
    """Products without TF32: rounding them changes programs."""
    matmul = torch.backends.cuda.matmul
    before = matmul.allow_tf32
    matmul.allow_tf32 = False
    try:
        yield
    finally:
        matmul.allow_tf32 = before
