"""Many searches that advance together: one decoding and one launch per task for all of them.

A run's result does not depend on what it is batched with: its draws come from its own stream, a
latent decodes to the same program in any batch, and episodes share nothing.

Programs are in the vocabulary of the batch's embedding; V is the width of the vectors they are
compared by, latents or effects.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pomp.core.compiling import launch, thread_count
from pomp.core.errors import ConfigError
from pomp.core.streams import branch
from pomp.modes.behaviour import behaviour_vectors
from pomp.modes.cem import CemRun
from pomp.modes.jobs import Job, RunKey, RunRecord
from pomp.modes.memo import Memo
from pomp.modes.proposers import ProposerRun
from pomp.modes.scoring import Arena, Scorer, Trial, diversity

if TYPE_CHECKING:
    from pomp.embedding.space import Embedding

VOCABULARY = "leaps"
"""The vocabulary that modes are searched in; machines and files hold its programs."""
PLOTTED_RUNS, PLOTTED_EVERY = 3, 5
"""Of the first mode, these runs keep their mean every so many iterations, for a plot."""


def text_ranks(tokens: Sequence[str]) -> NDArray[np.uint8]:
    """Return the place of each token id in the alphabetical order of the tokens, padding first.

    Programs whose ids are replaced by these ranks are in the same order as their texts: comparing
    two texts, the blank that ends a token sorts before any sign of a longer token, just as the
    shorter token ranks before the longer one.

    Args:
        tokens: the vocabulary's tokens in the order of their ids, padding last.

    Returns:
        `[len(tokens)]` uint8, the rank of each id.
    """
    order = {token: place for place, token in enumerate(sorted(tokens[:-1]), 1)}
    return np.array([order.get(token, 0) for token in tokens], np.uint8)


@dataclass
class ActiveRun:
    """A run in progress, with what its job needs to know about it.

    Attributes:
        job: the job it belongs to.
        key: which of the job's runs it is.
        run: what proposes candidates.
        arena: where they are scored.
        others: `[M, V]` float32, the vectors they should differ from.
        candidates: how many programs it has proposed.
        executions: how many times programs were executed for it.
        actions: how many actions these executions performed.
        best_return: the mean return of its best; 0 if that is no program.
        curve: (candidates, executions, best return) whenever a better one was found.
        trajectory: `[Z]` float32 for every few iterations, the mean, if it is kept for a plot.
        multipliers: diversity multipliers of programs that had to be encoded or executed for them.
    """

    job: Job
    key: RunKey
    run: ProposerRun
    arena: Arena
    others: NDArray[np.float32]
    candidates: int = 0
    executions: int = 0
    actions: int = 0
    best_return: float = 0.0
    curve: list[tuple[int, int, float]] = field(default_factory=list)
    trajectory: list[NDArray[np.float32]] = field(default_factory=list)
    multipliers: Memo | None = None

    @property
    def is_latent(self) -> bool:
        """Whether it proposes latents; else programs."""
        return self.job.method.is_latent

    @property
    def is_plotted(self) -> bool:
        """Whether its means are kept for a plot."""
        return isinstance(self.run, CemRun) and self.key < RunKey(0, PLOTTED_RUNS)

    def trial(self, ids: NDArray[np.uint8]) -> Trial:
        """Prepare what was proposed for scoring.

        Candidates meet the start states of this iteration's epoch, the iterations between two
        redraws of the start states. A mean in the last row was made by the population before, so it
        meets the start states which that population met.

        Args:
            ids: `[N, L]` uint8, the token ids of the programs.
        """
        config = self.arena.config
        epochs = np.full(len(ids), self._epoch(self.run.iteration), np.int64)
        if isinstance(self.run, CemRun) and self.run.iteration > 1:
            epochs[-1] = self._epoch(self.run.iteration - 1)
        noise = None
        if config.fresh_draws:
            here = branch(np.atleast_1d(self.job.noise_of(self.key)), self.run.iteration)
            noise = branch(here, np.arange(len(ids)))
        return Trial(self.arena, ids, epochs, noise)

    def _epoch(self, iteration: int) -> int:
        """Return how often start states were drawn anew before an iteration, counted from 1."""
        redraw = self.arena.config.redraw
        return (iteration - 1) // redraw if redraw else 0

    def tell(
        self,
        asked: NDArray[Any],
        trial: Trial,
        multipliers: NDArray[np.float64],
        ties: NDArray[np.uint8],
    ) -> None:
        """Pass the scores on and add up what they cost.

        Args:
            asked: `[N, Z]` float32 or `[N, L]` uint8, what the run proposed.
            trial: the same candidates, scored.
            multipliers: `[N]` float64, their diversity multipliers.
            ties: `[N, L]` uint8, what decides between equal scores.
        """
        plain = trial.plain_scores()
        before = self.run.best
        counted = self.run.tell(asked, plain * multipliers, plain, ties)
        if self.run.best is not before:
            row = int(np.flatnonzero((asked == self.run.best).all(axis=1))[0])
            self.best_return = float(trial.returns[row])
        returns = trial.returns[counted][trial.valid[counted]]
        last = min(counted.stop, self.run.proposals)
        self.candidates += max(last - counted.start, 0)
        self.executions += int(trial.executions[counted].sum())
        self.actions += int(trial.actions[counted].sum())
        best = float(returns.max(initial=-np.inf))
        if np.isfinite(best) and (not self.curve or best > self.curve[-1][2]):
            self.curve.append((self.candidates, self.executions, best))
        if self.is_plotted and (self.run.iteration - 2) % PLOTTED_EVERY == 0:
            self.trajectory.append(asked[-1])


class Batch:
    """Jobs that advance together until all of them are finished.

    Attributes:
        jobs: all jobs.
        embedding: decodes latents and encodes programs.
        active: the runs in progress.
        proposed: how many candidates this object has proposed.
    """

    def __init__(
        self, jobs: Sequence[Job], embedding: "Embedding | None" = None, device: str = "cpu"
    ) -> None:
        """Put jobs together.

        Args:
            jobs: of any tasks and methods, with one embedding.
            embedding: the one they name, if it is loaded already.
            device: where programs are decoded and executed.
        """
        names = sorted({job.config.embedding for job in jobs})
        if len(names) > 1:
            raise ConfigError(f"searches in one batch share an embedding, got {', '.join(names)}")
        if embedding is None:
            from pomp.embedding import Embedding

            embedding = Embedding.load(names[0] if names else None, device)
        self.jobs, self.embedding = list(jobs), embedding
        self.active: list[ActiveRun] = []
        self.proposed = 0
        self._vocabulary = embedding.vocabulary
        self._ranks = text_ranks(self._vocabulary.tokens)
        self._scorer = Scorer(self._vocabulary, device)
        self._may_start = list(jobs)  # jobs of which no run has begun, or one has just ended
        if (name := self._vocabulary.name) != VOCABULARY:
            what = f"an embedding of the {VOCABULARY} vocabulary"
            raise ConfigError(f"search needs {what}, got {name}")

    @property
    def is_finished(self) -> bool:
        """Whether all runs of all jobs have ended."""
        return all(job.is_searched for job in self.jobs)

    def progress(self) -> float:
        """Estimate the share of the work done, if runs last as long as those that have ended."""
        ended = [record.iterations for job in self.jobs for record in job.records]
        total = sum(job.total_runs for job in self.jobs)
        typical = sum(ended) / len(ended) if ended else 0.0
        shares = [
            min(one.run.iteration / typical, 1.0) if typical else one.run.progress
            for one in self.active
        ]
        return (len(ended) + sum(shares)) / total if total else 1.0

    def best(self) -> tuple[str, int, float, str] | None:
        """Return task, mode, score and text of the best program of jobs that still have runs."""
        going = [job for job in self.jobs if not job.is_searched]
        found = [
            (record.score, job.setting.task.name, record.mode, record.program)
            for job in going
            for record in job.records
        ]
        best = max(found, default=None)
        run = max(self.active, key=lambda one: one.run.best_plain, default=None)
        if run is not None and run.run.best_plain > (best[0] if best else -np.inf):
            text = self._text_of(self.best_ids([run])[0])
            best = (run.run.best_plain, run.job.setting.task.name, run.key.mode, text)
        return (best[1], best[2], best[0], best[3]) if best else None

    def step(self) -> list[ActiveRun]:
        """Do one iteration of every run; return the runs that ended with it."""
        self._start_runs()
        asked = self._ask()
        ids = self._decode(asked)
        trials = [one.trial(rows) for one, rows in zip(self.active, ids, strict=True)]
        self._scorer.score(trials)
        for one, proposed, trial in zip(self.active, asked, trials, strict=True):
            ties = self._ranks[trial.ids]
            one.tell(proposed, trial, self._multipliers(one, proposed), ties)
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
        """Make a run that has not begun its first iteration."""
        proposer = job.proposer_of(key)
        run = job.method.begin(proposer, job.stream_of(key), self.embedding.latent)
        return ActiveRun(job, key, run, job.arena_of(key), job.others_of(key))

    def _ask(self) -> list[NDArray[Any]]:
        """Ask every run, in threads; return `[N, Z]` latents or `[N, L]` token ids of each."""
        asked: list[Any] = [None] * len(self.active)
        parts = min(thread_count(), len(self.active))

        def ask_part(part: int) -> None:
            for place in range(part, len(self.active), parts):
                asked[place] = self.active[place].run.ask()

        if parts:
            launch(parts, ask_part)
        return asked

    def _decode(self, asked: list[NDArray[Any]]) -> list[NDArray[np.uint8]]:
        """Return the token ids, `[N, L]` uint8 for each run; latents are decoded all at once."""
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
        """Return the diversity multipliers of what a run asked for, `[N]` float64.

        Programs have to be encoded or executed for it, so theirs are remembered.
        """
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
        """Return the `[N, V]` float32 vectors programs are compared by."""
        if one.job.config.mode.vector == "behaviour":
            cap = one.arena.config.cap
            return behaviour_vectors(one.arena.setting, ids, one.arena.starts(0), cap)
        return self.embedding.encode(ids)

    def best_ids(self, runs: list[ActiveRun]) -> list[NDArray[np.uint8]]:
        """Return the token ids of the runs' best programs so far, `[L]` uint8 each."""
        latents = [one.run.best for one in runs if one.is_latent]
        decoded = iter(self.embedding.decode(np.stack(latents)) if latents else ())
        return [next(decoded) if one.is_latent else one.run.best for one in runs]

    def _finish(self, one: ActiveRun, ids: NDArray[np.uint8]) -> None:
        """Give the job of a run that has ended its result, the program `ids` `[L]`."""
        if one.is_latent:
            vector = latent = one.run.best
        else:
            latent = self.embedding.encode(ids[None])[0]
            vector = self._vectors(one, ids[None])[0]
        record = RunRecord(
            mode=one.key.mode,
            run=one.key.run,
            program=self._text_of(ids),
            score=one.run.best_plain,
            diversified=one.run.best_score,
            mean_return=one.best_return,
            iterations=one.run.iteration - 1,
            candidates=one.candidates,
            executions=one.executions,
            actions=one.actions,
            curve=one.curve,
        )
        if one.trajectory:
            one.job.trajectories[one.key] = np.stack(one.trajectory).astype(np.float16)
        one.job.finish(record, np.asarray(vector, np.float32), np.asarray(latent, np.float32))
        self._may_start.append(one.job)

    def _text_of(self, ids: NDArray[np.uint8]) -> str:
        """Return the text of a program, `ids` `[L]`."""
        return " ".join(self._vocabulary.decode(ids.tolist()))
