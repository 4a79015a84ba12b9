"""Scores of candidates: their returns in lists of programs, their validity, their diversity.

Candidates of many searches are scored in one launch for each task. A program's return is remembered
as long as its start states, lists and random streams stay the same, because searches that converge
propose the same program again and again.
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
from pomp.dsl.vocabulary import Vocabulary
from pomp.engine.rollout_cuda import LaunchPad
from pomp.engine.rollouts import run_launches
from pomp.engine.starts import reset
from pomp.engine.units import Launch, Units
from pomp.karel.world import WorldBatch, join_worlds
from pomp.modes.config import ScoreConfig
from pomp.modes.discounting import run_discounted
from pomp.modes.lists import ONE_EXECUTION
from pomp.modes.memo import Memo
from pomp.tasks.task import Setting


class Arena:
    """Where the candidates for one mode of one search are scored: task, start states, lists.

    Start states are drawn anew every `redraw` iterations of a run (`ScoreConfig`); the iterations
    between two redraws are an *epoch*, counted from 0. Without redraws there is one epoch.

    Attributes:
        setting: the task.
        config: how candidates are scored.
        modes: texts of the modes chosen so far; one may be no program.
        lists: `[D, M]` int32, rows of mode numbers and `CANDIDATE`, filled up with -1.
        lengths: `[D]` int64, how many programs each list has.
        executions: how many times programs are executed to score one candidate.
    """

    def __init__(
        self,
        setting: Setting,
        config: ScoreConfig,
        stream: np.uint64,
        modes: Sequence[str] = (),
        lists: NDArray[np.int32] = ONE_EXECUTION,
    ) -> None:
        """Prepare scoring; `stream` is the random stream of the start states."""
        self.setting, self.config, self.modes, self.lists = setting, config, tuple(modes), lists
        self.lengths = (lists != -1).sum(axis=1)
        self.executions = int(self.lengths.sum()) * config.starts
        self._memos: dict[int, Memo] = {}
        self._stream = np.atleast_1d(stream)
        self._starts: dict[int, WorldBatch] = {}

    def starts(self, epoch: int) -> WorldBatch:
        """Return the start states of an epoch, drawn when they are first asked for.

        Those of the epoch before are remembered, too: a mean is scored one iteration late.
        """
        if epoch not in self._starts:
            streams = branch(branch(self._stream, epoch), np.arange(self.config.starts))
            self._starts = {old: worlds for old, worlds in self._starts.items() if old >= epoch - 1}
            self._memos = {old: memo for old, memo in self._memos.items() if old >= epoch - 1}
            self._starts[epoch] = reset(self.setting, streams)
        return self._starts[epoch]

    def memo(self, epoch: int, width: int) -> Memo:
        """Return the known returns of programs of `width` tokens on an epoch's start states."""
        if epoch not in self._memos:
            self._memos[epoch] = Memo(width)
        return self._memos[epoch]


@dataclass
class Trial:
    """Candidates to be scored in an arena, and the results.

    Attributes:
        arena: where they are scored.
        ids: `[N, L]` uint8, their token ids.
        epochs: `[N]` int64, the epoch (see `Arena`) whose start states each of them meets.
        noise: `[N]` uint64, random streams that replace those of the start states, or None.
        valid: `[N]` bool, whether it is a program; a result.
        returns: `[N]` float64, mean return per program of a list, 0 if it is no program; a result.
        actions: `[N]` int64, how many actions all its episodes performed; a result.
    """

    arena: Arena
    ids: NDArray[np.uint8]
    epochs: NDArray[np.int64]
    noise: NDArray[np.uint64] | None = None
    valid: NDArray[np.bool_] = field(init=False)
    returns: NDArray[np.float64] = field(init=False)
    actions: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.valid = np.zeros(len(self.ids), np.bool_)
        self.returns = np.zeros(len(self.ids))
        self.actions = np.zeros(len(self.ids), np.int64)

    def memo(self, epoch: int) -> Memo:
        """Return the known returns of such candidates on the start states of an epoch."""
        return self.arena.memo(epoch, self.ids.shape[1])

    @property
    def executions(self) -> NDArray[np.int64]:
        """`[N]` int64: how many times programs were executed for each candidate."""
        return np.where(self.valid, self.arena.executions, 0)

    def plain_scores(self) -> NDArray[np.float64]:
        """Return `[N]` float64: return and bonus of programs, `ScoreConfig.invalid` of others."""
        config = self.arena.config
        scores = np.where(self.valid, self.returns + config.bonus, config.invalid)
        return np.exp(scores) if config.exponential else scores


