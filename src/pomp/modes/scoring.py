"""What candidates are worth: their returns in lists of programs, their validity, their diversity.

Candidates of many searches are tried in one launch for each task. A program's return is remembered
as long as its start states, lists and luck stay the same, because searches that close in propose
the same program again and again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.core.compiling import kernel
from pomp.core.cuda import to_device
from pomp.core.streams import branch
from pomp.dsl.bytecode import Code, compile_ids
from pomp.dsl.vocabulary import LEAPS
from pomp.engine.rollout import run_launches
from pomp.engine.rollout_cuda import LaunchPad
from pomp.engine.starts import reset
from pomp.engine.units import Launch, Units
from pomp.karel.world import WorldBatch, join_worlds
from pomp.modes.config import ScoreConfig
from pomp.modes.discounting import run_discounted
from pomp.modes.lists import ONE_EXECUTION
from pomp.modes.memo import Memo
from pomp.tasks.task import Setting


class Arena:
    """Where the candidates for one mode of one search are tried.

    Attributes:
        setting: the task.
        config: what counts.
        modes: `[K, L]` ids of the modes so far.
        lists: `[D, M]`: rows of their numbers and `CANDIDATE`, -1 behind the last.
        lengths: `[D]`: programs in each list.
        executions: of programs, for one candidate.
    """

    def __init__(
        self,
        setting: Setting,
        config: ScoreConfig,
        stream: np.uint64,
        modes: NDArray[np.uint8] | None = None,
        lists: NDArray[np.int32] = ONE_EXECUTION,
    ) -> None:
        self.setting, self.config = setting, config
        self.modes = np.empty((0, 5), np.uint8) if modes is None else modes
        self.lists = lists
        self.lengths = (lists != -1).sum(axis=1)
        self.executions = int(self.lengths.sum()) * config.starts
        self._memos: dict[int, Memo] = {}
        self._stream = np.atleast_1d(stream)
        self._starts: dict[int, WorldBatch] = {}

    def starts(self, epoch: int) -> WorldBatch:
        """The start states of an epoch, which draws its own; the last two are remembered."""
        if epoch not in self._starts:
            streams = branch(branch(self._stream, epoch), np.arange(self.config.starts))
            self._starts = {old: worlds for old, worlds in self._starts.items() if old >= epoch - 1}
            self._memos = {old: memo for old, memo in self._memos.items() if old >= epoch - 1}
            self._starts[epoch] = reset(self.setting, streams)
        return self._starts[epoch]

    def memo(self, epoch: int, width: int) -> Memo:
        """What is known of programs on the start states of an epoch."""
        if epoch not in self._memos:
            self._memos[epoch] = Memo(width)
        return self._memos[epoch]


@dataclass
class Trial:
    """Candidates to be tried in an arena, and what came of it.

    Attributes:
        arena: where.
        ids: `[N, L]` token ids.
        epochs: `[N]`: which start states each of them meets.
        luck: `[N]` uint64: what each one's episodes draw; None: what the start states' streams say.
        valid: `[N]`: it is a program.
        returns: `[N]`: mean return per program of a list; 0 if it is no program.
        actions: `[N]`: performed in all its episodes.
    """

    arena: Arena
    ids: NDArray[np.uint8]
    epochs: NDArray[np.int64]
    luck: NDArray[np.uint64] | None = None
    valid: NDArray[np.bool_] = field(init=False)
    returns: NDArray[np.float64] = field(init=False)
    actions: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.valid = np.zeros(len(self.ids), np.bool_)
        self.returns = np.zeros(len(self.ids))
        self.actions = np.zeros(len(self.ids), np.int64)

    def memo(self, epoch: int) -> Memo:
        """What is known of such candidates on the start states of an epoch."""
        return self.arena.memo(epoch, self.ids.shape[1])

    @property
    def executions(self) -> NDArray[np.int64]:
        """`[N]`: programs executed for each candidate."""
        return np.where(self.valid, self.arena.executions, 0)

    def plain_scores(self) -> NDArray[np.float64]:
        """`[N]`: returns with the bonus of a program; what is none has its own score."""
        config = self.arena.config
        scores = np.where(self.valid, self.returns + config.bonus, config.invalid)
        return np.exp(scores) if config.exponential else scores


class Scorer:
    """Tries candidates on a device."""

    def __init__(self, device: str = "cpu") -> None:
        self.device = device
        self._frames: dict[_Kind, _Frame] = {}
        self._pad = LaunchPad()

    def try_out(self, trials: Sequence[Trial]) -> None:
        """Fill in the results of trials, with one launch for each task and kind of episode."""
        code = compile_ids(_stack([trial.ids for trial in trials]))
        first = np.cumsum([0, *(len(trial.ids) for trial in trials)])
        kinds: dict[_Kind, list[_Part]] = {}
        for trial, offset in zip(trials, first.tolist(), strict=False):
            trial.valid = code.valid[offset : offset + len(trial.ids)]
            kinds.setdefault(_kind_of(trial.arena), []).extend(_Part.of(trial, offset))
        self._frames = {kind: self._frame(kind, parts) for kind, parts in kinds.items()}
        busy = {kind: parts for kind, parts in kinds.items() if any(len(p.unknown) for p in parts)}
        launches = [_launch(self._frames[kind], parts, code) for kind, parts in busy.items()]
        for parts, (returns, actions) in zip(busy.values(), self._run(busy, launches), strict=True):
            _note(parts, returns, actions)
        for parts in kinds.values():
            for part in parts:
                part.fill_in()

    def _run(
        self, kinds: dict["_Kind", list["_Part"]], launches: list[Launch]
    ) -> list[tuple[Any, Any]]:
        """Returns and actions, `[Q, span]`, of every launch."""
        discounts = [parts[0].trial.arena.config.discount for parts in kinds.values()]
        pairs = list(zip(launches, discounts, strict=True))
        plain = iter(run_launches([work for work, rate in pairs if rate == 1], self._pad))
        return [next(plain) if rate == 1 else run_discounted(work, rate) for work, rate in pairs]

    def _frame(self, kind: "_Kind", parts: list["_Part"]) -> "_Frame":
        """What the last launch of this kind had, unless an arena or its start states changed."""
        holds = [(part.trial.arena, part.epoch) for part in parts]
        kept = self._frames.get(kind)
        return kept if kept and kept.holds == holds else _Frame.make(holds, self.device)


_Kind = tuple[Any, ...]
_NO_SALTS, _NO_SOURCE = np.empty(0, np.uint64), np.empty((0, 0), np.int16)


def _kind_of(arena: Arena) -> _Kind:
    """Arenas of one kind share a launch."""
    config = arena.config
    episode = (config.cap, config.rounds, config.patience, config.discount, config.starts)
    return id(arena.setting), *episode, config.fresh_draws


@dataclass(frozen=True)
class _Part:
    """What has to be run of a trial for one epoch: a row for every program not known yet."""

    trial: Trial
    epoch: int
    rows: NDArray[np.int64]
    """Of the trial, valid, and to be filled in."""
    unknown: NDArray[np.int64]
    """Those that have to be run."""
    entries: NDArray[np.int64]
    """Where the rows stand in the memo."""
    first_new: int
    """Where the unknown ones stand there, one after the other."""
    first: int
    """The trial's first row among those of all trials."""

    @classmethod
    def of(cls, trial: Trial, first: int) -> "list[_Part]":
        """The parts of a trial, by epoch."""
        parts = []
        for epoch in np.unique(trial.epochs).tolist():
            trial.arena.starts(epoch)
            rows = np.flatnonzero(trial.valid & (trial.epochs == epoch))
            entries, unknown, new = rows, rows, 0
            if trial.luck is None:
                memo = trial.memo(epoch)
                new = len(memo)
                entries, unknown = memo.find(trial.ids, rows)
            parts.append(cls(trial, epoch, rows, unknown, entries, new, first))
        return parts

    def fill_in(self) -> None:
        """Copy what is known now to the trial."""
        if self.trial.luck is None:
            found = self.trial.memo(self.epoch).read(self.entries)
            self.trial.returns[self.rows], self.trial.actions[self.rows] = found

    def note(self, returns: NDArray[np.float64], actions: NDArray[np.int64]) -> None:
        """Take what the unknown rows turned out to be worth; fresh luck counts only this once."""
        if self.trial.luck is None:
            self.trial.memo(self.epoch).fill(self.first_new, returns, actions)
        else:
            self.trial.returns[self.unknown], self.trial.actions[self.unknown] = returns, actions


