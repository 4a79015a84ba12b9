"""A dataset in a device's memory, and batches of it as the losses take them.

Axes: B programs, N demonstrations of them, T steps, S states of all these demonstrations.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pomp.core.compiling import kernel
from pomp.dsl.grammar import ILLEGAL, Automaton, published_mask
from pomp.embedding.config import MAX_GENERATED
from pomp.embedding.dataset import SIZE, Dataset
from pomp.embedding.decoder_step import GrammarStates, mask_tables, read_token
from pomp.embedding.demonstrations import random_worlds, replay
from pomp.embedding.model import NO_OP
from pomp.karel.observation import WALL_PLANE, observe
from pomp.karel.world import WorldBatch, memory_of

_CELL_VALUES = 256
_STATE_STEP = 1024  # states of a batch are filled up to a multiple: few sizes, few CUDA graphs


@dataclass(frozen=True)
class ProgramBatch:
    """B programs.

    Attributes:
        ids: `[B, 46]` int64, token ids, `DEF` first, padded.
        lengths: `[B]` int64, how many tokens each has, `DEF` counted.
        states: `[B, 45]` int64, the grammar's state after each token but the last.
    """

    ids: Tensor
    lengths: Tensor
    states: Tensor

    @property
    def read(self) -> Tensor:
        """`[B, 45]` int64: the tokens a decoder is fed."""
        return self.ids[:, :-1]

    @property
    def targets(self) -> Tensor:
        """`[B, 45]` int64: the tokens it should answer with."""
        return self.ids[:, 1:]


@dataclass(frozen=True)
class BehaviourBatch:
    """N demonstrations, unrolled to the longest the dataset allows and one step more: T steps.

    Attributes:
        cells: `[S, 64]` uint8, the states, each once, one demonstration behind the other; the last
            rows may be fillers.
        pose: `[S]` int64, the agents' poses in them.
        place: `[S]` int64, n * T + t of each state.
        is_used: `[S]` float32, whether it is no filler.
        is_last: `[S]` float32, whether it is its demonstration's last state, which all later steps
            see.
        shown: `[N, T]` int64, which state each step sees.
        targets: `[N, T]` int64, the actions, then `NO_OP`.
        previous: `[N, T]` int64, the action before each step, `NO_OP` before the first.
    """

    cells: Tensor
    pose: Tensor
    place: Tensor
    is_used: Tensor
    is_last: Tensor
    shown: Tensor
    targets: Tensor
    previous: Tensor


class SpreadStates(torch.autograd.Function):
    """Turns features of states into features of steps, with a deterministic gradient.

    A state is seen by one step; the last one of a demonstration also by the steps after its end.
    """

    @staticmethod
    def forward(ctx: Any, features: Tensor, batch: BehaviourBatch) -> Tensor:
        """Return `features[shown]`, `[N, T, W]`, of `features` `[S, W]`."""
        ctx.batch = batch
        return features[batch.shown]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """Return the gradient `[S, W]` of a `gradient` `[N, T, W]`.

        Every state gets its own step's gradient, a last one also those of the steps after it.
        """
        batch: BehaviourBatch = ctx.batch
        steps = gradient.shape[1]
        repeats = batch.shown[:, 1:] == batch.shown[:, :-1]
        tail = (gradient[:, 1:] * repeats.unsqueeze(2)).sum(dim=1)  # [N, W]
        own = batch.is_used.unsqueeze(1) * gradient.reshape(-1, gradient.shape[2])[batch.place]
        return own + batch.is_last.unsqueeze(1) * tail[batch.place // steps], None


class Planes(torch.nn.Module):
    """Turns cells and poses into the planes of `pomp.karel.observation`, by a table of bytes."""

    table: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        side = int(_CELL_VALUES**0.5)
        every = WorldBatch.empty("every cell", 1, side, side, 0)
        memory_of(every).cells[0] = np.arange(_CELL_VALUES)
        planes = observe(every, channels)[0].reshape(channels, _CELL_VALUES).astype(np.float32)
        planes[:WALL_PLANE] = 0  # the agent is added below
        self.register_buffer("table", torch.from_numpy(planes.T.copy()), persistent=False)

    def forward(self, cells: Tensor, pose: Tensor) -> Tensor:
        """Return `[S, C, 8, 8]` float32 for `cells` `[S, 64]` uint8 and `pose` `[S]` int64."""
        size, channels = SIZE * SIZE, self.table.shape[1]
        places = torch.arange(size * channels, device=pose.device).view(size, channels)
        agent = places == ((pose >> 2) * channels + (pose & 3)).view(-1, 1, 1)
        planes = self.table[cells.int()] + agent  # [S, 64, C]
        return planes.view(-1, SIZE, SIZE, planes.shape[2]).permute(0, 3, 1, 2)


class DataOnDevice:
    """One split of a dataset, ready to be cut into batches."""

    def __init__(self, dataset: Dataset, device: torch.device) -> None:
        vocabulary, shown = dataset.vocabulary, dataset.demonstrations
        count, self.demonstrations = shown.pose.shape
        padded = np.full((count, MAX_GENERATED + 1), vocabulary.pad, np.uint8)
        padded[:, : dataset.ids.shape[1]] = dataset.ids
        self.device, self.count = device, count
        self.ids = dataset.ids
        self._ids = torch.from_numpy(padded).to(device)
        self._lengths = torch.from_numpy((padded != vocabulary.pad).sum(axis=1)).to(device)
        self._states = torch.from_numpy(grammar_states(padded, published_mask(vocabulary))).to(
            device
        )
        self._steps = shown.length.astype(np.int64)  # [N, D]
        self._first = np.cumsum(self._steps.ravel() + 1).reshape(self._steps.shape)
        self._first -= self._steps + 1
        cells, pose = replay(shown, random_worlds(dataset.config.walls))
        self._cells, self._pose = torch.from_numpy(cells).to(device), torch.from_numpy(pose)
        self._pose = self._pose.to(device)
        self._actions = torch.from_numpy(shown.actions).to(device)

    def __len__(self) -> int:
        return self.count

    def programs(self, rows: NDArray[np.int64]) -> ProgramBatch:
        """Return the programs of `rows` `[B]` int64."""
        chosen = self._up(rows)
        return ProgramBatch(
            self._ids[chosen].long(), self._lengths[chosen], self._states[chosen].long()
        )

    def behaviours(self, rows: NDArray[np.int64], which: NDArray[np.int64]) -> BehaviourBatch:
        """Return demonstrations `which[b]` of the programs `rows[b]`.

        Args:
            rows: `[B]` int64, the programs.
            which: `[B, d]` int64, numbers of their demonstrations; N is B * d.
        """
        picked = rows[:, None], which
        lengths = self._steps[picked].ravel()  # [N]
        steps = self._actions.shape[2] + 1
        ends = np.cumsum(lengths + 1)
        owner = np.repeat(np.arange(len(lengths)), lengths + 1)  # [S]
        at = np.arange(ends[-1]) - np.repeat(ends - lengths - 1, lengths + 1)
        table = np.repeat(self._first[picked].ravel(), lengths + 1) + at
        filled = -(-len(table) // _STATE_STEP) * _STATE_STEP - len(table)
        is_last = at == np.repeat(lengths, lengths + 1)
        shown = (ends - lengths - 1)[:, None] + np.minimum(np.arange(steps), lengths[:, None])
        flat = (rows[:, None] * self.demonstrations + which).ravel()
        recorded = self._actions.flatten(0, 1)[self._up(flat)].long()
        recorded = torch.nn.functional.pad(recorded, (0, 1), value=NO_OP)
        is_over = torch.arange(steps, device=self.device) >= self._up(lengths).unsqueeze(1)
        targets = recorded.masked_fill(is_over, NO_OP)
        previous = torch.nn.functional.pad(targets[:, :-1], (1, 0), value=NO_OP)
        states = self._up(np.pad(table, (0, filled)))
        is_used = np.pad(np.ones(len(table), np.float32), (0, filled))
        return BehaviourBatch(
            self._cells[states], self._pose[states].long(),
            self._up(np.pad(owner * steps + at, (0, filled))), self._up(is_used),
            self._up(np.pad(is_last.astype(np.float32), (0, filled))),
            self._up(shown), targets, previous,
        )  # fmt: skip

    def _up(self, array: NDArray[Any]) -> Tensor:
        """Copy `array` `[...]` to the device, as `[...]` of the same type."""
        return torch.from_numpy(array).to(self.device, non_blocking=True)


def grammar_states(ids: NDArray[np.uint8], grammar: Automaton) -> NDArray[np.uint8]:
    """Return a grammar's states after each token but the last.

    Args:
        ids: `[B, L]` uint8, token ids.
        grammar: what reads them.

    Returns:
        `[B, L - 1]` uint8.
    """
    states = np.zeros((len(ids), ids.shape[1] - 1), np.uint8)
    at = GrammarStates(
        np.zeros(1, np.int16), np.zeros((1, ids.shape[1] + 1), np.int16), np.zeros(1, np.int16)
    )
    _read_prefixes(ids, mask_tables(grammar), grammar.start, at, states)
    return states


@kernel
def _read_prefixes(ids, mask, start, at, states):
    """Let the grammar read every row; a token that is illegal there leaves it where it is.

    Args:
        ids: `[B, L]` uint8, read.
        mask: `MaskTables`, read.
        start: the grammar's first state.
        at: `GrammarStates` of one program, scratch.
        states: `[B, L - 1]` uint8, the states after each token, written.
    """
    for row in range(len(ids)):
        at.state[0], at.height[0] = start, 0
        for place in range(states.shape[1]):
            token = np.int64(ids[row, place])
            if mask.goto[at.state[0], token] != ILLEGAL:
                read_token(0, token, mask, at)
            states[row, place] = at.state[0]
