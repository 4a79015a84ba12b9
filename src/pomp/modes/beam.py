"""Cross-entropy beam search, as ask and tell: the next population is drawn around the elites."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.core.schemas import SCORE, Array, Record, Whole, check_arrays, like
from pomp.core.streams import branch, draw_normal
from pomp.modes.config import BeamConfig
from pomp.modes.proposers import Arrays

_NOISE, _PARENTS = range(2)  # what an iteration draws


class BeamRun:
    """One run with restarts, until its budget of candidates is used up or the task is solved.

    Attributes:
        iteration: the number of the population that is asked for next, from 1.
        is_finished: whether the run is over.
        evaluated: how many candidates have been scored.
        best: `[Z]` float32, the best candidate so far.
        best_score: its score with the diversity multiplier.
        best_plain: its score without the diversity multiplier.
        elites: `[E, Z]` float32, the best of the last population; empty before a fresh start.
    """

    def __init__(self, config: BeamConfig, stream: np.uint64, dimensions: int) -> None:
        """Begin a run from its settings, its random stream and the latent's width Z."""
        self.config, self.stream = config, np.atleast_1d(stream)
        self.iteration, self.is_finished, self.evaluated = 1, False, 0
        self.best = np.zeros(dimensions, np.float32)
        self.best_score = self.best_plain = -np.inf
        self.elites = np.empty((0, dimensions), np.float32)
        self.elite_mean, self.failures = -np.inf, 0

    @property
    def proposals(self) -> int:
        """How many rows of `ask` are candidates: all of them."""
        return self.config.population

    @property
    def progress(self) -> float:
        """How much of the budget of candidates is used up, from 0 to 1."""
        return self.evaluated / self.config.candidates

    def ask(self) -> NDArray[np.float32]:
        """Propose `[N, Z]` float32 latents: neighbours of random elites, or a fresh start."""
        n = self.config.population
        here = branch(self.stream, self.iteration)
        noise = draw_normal(branch(branch(here, _NOISE), np.arange(n)), len(self.best))
        if not len(self.elites):
            return noise
        draws = branch(branch(here, _PARENTS), np.arange(n))
        parents = (draws >> np.uint64(32)) % np.uint64(len(self.elites))
        return self.elites[parents.astype(np.int64)] + np.float32(self.config.sigma) * noise

    def tell(
        self,
        latents: NDArray[np.float32],
        scores: NDArray[np.float64],
        plain: NDArray[np.float64],
        ties: NDArray[np.uint8],
    ) -> slice:
        """Take the scores of what was asked for.

        Returns:
            The rows that are within the budget of candidates.
        """
        counted = min(len(latents), self.config.candidates - self.evaluated)
        scores = scores[:counted]
        order = np.argsort(-scores, kind="stable")[: self.config.elites]
        top = int(order[0])
        if scores[top] > self.best_score:
            self.best, self.best_score = latents[top], float(scores[top])
            self.best_plain = float(plain[top])
        mean = float(scores[order].mean())
        if mean > self.elite_mean:
            self.elite_mean, self.failures = mean, 0
        else:
            self.failures += 1
        self.elites = latents[order]
        if self.failures >= self.config.patience:
            self.elites = self.elites[:0]
            self.elite_mean, self.failures = -np.inf, 0
        self.evaluated += counted
        is_solved = self.best_plain >= self.config.solved_score
        self.is_finished = is_solved or self.evaluated >= self.config.candidates
        self.iteration += 1
        return slice(0, counted)

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the arrays and plain values a checkpoint needs to go on from here."""
        names = ("iteration", "best_score", "best_plain", "elite_mean", "failures", "evaluated")
        return {"best": self.best, "elites": self.elites}, {
            name: getattr(self, name) for name in names
        }

    def restore(self, arrays: Arrays, values: dict[str, Any]) -> None:
        """Go on from what `to_arrays` returned.

        Raises:
            DataFileError: it is something else.
        """
        elites = Array("float32", (None, len(self.best)))
        check_arrays(arrays, {"best": like(self.best), "elites": elites})
        Whole(0, self.config.elites).check(len(arrays["elites"]), "the number of elites")
        counts = {"iteration": Whole(1), "failures": Whole(0, self.config.patience)}
        scores = dict.fromkeys(("best_score", "best_plain", "elite_mean"), SCORE)
        evaluated = Whole(0, self.config.candidates - 1)
        Record({**counts, **scores, "evaluated": evaluated}).check(values)
        self.best, self.elites = arrays["best"], arrays["elites"]
        for name, value in values.items():
            setattr(self, name, value)
