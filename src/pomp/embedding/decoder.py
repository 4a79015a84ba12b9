"""Latents -> tokens, greedily or by sampling, with everything constant taken out of the loop.

A GRU decoder multiplies [token's embedding, latent, state] by its weights at every step. The
embedding's share depends on the token alone: it is tabulated. The latent's share depends on the
program alone: it is computed once. What is left per step is one product of the state, which gives
the next step's recurrent share and this step's hidden layer together, and one for the logits.
Programs that have ended leave the batch.

The same latent gives the same tokens alone or in any batch: rows of a matrix product do not
depend on each other as long as the product is not too small, so batches are filled up.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pomp.core.compiling import kernel, scalar
from pomp.dsl.grammar import END, ILLEGAL, RETURN, published_mask
from pomp.dsl.vocabulary import Vocabulary
from pomp.embedding.config import MAX_GENERATED
from pomp.embedding.model import EmbeddingModel

LEAST_ROWS, ROW_STEP = 16, 4  # a product has at least so many rows, and a multiple of so many
STACK = MAX_GENERATED  # deepest nesting the grammar can reach in so many tokens
DEF = 0  # the token every program begins with


class Folded(NamedTuple):
    """A decoder's weights as the loop needs them; W its width, V the tokens.

    The 4 W columns are what a step adds up: the GRU's three gates and the head's hidden layer.
    """

    widen: Tensor  # [Z, W] or [0, 0]: from the latent to the width, if they differ
    widen_bias: Tensor
    token: Tensor  # [V, 4 W]: the token's share
    latent: Tensor  # [W, 4 W]: from the latent to its share
    latent_bias: Tensor  # [4 W]
    state: Tensor  # [W, 4 W]: from the GRU's state to its share
    state_bias: Tensor  # [W]: of the state's share of the third gate
    output: Tensor  # [W, V]
    output_bias: Tensor  # [V]


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
    """Latents, filled up to so many rows, at the decoder's width; and their share of the steps."""
    first = torch.nn.functional.pad(latent, (0, 0, 0, rows - len(latent)))
    if weights.widen.numel():
        first = torch.mm(first, weights.widen) + weights.widen_bias
    return first, torch.mm(first, weights.latent) + weights.latent_bias


def grammar_tables(vocabulary: Vocabulary) -> tuple[NDArray[np.int16], NDArray[np.int16], int]:
    """The mask's automaton and its state after `DEF`."""
    automaton = published_mask(vocabulary)
    return automaton.goto, automaton.push, automaton.read(automaton.start, [], DEF)


def _lambert(terms: int) -> tuple[list[float], list[float]]:
    """Tanh x as x P(x^2) / Q(x^2): Lambert's continued fraction x / (1 + x^2 / (3 + x^2 / ...))."""
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
    """The hyperbolic tangent of a float32: plain arithmetic, which a compiler can vectorise."""
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
    """The logistic function of a float32."""
    return _HALF * squash(_HALF * x) + _HALF


@scalar
def next_unit(row, unit, token, of_token, of_latent, of_state, state_bias, hidden):
    """One unit of a GRU's next state.

    Args:
        row: which program.
        unit: which of the W units.
        token: the token it reads.
        of_token: `[V, 4 W]` float32, the shares of tokens; `of_latent` and `of_state` `[B, 4 W]`.
        of_latent: see `of_token`.
        of_state: see `of_token`.
        state_bias: `[W]` float32.
        hidden: `[B, W]` float32, the state, read.
    """
    width = hidden.shape[1]
    update, new = width + unit, 2 * width + unit
    reset = open_gate(of_token[token, unit] + of_latent[row, unit] + of_state[row, unit])
    keep = open_gate(of_token[token, update] + of_latent[row, update] + of_state[row, update])
    recurrent = reset * (of_state[row, new] + state_bias[unit])
    fresh = squash(of_token[token, new] + of_latent[row, new] + recurrent)
    return fresh + keep * (hidden[row, unit] - fresh)


