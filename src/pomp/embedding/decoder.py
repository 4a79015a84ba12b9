"""Latents -> tokens, greedily or by sampling, with everything constant taken out of the loop.

A GRU decoder multiplies [token's embedding, latent, state] by its weights at every step. The
embedding's share depends on the token alone: it is tabulated. The latent's share depends on the
program alone: it is computed once. What is left per step is one product of the state, which gives
the next step's recurrent share and this step's hidden layer together, and one for the logits.
Programs that have ended leave the batch.

The same latent gives the same tokens alone or in any batch: rows of a matrix product do not
depend on each other as long as the product is not too small, so batches are filled up.

Axes: B programs that are being written, V tokens of the vocabulary, W the decoder's width, S states
of the grammar. The 4 W columns of a share are what a step adds up: the GRU's three gates and the
head's hidden layer.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pomp.core.compiling import kernel, scalar
from pomp.dsl.grammar import END, ILLEGAL, RETURN, Automaton
from pomp.embedding.config import MAX_GENERATED
from pomp.embedding.model import EmbeddingModel

LEAST_ROWS, ROW_STEP = 16, 4  # a product has at least so many rows, and a multiple of so many
STACK = MAX_GENERATED  # deepest nesting the grammar can reach in so many tokens
DEF = 0  # the token every program begins with


class Folded(NamedTuple):
    """A decoder's weights as the loop needs them, float32.

    Attributes:
        widen: `[Z, W]`, from the latent to the width, or `[0, 0]` if they are equal.
        widen_bias: `[W]` or `[0]`.
        token: `[V, 4 W]`, the tokens' shares.
        latent: `[W, 4 W]`, from the latent to its share.
        latent_bias: `[4 W]`.
        state: `[W, 4 W]`, from the GRU's state to its share.
        state_bias: `[W]`, of the state's share of the third gate.
        output: `[W, V]`, from the head's hidden layer to the logits.
        output_bias: `[V]`.
    """

    widen: Tensor
    widen_bias: Tensor
    token: Tensor
    latent: Tensor
    latent_bias: Tensor
    state: Tensor
    state_bias: Tensor
    output: Tensor
    output_bias: Tensor


class StepInputs(NamedTuple):
    """What a GRU's next states are computed from, float32.

    Attributes:
        of_token: `[V, 4 W]`, the tokens' shares.
        of_latent: `[B, 4 W]`, the latents' shares.
        of_state: `[B, 3 W]` or `[B, 4 W]`, the states' shares.
        state_bias: `[W]`, of the state's share of the third gate.
        hidden: `[B, W]`, the GRU's states, read and written.
    """

    of_token: Any
    of_latent: Any
    of_state: Any
    state_bias: Any
    hidden: Any


class MaskTables(NamedTuple):
    """The grammar that masks tokens, as an automaton.

    Attributes:
        goto: `[S, V]` int16, the next state, `RETURN` or `ILLEGAL`.
        push: `[S, V]` int16, the state to push on the stack, or -1.
        forced: `[S]` int16, the only legal token of a state, or -1 if there are several.
    """

    goto: Any
    push: Any
    forced: Any


class GrammarStates(NamedTuple):
    """How far the grammar has read the programs.

    Attributes:
        state: `[B]` int16, the automaton's states.
        stack: `[B, STACK]` int16, its stacks.
        height: `[B]` int16, the heights of the stacks.
    """

    state: Any
    stack: Any
    height: Any


def fold(model: EmbeddingModel) -> Folded:
    """Take the constant products out of a decoder."""
    decoder, width = model.decoder, model.config.width
    gru, tokens = decoder.gru, len(model.vocabulary)
    with torch.no_grad():
        # The decoder's inputs in their order: GRU [token, latent]; hidden [state, token, latent].
        gates_of_token, gates_of_latent = gru.weight_ih_l0.split([tokens, width], dim=1)
        of_state, of_token, of_latent = decoder.hidden.weight.split([width, tokens, width], dim=1)
        reset_update, new = gru.bias_hh_l0.split([2 * width, width])
        gate_bias = gru.bias_ih_l0 + torch.cat([reset_update, torch.zeros_like(new)])
        widen, widen_bias = new.new_empty((0, 0)), new.new_empty(0)
        if isinstance(model.widen, torch.nn.Linear):
            widen, widen_bias = model.widen.weight.t().contiguous(), model.widen.bias.clone()
        return Folded(
            widen=widen,
            widen_bias=widen_bias,
            token=decoder.embed.weight @ torch.cat([gates_of_token, of_token]).t(),
            latent=torch.cat([gates_of_latent, of_latent]).t().contiguous(),
            latent_bias=torch.cat([gate_bias, decoder.hidden.bias]),
            state=torch.cat([gru.weight_hh_l0, of_state]).t().contiguous(),
            state_bias=new.clone(),
            output=decoder.output.weight.t().contiguous(),
            output_bias=decoder.output.bias.clone(),
        )


def widened(latent: Tensor, rows: int, weights: Folded) -> tuple[Tensor, Tensor]:
    """Prepare latents for decoding.

    Args:
        latent: `[N, Z]` float32, the latents.
        rows: B, at least N; the rows behind the latents are zeros.
        weights: the decoder's.

    Returns:
        `[B, W]` float32, the latents at the decoder's width, and `[B, 4 W]`, their shares.
    """
    first = torch.nn.functional.pad(latent, (0, 0, 0, rows - len(latent)))
    if weights.widen.numel():
        first = torch.mm(first, weights.widen) + weights.widen_bias
    return first, torch.mm(first, weights.latent) + weights.latent_bias


def mask_tables(grammar: Automaton) -> MaskTables:
    """Return a grammar as the decoders take it."""
    is_legal = grammar.goto != ILLEGAL
    only = np.where(is_legal.sum(axis=1) == 1, is_legal.argmax(axis=1), -1)
    return MaskTables(grammar.goto, grammar.push, only.astype(np.int16))


def start_state(grammar: Automaton) -> int:
    """Return the state of a grammar that has read `DEF`."""
    return grammar.read(grammar.start, [], DEF)


def _lambert(terms: int) -> tuple[list[float], list[float]]:
    """Return P and Q of tanh x = x P(x^2) / Q(x^2).

    They are Lambert's continued fraction x / (1 + x^2 / (3 + x^2 / ...)), cut after some terms.
    """
    top, bottom = [2 * terms - 1], [1]
    for odd in range(2 * terms - 3, 0, -2):
        shifted = [0, *bottom]
        longest = max(len(top), len(shifted))
        sums = [
            odd * (top[k] if k < len(top) else 0) + (shifted[k] if k < len(shifted) else 0)
            for k in range(longest)
        ]
        top, bottom = sums, top
    return [value / top[0] for value in bottom], [value / top[0] for value in top]


_TERMS = 13  # off by at most 4e-7, the rounding of float32, for any argument
_P, _Q = (tuple(np.float32(value) for value in part) for part in _lambert(_TERMS))
assert len(_P) == len(_Q) == 7  # as many as `squash` writes out
_HALF, _FAR = np.float32(0.5), np.float32(9)  # tanh 9 is 1 in float32


@scalar
def squash(x):
    """Return the hyperbolic tangent of a float32, by arithmetic that a compiler can vectorise."""
    x = min(max(x, -_FAR), _FAR)
    y = x * x
    p, q = _P[6], _Q[6]
    p, q = p * y + _P[5], q * y + _Q[5]
    p, q = p * y + _P[4], q * y + _Q[4]
    p, q = p * y + _P[3], q * y + _Q[3]
    p, q = p * y + _P[2], q * y + _Q[2]
    p, q = p * y + _P[1], q * y + _Q[1]
    p, q = p * y + _P[0], q * y + _Q[0]
    return x * p / q


@scalar
def open_gate(x):
    """Return the logistic function of a float32."""
    return _HALF * squash(_HALF * x) + _HALF


@scalar
def next_unit(row, unit, token, inputs):
    """Return one unit of a GRU's next state.

    Args:
        row: which program.
        unit: which of the W units.
        token: the token it reads.
        inputs: `StepInputs`, read.
    """
    of_token, of_latent, of_state = inputs.of_token, inputs.of_latent, inputs.of_state
    hidden, state_bias = inputs.hidden, inputs.state_bias
    width = hidden.shape[1]
    update, new = width + unit, 2 * width + unit
    reset = open_gate(of_token[token, unit] + of_latent[row, unit] + of_state[row, unit])
    keep = open_gate(of_token[token, update] + of_latent[row, update] + of_state[row, update])
    recurrent = reset * (of_state[row, new] + state_bias[unit])
    fresh = squash(of_token[token, new] + of_latent[row, new] + recurrent)
    return fresh + keep * (hidden[row, unit] - fresh)


@scalar
def layer_unit(row, unit, width, token, of_token, of_latent, share):
    """Return one unit of the head's hidden layer.

    Args:
        row: which program.
        unit: which of the W units.
        width: W.
        token: the token it reads.
        of_token: `[V, 4 W]` float32, the tokens' shares.
        of_latent: `[B, 4 W]` float32, the latents' shares.
        share: the state's share of this unit.
    """
    place = 3 * width + unit
    return squash(of_token[token, place] + of_latent[row, place] + share)


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


@scalar
def read_token(row, token, mask, at):
    """Let the grammar of one program read a legal token.

    Args:
        row: which program.
        token: the token's id.
        mask: `MaskTables`, read.
        at: `GrammarStates`, written.
    """
    state, stack, height = at.state, at.stack, at.height
    here = np.int64(state[row])
    if mask.push[here, token] >= 0:
        stack[row, height[row]] = mask.push[here, token]
        height[row] += 1
    following = np.int64(mask.goto[here, token])
    if following == RETURN:
        height[row] -= 1
        following = np.int64(stack[row, height[row]])
    state[row] = following


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
