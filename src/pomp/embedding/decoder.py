"""Latents -> tokens, greedily or by sampling, with everything constant taken out of the loop.

A GRU decoder multiplies [token's embedding, latent, state] by its weights at every step. The
embedding's share depends on the token alone: it is tabulated. The latent's share depends on the
program alone: it is computed once. What is left per step is one product of the state, which gives
the next step's recurrent share and this step's hidden layer together, and one for the logits.
Programs that have ended leave the batch.

The same latent gives the same tokens alone or in any batch: rows of a matrix product do not
depend on each other as long as the product is not too small, so batches are filled up.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pomp._numba import kernel, scalar
from pomp.dsl.grammar import END, ILLEGAL, RETURN, published_mask
from pomp.dsl.vocabulary import Vocabulary
from pomp.embedding.config import MAX_GENERATED
from pomp.embedding.model import EmbeddingModel

LEAST_ROWS, ROW_STEP = 64, 16  # a product has at least so many rows, and a multiple of so many
STACK = MAX_GENERATED  # deepest nesting the grammar can reach in so many tokens
DEF = 0  # the token every program begins with


class Folded(NamedTuple):
    """A decoder's weights as the loop needs them; W its width, V the tokens."""

    widen: Tensor  # [Z, W] or [0, 0]: from the latent to the width, if they differ
    widen_bias: Tensor
    token_gates: Tensor  # [V, 3 W]: a token's share of the gates
    token_hidden: Tensor  # [V, W]: and of the hidden layer
    latent_both: Tensor  # [W, 4 W]: from the latent to its share of the gates and the hidden layer
    latent_bias: Tensor  # [4 W]
    state_both: Tensor  # [W, 4 W]: from the GRU's state to the recurrent share and the hidden layer
    state_bias: Tensor  # [4 W]
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
        zeros = torch.zeros_like(new)
        widen, widen_bias = new.new_empty((0, 0)), new.new_empty(0)
        if isinstance(model.widen, torch.nn.Linear):
            widen, widen_bias = model.widen.weight.t().contiguous(), model.widen.bias.clone()
        return Folded(
            widen=widen,
            widen_bias=widen_bias,
            token_gates=decoder.embed.weight @ gates_of_token.t(),
            token_hidden=decoder.embed.weight @ of_token.t(),
            latent_both=torch.cat([gates_of_latent, of_latent]).t().contiguous(),
            latent_bias=torch.cat(
                [gru.bias_ih_l0 + torch.cat([reset_update, zeros]), decoder.hidden.bias]
            ),
            state_both=torch.cat([gru.weight_hh_l0, of_state]).t().contiguous(),
            state_bias=torch.cat([zeros, zeros, new, zeros]),
            output=decoder.output.weight.t().contiguous(),
            output_bias=decoder.output.bias.clone(),
        )


def grammar_tables(vocabulary: Vocabulary) -> tuple[NDArray[np.int16], NDArray[np.int16], int]:
    """The mask's automaton and its state after `DEF`."""
    automaton = published_mask(vocabulary)
    return automaton.goto, automaton.push, automaton.read(automaton.start, [], DEF)


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
def _choose(step, logits, noise, goto, push, state, stack, height, rows, tokens, output):
    """Choose the likeliest legal token in every row; of equally likely ones, the first.

    `noise` is `[B, V]`, added to the logits, or `[0, V]`; tokens are written to `tokens` `[B]` and
    `output` `[N, T]`; the others are those of `read_token`.
    """
    for row in range(len(rows)):
        here = np.int64(state[row])
        if here == END:
            continue
        best, token = np.float32(0), -1
        for candidate in range(goto.shape[1]):
            if goto[here, candidate] != ILLEGAL:
                score = logits[row, candidate]
                if len(noise):
                    score += noise[row, candidate]
                if token < 0 or score > best:
                    best, token = score, candidate
        read_token(row, token, goto, push, state, stack, height)
        tokens[row] = token
        output[rows[row], step] = token


