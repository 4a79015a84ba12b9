"""The folded decoder on a GPU: four kernels a step, captured as CUDA graphs of a few steps each.

A step is one product of the state, the hidden layer, one product for the logits, and a kernel that
chooses the tokens, lets the grammar read them and computes the GRU's next state. Between two graphs
the programs that have ended leave the batch, which shrinks to a size of a ladder. How many go on is
read while the next graph runs, so that the GPU need not wait for the CPU.

Axes: B rows of a batch, which are programs or have ended; V tokens, W the decoder's width. Kernels
and the buffers they share stand in one file, because neither is understood without the other.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from numba import cuda, float32
from torch import Tensor

from pomp.core.cuda import blocks_for, device_kernel, load_cuda
from pomp.core.graphs import capture, launch_on_stream
from pomp.dsl.grammar import END, ILLEGAL
from pomp.embedding.config import MAX_GENERATED
from pomp.embedding.decoder_step import (
    DEF,
    STACK,
    Folded,
    GrammarStates,
    MaskTables,
    StepInputs,
    fold,
    layer_unit,
    mask_tables,
    next_unit,
    read_token,
    start_state,
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


class ProgramRows(NamedTuple):
    """Everything about the programs of a batch that the next steps need.

    Attributes:
        hidden: `[B, W]` float32, the GRU's states.
        of_latent: `[B, 4 W]` float32, the latents' shares.
        stack: `[B, STACK]` int16, the grammar's stacks.
        tokens: `[B]` int32, the latest tokens.
        rows: `[B]` int32, the programs' rows in the output.
        written: `[B]` int32, how many tokens each has.
        height: `[B]` int16, the heights of the stacks.
        state: `[B]` int16, the grammar's states.
    """

    hidden: Any
    of_latent: Any
    stack: Any
    tokens: Any
    rows: Any
    written: Any
    height: Any
    state: Any


@device_kernel
def _first_state(inputs):
    """Compute the GRU's states after `DEF`; one block a row.

    Args:
        inputs: `StepInputs`; `hidden` is written.
    """
    row, width = cuda.blockIdx.x, inputs.hidden.shape[1]
    for unit in range(cuda.threadIdx.x, width, cuda.blockDim.x):
        inputs.hidden[row, unit] = next_unit(row, unit, DEF, inputs)


@device_kernel
def _hidden_layer(tokens, of_token, of_latent, of_state, layer):
    """Compute the head's hidden layers; one block a row.

    Args:
        tokens: `[B]` int32, the latest tokens.
        of_token: `[V, 4 W]` float32, the tokens' shares.
        of_latent: `[B, 4 W]` float32, the latents' shares.
        of_state: `[B, 4 W]` float32, the states' shares.
        layer: `[B, W]` float32, written.
    """
    row, width = cuda.blockIdx.x, layer.shape[1]
    token = tokens[row]
    for unit in range(cuda.threadIdx.x, width, cuda.blockDim.x):
        share = of_state[row, 3 * width + unit]
        layer[row, unit] = layer_unit(row, unit, width, token, of_token, of_latent, share)


@device_kernel
def _choose(logits, output_bias, noise, mask, at, rows, written, tokens, output, inputs):
    """Choose the token of a row as the CPU does, then compute its next state; one block a row.

    Args:
        logits: `[B, _OUTPUTS]` float32, of which the first V columns count.
        output_bias: `[V]` float32, added to the logits.
        noise: `[MAX_GENERATED, B, V]` float32, added to the logits, or `[0, B, V]`.
        mask: `MaskTables`, read.
        at: `GrammarStates`, written.
        rows: `[B]` int32, the programs' rows in `output`.
        written: `[B]` int32, how many tokens each program has, written.
        tokens: `[B]` int32, the chosen tokens, written.
        output: `[N, MAX_GENERATED]` uint8, written.
        inputs: `StepInputs`; `hidden` is written.
    """
    row, place, width = cuda.blockIdx.x, cuda.threadIdx.x, inputs.hidden.shape[1]
    scores = cuda.shared.array(_OUTPUTS, float32)
    goto, here = mask.goto, at.state[row]
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
        read_token(row, token, mask, at)
        tokens[row] = token
        output[rows[row], step] = token
        written[row] = step + 1
    cuda.syncthreads()
    token = tokens[row]
    for unit in range(place, width, cuda.blockDim.x):
        inputs.hidden[row, unit] = next_unit(row, unit, token, inputs)


@device_kernel
def _list_going(state, count, source):
    """List the rows that have not ended, in any order.

    Args:
        state: `[B]` int16, the grammar's states.
        count: `[1]` int32, zero before, written: how many are listed.
        source: `[B]` int32, written.
    """
    row = cuda.grid(1)
    if row < len(state) and state[row] != END:
        source[cuda.atomic.add(count, 0, 1)] = row


@device_kernel
def _take(count, source, larger, smaller):
    """Copy the rows that have not ended to a smaller batch; one block a row of that.

    Args:
        count: `[1]` int32, how many rows have not ended; what is behind them is marked as ended.
        source: `[B]` int32, their rows in the larger batch.
        larger: `ProgramRows`, read.
        smaller: `ProgramRows`, written.
    """
    row, place = cuda.blockIdx.x, cuda.threadIdx.x
    if row >= count[0]:
        if place == 0:
            smaller.state[row] = END
        return
    old = source[row]
    for unit in range(place, larger.hidden.shape[1], cuda.blockDim.x):
        smaller.hidden[row, unit] = larger.hidden[old, unit]
    for unit in range(place, larger.of_latent.shape[1], cuda.blockDim.x):
        smaller.of_latent[row, unit] = larger.of_latent[old, unit]
    for level in range(place, larger.stack.shape[1], cuda.blockDim.x):
        smaller.stack[row, level] = larger.stack[old, level]
    if place == 0:
        smaller.tokens[row], smaller.rows[row] = larger.tokens[old], larger.rows[old]
        smaller.written[row], smaller.height[row] = larger.written[old], larger.height[old]
        smaller.state[row] = larger.state[old]


class _Reading:
    """A number that is copied from the GPU while the GPU goes on."""

    def __init__(self) -> None:
        self._value = torch.zeros(1, dtype=torch.int32, pin_memory=True)
        self._event = torch.cuda.Event()

    def begin(self, number: Tensor) -> None:
        """Begin to copy `number`, `[1]` int32."""
        self._value.copy_(number, non_blocking=True)
        self._event.record()

    def end(self) -> int:
        """Wait for the number and return it."""
        self._event.synchronize()
        return int(self._value)


class CudaDecoder:
    """A folded decoder on the GPU."""

    def __init__(self, model: EmbeddingModel) -> None:
        load_cuda()
        self._vocabulary = model.vocabulary
        self._device = next(model.parameters()).device
        mask, self._start = mask_tables(model.grammar), start_state(model.grammar)
        self._mask = MaskTables(*(torch.from_numpy(table).to(self._device) for table in mask))
        self._weights = _padded(fold(model))
        self._output = torch.empty(
            (MOST_ROWS, MAX_GENERATED), dtype=torch.uint8, device=self._device
        )
        self._batches: dict[tuple[int, bool, int], _Batch] = {}
        self._going = _Reading()

    def refresh(self, model: EmbeddingModel) -> None:
        """Take over the weights a model has now; captured graphs stay valid."""
        for mine, new in zip(self._weights, _padded(fold(model)), strict=True):
            mine.copy_(new)

    def decode(self, latent: Tensor, noise: Tensor | None = None) -> Tensor:
        """Decode latents.

        Args:
            latent: `[B, Z]` float32, the latents, on the device.
            noise: `[MAX_GENERATED, B, V]` float32, added to the logits: Gumbel noise samples
                programs. None: the likeliest tokens are chosen.

        Returns:
            `[B, MAX_GENERATED]` uint8, the tokens behind `DEF`, padded.
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
            self._batches[key] = _Batch(*key, self._start, self._weights, self._mask, self._output)
        return self._batches[key]