@scalar
def layer_unit(row, unit, width, token, of_token, of_latent, share):
    """One unit of the head's hidden layer, given the state's share of it; see `next_unit`."""
    place = 3 * width + unit
    return squash(of_token[token, place] + of_latent[row, place] + share)


@kernel
def _next_states(tokens, of_token, of_latent, of_state, state_bias, hidden):
    """The GRU's next states, in place."""
    for row in range(len(tokens)):
        token = tokens[row]
        for unit in range(hidden.shape[1]):
            hidden[row, unit] = next_unit(
                row, unit, token, of_token, of_latent, of_state, state_bias, hidden
            )


@kernel
def _hidden_layers(choosing, tokens, of_token, of_latent, layer):
    """The head's hidden layers of some rows; `layer` holds the state's share and is written."""
    width = layer.shape[1]
    for k in range(len(choosing)):
        row = choosing[k]
        token = tokens[row]
        for unit in range(width):
            layer[k, unit] = layer_unit(
                row, unit, width, token, of_token, of_latent, layer[k, unit]
            )


@scalar
def read_token(row, token, goto, push, state, stack, height):
    """Let the grammar of one row read a legal token.

    Args:
        row: which.
        token: its id.
        goto: `[S, V]` int16, the grammar; `push` likewise.
        push: see `goto`.
        state: `[B]` int16, written.
        stack: `[B, STACK]` int16, written.
        height: `[B]` int16, of the stacks, written.
    """
    here = np.int64(state[row])
    if push[here, token] >= 0:
        stack[row, height[row]] = push[here, token]
        height[row] += 1
    following = np.int64(goto[here, token])
    if following == RETURN:
        height[row] -= 1
        following = np.int64(stack[row, height[row]])
    state[row] = following


@kernel
def _list_choosing(forced, state, count, choosing):
    """List the rows that have more than one legal token; returns how many, and how many go on."""
    found, going = 0, 0
    for row in range(count):
        if state[row] != END:
            going += 1
            if forced[state[row]] < 0:
                choosing[found] = row
                found += 1
    return found, going


@kernel
def _choose(
    step, choosing, logits, bias, noise, forced, goto, push, state, stack, height, rows, tokens,
    output,
):  # fmt: skip
    """Choose the likeliest legal token in every row; of equally likely ones, the first.

    Row k of `logits` belongs to row `choosing[k]`; `bias` `[V]` is added to it, and so is `noise`
    `[B, V]` unless it is `[0, V]`. Where only one token is legal, `forced` has it. Tokens are
    written to `tokens` `[B]` and `output` `[N, T]`; the others are those of `read_token`.
    """
    k = 0
    for row in range(len(rows)):
        here = np.int64(state[row])
        if here == END:
            continue
        best, token = np.float32(0), np.int64(forced[here])
        if token < 0:
            for candidate in range(goto.shape[1]):
                if goto[here, candidate] != ILLEGAL:
                    score = logits[k, candidate] + bias[candidate]
                    if len(noise):
                        score += noise[row, candidate]
                    if token < 0 or score > best:
                        best, token = score, candidate
            k += 1
        read_token(row, token, goto, push, state, stack, height)
        tokens[row] = token
        output[rows[row], step] = token


