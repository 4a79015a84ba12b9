"""How runs that learn come to their end: what they learned is evaluated, written and summed up."""

import json
from collections.abc import Iterable, Mapping
from typing import Protocol

from pomp.runs.folder import RunFolder
from pomp.runs.results import SUMMARY_FILE, LearnedMachine, LearningResult, sum_up
from pomp.runs.work import IsStopped, OnEvent, Progress, Stages, Watch, Work, drive
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


class LearningRun(Protocol):
    """A run that learns machines, or policies of another kind.

    Attributes:
        folder: where it is kept.
        learned: what is evaluated, by task and seed.
    """

    folder: RunFolder
    learned: dict[tuple[str, int], LearnedMachine]

    def works(self) -> Iterable[Work]:
        """Yield the works that are left, each when those before are finished."""


def learn_all(
    run: LearningRun, planned: int, method: str, on_event: OnEvent | None, *, was_finished: bool
) -> LearningResult:
    """Do what is left of a run, and sum up what it has learned.

    Args:
        run: which.
        planned: how many machines there will be.
        method: what learns them.
        on_event: told of progress; if it returns True, the run is saved and stops.
        was_finished: whether nothing is left.
    """
    folder = run.folder
    is_finished = was_finished or drive(Stages(run.works()), Watch(on_event))
    learned = tuple(run.learned.values())
    if is_finished and not folder.has(SUMMARY_FILE):
        folder.write_text(SUMMARY_FILE, json.dumps(sum_up(learned, method), indent=1) + "\n")
    return LearningResult(is_finished, was_finished, learned, planned, folder.path, method)
