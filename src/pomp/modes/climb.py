"""Local search in program space, as ask and tell: hill climbing and simulated annealing.

A run is a number of chains, C. In every iteration each chain proposes one mutated program, so a
batch is never empty; what a chain does depends on its own random stream and scores alone.
Here `ids` are `[C, L]` uint8, `scores`, `plain` and `accepted` (bool) are `[C]`: a row per chain.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.core.errors import DataFileError
from pomp.core.schemas import SCORE, Record, Whole, check_arrays, like
from pomp.core.streams import branch
from pomp.dsl.bytecode import compile_ids
from pomp.dsl.mutation import Limits, propose_programs
from pomp.dsl.vocabulary import LEAPS
from pomp.modes.config import ClimbConfig
from pomp.modes.proposers import Arrays

_MUTATIONS, _ACCEPTANCES = range(2)  # what a chain draws
_LENGTHS = 4  # a chain lasts 1, 2, 4 or 8 times the shortest length


class ClimbRun:
    """One run, until its budget of candidates is used up or the task is solved.

    Attributes:
        iteration: the number of the candidates that are asked for next, from 1.
        is_finished: whether the run is over.
        evaluated: how many candidates have been scored.
        best: `[L]` uint8, the best program so far.
        best_score: its score with the diversity multiplier.
        best_plain: its score without the diversity multiplier.
        mutation_streams: `[C]` uint64, what the chains draw mutations from.
        programs: `[C, L]` uint8, the chains' current programs.
        scores: `[C]` float64, their scores.
        is_new: `[C]` bool, whether the chain starts over.
        age: `[C]` int64, mutations tried since it did (climb: since one was accepted).
        length: `[C]` int64, anneal: after how many mutations the chain ends.
    """

    def __init__(self, config: ClimbConfig, stream: np.uint64, dimensions: int = 0) -> None:
        """Begin a run from its settings and its random stream; `dimensions` is not used."""
        self.config = config
        chains = np.arange(config.chains)
        self.iteration, self.is_finished, self.evaluated = 1, False, 0
        self.mutation_streams = branch(branch(np.atleast_1d(stream), _MUTATIONS), chains)
        self._acceptance_streams = branch(branch(np.atleast_1d(stream), _ACCEPTANCES), chains)
        self.programs = np.zeros((config.chains, config.max_tokens), np.uint8)
        self.scores = np.full(config.chains, -np.inf)
        self.is_new = np.ones(config.chains, np.bool_)
        self.age = np.zeros(config.chains, np.int64)
        self.length = np.ones(config.chains, np.int64)
        self.best = np.zeros(config.max_tokens, np.uint8)
        self.best_score = self.best_plain = -np.inf

    @property
    def proposals(self) -> int:
        """How many rows of `ask` are candidates: all of them."""
        return self.config.chains

    @property
    def progress(self) -> float:
        """How much of the budget of candidates is used up, from 0 to 1."""
        return self.evaluated / self.config.candidates

    def ask(self) -> NDArray[np.uint8]:
        """Propose `[C, L]` uint8: a mutation of every chain's program, or a fresh or given one."""
        config = self.config
        limits = Limits(tokens=config.max_tokens, depth=config.max_depth, body=config.max_body)
        proposed = propose_programs(
            self.programs, self.is_new, self.mutation_streams, config.mutations, limits
        )
        if self.iteration == 1:
            for row, program in zip(proposed, config.given.splitlines(), strict=False):
                ids = LEAPS.encode(program.split())
                row[: len(ids)], row[len(ids) :] = ids, LEAPS.pad
        return proposed

    def tell(
        self,
        ids: NDArray[np.uint8],
        scores: NDArray[np.float64],
        plain: NDArray[np.float64],
        ties: NDArray[np.uint8],
    ) -> slice:
        """Take the scores of what was asked for.

        Returns:
            The rows that are within the budget of candidates.
        """
        counted = min(len(ids), self.config.candidates - self.evaluated)
        top = int(np.argmax(scores[:counted]))
        if scores[top] > self.best_score:
            self.best, self.best_score = ids[top].copy(), float(scores[top])
            self.best_plain = float(plain[top])
        self.evaluated += counted
        is_solved = self.best_plain >= self.config.solved_score
        self.is_finished = is_solved or self.evaluated >= self.config.candidates
        draws = branch(self._acceptance_streams, self.iteration)
        if self.config.acceptance == "climb":
            self._climb(ids, scores)
        else:
            self._anneal(ids, scores, draws)
        self.iteration += 1
        return slice(0, counted)

    def _climb(self, ids: NDArray[np.uint8], scores: NDArray[np.float64]) -> None:
        accepted = self.is_new | (scores > self.scores)
        self._move(accepted, ids, scores)
        self.age = np.where(accepted, 0, self.age + 1)
        self.is_new = self.age >= self.config.neighbours

    def _anneal(
        self, ids: NDArray[np.uint8], scores: NDArray[np.float64], draws: NDArray[np.uint64]
    ) -> None:
        """Accept by the Metropolis criterion; `draws` `[C]` uint64 decide it and new lengths."""
        first, last = self.config.initial_temperature, self.config.final_temperature
        progress = np.minimum(self.age / self.length, 1.0)
        temperature = first * (last / first) ** progress
        uniform = ((draws >> np.uint64(11)) + np.uint64(1)) * 2.0**-53  # above 0, up to 1
        accepted = self.is_new | (scores >= self.scores + temperature * np.log(uniform))
        self._move(accepted, ids, scores)
        doublings = (draws & np.uint64(_LENGTHS - 1)).astype(np.int64)
        fresh = self.config.chain_length << doublings
        self.length = np.where(self.is_new, fresh, self.length)
        self.age = np.where(self.is_new, 0, self.age + 1)
        self.is_new = self.age >= self.length

    def _move(
        self, accepted: NDArray[np.bool_], ids: NDArray[np.uint8], scores: NDArray[np.float64]
    ) -> None:
        self.programs = np.where(accepted[:, None], ids, self.programs)
        self.scores = np.where(accepted, scores, self.scores)

    def _check(self, arrays: Arrays) -> None:
        """Refuse arrays that are none of such a run."""
        token = {"low": 0, "high": len(LEAPS.tokens)}
        limits: dict[str, dict[str, Any]] = {
            **{"programs": token, "best": token, "scores": {"is_finite": False}},
            **{"age": {"low": 0, "high": 1 << 40}, "length": {"low": 1, "high": 1 << 40}},
        }
        fresh = {name: np.asarray(getattr(self, name)) for name in self._KEPT}
        check_arrays(
            arrays, {name: like(array, **limits.get(name, {})) for name, array in fresh.items()}
        )
        going_on = arrays["programs"][~arrays["is_new"]]
        if not compile_ids(going_on, LEAPS).valid.all():
            raise DataFileError("the program of a chain is none")

    _KEPT = ("mutation_streams", "programs", "scores", "is_new", "age", "length", "best")

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the arrays and plain values a checkpoint needs to go on from here."""
        arrays = {name: np.asarray(getattr(self, name)) for name in self._KEPT}
        names = ("iteration", "evaluated", "best_score", "best_plain")
        return arrays, {name: getattr(self, name) for name in names}

    def restore(self, arrays: Arrays, values: dict[str, Any]) -> None:
        """Go on from what `to_arrays` returned.

        Raises:
            DataFileError: it is something else.
        """
        self._check(arrays)
        scores = dict.fromkeys(("best_score", "best_plain"), SCORE)
        evaluated = Whole(0, self.config.candidates - 1)
        Record({"iteration": Whole(1), "evaluated": evaluated, **scores}).check(values)
        for name in self._KEPT:
            setattr(self, name, arrays[name])
        for name, value in values.items():
            setattr(self, name, value)
