"""The cross-entropy method, as ask and tell. It knows vectors and scores, no programs.

The mean of the search distribution is scored together with the population drawn around it, so that
one batch serves both: its score only decides which mean is kept and when to stop.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.core.compiling import kernel
from pomp.core.schemas import SCORE, Flag, Record, Schema, Whole, check_arrays, like
from pomp.core.streams import branch, draw_normal
from pomp.modes.config import CemConfig
from pomp.modes.proposers import Arrays

_SOLVED_WINDOW = 10  # of LEAPS's stop rule
_NO_ITERATION = 0  # stands for the iteration when the first mean is drawn


class CemRun:
    """One run; a function of its config and its random stream alone.

    Attributes:
        iteration: the number of the population that is asked for next, from 1.
        is_finished: whether the run is over.
        mean: `[Z]` float32, the mean around which the next population is drawn.
        best: `[Z]` float32, the vector that is kept as the result.
        best_score: its score with the diversity multiplier.
        best_plain: its score without the diversity multiplier.
    """

    def __init__(self, config: CemConfig, stream: np.uint64, dimensions: int) -> None:
        """Begin a run from its settings, its random stream and the latent's width Z."""
        self.config, self.stream = config, stream
        self.iteration, self.is_finished = 1, False
        self.mean = _initial_mean(config, stream, dimensions)
        self.best, self.best_score, self.best_plain = self.mean, -np.inf, -np.inf
        self.has_best = False  # a mean that scored above 0, or any if the last one is kept
        longest = config.window if config.stop == "converged" else _SOLVED_WINDOW
        self._recent = np.empty(0) if config.stop == "never" else np.full(longest, np.nan)

    @property
    def sigma(self) -> float:
        """Standard deviation of the population that is asked for next."""
        return sigma_at(self.config, self.iteration)

    @property
    def proposals(self) -> int:
        """How many rows of `ask` are candidates: all but the last, which is the mean."""
        return self.config.population

    @property
    def progress(self) -> float:
        """How many of the iterations are done, from 0 to 1."""
        return self.iteration / (self.config.iterations + 1)

    def ask(self) -> NDArray[np.float32]:
        """Propose `[n + 1, Z]` float32: a population of n, and behind it its mean."""
        latents = np.empty((self.config.rows, len(self.mean)), np.float32)
        latents[-1] = self.mean
        latents[:-1] = draw_normal(self._streams(), len(self.mean))
        latents[:-1] *= np.float32(self.sigma)
        latents[:-1] += self.mean
        return latents

    def _streams(self) -> NDArray[np.uint64]:
        """Return `[n]` uint64, a random stream for each candidate of this iteration."""
        population = np.arange(self.config.population)
        return branch(branch(np.atleast_1d(self.stream), self.iteration), population)

    def tell(
        self,
        latents: NDArray[np.float32],
        scores: NDArray[np.float64],
        plain: NDArray[np.float64],
        ties: NDArray[np.uint8],
    ) -> slice:
        """Take the scores of what was asked for.

        Args:
            latents: `[n + 1, Z]` float32, what `ask` returned.
            scores: `[n + 1]` float64, the mean's score last.
            plain: `[n + 1]` float64, the scores without the diversity multiplier.
            ties: `[n + 1, L]` uint8, rows that decide between equal scores, the later in order
                first.

        Returns:
            The rows that count as evaluated: the first mean is no result, and the population drawn
            around the last mean is not looked at.
        """
        n = self.config.population
        if self.iteration > 1:
            self._judge_mean(latents[n], float(scores[n]), float(plain[n]))
            if self._should_stop():
                self.is_finished = True
                return slice(n, n + 1)
        if self.config.keep == "candidate":
            self._keep_candidate(latents, scores[:n], plain)
        self.mean = self._mean_of_elites(latents, scores, ties)
        self.iteration += 1
        return slice(0, n if self.iteration == 2 else n + 1)

    def _judge_mean(self, mean: NDArray[np.float32], score: float, plain: float) -> None:
        """Take the score of a mean `[Z]`; `mean` is kept if it is better than all before."""
        if self._beats(score) or self.config.keep == "last":
            self._keep(mean, score, plain)
        elif not self.has_best:  # the latest mean, while none has scored above 0
            self.best, self.best_score, self.best_plain = mean, score, plain
        if len(self._recent):
            self._recent = np.append(self._recent[1:], plain)

    def _keep_candidate(
        self, latents: NDArray[np.float32], scores: NDArray[np.float64], plain: NDArray[np.float64]
    ) -> None:
        """Keep the best candidate of a population if it beats what is kept so far."""
        top = int(np.argmax(scores))
        if self._beats(float(scores[top])):
            self._keep(latents[top], float(scores[top]), float(plain[top]))

    def _beats(self, score: float) -> bool:
        return score > (self.best_score if self.has_best else 0.0)

    def _keep(self, latent: NDArray[np.float32], score: float, plain: float) -> None:
        """Make `latent` `[Z]` the result so far."""
        self.best, self.best_score, self.best_plain, self.has_best = latent, score, plain, True

    def _should_stop(self) -> bool:
        config, done = self.config, self.iteration - 1
        if done >= config.iterations:
            return True
        if config.stop == "converged":
            return done >= config.window and float(self._recent.std()) <= config.tolerance
        if config.stop == "solved":
            lowest = min(float(self._recent.mean()), float(self._recent[-1]))
            return lowest >= config.solved_score  # NaN, and so not yet, before the tenth
        return False

    def _mean_of_elites(
        self, latents: NDArray[np.float32], scores: NDArray[np.float64], ties: NDArray[np.uint8]
    ) -> NDArray[np.float32]:
        """Return the `[Z]` float32 mean of the elites, or the mean before if it is not finite."""
        elites = np.empty(self.config.elites, np.int64)
        _choose_elites(scores, ties, self.config.population, elites)
        weights = scores[elites]
        if self.config.reduce == "mean":
            weights = np.full(len(elites), 1.0 / len(elites))
        else:
            weights = weights / (weights.sum() + 1e-5)
        mean = (weights[:, None] * latents[elites].astype(np.float64)).sum(axis=0)
        return mean.astype(np.float32) if np.isfinite(mean).all() else self.mean

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the arrays and plain values a checkpoint needs to go on from here."""
        arrays = {"mean": self.mean, "best": self.best, "recent": self._recent}
        names = ("iteration", "best_score", "best_plain", "has_best")
        return arrays, {name: getattr(self, name) for name in names}

    def restore(self, arrays: Arrays, values: dict[str, Any]) -> None:
        """Go on from what `to_arrays` returned.

        Raises:
            DataFileError: it is something else.
        """
        recent = like(self._recent, is_finite=False, may_be_nan=True)
        vector = like(self.mean)
        check_arrays(arrays, {"mean": vector, "best": vector, "recent": recent})
        scores: dict[str, Schema] = {"best_score": SCORE, "best_plain": SCORE, "has_best": Flag()}
        Record({"iteration": Whole(1, self.config.iterations + 1), **scores}).check(values)
        self.mean, self.best, self._recent = (arrays[name] for name in ("mean", "best", "recent"))
        for name, value in values.items():
            setattr(self, name, value)


def sigma_at(config: CemConfig, iteration: int) -> float:
    """Return the standard deviation of an iteration, from 1: the first two use the full sigma."""
    if not config.decay:
        return config.sigma
    steps = min(max(iteration - 2, 0), config.decay_iterations)
    return config.sigma * (config.final_sigma / config.sigma) ** (steps / config.decay_iterations)


def _initial_mean(config: CemConfig, stream: np.uint64, dimensions: int) -> NDArray[np.float32]:
    """Return the first mean, `[Z]` float32."""
    fixed = {"ones": 0.01, "paper_ones": 1.0}
    if config.init in fixed:
        return np.full(dimensions, fixed[config.init], np.float32)
    scales = {"normal": 1.0, "tiny_normal": 0.1, "paper_normal": config.sigma}
    scale = scales.get(config.init, 0.1 * config.sigma)
    noise = draw_normal(branch(np.atleast_1d(stream), _NO_ITERATION), dimensions)
    return np.float32(scale) * noise[0]


@kernel
def _choose_elites(scores, ties, n, elites):
    """Choose the rows with the largest (score, tie row) among the first n, the earlier of equals.

    Args:
        scores: `[N]` float64, read.
        ties: `[N, L]` uint8, read.
        n: rows looked at.
        elites: `[E]` int64, written, best first; E is at most n.
    """
    found = 0
    for row in range(n):
        place = found
        while place > 0:
            other = elites[place - 1]
            if scores[row] < scores[other]:
                break
            if scores[row] == scores[other]:
                order = 0
                for column in range(ties.shape[1]):
                    if ties[row, column] != ties[other, column]:
                        order = 1 if ties[row, column] > ties[other, column] else -1
                        break
                if order <= 0:
                    break
            place -= 1
        if place < len(elites):
            for behind in range(min(found, len(elites) - 1), place, -1):
                elites[behind] = elites[behind - 1]
            elites[place] = row
            found = min(found + 1, len(elites))