class Scorer:
    """Scores candidates on a device; it keeps what the next launch is likely to need again."""

    def __init__(self, vocabulary: Vocabulary, device: str = "cpu") -> None:
        """Make a scorer of programs in a vocabulary."""
        self.vocabulary, self.device = vocabulary, device
        self._inputs: dict[_LaunchKey, _SharedInputs] = {}
        self._pad = LaunchPad()

    def score(self, trials: Sequence[Trial]) -> None:
        """Fill in the results of trials, with one launch for each task and kind of episode."""
        code = compile_ids(self._stack([trial.ids for trial in trials]), self.vocabulary)
        first = np.cumsum([0, *(len(trial.ids) for trial in trials)])
        launches: dict[_LaunchKey, list[_EpochRows]] = {}
        for trial, offset in zip(trials, first.tolist(), strict=False):
            trial.valid = code.valid[offset : offset + len(trial.ids)]
            launches.setdefault(_key_of(trial.arena), []).extend(_EpochRows.of(trial, offset))
        self._inputs = {key: self._inputs_of(key, parts) for key, parts in launches.items()}
        busy = {key: parts for key, parts in launches.items() if any(len(p.unknown) for p in parts)}
        work = [_launch(self._inputs[key], parts, code) for key, parts in busy.items()]
        discounts = [parts[0].trial.arena.config.discount for parts in busy.values()]
        for parts, (returns, actions) in zip(
            busy.values(), self._run(work, discounts), strict=True
        ):
            _distribute(parts, returns, actions)
        for parts in launches.values():
            for part in parts:
                part.fill_in()

    def _run(self, launches: list[Launch], discounts: list[float]) -> list[tuple[Any, Any]]:
        """Run launches; return the returns and actions of each, `[units, span]`."""
        pairs = list(zip(launches, discounts, strict=True))
        plain = iter(run_launches([work for work, discount in pairs if discount == 1], self._pad))
        return [
            next(plain) if discount == 1 else run_discounted(work, discount)
            for work, discount in pairs
        ]

    def _inputs_of(self, key: "_LaunchKey", parts: list["_EpochRows"]) -> "_SharedInputs":
        """Return the inputs of the last such launch unless an arena or its start states changed."""
        arenas = [(part.trial.arena, part.epoch) for part in parts]
        kept = self._inputs.get(key)
        return kept if kept and kept.arenas == arenas else self._make_inputs(arenas)

    def _make_inputs(self, arenas: list[tuple[Arena, int]]) -> "_SharedInputs":
        """Put the start states, lists and modes of arenas one behind the other."""
        width = max(arena.lists.shape[1] for arena, _ in arenas)
        lists, mode_count = [], 0
        for arena, _ in arenas:
            wide = np.full((len(arena.lists), width), -1, np.int32)
            wide[:, : arena.lists.shape[1]] = arena.lists
            wide[wide >= 0] += mode_count
            mode_count += len(arena.modes)
            lists.append(wide)
        worlds = join_worlds([arena.starts(epoch) for arena, epoch in arenas]).to(self.device)
        texts = [text.split() for arena, _ in arenas for text in arena.modes]
        ids = [np.array([self.vocabulary.encode(tokens)], np.uint8) for tokens in texts]
        modes = compile_ids(self._stack(ids), self.vocabulary)
        first_list = np.cumsum([0, *map(len, lists[:-1])])
        joined = np.concatenate(lists)
        placed = to_device(joined) if self.device == "cuda" else joined
        return _SharedInputs(arenas, worlds, placed, modes, first_list)

    def _stack(self, parts: Sequence[NDArray[np.uint8]]) -> NDArray[np.uint8]:
        """Put `parts`, `[n, l]` each, one below the other: `[N, L]` uint8, padded."""
        width = max((part.shape[1] for part in parts), default=1)
        stacked = np.full((sum(map(len, parts)), width), self.vocabulary.pad, np.uint8)
        first = 0
        for part in parts:
            stacked[first : first + len(part), : part.shape[1]] = part
            first += len(part)
        return stacked


_LaunchKey = tuple[Any, ...]
_NO_SALTS = np.empty(0, np.uint64)


def _key_of(arena: Arena) -> _LaunchKey:
    """Return a key that is the same for arenas whose candidates share a launch."""
    config = arena.config
    episode = (config.cap, config.rounds, config.patience, config.discount, config.starts)
    return id(arena.setting), *episode, config.fresh_draws


