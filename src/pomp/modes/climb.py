"""Local search in program space, as ask and tell: hill climbing and simulated annealing.

A run is a number of chains. In every iteration each chain proposes one changed program, so a batch
is never empty; what a chain does depends on its own stream and scores alone.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.core.streams import branch
from pomp.dsl.mutation import Limits, propose_programs
from pomp.modes.cem import Arrays
from pomp.modes.config import ClimbConfig

_CHANGES, _CHOICES = range(2)  # what a chain draws
_LENGTHS = 4  # chains last 1, 2, 4 or 8 times the shortest length


class ClimbRun:
    """One search, until its candidates are spent or the task is solved.

    Attributes:
        iteration: the candidates that are asked for next, from 1.
        is_finished: no more is asked for.
        best: `[L]` uint8, the best program so far.
        best_score: its score, and `best_plain` the same without diversity.
        programs: `[C, L]` uint8, where the chains are.
        scores: `[C]`, what these are worth.
        is_new: `[C]`: the chain starts over.
        age: `[C]`: changes tried since (climb: since the last success).
    """

    def __init__(self, config: ClimbConfig, stream: np.uint64, dimensions: int = 0) -> None:
        self.config = config
        chains = np.arange(config.chains)
        self.iteration, self.is_finished, self.spent = 1, False, 0
        self.changes = branch(branch(np.atleast_1d(stream), _CHANGES), chains)
        self._choices = branch(branch(np.atleast_1d(stream), _CHOICES), chains)
        self.programs = np.zeros((config.chains, config.max_tokens), np.uint8)
        self.scores = np.full(config.chains, -np.inf)
        self.is_new = np.ones(config.chains, np.bool_)
        self.age = np.zeros(config.chains, np.int64)
        self.length = np.ones(config.chains, np.int64)
        self.best = np.zeros(config.max_tokens, np.uint8)
        self.best_score = self.best_plain = -np.inf

    @property
    def proposals(self) -> int:
        """Rows of `ask` that are candidates: all of them."""
        return self.config.chains

    @property
    def share(self) -> float:
        """How much of its candidates is spent, from 0 to 1."""
        return self.spent / self.config.candidates

    def ask(self) -> NDArray[np.uint8]:
        """`[C, L]`: a changed program of every chain, or a fresh one where it starts over."""
        config = self.config
        limits = Limits(tokens=config.max_tokens, depth=config.max_depth, body=config.max_body)
        return propose_programs(self.programs, self.is_new, self.changes, config.moves, limits)

    def tell(
        self,
        ids: NDArray[np.uint8],
        scores: NDArray[np.float64],
        plain: NDArray[np.float64],
        ties: NDArray[np.uint8],
    ) -> slice:
        """Take the scores of what was asked for; returns the rows that counted."""
        counted = min(len(ids), self.config.candidates - self.spent)
        top = int(np.argmax(scores[:counted]))
        if scores[top] > self.best_score:
            self.best, self.best_score = ids[top].copy(), float(scores[top])
            self.best_plain = float(plain[top])
        self.spent += counted
        is_solved = self.best_plain >= self.config.solved_score
        self.is_finished = is_solved or self.spent >= self.config.candidates
        draws = branch(self._choices, self.iteration)
        if self.config.rule == "climb":
            self._climb(ids, scores)
        else:
            self._anneal(ids, scores, draws)
        self.iteration += 1
        return slice(0, counted)

    def _climb(self, ids: NDArray[np.uint8], scores: NDArray[np.float64]) -> None:
        taken = self.is_new | (scores > self.scores)
        self._move(taken, ids, scores)
        self.age = np.where(taken, 0, self.age + 1)
        self.is_new = self.age >= self.config.neighbours

    def _anneal(
        self, ids: NDArray[np.uint8], scores: NDArray[np.float64], draws: NDArray[np.uint64]
    ) -> None:
        hot, cold = self.config.hot, self.config.cold
        share = np.minimum(self.age / self.length, 1.0)
        temperature = hot * (cold / hot) ** share
        chance = ((draws >> np.uint64(11)) + np.uint64(1)) * 2.0**-53  # above 0, up to 1
        taken = self.is_new | (scores >= self.scores + temperature * np.log(chance))
        self._move(taken, ids, scores)
        doublings = (draws & np.uint64(_LENGTHS - 1)).astype(np.int64)
        fresh = self.config.length << doublings
        self.length = np.where(self.is_new, fresh, self.length)
        self.age = np.where(self.is_new, 0, self.age + 1)
        self.is_new = self.age >= self.length

    def _move(
        self, taken: NDArray[np.bool_], ids: NDArray[np.uint8], scores: NDArray[np.float64]
    ) -> None:
        self.programs = np.where(taken[:, None], ids, self.programs)
        self.scores = np.where(taken, scores, self.scores)

    _KEPT = ("changes", "programs", "scores", "is_new", "age", "length", "best")

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """What a run must remember to go on."""
        arrays = {name: np.asarray(getattr(self, name)) for name in self._KEPT}
        names = ("iteration", "spent", "best_score", "best_plain")
        return arrays, {name: getattr(self, name) for name in names}

    def restore(self, arrays: Arrays, values: dict[str, Any]) -> None:
        """Go on where `to_arrays` was called."""
        for name in self._KEPT:
            setattr(self, name, arrays[name])
        for name, value in values.items():
            setattr(self, name, value)
