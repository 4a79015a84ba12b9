"""One step of a decoder, as both devices compute it, with its constant products folded.

A GRU decoder multiplies [token's embedding, latent, state] by its weights at every step. The
embedding's share depends on the token alone: it is tabulated. The latent's share depends on the
program alone: it is computed once. What is left per step is one product of the state, which gives
the next step's recurrent share and this step's hidden layer together, and one for the logits.

Axes: B programs that are being written, V tokens of the vocabulary, W the decoder's width, S states
of the grammar. The 4 W columns of a share are what a step adds up: the GRU's three gates and the
head's hidden layer.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pomp.core.compiling import scalar
from pomp.dsl.grammar import ILLEGAL, RETURN, Automaton
from pomp.embedding.config import MAX_GENERATED
from pomp.embedding.model import EmbeddingModel

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
