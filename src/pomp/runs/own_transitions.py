"""Stage 3 as a run, by a learning method of one's own: the transitions of one machine."""

from typing import Any

from numpy.typing import NDArray

from pomp.core.schemas import FREE, SCORE, Listed, Named, Record
from pomp.learning.methods import TransitionLearner
from pomp.runs.folder import METRICS_FILE, RunFolder
from pomp.runs.work import SAVE_SECONDS, IsStopped, Progress

OWN_CHECKPOINT = "transitions.safetensors"
_CHECKPOINT = Record({"learner": Named(FREE), "records": Listed(Named(SCORE))})


class OwnTransitionsRun:
    """The transitions of one machine, learned by a method of one's own, as one work.

    Attributes:
        learner: what learns.
        stage: what the work is called in events.
        records: what it noted of its pieces.
    """

    save_seconds = SAVE_SECONDS

    def __init__(self, learner: TransitionLearner, folder: RunFolder, stage: str) -> None:
        self.learner, self.stage, self._folder = learner, stage, folder
        self.records: list[dict[str, Any]] = []

    @property
    def is_finished(self) -> bool:
        """Whether there is nothing more to learn."""
        return bool(self.learner.is_finished)

    def open(self) -> None:
        """Take up the checkpoint if there is one.

        Raises:
            DataFileError: the checkpoint is damaged.
        """
        self._folder.make()
        self._folder.restore(self._take, OWN_CHECKPOINT)

    def _take(self, arrays: dict[str, NDArray[Any]], values: dict[str, Any]) -> None:
        """Go on from a checkpoint: its `arrays`, each of its own shape `[...]`, and its values."""
        _CHECKPOINT.check(values)
        self.learner.restore(arrays, values["learner"])
        self.records = values["records"]

    def advance(self, is_stopped: IsStopped) -> None:
        """Learn a piece."""
        record = self.learner.advance()
        if record is not None:
            self.records.append({name: float(number) for name, number in record.items()})

    def save(self) -> None:
        """Write a checkpoint, and a line for each record."""
        arrays, values = self.learner.to_arrays()
        self._folder.write_arrays(
            OWN_CHECKPOINT, arrays, {"learner": values, "records": self.records}
        )
        self._folder.write_lines(METRICS_FILE, self.records)

    def close(self) -> None:
        """Do nothing: nothing goes on beside this."""

    def finish(self) -> None:
        """Do nothing: the machine is written when it is evaluated."""

    def progress(self) -> Progress:
        """Say how much of its budget is used up."""
        return Progress(int(self.is_finished), 1, float(self.learner.progress), self._tell)

    def _tell(self) -> str:
        last = self.records[-1] if self.records else {}
        return ", ".join(f"{name} {number:.3f}" for name, number in last.items())
