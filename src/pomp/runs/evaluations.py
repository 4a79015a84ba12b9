"""The last stage of a training: what was learned is evaluated and written, one after the other."""

from collections.abc import Mapping
from typing import Protocol

from pomp.runs.results import LearnedMachine
from pomp.runs.work import IsStopped, Progress
from pomp.tasks.task import Setting

EVALUATION_STAGE = "stage 4/4 evaluation"


class Evaluated(Protocol):
    """A training whose policies are evaluated one by one.

    Attributes:
        pairs: every task with every seed.
        learned: what is evaluated, by task and seed.
    """

    @property
    def pairs(self) -> list[tuple[Setting, int]]: ...  # noqa: D102 - above

    @property
    def learned(self) -> Mapping[tuple[str, int], LearnedMachine]: ...  # noqa: D102 - above

    def finish_one(self, setting: Setting, seed: int) -> None:
        """Evaluate and write what was learned for a task and a seed."""


class Evaluations:
    """The last stage as one work: a piece for each task and seed."""

    stage, save_seconds = EVALUATION_STAGE, float("inf")

    def __init__(self, run: Evaluated) -> None:
        self._run = run

    def _left(self) -> list[tuple[Setting, int]]:
        pairs, learned = self._run.pairs, self._run.learned
        return [pair for pair in pairs if (pair[0].task.name, pair[1]) not in learned]

    @property
    def is_finished(self) -> bool:
        """Whether every policy is evaluated."""
        return not self._left()

    def open(self) -> None:
        """Do nothing: what is evaluated is written."""

    def advance(self, is_stopped: IsStopped) -> None:
        """Evaluate one policy."""
        self._run.finish_one(*self._left()[0])

    def save(self) -> None:
        """Do nothing: what is evaluated is written."""

    def close(self) -> None:
        """Do nothing: nothing goes on beside this."""

    def finish(self) -> None:
        """Do nothing: what is evaluated is written."""

    def progress(self) -> Progress:
        """Say how many policies are evaluated."""
        left, total = self._left(), len(self._run.pairs)
        done = total - len(left)
        return Progress(done, total, done / total, lambda: _names(left[:1]))


def _names(pairs: list[tuple[Setting, int]]) -> str:
    return ", ".join(f"{setting.task.name}, seed {seed}" for setting, seed in pairs)
