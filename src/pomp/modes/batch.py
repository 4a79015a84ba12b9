"""Many searches that advance together: one decoding and one launch per task for all of them.

A run's result does not depend on what it is batched with: its draws come from its own stream, a
latent decodes to the same program in any batch, and episodes share nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pomp.core.compiling import launch, thread_count
from pomp.core.errors import ConfigError
from pomp.core.streams import branch
from pomp.dsl.vocabulary import LEAPS
from pomp.embedding.space import Embedding
from pomp.modes.beam import BeamRun
from pomp.modes.behaviour import behaviour_vectors
from pomp.modes.cem import Arrays, CemRun
from pomp.modes.climb import ClimbRun
from pomp.modes.config import BeamConfig, CemConfig, ClimbConfig
from pomp.modes.jobs import Job, RunKey, RunRecord
from pomp.modes.memo import Memo
from pomp.modes.scoring import Arena, Scorer, Trial, diversity

TRACED_RUNS, TRACED_EVERY = 3, 5
"""Of the first mode, these runs keep their centre every so many iterations, for a picture."""

_ORDER = {token: place for place, token in enumerate(sorted(LEAPS.tokens[:-1]), 1)}
_RANK = np.array([_ORDER.get(token, 0) for token in LEAPS.tokens], np.uint8)
"""Ids as the order of their texts, padding first: rows of ranks compare like the programs' texts,
because a blank comes before every sign a token may go on with."""


class Run(Protocol):
    """What proposes candidates: `CemRun`, `BeamRun` or `ClimbRun`."""

    iteration: int
    is_finished: bool
    best: NDArray[Any]
    best_score: float
    best_plain: float

    @property
    def proposals(self) -> int:
        """Rows of `ask` that are candidates; what is behind them is scored, but not counted."""

    @property
    def share(self) -> float:
        """How much of its candidates is spent, from 0 to 1."""

    def ask(self) -> NDArray[Any]:
        """Latents or token ids, a row for each candidate."""

    def tell(
        self, asked: Any, scores: NDArray[np.float64], plain: NDArray[np.float64], ties: Any
    ) -> slice:
        """Take their scores; returns the rows that counted."""

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """What it must remember to go on."""

    def restore(self, arrays: Arrays, values: dict[str, Any]) -> None:
        """Go on where `to_arrays` was called."""


_RUNS: dict[type, Any] = {CemConfig: CemRun, BeamConfig: BeamRun, ClimbConfig: ClimbRun}


@dataclass
class ActiveRun:
    """A run in progress, with what its job needs to know about it."""

    job: Job
    key: RunKey
    run: Run
    arena: Arena
    others: NDArray[np.float32]
    candidates: int = 0
    executions: int = 0
    actions: int = 0
    value: float = 0.0
    """The return of the best; 0 for what is no program."""
    curve: list[tuple[int, int, float]] = field(default_factory=list)
    trace: list[NDArray[np.float32]] = field(default_factory=list)
    multipliers: Memo | None = None
    """Of programs, where they have to be encoded or executed to know them."""

    @property
    def is_latent(self) -> bool:
        """Whether it proposes latents; else programs."""
        return not isinstance(self.run, ClimbRun)

    @property
    def is_traced(self) -> bool:
        """Whether its centres are kept for a picture."""
        return isinstance(self.run, CemRun) and self.key < RunKey(0, TRACED_RUNS)

    def trial(self, ids: NDArray[np.uint8]) -> Trial:
        """The candidates as they are tried; a centre meets the starts of its own iteration."""
        config = self.arena.config
        epochs = np.full(len(ids), self._epoch(self.run.iteration), np.int64)
        if isinstance(self.run, CemRun) and self.run.iteration > 1:
            epochs[-1] = self._epoch(self.run.iteration - 1)
        luck = None
        if config.fresh_draws:
            here = branch(np.atleast_1d(self.job.luck_of(self.key)), self.run.iteration)
            luck = branch(here, np.arange(len(ids)))
        return Trial(self.arena, ids, epochs, luck)

    def _epoch(self, iteration: int) -> int:
        redraw = self.arena.config.redraw
        return (iteration - 1) // redraw if redraw else 0

    def tell(self, asked: Any, trial: Trial, multipliers: NDArray[np.float64]) -> None:
        """Pass the scores on and add up what they cost."""
        plain = trial.plain_scores()
        before = self.run.best
        counted = self.run.tell(asked, plain * multipliers, plain, _RANK[trial.ids])
        if self.run.best is not before:
            row = int(np.flatnonzero((asked == self.run.best).all(axis=1))[0])
            self.value = float(trial.returns[row])
        returns = trial.returns[counted][trial.valid[counted]]
        last = min(counted.stop, self.run.proposals)
        self.candidates += max(last - counted.start, 0)
        self.executions += int(trial.executions[counted].sum())
        self.actions += int(trial.actions[counted].sum())
        best = float(returns.max(initial=-np.inf))
        if np.isfinite(best) and (not self.curve or best > self.curve[-1][2]):
            self.curve.append((self.candidates, self.executions, best))
        if self.is_traced and (self.run.iteration - 2) % TRACED_EVERY == 0:
            self.trace.append(asked[-1])


class Batch:
    """Jobs that advance together until all of them are finished.

    Attributes:
        jobs: all of them.
        active: runs in progress.
    """

    def __init__(
        self, jobs: Sequence[Job], embedding: Embedding | None = None, device: str = "cpu"
    ) -> None:
        """Put jobs together.

        Args:
            jobs: of any tasks and methods, with one embedding.
            embedding: the one they name, if it is at hand; None: it is loaded.
            device: where programs are decoded and executed.
        """
        names = sorted({job.config.embedding for job in jobs})
        if len(names) > 1:
            raise ConfigError(f"searches in one batch share an embedding, got {', '.join(names)}")
        if embedding is None:
            embedding = Embedding.load(names[0] if names else None, device)
        self.jobs, self.embedding = list(jobs), embedding
        self.active: list[ActiveRun] = []
        self.proposed = 0
        """Candidates since this object was made."""
        self._scorer = Scorer(device)
        self._may_start = list(jobs)  # those a run of which has ended, or none begun
        if embedding.model.vocabulary is not LEAPS:
            name = embedding.model.vocabulary.name
            raise ConfigError(f"search needs an embedding of the leaps vocabulary, got {name}")

    @property
    def is_finished(self) -> bool:
        """Nothing is left to do."""
        return all(job.is_finished for job in self.jobs)

    def share_done(self) -> float:
        """Which share of the work is done, if runs last as long as those that have ended."""
        ended = [record.iterations for job in self.jobs for record in job.records]
        total = sum(job.total_runs for job in self.jobs)
        typical = sum(ended) / len(ended) if ended else 0.0
        shares = [
            min(one.run.iteration / typical, 1.0) if typical else one.run.share
            for one in self.active
        ]
        return (len(ended) + sum(shares)) / total if total else 1.0

    def best(self) -> tuple[str, int, float, str] | None:
        """Task, mode, score and text of the best program in the jobs that are not finished."""
        going = [job for job in self.jobs if not job.is_finished]
        found = [
            (record.score, job.setting.task.name, record.mode, record.program)
            for job in going
            for record in job.records
        ]
        best = max(found, default=None)
        run = max(self.active, key=lambda one: one.run.best_plain, default=None)
        if run is not None and run.run.best_plain > (best[0] if best else -np.inf):
            text = _text_of(self.best_ids([run])[0])
            best = (run.run.best_plain, run.job.setting.task.name, run.key.mode, text)
        return (best[1], best[2], best[0], best[3]) if best else None

    def step(self) -> list[ActiveRun]:
        """One iteration of every run; returns those that ended with it."""
        self._start_runs()
        asked = self._ask()
        ids = self._decode(asked)
        trials = [one.trial(rows) for one, rows in zip(self.active, ids, strict=True)]
        self._scorer.try_out(trials)
        for one, proposed, trial in zip(self.active, asked, trials, strict=True):
            one.tell(proposed, trial, self._multipliers(one, proposed))
            self.proposed += one.run.proposals
        ended = [one for one in self.active if one.run.is_finished]
        self.active = [one for one in self.active if not one.run.is_finished]
        for one, ids_of_best in zip(ended, self.best_ids(ended), strict=True):
            self._finish(one, ids_of_best)
        return ended

    def _start_runs(self) -> None:
        for job in self._may_start:
            for key in job.start_runs():
                self.active.append(self.make_run(job, key))
        self._may_start = []

    def make_run(self, job: Job, key: RunKey) -> ActiveRun:
        """A run before its first iteration."""
        proposer = job.proposer_of(key)
        run = _RUNS[type(proposer)](proposer, job.stream_of(key), self.embedding.latent)
        return ActiveRun(job, key, run, job.arena_of(key), job.others_of(key))

    def _ask(self) -> list[NDArray[Any]]:
        asked: list[Any] = [None] * len(self.active)
        parts = min(thread_count(), len(self.active))

        def ask_part(part: int) -> None:
            for place in range(part, len(self.active), parts):
                asked[place] = self.active[place].run.ask()

        if parts:
            launch(parts, ask_part)
        return asked

    def _decode(self, asked: list[NDArray[Any]]) -> list[NDArray[np.uint8]]:
        """The ids of what was asked for, latents decoded all at once."""
        latents = [rows for one, rows in zip(self.active, asked, strict=True) if one.is_latent]
        decoded = iter(np.empty((0, 1), np.uint8))
        if latents:
            whole = self.embedding.decode(np.concatenate(latents))
            decoded = iter(np.split(whole, np.cumsum([len(rows) for rows in latents])[:-1]))
        return [
            next(decoded) if one.is_latent else rows
            for one, rows in zip(self.active, asked, strict=True)
        ]

    def _multipliers(self, one: ActiveRun, asked: NDArray[Any]) -> NDArray[np.float64]:
        """The diversity of what a run asked for; programs' is found out once and remembered."""
        temperature = one.arena.config.temperature
        if one.is_latent or not len(one.others):
            return diversity(asked, one.others, temperature)
        if one.multipliers is None:
            one.multipliers = Memo(asked.shape[1])
        first = len(one.multipliers)
        entries, unknown = one.multipliers.find(asked, np.arange(len(asked)))
        if len(unknown):
            vectors = self._vectors(one, asked[unknown])
            found = diversity(vectors, one.others, temperature)
            one.multipliers.fill(first, found, np.zeros(len(found), np.int64))
        return one.multipliers.read(entries)[0]

    def _vectors(self, one: ActiveRun, ids: NDArray[np.uint8]) -> NDArray[np.float32]:
        """What programs are compared by."""
        if one.job.config.mode.vector == "behaviour":
            cap = one.arena.config.cap
            return behaviour_vectors(one.arena.setting, ids, one.arena.starts(0), cap)
        return self.embedding.encode(ids)

    def best_ids(self, runs: list[ActiveRun]) -> list[NDArray[np.uint8]]:
        """The best programs of runs so far."""
        latents = [one.run.best for one in runs if one.is_latent]
        decoded = iter(self.embedding.decode(np.stack(latents)) if latents else ())
        return [next(decoded) if one.is_latent else one.run.best for one in runs]

    def _finish(self, one: ActiveRun, ids: NDArray[np.uint8]) -> None:
        if one.is_latent:
            vector = latent = one.run.best
        else:
            latent = self.embedding.encode(ids[None])[0]
            vector = self._vectors(one, ids[None])[0]
        record = RunRecord(
            mode=one.key.mode,
            run=one.key.run,
            program=_text_of(ids),
            score=one.run.best_plain,
            diversified=one.run.best_score,
            value=one.value,
            iterations=one.run.iteration - 1,
            candidates=one.candidates,
            executions=one.executions,
            actions=one.actions,
            curve=one.curve,
        )
        if one.trace:
            one.job.traces[one.key] = np.stack(one.trace).astype(np.float16)
        one.job.finish(record, np.asarray(vector, np.float32), np.asarray(latent, np.float32))
        self._may_start.append(one.job)


def _text_of(ids: NDArray[np.uint8]) -> str:
    return " ".join(LEAPS.decode(ids.tolist()))