@dataclass(frozen=True)
class _EpochRows:
    """The candidates of a trial that meet the start states of one epoch.

    Attributes:
        trial: the trial.
        epoch: the epoch.
        rows: `[M]` int64, the trial's valid rows of this epoch.
        unknown: `[U]` int64, those of them that have to be run.
        entries: `[M]` int64, the rows' entries in the memo.
        first_new: the first of the unknown rows' entries, which follow one another.
        first: the trial's first row among those of all trials.
    """

    trial: Trial
    epoch: int
    rows: NDArray[np.int64]
    unknown: NDArray[np.int64]
    entries: NDArray[np.int64]
    first_new: int
    first: int

    @classmethod
    def of(cls, trial: Trial, first: int) -> "list[_EpochRows]":
        """Split a trial by epoch, and look up which of its programs are known."""
        parts = []
        for epoch in np.unique(trial.epochs).tolist():
            trial.arena.starts(epoch)
            rows = np.flatnonzero(trial.valid & (trial.epochs == epoch))
            entries, unknown, new = rows, rows, 0
            if trial.noise is None:
                memo = trial.memo(epoch)
                new = len(memo)
                entries, unknown = memo.find(trial.ids, rows)
            parts.append(cls(trial, epoch, rows, unknown, entries, new, first))
        return parts

    def fill_in(self) -> None:
        """Copy the known returns and actions from the memo to the trial."""
        if self.trial.noise is None:
            found = self.trial.memo(self.epoch).read(self.entries)
            self.trial.returns[self.rows], self.trial.actions[self.rows] = found

    def take(self, returns: NDArray[np.float64], actions: NDArray[np.int64]) -> None:
        """Take the results of the unknown rows, `returns` `[U]` and `actions` `[U]`.

        They are remembered unless the trial has random streams of its own.
        """
        if self.trial.noise is None:
            self.trial.memo(self.epoch).fill(self.first_new, returns, actions)
        else:
            self.trial.returns[self.unknown], self.trial.actions[self.unknown] = returns, actions


@dataclass(frozen=True)
class _SharedInputs:
    """What launches of the same arenas and epochs share.

    Attributes:
        arenas: the arenas and epochs.
        worlds: their start states, one arena's behind the other's.
        lists: `[D, M]` int32, their lists, on the device of the worlds.
        modes: their modes, compiled.
        first_list: `[A]` int64, where the lists of each of the A arenas begin.
    """

    arenas: list[tuple[Arena, int]]
    worlds: WorldBatch
    lists: Any
    modes: Code
    first_list: NDArray[np.int64]


def _launch(inputs: _SharedInputs, parts: list[_EpochRows], code: Code) -> Launch:
    """Plan to run every unknown program in every list of its arena on its epoch's start states."""
    config = parts[0].trial.arena.config
    tables, salts, rows = [], [], []
    candidate = len(inputs.modes)
    for place, part in enumerate(parts):
        lists, count = len(part.trial.arena.lists), len(part.unknown)
        table = np.empty((count, lists, 3), np.int32)
        table[:, :, 0] = inputs.first_list[place] + np.arange(lists)
        table[:, :, 1] = np.arange(candidate, candidate + count)[:, None]
        table[:, :, 2] = place * config.starts
        tables.append(table.reshape(-1, 3))
        if part.trial.noise is not None:
            salts.append(branch(part.trial.noise[part.unknown][:, None], np.arange(lists)).ravel())
        rows.append(part.first + part.unknown)
        candidate += count
    programs = inputs.modes.followed_by(code, np.concatenate(rows))
    units = Units(
        inputs.lists,
        np.concatenate(tables),
        config.starts,
        np.concatenate(salts) if salts else _NO_SALTS,
        config.rounds,
        config.patience if config.rounds > 1 else 0,
    )
    return Launch(parts[0].trial.arena.setting, programs, units, inputs.worlds, config.cap)


def _distribute(
    parts: list[_EpochRows], returns: NDArray[np.float64], actions: NDArray[np.int32]
) -> None:
    """Average the results of one launch, `returns` and `actions` `[units, span]`, per program."""
    first = 0
    for part in parts:
        arena, count = part.trial.arena, len(part.unknown)
        lists, span = len(arena.lists), arena.config.starts
        last = first + count * lists
        per_program = returns[first:last].reshape(count, lists, span) / arena.lengths[:, None]
        means = per_program.reshape(count, lists * span).sum(axis=1) / (lists * span)
        totals = actions[first:last].reshape(count, lists * span).sum(axis=1, dtype=np.int64)
        part.take(means, totals)
        first = last


def diversity(
    vectors: NDArray[np.float32], others: NDArray[np.float32], temperature: float
) -> NDArray[np.float64]:
    """Compute the diversity multiplier, sigmoid(-temperature * largest cosine to another vector).

    Args:
        vectors: `[N, V]` float32, the candidates' vectors.
        others: `[M, V]` float32, what they should differ from.
        temperature: how much a likeness costs.

    Returns:
        `[N]` float64; 1 if there are no others.
    """
    multipliers = np.ones(len(vectors))
    if len(others):
        _diversity(np.ascontiguousarray(vectors), others, temperature, multipliers)
    return multipliers


@kernel
def _diversity(vectors, others, temperature, multipliers):
    """Compute diversity multipliers.

    Args:
        vectors: `[N, V]` float32, read.
        others: `[M, V]` float32, read; M is at least 1.
        temperature: how much a likeness costs.
        multipliers: `[N]` float64, written.
    """
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
