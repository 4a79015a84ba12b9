"""A dataset in a device's memory, and batches of it as the losses take them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pomp.core.compiling import kernel
from pomp.dsl.grammar import ILLEGAL, published_mask
from pomp.dsl.vocabulary import Vocabulary
from pomp.embedding.config import MAX_GENERATED
from pomp.embedding.dataset import SIZE, Dataset
from pomp.embedding.decoder import read_token
from pomp.embedding.demonstrations import random_worlds
from pomp.embedding.model import NO_OP
from pomp.karel.dynamics import act
from pomp.karel.observation import WALL_PLANE, observe
from pomp.karel.world import WorldBatch

_CELL_VALUES = 256
_STATE_STEP = 1024  # states of a batch are filled up to a multiple: few sizes, few CUDA graphs


@dataclass(frozen=True)
class ProgramBatch:
    """B programs.

    Attributes:
        ids: `[B, 46]` int64, `DEF` first, padded.
        lengths: `[B]` int64, `DEF` counted.
        states: `[B, 45]` int64: the grammar's state after each token but the last.
    """

    ids: Tensor
    lengths: Tensor
    states: Tensor

    @property
    def read(self) -> Tensor:
        """`[B, 45]`: the tokens a decoder is fed."""
        return self.ids[:, :-1]

    @property
    def targets(self) -> Tensor:
        """`[B, 45]`: the tokens it should answer."""
        return self.ids[:, 1:]


@dataclass(frozen=True)
class BehaviourBatch:
    """N demonstrations, unrolled to the longest the dataset allows and one step more: T steps.

    Attributes:
        cells: `[R, 64]` uint8: the states, each once, one demonstration behind the other; the last
            rows may be fillers.
        pose: `[R]` int64.
        place: `[R]` int64: n * T + t of each state.
        is_used: `[R]` float32: it is no filler.
        is_last: `[R]` float32: it is its demonstration's last state, which all later steps see.
        shown: `[N, T]` int64: which state each step sees.
        targets: `[N, T]` int64: the actions, then `NO_OP`.
        previous: `[N, T]` int64: the action before each step, `NO_OP` before the first.
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
    """Features of states -> features of steps; `features[shown]` with a deterministic gradient.

    A state is seen by one step; the last one of a demonstration also by the steps after its end.
    """

    @staticmethod
    def forward(ctx: Any, features: Tensor, batch: BehaviourBatch) -> Tensor:
        """`[R, W]` to `[N, T, W]`."""
        ctx.batch = batch
        return features[batch.shown]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """Every state gets its own step's gradient, a last one also those after it."""
        batch: BehaviourBatch = ctx.batch
        steps = gradient.shape[1]
        repeats = batch.shown[:, 1:] == batch.shown[:, :-1]
        tail = (gradient[:, 1:] * repeats.unsqueeze(2)).sum(dim=1)  # [N, W]
        own = batch.is_used.unsqueeze(1) * gradient.reshape(-1, gradient.shape[2])[batch.place]
        return own + batch.is_last.unsqueeze(1) * tail[batch.place // steps], None


class Planes(torch.nn.Module):
    """Cells and poses -> the planes of `pomp.karel.observation`, looked up byte by byte."""

    table: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        side = int(_CELL_VALUES**0.5)
        every = WorldBatch.empty("every cell", 1, side, side, 0)
        every.cells[0] = np.arange(_CELL_VALUES)
        planes = observe(every, channels)[0].reshape(channels, _CELL_VALUES).astype(np.float32)
        planes[:WALL_PLANE] = 0  # the agent is added below
        self.register_buffer("table", torch.from_numpy(planes.T.copy()), persistent=False)

    def forward(self, cells: Tensor, pose: Tensor) -> Tensor:
        """`[R, 64]` uint8 and `[R]` int64 to `[R, C, 8, 8]` float32."""
        size, channels = SIZE * SIZE, self.table.shape[1]
        places = torch.arange(size * channels, device=pose.device).view(size, channels)
        agent = places == ((pose >> 2) * channels + (pose & 3)).view(-1, 1, 1)
        planes = self.table[cells.int()] + agent  # [R, 64, C]
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
        self._states = torch.from_numpy(grammar_states(padded, vocabulary)).to(device)
        self._steps = shown.length.astype(np.int64)  # [N, D]
        self._first = np.cumsum(self._steps.ravel() + 1).reshape(self._steps.shape)
        self._first -= self._steps + 1
        cells, pose = _replay(dataset)
        self._cells, self._pose = torch.from_numpy(cells).to(device), torch.from_numpy(pose)
        self._pose = self._pose.to(device)
        self._actions = torch.from_numpy(shown.actions).to(device)

    def __len__(self) -> int:
        return self.count

    def programs(self, rows: NDArray[np.int64]) -> ProgramBatch:
        """The programs in some rows."""
        chosen = self._up(rows)
        return ProgramBatch(
            self._ids[chosen].long(), self._lengths[chosen], self._states[chosen].long()
        )

    def behaviours(self, rows: NDArray[np.int64], which: NDArray[np.int64]) -> BehaviourBatch:
        """Demonstrations `which[b]` of the programs `rows[b]`: `[B]` and `[B, d]`."""
        picked = rows[:, None], which
        lengths = self._steps[picked].ravel()  # [N]
        steps = self._actions.shape[2] + 1
        ends = np.cumsum(lengths + 1)
        owner = np.repeat(np.arange(len(lengths)), lengths + 1)  # [R]
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
        return torch.from_numpy(array).to(self.device, non_blocking=True)


def grammar_states(ids: NDArray[np.uint8], vocabulary: Vocabulary) -> NDArray[np.uint8]:
    """The mask's state after each token but the last: `[B, L]` to `[B, L - 1]` uint8."""
    automaton = published_mask(vocabulary)
    states = np.zeros((len(ids), ids.shape[1] - 1), np.uint8)
    stack, height = np.zeros((1, ids.shape[1] + 1), np.int16), np.zeros(1, np.int16)
    state = np.zeros(1, np.int16)
    goto, push, start = automaton.goto, automaton.push, automaton.start
    _read_prefixes(ids, goto, push, start, state, stack, height, states)
    return states


@kernel
def _read_prefixes(ids, goto, push, start, state, stack, height, states):
    """Let the grammar read every row; a token it does not know there leaves it where it is."""
    for row in range(len(ids)):
        state[0], height[0] = start, 0
        for place in range(states.shape[1]):
            token = np.int64(ids[row, place])
            if goto[state[0], token] != ILLEGAL:
                read_token(0, token, goto, push, state, stack, height)
            states[row, place] = state[0]


def _replay(dataset: Dataset) -> tuple[NDArray[np.uint8], NDArray[np.int16]]:
    """Every state of every demonstration, recomputed: `[R, 64]` and `[R]`."""
    shown = dataset.demonstrations
    total = int((shown.length + 1).sum())
    cells = np.empty((total, SIZE * SIZE), np.uint8)
    pose = np.empty(total, np.int16)
    count = shown.pose.size
    _replay_states(
        random_worlds(dataset.config.walls).constants,
        shown.cells.reshape(count, -1), shown.pose.ravel(),
        shown.actions.reshape(count, -1), shown.length.ravel(), cells, pose,
    )  # fmt: skip
    return cells, pose


@kernel
def _replay_states(rules, starts, poses, actions, lengths, cells, pose):
    """Write the states of one demonstration behind the other."""
    row = 0
    for n in range(len(lengths)):
        for cell in range(starts.shape[1]):
            cells[row, cell] = starts[n, cell]
        here = np.int64(poses[n])
        pose[row] = here
        for t in range(lengths[n]):
            row += 1
            for cell in range(starts.shape[1]):
                cells[row, cell] = cells[row - 1, cell]
            here = act(cells[row], rules, here, np.int64(actions[n, t]))
            pose[row] = here
        row += 1