class CpuDecoder:
    """A folded decoder on the CPU."""

    def __init__(self, model: EmbeddingModel) -> None:
        self._vocabulary = model.vocabulary
        self._grammar = grammar_tables(model.vocabulary)
        self._weights = fold(model)

    def refresh(self, model: EmbeddingModel) -> None:
        """Take over the weights a model has now."""
        self._weights = fold(model)

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
        weights, (goto, push, start) = self._weights, self._grammar
        live = _Live.begin(latent, weights, start)
        silent = np.zeros((0, goto.shape[1]), np.float32)
        for step in range(MAX_GENERATED):
            logits = live.advance(weights)
            heard = silent if noise is None else noise[step].numpy()[live.rows]
            _choose(
                step, logits, heard, goto, push,
                live.state, live.stack, live.height, live.rows, live.tokens, output,
            )  # fmt: skip
            going = np.flatnonzero(live.state[: len(live.rows)] != END)
            if len(going) == 0:
                break
            if _padded(len(going)) < len(live.hidden):
                live.keep(going)


def _padded(rows: int) -> int:
    """Rows of a product for so many programs."""
    return max(LEAST_ROWS, -(-rows // ROW_STEP) * ROW_STEP)


class _Live:
    """The programs still being written: B rows, of which the last may be filling."""

    def __init__(self, **fields: Any) -> None:
        self.hidden: Tensor  # [B, W], the GRU's state
        self.both: Tensor  # [B, 4 W], the state's product
        self.gates: Tensor  # [B, 3 W], the latent's share
        self.head: Tensor  # [B, W], likewise
        self.rows: NDArray[np.int64]  # [<= B], where each row's tokens go
        self.tokens: NDArray[np.int64]  # [B]
        self.state: NDArray[np.int16]  # [B], the grammar's; stack and height likewise
        self.stack: NDArray[np.int16]
        self.height: NDArray[np.int16]
        vars(self).update(fields)

    @classmethod
    def begin(cls, latent: Tensor, weights: Folded, start: int) -> "_Live":
        count = _padded(len(latent))
        first = torch.zeros((count, latent.shape[1]))
        first[: len(latent)] = latent
        if weights.widen.numel():
            first = torch.addmm(weights.widen_bias, first, weights.widen)
        shares = torch.addmm(weights.latent_bias, first, weights.latent_both)
        width = first.shape[1]
        return cls(
            hidden=first,
            both=torch.addmm(weights.state_bias, first, weights.state_both),
            gates=shares[:, : 3 * width].contiguous(),
            head=shares[:, 3 * width :].contiguous(),
            rows=np.arange(len(latent)),
            tokens=np.full(count, DEF, np.int64),
            state=np.full(count, start, np.int16),
            stack=np.zeros((count, STACK), np.int16),
            height=np.zeros(count, np.int16),
        )

    def advance(self, weights: Folded) -> NDArray[np.float32]:
        """One step of the GRU and the head: the logits `[B, V]`."""
        width = self.hidden.shape[1]
        tokens = torch.from_numpy(self.tokens)
        gates = weights.token_gates[tokens].add_(self.gates)
        recurrent = self.both[:, : 3 * width]
        turn = gates[:, : 2 * width].add_(recurrent[:, : 2 * width]).sigmoid_()
        reset, update = turn[:, :width], turn[:, width:]
        new = gates[:, 2 * width :].addcmul_(reset, recurrent[:, 2 * width :]).tanh_()
        self.hidden = torch.lerp(new, self.hidden, update)
        self.both = torch.addmm(weights.state_bias, self.hidden, weights.state_both)
        hidden = weights.token_hidden[tokens].add_(self.head).add_(self.both[:, 3 * width :])
        return torch.addmm(weights.output_bias, hidden.tanh_(), weights.output).numpy()

    def keep(self, going: NDArray[np.int64]) -> None:
        """Let the programs that have ended go; fill up with copies of the first row."""
        chosen = np.zeros(_padded(len(going)), np.int64)
        chosen[: len(going)] = going
        rows = torch.from_numpy(chosen)
        for name in ("hidden", "both", "gates", "head"):
            setattr(self, name, getattr(self, name)[rows])
        self.rows = self.rows[going]
        for name in ("tokens", "state", "stack", "height"):
            setattr(self, name, getattr(self, name)[chosen])
