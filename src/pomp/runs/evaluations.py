"""The last stage of a training: its machines evaluated and written, one after the other."""

from typing import TYPE_CHECKING

from pomp.runs.work import IsStopped, Progress
from pomp.tasks.task import Setting

if TYPE_CHECKING:
    from pomp.runs.trainings import TrainRun

EVALUATION_STAGE = "stage 4/4 evaluation"


class Evaluations:
    """Stage 4 as one work: a piece for each task and seed."""

    stage, save_seconds = EVALUATION_STAGE, float("inf")

    def __init__(self, run: "TrainRun") -> None:
        self._run = run

    def _left(self) -> list[tuple[Setting, int]]:
        pairs, learned = self._run.plan.pairs, self._run.learned
        return [pair for pair in pairs if (pair[0].task.name, pair[1]) not in learned]

    @property
    def is_finished(self) -> bool:
        """Whether every machine is evaluated."""
        return not self._left()

    def open(self) -> None:
        """Do nothing: what is evaluated is written."""

    def advance(self, is_stopped: IsStopped) -> None:
        """Evaluate one machine."""
        self._run.finish_one(*self._left()[0])

    def save(self) -> None:
        """Do nothing: what is evaluated is written."""

    def close(self) -> None:
        """Do nothing: nothing goes on beside this."""

    def finish(self) -> None:
        """Do nothing: what is evaluated is written."""

    def progress(self) -> Progress:
        """Say how many machines are evaluated."""
        left, total = self._left(), len(self._run.plan.pairs)
        done = total - len(left)
        return Progress(done, total, done / total, lambda: _names(left[:1]))


def _names(pairs: list[tuple[Setting, int]]) -> str:
    return ", ".join(f"{setting.task.name}, seed {seed}" for setting, seed in pairs)