class CpuDecoder:
    """A folded decoder on the CPU."""

    def __init__(self, model: EmbeddingModel) -> None:
        self._vocabulary = model.vocabulary
        self._goto, self._push, self._start = grammar_tables(model.vocabulary)
        is_legal = self._goto != ILLEGAL
        only = np.where(is_legal.sum(axis=1) == 1, is_legal.argmax(axis=1), -1)
        self._forced = only.astype(np.int16)  # [S]: the only legal token, or -1
        self.refresh(model)

    def refresh(self, model: EmbeddingModel) -> None:
        """Take over the weights a model has now."""
        weights = self._weights = fold(model)
        # The state's share of the gates is needed always, that of the head only to choose.
        self._to_gates = weights.state[:, : -model.config.width].contiguous()
        self._to_layer = weights.state[:, -model.config.width :].contiguous()

    def decode(self, latent: Tensor, noise: Tensor | None = None) -> Tensor:
        """The tokens behind `DEF`, padded: `[B, Z]` float32 to `[B, MAX_GENERATED]` uint8.

        Args:
            latent: the latents.
            noise: `[MAX_GENERATED, B, V]` float32, added to the logits: Gumbel noise samples
                programs. None: the likeliest tokens.
        """
        output = np.full((len(latent), MAX_GENERATED), self._vocabulary.pad, np.uint8)
        with torch.no_grad():
            self._run(latent, noise, output)
        return torch.from_numpy(output)

    def _run(self, latent: Tensor, noise: Tensor | None, output: NDArray[np.uint8]) -> None:
        live = _Live(latent, self._weights, self._to_gates, self._start)
        silent = np.zeros((0, self._goto.shape[1]), np.float32)
        bias = self._weights.output_bias.numpy()
        choosing = np.empty(len(latent), np.int64)
        count, going = _list_choosing(self._forced, live.state, len(live.rows), choosing)
        for step in range(MAX_GENERATED):
            live.advance(self._weights, self._to_gates)
            logits = live.logits(self._weights, self._to_layer, choosing[:count])
            heard = silent if noise is None else noise[step].numpy()[live.rows]
            _choose(
                step, choosing, logits, bias, heard, self._forced, self._goto, self._push,
                live.state, live.stack, live.height, live.rows, live.tokens, output,
            )  # fmt: skip
            count, going = _list_choosing(self._forced, live.state, len(live.rows), choosing)
            if going == 0:
                break
            if _padded(going) < len(live.tokens):
                live.keep(np.flatnonzero(live.state[: len(live.rows)] != END))
                count, _ = _list_choosing(self._forced, live.state, going, choosing)


def _padded(rows: int) -> int:
    """Rows of a product for so many programs."""
    return max(LEAST_ROWS, -(-rows // ROW_STEP) * ROW_STEP)


class _Live:
    """The programs still being written: B rows, of which the last may be fillers."""

    def __init__(self, latent: Tensor, weights: Folded, to_gates: Tensor, start: int) -> None:
        count = _padded(len(latent))
        first, shares = widened(latent, count, weights)
        self.hidden = first.numpy()  # [B, W], the GRU's state
        self.of_latent = shares.numpy()  # [B, 4 W]
        self.of_state = torch.mm(first, to_gates)  # [B, 3 W]
        self.rows = np.arange(len(latent))  # [<= B], where each row's tokens go
        self.tokens = np.full(count, DEF, np.int64)  # [B], the latest
        self.state = np.full(count, start, np.int16)  # [B], the grammar's
        self.stack = np.zeros((count, STACK), np.int16)
        self.height = np.zeros(count, np.int16)

    def advance(self, weights: Folded, to_gates: Tensor) -> None:
        """One step of the GRU; and the state's share of the next one's gates."""
        shares = (weights.token.numpy(), self.of_latent, self.of_state.numpy())
        _next_states(self.tokens, *shares, weights.state_bias.numpy(), self.hidden)
        torch.mm(torch.from_numpy(self.hidden), to_gates, out=self.of_state)

    def logits(
        self, weights: Folded, to_layer: Tensor, choosing: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """What the head says in some rows: `[>= k, V]`, without the bias."""
        chosen = np.zeros(_padded(len(choosing)), np.int64)
        chosen[: len(choosing)] = choosing
        if len(choosing) == 0:
            return np.zeros((0, weights.output.shape[1]), np.float32)
        layer = torch.mm(torch.from_numpy(self.hidden[chosen]), to_layer)
        _hidden_layers(chosen, self.tokens, weights.token.numpy(), self.of_latent, layer.numpy())
        return torch.mm(layer, weights.output).numpy()

    def keep(self, going: NDArray[np.int64]) -> None:
        """Let the programs that have ended go; fill up with copies of the first row."""
        chosen = np.zeros(_padded(len(going)), np.int64)
        chosen[: len(going)] = going
        self.rows = self.rows[going]
        self.of_state = self.of_state[torch.from_numpy(chosen)]
        for name in ("hidden", "of_latent", "tokens", "state", "stack", "height"):
            setattr(self, name, getattr(self, name)[chosen])