class _Batch:
    """Buffers for one number of rows, and the graphs that load them and advance them."""

    def __init__(
        self,
        size: int,
        sampled: bool,
        steps: int,
        start: int,
        weights: Folded,
        mask: MaskTables,
        output: Tensor,
    ) -> None:
        """Allocate a batch.

        Args:
            size: how many rows it has, B.
            sampled: whether noise is added to the logits.
            steps: how many tokens one run of its graph writes.
            start: the grammar's state after `DEF`.
            weights: the decoder's.
            mask: the grammar.
            output: `[N, MAX_GENERATED]` uint8, where the tokens go.
        """
        self.size, self.steps, self._start = size, steps, start
        self._weights, self._mask, self._output = weights, mask, output
        width, device = weights.state.shape[0], mask.goto.device
        latent = weights.widen.shape[0] or width

        def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        self.hidden = zeros(size, width)
        self.of_latent, self.of_state = zeros(size, 4 * width), zeros(size, 4 * width)
        self.layer, self.logits = zeros(size, width), zeros(size, _OUTPUTS)
        self.tokens, self.rows = zeros(size, dtype=torch.int32), zeros(size, dtype=torch.int32)
        self.written = zeros(size, dtype=torch.int32)
        self.state, self.height = zeros(size, dtype=torch.int16), zeros(size, dtype=torch.int16)
        self.stack = zeros(size, STACK, dtype=torch.int16)
        self.noise = zeros(MAX_GENERATED if sampled else 0, size, mask.goto.shape[1])
        self.latent, self.count = zeros(size, latent), zeros(1, dtype=torch.int64)
        self.going, self.source = zeros(1, dtype=torch.int32), zeros(size, dtype=torch.int32)
        self._loading = _Graph(self._load, self._written)
        self._going = _Graph(self._advance, self._written)

    def begin(self, latent: Tensor, noise: Tensor | None) -> None:
        """Load `latent` `[n, Z]` and `noise` `[T, n, V]`; rows behind the n count as ended."""
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
        self._launch(_first_state, self._inputs())

    def _inputs(self) -> StepInputs:
        shares = (self._weights.token, self.of_latent, self.of_state)
        return StepInputs(*shares, self._weights.state_bias, self.hidden)

    def list_going(self) -> None:
        """List the rows that have not ended, and count them."""
        self.going.zero_()
        blocks = blocks_for(self.size)
        self._launch(_list_going, self.state, self.going, self.source, blocks=blocks)

    def take(self, other: "_Batch") -> None:
        """Take over the rows a larger batch has listed."""
        self._launch(_take, other.going, other.source, other._rows(), self._rows())

    def _rows(self) -> ProgramRows:
        """Everything the next steps need; the states' shares are computed anew in every step."""
        return ProgramRows(*(getattr(self, name) for name in ProgramRows._fields))

    def run(self) -> None:
        """Advance every row by `steps` tokens."""
        self._going.run()

    def _written(self) -> list[Tensor]:
        """Return what the graphs write to, tensors of any shape `[...]`."""
        return [*self._rows(), self.of_state, self._output]

    def _advance(self) -> None:
        for _ in range(self.steps):
            self._step()

    def _step(self) -> None:
        weights = self._weights
        torch.mm(self.hidden, weights.state, out=self.of_state)
        shares = (weights.token, self.of_latent, self.of_state)
        self._launch(_hidden_layer, self.tokens, *shares, self.layer)
        torch.mm(self.layer, weights.output, out=self.logits)
        self._launch(
            _choose, self.logits, weights.output_bias, self.noise, self._mask,
            GrammarStates(self.state, self.stack, self.height),
            self.rows, self.written, self.tokens, self._output, self._inputs(),
        )  # fmt: skip

    def _launch(self, loop: Any, *arguments: Any, blocks: int | None = None) -> None:
        """Launch a kernel on tensors and named tuples of them; by default one block a row."""
        launch_on_stream(loop, blocks or self.size, *arguments)


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
    """Fill up the logits' columns with zeros, which no kernel reads."""
    missing = _OUTPUTS - weights.output.shape[1]
    output = torch.nn.functional.pad(weights.output, (0, missing))
    return weights._replace(output=output.contiguous())


@contextmanager
def _full_precision() -> Iterator[None]:
    """Compute products without TF32, whose rounding would change programs."""
    matmul = torch.backends.cuda.matmul
    before = matmul.allow_tf32
    matmul.allow_tf32 = False
    try:
        yield
    finally:
        matmul.allow_tf32 = before