@dataclass(frozen=True)
class _Frame:
    """What launches of the same arenas share: start states, lists and modes, side by side."""

    holds: list[tuple[Arena, int]]
    worlds: WorldBatch
    lists: Any
    """`[T, M]` int32, on the device of the worlds."""
    modes: Code
    first_list: NDArray[np.int64]

    @classmethod
    def make(cls, holds: list[tuple[Arena, int]], device: str) -> "_Frame":
        width = max(arena.lists.shape[1] for arena, _ in holds)
        lists, mode_count = [], 0
        for arena, _ in holds:
            wide = np.full((len(arena.lists), width), -1, np.int32)
            wide[:, : arena.lists.shape[1]] = arena.lists
            wide[wide >= 0] += mode_count
            mode_count += len(arena.modes)
            lists.append(wide)
        worlds = join_worlds([arena.starts(epoch) for arena, epoch in holds]).to(device)
        modes = compile_ids(_stack([arena.modes for arena, _ in holds]))
        first_list = np.cumsum([0, *map(len, lists[:-1])])
        joined = np.concatenate(lists)
        placed = to_device(joined) if device == "cuda" else joined
        return cls(holds, worlds, placed, modes, first_list)


def _stack(parts: Sequence[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """Rows of ids below each other, padded to one width."""
    width = max((part.shape[1] for part in parts), default=1)
    stacked = np.full((sum(map(len, parts)), width), LEAPS.pad, np.uint8)
    first = 0
    for part in parts:
        stacked[first : first + len(part), : part.shape[1]] = part
        first += len(part)
    return stacked


def _launch(frame: _Frame, parts: list[_Part], code: Code) -> Launch:
    """Every unknown program in every list of its arena, on the start states of its epoch."""
    config = parts[0].trial.arena.config
    tables, salts, rows = [], [], []
    candidate = len(frame.modes)
    for place, part in enumerate(parts):
        lists, count = len(part.trial.arena.lists), len(part.unknown)
        table = np.empty((count, lists, 3), np.int32)
        table[:, :, 0] = frame.first_list[place] + np.arange(lists)
        table[:, :, 1] = np.arange(candidate, candidate + count)[:, None]
        table[:, :, 2] = place * config.starts
        tables.append(table.reshape(-1, 3))
        if part.trial.luck is not None:
            salts.append(branch(part.trial.luck[part.unknown][:, None], np.arange(lists)).ravel())
        rows.append(part.first + part.unknown)
        candidate += count
    programs = _joined(frame.modes, code, np.concatenate(rows))
    units = Units(
        frame.lists,
        np.concatenate(tables),
        config.starts,
        np.concatenate(salts) if salts else _NO_SALTS,
        config.rounds,
        config.patience if config.rounds > 1 else 0,
    )
    return Launch(parts[0].trial.arena.setting, programs, units, frame.worlds, config.cap)


def _joined(modes: Code, code: Code, rows: NDArray[np.int64]) -> Code:
    """The modes, and behind them some rows of other code."""
    width = max(modes.instructions.shape[1], code.instructions.shape[1])
    joined = np.zeros((len(modes) + len(rows), width), np.uint32)
    joined[: len(modes), : modes.instructions.shape[1]] = modes.instructions
    joined[len(modes) :, : code.instructions.shape[1]] = code.instructions[rows]
    valid = np.ones(len(joined), np.bool_)
    return Code(joined, valid, max(modes.depth, code.depth), _NO_SOURCE)


def _note(parts: list[_Part], returns: NDArray[np.float64], actions: NDArray[np.int32]) -> None:
    """Deal out the results of one launch, `[Q, span]`."""
    first = 0
    for part in parts:
        arena, count = part.trial.arena, len(part.unknown)
        lists, span = len(arena.lists), arena.config.starts
        last = first + count * lists
        per_program = returns[first:last].reshape(count, lists, span) / arena.lengths[:, None]
        means = per_program.reshape(count, lists * span).sum(axis=1) / (lists * span)
        totals = actions[first:last].reshape(count, lists * span).sum(axis=1, dtype=np.int64)
        part.note(means, totals)
        first = last


def diversity(
    vectors: NDArray[np.float32], others: NDArray[np.float32], temperature: float
) -> NDArray[np.float64]:
    """`[N]`: sigmoid(-temperature * largest cosine to one of the others); 1 where there are none.

    Args:
        vectors: `[N, Z]`.
        others: `[M, Z]`.
        temperature: how much a likeness costs.
    """
    multipliers = np.ones(len(vectors))
    if len(others):
        _diversity(np.ascontiguousarray(vectors), others, temperature, multipliers)
    return multipliers


@kernel
def _diversity(vectors, others, temperature, multipliers):
    """Fill in `multipliers` `[N]` float64; see `diversity`."""
    for row in range(len(vectors)):
        largest = -1.0
        for other in range(len(others)):
            product, own, its = 0.0, 0.0, 0.0
            for place in range(vectors.shape[1]):
                one, two = np.float64(vectors[row, place]), np.float64(others[other, place])
                product += one * two
                own += one * one
                its += two * two
            cosine = product / max(np.sqrt(own) * np.sqrt(its), 1e-300)
            largest = max(largest, cosine)
        multipliers[row] = 1.0 / (1.0 + np.exp(temperature * largest))
