"""Latents -> tokens on the CPU, greedily or by sampling.

A step is one product of the state for the GRU, and for the programs that have more than one legal
token two for the head. Programs that have ended leave the batch.

The same latent gives the same tokens alone or in any batch: rows of a matrix product do not
depend on each other as long as the product is not too small, so batches are filled up.

Axes: B programs that are being written, V tokens of the vocabulary, W the decoder's width, S states
of the grammar.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pomp.core.compiling import kernel
from pomp.dsl.grammar import END, ILLEGAL
from pomp.embedding.config import MAX_GENERATED
from pomp.embedding.decoder_step import (
    DEF,
    STACK,
    Folded,
    GrammarStates,
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

LEAST_ROWS, ROW_STEP = 16, 4  # a product has at least so many rows, and a multiple of so many


@kernel
def _next_states(tokens, inputs):
    """Compute the GRU's next states, in place.

    Args:
        tokens: `[B]` int64, the tokens it reads.
        inputs: `StepInputs`; `hidden` is written.
    """
    hidden = inputs.hidden
    for row in range(len(tokens)):
        token = tokens[row]
        for unit in range(hidden.shape[1]):
            hidden[row, unit] = next_unit(row, unit, token, inputs)


@kernel
def _hidden_layers(choosing, tokens, of_token, of_latent, layer):
    """Compute the head's hidden layers of some programs.

    Args:
        choosing: `[N]` int64, which programs.
        tokens: `[B]` int64, the tokens they read.
        of_token: `[V, 4 W]` float32, the tokens' shares.
        of_latent: `[B, 4 W]` float32, the latents' shares.
        layer: `[N, W]` float32, holds the states' shares, and is written.
    """
    width = layer.shape[1]
    for k in range(len(choosing)):
        row = choosing[k]
        token = tokens[row]
        for unit in range(width):
            layer[k, unit] = layer_unit(
                row, unit, width, token, of_token, of_latent, layer[k, unit]
            )


@kernel
def _list_choosing(forced, state, count, choosing):
    """List the programs that have more than one legal token.

    Args:
        forced: `[S]` int16, as in `MaskTables`.
        state: `[B]` int16, as in `GrammarStates`.
        count: how many of the B rows are programs.
        choosing: `[N]` int64, written; N is at least `count`.

    Returns:
        How many are listed, and how many programs have not ended.
    """
    found, going = 0, 0
    for row in range(count):
        if state[row] != END:
            going += 1
            if forced[state[row]] < 0:
                choosing[found] = row
                found += 1
    return found, going


@kernel
def _choose(step, logits, bias, noise, mask, at, rows, tokens, output):
    """Choose the likeliest legal token of every program; of equally likely ones, the first.

    Args:
        step: how many tokens were chosen before.
        logits: `[K, V]` float32, of the K programs with several legal tokens, in their order.
        bias: `[V]` float32, added to the logits.
        noise: `[B, V]` float32, added to the logits, or `[0, V]`.
        mask: `MaskTables`, read.
        at: `GrammarStates`, written.
        rows: `[n]` int64, the programs' rows in `output`; n is at most B.
        tokens: `[B]` int64, the chosen tokens, written.
        output: `[N, T]` uint8, column `step` written.
    """
    k, goto = 0, mask.goto
    for row in range(len(rows)):
        here = np.int64(at.state[row])
        if here == END:
            continue
        best, token = np.float32(0), np.int64(mask.forced[here])
        if token < 0:
            for candidate in range(goto.shape[1]):
                if goto[here, candidate] != ILLEGAL:
                    score = logits[k, candidate] + bias[candidate]
                    if len(noise):
                        score += noise[row, candidate]
                    if token < 0 or score > best:
                        best, token = score, candidate
            k += 1
        read_token(row, token, mask, at)
        tokens[row] = token
        output[rows[row], step] = token


class CpuDecoder:
    """A folded decoder on the CPU."""

    def __init__(self, model: EmbeddingModel) -> None:
        self._vocabulary = model.vocabulary
        self._mask, self._start = mask_tables(model.grammar), start_state(model.grammar)
        self.refresh(model)

    def refresh(self, model: EmbeddingModel) -> None:
        """Take over the weights a model has now."""
        weights = self._weights = fold(model)
        # The state's share of the gates is needed always, that of the head only to choose.
        self._to_gates = weights.state[:, : -model.config.width].contiguous()
        self._to_layer = weights.state[:, -model.config.width :].contiguous()

    def decode(self, latent: Tensor, noise: Tensor | None = None) -> Tensor:
        """Decode latents.

        Args:
            latent: `[B, Z]` float32, the latents.
            noise: `[MAX_GENERATED, B, V]` float32, added to the logits: Gumbel noise samples
                programs. None: the likeliest tokens are chosen.

        Returns:
            `[B, MAX_GENERATED]` uint8, the tokens behind `DEF`, padded.
        """
        output = np.full((len(latent), MAX_GENERATED), self._vocabulary.pad, np.uint8)
        with torch.no_grad():
            self._run(latent, noise, output)
        return torch.from_numpy(output)

    def _run(self, latent: Tensor, noise: Tensor | None, output: NDArray[np.uint8]) -> None:
        """Decode `latent` `[N, Z]` with `noise` `[T, N, V]` into `output` `[N, T]`."""
        live = _Live(latent, self._weights, self._to_gates, self._start)
        silent = np.zeros((0, self._mask.goto.shape[1]), np.float32)
        bias = self._weights.output_bias.numpy()
        choosing = np.empty(len(latent), np.int64)
        count, going = _list_choosing(self._mask.forced, live.state, len(live.rows), choosing)
        for step in range(MAX_GENERATED):
            live.advance(self._weights, self._to_gates)
            logits = live.logits(self._weights, self._to_layer, choosing[:count])
            heard = silent if noise is None else noise[step].numpy()[live.rows]
            at = GrammarStates(live.state, live.stack, live.height)
            _choose(step, logits, bias, heard, self._mask, at, live.rows, live.tokens, output)
            count, going = _list_choosing(self._mask.forced, live.state, len(live.rows), choosing)
            if going == 0:
                break
            if _padded(going) < len(live.tokens):
                live.keep(np.flatnonzero(live.state[: len(live.rows)] != END))
                count, _ = _list_choosing(self._mask.forced, live.state, going, choosing)


def _padded(rows: int) -> int:
    """Return how many rows a product for so many programs has."""
    return max(LEAST_ROWS, -(-rows // ROW_STEP) * ROW_STEP)


class _Live:
    """The programs still being written: B rows, of which the last may be fillers.

    Attributes:
        hidden: `[B, W]` float32, the GRU's states.
        of_latent: `[B, 4 W]` float32, the latents' shares.
        of_state: `[B, 3 W]` float32, the states' shares of the next step's gates.
        rows: `[n]` int64, the programs' rows in the output; n is at most B.
        tokens: `[B]` int64, the latest tokens.
        state: `[B]` int16, the grammar's states, with `stack` and `height` as `GrammarStates`.
    """

    def __init__(self, latent: Tensor, weights: Folded, to_gates: Tensor, start: int) -> None:
        """Begin to decode `latent` `[N, Z]`; `to_gates` `[W, 3 W]` gives the states' shares."""
        count = _padded(len(latent))
        first, shares = widened(latent, count, weights)
        self.hidden = first.numpy()
        self.of_latent = shares.numpy()
        self.of_state = torch.mm(first, to_gates)
        self.rows = np.arange(len(latent))
        self.tokens = np.full(count, DEF, np.int64)
        self.state = np.full(count, start, np.int16)
        self.stack = np.zeros((count, STACK), np.int16)
        self.height = np.zeros(count, np.int16)

    def advance(self, weights: Folded, to_gates: Tensor) -> None:
        """Advance the GRU, and compute the states' shares of the next step's gates.

        Args:
            weights: the decoder's.
            to_gates: `[W, 3 W]` float32, from the GRU's state to its share of the gates.
        """
        shares = (weights.token.numpy(), self.of_latent, self.of_state.numpy())
        inputs = StepInputs(*shares, weights.state_bias.numpy(), self.hidden)
        _next_states(self.tokens, inputs)
        torch.mm(torch.from_numpy(self.hidden), to_gates, out=self.of_state)

    def logits(
        self, weights: Folded, to_layer: Tensor, choosing: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Compute the head's logits for some programs.

        Args:
            weights: the decoder's.
            to_layer: `[W, W]` float32, from the GRU's state to its share of the hidden layer.
            choosing: `[K]` int64, the programs.

        Returns:
            `[K, V]` float32 without the bias, and perhaps further rows that mean nothing.
        """
        chosen = np.zeros(_padded(len(choosing)), np.int64)
        chosen[: len(choosing)] = choosing
        if len(choosing) == 0:
            return np.zeros((0, weights.output.shape[1]), np.float32)
        layer = torch.mm(torch.from_numpy(self.hidden[chosen]), to_layer)
        _hidden_layers(chosen, self.tokens, weights.token.numpy(), self.of_latent, layer.numpy())
        return torch.mm(layer, weights.output).numpy()

    def keep(self, going: NDArray[np.int64]) -> None:
        """Keep the programs `going` `[n]` int64; fill up with copies of the first row."""
        chosen = np.zeros(_padded(len(going)), np.int64)
        chosen[: len(going)] = going
        self.rows = self.rows[going]
        self.of_state = self.of_state[torch.from_numpy(chosen)]
        for name in ("hidden", "of_latent", "tokens", "state", "stack", "height"):
            setattr(self, name, getattr(self, name)[chosen])
