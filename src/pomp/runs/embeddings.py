"""Stage 1 as a run: an embedding's data, its training, and its test.

The folder has `metrics.jsonl` with a line for each epoch, `weights.safetensors`, the best weights
so far, whose card is complete once the run is finished, and `state.safetensors`, the checkpoint.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pomp.core.configs import from_json, to_json
from pomp.core.cuda import check_device
from pomp.core.errors import DataFileError
from pomp.core.extras import LEARN, require
from pomp.core.schemas import FREE
from pomp.embedding.config import DatasetConfig, TrainingConfig
from pomp.embedding.dataset import Dataset, make_dataset
from pomp.embedding.weights import load_weights, save_weights
from pomp.runs.asked import plan_before
from pomp.runs.extending import Growth
from pomp.runs.folder import METRICS_FILE, STATE_FILE, RunFolder, take_fields
from pomp.runs.kept import read_metrics
from pomp.runs.work import IsStopped, OnEvent, Progress, Stages, Watch, Work, drive

if TYPE_CHECKING:
    from pomp.embedding.train import Trainer

WEIGHTS_FILE = "weights.safetensors"


class EmbeddingRun:
    """The training of one embedding in one folder.

    Attributes:
        folder: where it is kept.
        was_finished: whether an earlier run had come to its end, and `run` did nothing.
    """

    def __init__(
        self,
        training: TrainingConfig,
        data: DatasetConfig | Dataset,
        out: str | Path,
        device: str = "cpu",
    ) -> None:
        """Plan a training.

        Args:
            training: its settings.
            data: a dataset, or the settings by which one is made first.
            out: the folder.
            device: cpu, cuda or auto.

        Raises:
            ConfigError: training and data do not fit.
            MissingExtraError: torch is not installed.
        """
        require(LEARN, "an embedding's training")
        from pomp.embedding.train import check_fit

        self.training, self.folder, self.device = training, RunFolder(out), check_device(device)
        self.dataset = data if isinstance(data, Dataset) else None
        self.data = data.config if isinstance(data, Dataset) else data
        self.was_finished = False
        check_fit(training, self.data)

    @classmethod
    def begun(cls, out: str | Path, device: str = "cpu") -> "EmbeddingRun":
        """Return the run in a folder, as it was begun.

        Args:
            out: the folder.
            device: cpu or cuda.

        Raises:
            DataFileError: there is none, or its config is damaged.
        """
        found = plan_before(RunFolder(out), "embedding", _read, resume=True, trusted=tuple)
        if found is None:
            raise DataFileError(f"'{out}' holds no run that could be resumed: it was never begun")
        return cls(*found, out, device)

    def describe(self) -> dict[str, Any]:
        """Return the config that a resumed training must have, too."""
        return {"training": to_json(self.training), "dataset": to_json(self.data)}

    def run(
        self, facts: dict[str, Any], *, resume: bool = False, on_event: OnEvent | None = None
    ) -> bool:
        """Make the data, train, and test the best weights; returns whether it came to its end.

        Args:
            facts: what the caller knows of commit and hardware, for the card.
            resume: go on with the run in the folder; more epochs extend it, even a finished one.
            on_event: told of progress; if it returns True, the run is saved and stops.

        Raises:
            ConfigError: the folder was begun otherwise, or the training diverged.
            OutputError: the folder exists, or cannot be written.
            DataFileError: there is no run to resume, or its files are damaged.
        """
        with closing(self.folder):
            self.folder.open("embedding", self.describe, resume=resume, growth=self._growth())
            self.was_finished = self.card() is not None
            return self.was_finished or drive(Stages(self._works(facts)), Watch(on_event))

    def _growth(self) -> Growth:
        """Return what a resumed training may have more of: epochs."""
        return Growth({"training.epochs": self.training.schedule != "cosine"}, self._reopen)

    def _reopen(self, _: Collection[str]) -> None:
        """Take the test of a training that goes on now off its best weights."""
        card = self.card()
        if card is not None:
            assert self.folder.path is not None
            path = self.folder.path / WEIGHTS_FILE
            save_weights(path, load_weights(path).model, {"metrics": card["validation"]})

    def card(self) -> dict[str, Any] | None:
        """Return the card of the weights if the run has come to its end."""
        assert self.folder.path is not None
        return read_card(self.folder.path)

    def _works(self, facts: dict[str, Any]) -> Iterator[Work]:
        if self.dataset is None:
            making = _MakingData(self.data)
            yield making
            self.dataset = making.dataset
        assert self.dataset is not None
        training = self.train_on(self.dataset)
        yield training
        yield _TestingEmbedding(self, training.trainer, facts)

    def train_on(self, dataset: Dataset) -> "EmbeddingTraining":
        """Return the work that trains on a dataset."""
        from pomp.embedding.train import Trainer

        return EmbeddingTraining(self, Trainer(self.training, dataset, self.device, self._keep))

    def _keep(self, model: Any, metrics: dict[str, Any]) -> None:
        assert self.folder.path is not None
        save_weights(self.folder.path / WEIGHTS_FILE, model, {"metrics": metrics})


def _read(config: Mapping[str, Any], _: object) -> tuple[TrainingConfig, DatasetConfig]:
    """Read what `EmbeddingRun.describe` returned."""
    training, dataset = take_fields(config, {"training": FREE, "dataset": FREE})
    return from_json(TrainingConfig, training), from_json(DatasetConfig, dataset)


class _Piece:
    """A work of one piece, which is done again if it was cut short."""

    save_seconds = float("inf")

    def __init__(self, stage: str, total: int) -> None:
        self.stage, self._total, self._done, self.is_finished = stage, max(total, 1), 0, False

    def open(self) -> None:
        """Do nothing: there is nothing to take up."""

    def advance(self, is_stopped: IsStopped) -> None:
        """Do all of it."""

        def report(count: int) -> None:
            self._done += count
            is_stopped()

        self._do(report)
        self.is_finished = True

    def _do(self, report: Callable[[int], None]) -> None:
        raise AssertionError

    def save(self) -> None:
        """Do nothing: there is nothing to keep."""

    def close(self) -> None:
        """Do nothing: nothing goes on beside this."""

    def finish(self) -> None:
        """Do nothing: the piece wrote its result."""

    def progress(self) -> Progress:
        """Say how many programs are done."""
        return Progress(self._done, self._total, min(1.0, self._done / self._total))


class _MakingData(_Piece):
    """The dataset of a training."""

    def __init__(self, config: DatasetConfig) -> None:
        super().__init__("programs", config.programs)
        self._config = config
        self.dataset: Dataset | None = None

    def _do(self, report: Callable[[int], None]) -> None:
        self.dataset = make_dataset(self._config, report)


class _TestingEmbedding(_Piece):
    """The test of the best weights, which completes their card."""

    def __init__(self, run: EmbeddingRun, trainer: "Trainer", facts: dict[str, Any]) -> None:
        super().__init__("testing", run.data.test)
        self._run, self._trainer, self._facts = run, trainer, facts

    def _do(self, report: Callable[[int], None]) -> None:
        assert self._run.folder.path is not None
        path = self._run.folder.path / WEIGHTS_FILE
        best = load_weights(path)
        save_weights(path, best.model, self._trainer.make_card(best, self._facts, report))


class EmbeddingTraining:
    """The epochs of a training, step by step.

    Attributes:
        trainer: what does the steps.
    """

    stage, save_seconds = "training", 60.0

    def __init__(self, run: EmbeddingRun, trainer: "Trainer") -> None:
        self._run, self.trainer, self._folder = run, trainer, run.folder

    @property
    def is_finished(self) -> bool:
        """Whether all epochs are over."""
        return self.trainer.is_finished

    def open(self) -> None:
        """Take up the checkpoint if there is one.

        Raises:
            DataFileError: the checkpoint is damaged.
        """
        self._folder.restore(self.trainer.restore)
        self._folder.write_lines(METRICS_FILE, self.trainer.records)

    def advance(self, is_stopped: IsStopped) -> None:
        """Do one step; after an epoch's last one, write its metrics and a checkpoint."""
        if self.trainer.step(is_stopped):
            self._folder.write_lines(METRICS_FILE, self.trainer.records)
            self.save()

    def save(self) -> None:
        """Write a checkpoint; the one before survives if this fails."""
        self._folder.write_arrays(STATE_FILE, *self.trainer.to_arrays())

    def close(self) -> None:
        """Do nothing: nothing goes on beside this."""

    def finish(self) -> None:
        """Do nothing: the best weights are written."""

    def progress(self) -> Progress:
        """Say how many epochs are over."""
        epoch, epochs = self.trainer.position.epoch, self.trainer.config.epochs
        return Progress(epoch, epochs, self.trainer.share, self._tell)

    def _tell(self) -> str:
        if not self.trainer.records:
            return ""
        latest = self.trainer.records[-1]
        loss, accuracy = latest["validation"]["total"], latest["greedy_program_accuracy"]
        return f"loss {loss:.4f}, programs right {accuracy:.1%}"


def read_epochs(folder: Path) -> list[dict[str, Any]]:
    """Return the metrics of a run's epochs, up to the first line that is damaged or cut short."""
    records = read_metrics(folder, "epoch", "train", "validation", "greedy_program_accuracy")
    return list(takewhile(_has_losses, records))


def _has_losses(record: dict[str, Any]) -> bool:
    """Whether the metrics of an epoch have all terms of the loss, for both splits."""
    require(LEARN, "the run of an embedding")
    from pomp.embedding.steps import TERMS

    splits = (record["train"], record["validation"])
    return all(isinstance(one, dict) and set(TERMS) <= set(one) for one in splits)


def read_card(folder: Path) -> dict[str, Any] | None:
    """Return the card of a run's weights if it has come to its end.

    Raises:
        DataFileError: the weights are damaged.
    """
    path = folder / WEIGHTS_FILE
    card = load_weights(path).card if path.is_file() else {}
    return card if "recipe" in card else None
