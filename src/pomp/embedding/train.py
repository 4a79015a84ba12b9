"""Training an embedding, step by step; it can go on from any step to the identical result.

A checkpoint is the weights, the two optimisers and a position: what a step draws depends on its
position alone. `pomp.runs.embeddings` keeps it in a folder.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pomp.core.configs import to_json
from pomp.core.errors import ConfigError, DataFileError
from pomp.core.graphs import exact, prepare
from pomp.core.schemas import COUNT, NUMBER, SCORE, Listed, Number, Record, Schema, Whole, like
from pomp.embedding.batches import DataOnDevice, ProgramBatch, grammar_states
from pomp.embedding.checkpoint import arrays_of, put_arrays
from pomp.embedding.config import MAX_GENERATED, DatasetConfig, TrainingConfig
from pomp.embedding.dataset import Dataset
from pomp.embedding.decoder_step import DEF
from pomp.embedding.draws import Draws, For
from pomp.embedding.evaluate import compare_tokens, evaluate_embedding
from pomp.embedding.losses import normalise
from pomp.embedding.model import EmbeddingModel
from pomp.embedding.objective import behaviour_rewards, show_originals
from pomp.embedding.space import Embedding, make_decoder
from pomp.embedding.steps import TERMS, Steps
from pomp.embedding.weights import Trained

_SUPERVISED, _REINFORCE = range(2)  # phases of an epoch
_JUDGED = ("epoch", "train", "validation", "greedy_program_accuracy", "learning_rate")
_VALIDATED_AT_ONCE = 500
_STEP_DECAY, _DECAY_EPOCHS = 0.95, 10


@dataclass(frozen=True)
class Position:
    """What comes next, and what is known of the epoch so far."""

    epoch: int = 0
    phase: int = _SUPERVISED
    step: int = 0
    updates: int = 0
    """Reinforce updates so far, in all epochs."""
    best: float = float("inf")
    """Lowest validation loss so far."""
    best_epoch: int = -1
    seconds: float = 0.0
    """Wall-clock so far."""


class _StoppedError(Exception):
    """The caller wants to stop; what was begun is done again when the training goes on."""


Keep = Callable[[EmbeddingModel, dict[str, Any]], None]
"""Told the weights with the lowest validation loss so far, and the metrics of their epoch."""


class Trainer:
    """Trains one model.

    Attributes:
        model: the networks in training.
        position: what comes next.
        records: the metrics of every finished epoch.
    """

    def __init__(self, config: TrainingConfig, dataset: Dataset, device: str, keep: Keep) -> None:
        check_fit(config, dataset.config)
        self.device = torch.device(device)
        prepare(self.device)
        self.config, self.dataset, self._keep = config, dataset, keep
        self.steps = Steps(config, self.device)
        self.model = self.steps.model
        self.decoder = make_decoder(self.model)
        self.train = DataOnDevice(dataset.split("train"), self.device)
        self.validation = DataOnDevice(dataset.split("validation"), self.device)
        self.position = Position()
        self.records: list[dict[str, Any]] = []
        self.sums = torch.zeros(len(TERMS), device=self.device)
        self.reward_sum = 0.0
        self.judged: dict[str, Any] = {}
        self._draws = Draws(config.seed, self.device)
        self._stop: Callable[[], bool] = lambda: False
        self._started = time.monotonic()

    @property
    def is_finished(self) -> bool:
        """Whether all epochs are over."""
        return self.position.epoch >= self.config.epochs

    @property
    def share(self) -> float:
        """How much of the training is done, from 0 to 1."""
        return min(1.0, (self.position.epoch + self._share()) / self.config.epochs)

    def step(self, is_stopped: Callable[[], bool]) -> bool:
        """Do one step, unless it is told to stop; returns whether an epoch has ended.

        Args:
            is_stopped: asked before the step, and now and then while it validates; what was begun
                then is done again when the training goes on.
        """
        self._stop = is_stopped
        with exact(self.device):
            try:
                return self._step() is not None
            except _StoppedError:
                return False

    def _step(self) -> dict[str, Any] | None:
        """One step of the current phase, or the change to the next; a finished epoch's metrics."""
        if self._stop():
            raise _StoppedError
        at, config = self.position, self.config
        if at.phase == _SUPERVISED and at.step < len(self.train) // config.batch:
            self._supervise()
            self.position = replace(at, step=at.step + 1)
        elif at.phase == _SUPERVISED:
            self._judge()
            self.position = replace(self.position, phase=_REINFORCE, step=0)
        elif self._is_rewarded and at.step < len(self.train) // config.reinforce.batch:
            self._reinforce()
            self.position = replace(at, step=at.step + 1, updates=at.updates + 1)
        else:
            return self._finish_epoch()
        return None

    @property
    def _is_rewarded(self) -> bool:
        """Whether this epoch, which is judged already, gets a reinforce pass."""
        accuracy: float = self.judged["greedy_program_accuracy"]
        return accuracy >= self.config.reinforce.start_accuracy

    def _share(self) -> float:
        first, second = len(self.train) // self.config.batch, 0
        if self.config.reinforce.start_accuracy <= 1:
            second = len(self.train) // self.config.reinforce.batch
        done = self.position.step + first * (self.position.phase == _REINFORCE)
        return done / max(first + second, 1)

    def _supervise(self) -> None:
        config, at = self.config, self.position
        rows = self._rows(For.SUPERVISED, config.batch)
        behaviours = None
        if config.behaviour:
            counts = (config.demonstrations, self.train.demonstrations)
            which = self._draws.pick(at.epoch, at.step, len(rows), *counts)
            behaviours = self.train.behaviours(rows, which)
        noise = self._noise(For.SUPERVISED, at.step, len(rows))
        programs = self.train.programs(rows)
        self.sums += self.steps.step_optimizer(programs, behaviours, noise, self._learning_rate())

    def _rows(self, phase: For, size: int) -> NDArray[np.int64]:
        """Draw the programs of this step's batch: their rows `[B]` in the training split."""
        at = self.position
        return self._draws.rows(at.epoch, phase, at.step, size, len(self.train))

    def _noise(self, purpose: For, step: int, rows: int) -> Tensor:
        """Draw standard normal noise `[B, Z]` for the latents of so many rows."""
        latent = self.config.model.latent
        return self._draws.normal(self.position.epoch, purpose, step, rows, latent)

    def _learning_rate(self) -> float:
        config, at = self.config, self.position
        if config.schedule == "cosine":
            done = (at.epoch + at.step / (len(self.train) // config.batch)) / config.epochs
            return config.learning_rate * 0.5 * (1 + float(np.cos(np.pi * done)))
        return float(config.learning_rate * _STEP_DECAY ** (at.epoch // _DECAY_EPOCHS))

    def _reinforce(self) -> None:
        config, at = self.config.reinforce, self.position
        vocabulary = self.model.vocabulary
        rows = self._rows(For.REINFORCE, config.batch)
        programs = self.train.programs(rows)
        sampled = self._sample(programs)  # goes on on the GPU while the CPU does the next lines
        streams = self._draws.worlds(at.epoch, at.step, len(rows))
        originals = show_originals(self.train.ids[rows], streams, vocabulary, config)
        ids = _with_def(sampled.cpu().numpy())
        rewards = behaviour_rewards(originals, ids, vocabulary, config)
        self.reward_sum += float(rewards.mean())
        worth = normalise(torch.from_numpy(rewards).to(self.device))
        noise = self._noise(For.FRESH, at.step, len(rows))
        rate = config.learning_rate * max(0.0, 1 - at.updates / config.decay_updates)
        self.steps.reinforce(programs, self._as_batch(ids), worth, noise, rate)

    def _sample(self, originals: ProgramBatch) -> Tensor:
        """Programs sampled from the originals' posteriors: `[B, 45]` ids behind `DEF`."""
        count, at = len(originals.ids), self.position
        latent = self.steps.sample(originals, self._noise(For.REINFORCE, at.step, count))
        self.decoder.refresh(self.model)
        shape = (MAX_GENERATED, count, len(self.model.vocabulary))
        gumbel = self._draws.gumbel(at.epoch, For.TOKENS, at.step, *shape)
        drawn: Tensor = self.decoder.decode(latent, gumbel)
        return drawn

    def _as_batch(self, ids: NDArray[np.uint8]) -> ProgramBatch:
        """Prepare programs, `ids` `[B, L]` uint8 with `DEF` first, for the networks."""
        states = grammar_states(ids, self.model.grammar)
        lengths = (ids != self.model.vocabulary.pad).sum(axis=1)
        up = [torch.from_numpy(array).to(self.device).long() for array in (ids, lengths, states)]
        return ProgramBatch(*up)

    # Validation.

    def _greedy_accuracy(self) -> float:
        """Share of validation programs that come back whole; their latents are sampled."""
        rows = np.arange(len(self.validation))
        programs = self.validation.programs(rows)
        latent = self.steps.sample(programs, self._noise(For.VALIDATION, 0, len(rows)))
        self.decoder.refresh(self.model)
        generated = self.decoder.decode(latent).cpu().numpy()
        ids = programs.ids.cpu().numpy().astype(np.uint8)
        return float(compare_tokens(generated, ids, self.model.vocabulary.pad)[0].mean())

    def _validate(self) -> dict[str, float]:
        """Mean losses over the validation split."""
        sums = torch.zeros(len(TERMS), device=self.device)
        every = np.arange(self.validation.demonstrations)
        for first in range(0, len(self.validation), _VALIDATED_AT_ONCE):
            if self._stop():
                raise _StoppedError
            rows = np.arange(first, min(first + _VALIDATED_AT_ONCE, len(self.validation)))
            noise = self._noise(For.VALIDATION, 1 + first, len(rows))
            behaviours = None
            if self.config.behaviour:
                behaviours = self.validation.behaviours(rows, np.tile(every, (len(rows), 1)))
            terms = self.steps.measure(self.validation.programs(rows), behaviours, noise)
            sums += len(rows) * terms
        return dict(zip(TERMS, (sums / len(self.validation)).tolist(), strict=True))

    def _judge(self) -> None:
        """Validate after the supervised steps; keep the weights if they are the best so far."""
        at, config = self.position, self.config
        losses = self._validate()
        if not np.isfinite(losses["total"]):
            raise ConfigError(
                f"the training diverged in epoch {at.epoch + 1}: its loss is not a number; "
                "try a smaller learning_rate"
            )
        means = (self.sums / (len(self.train) // config.batch)).tolist()
        trained = dict(zip(TERMS, means, strict=True))
        found = (at.epoch, trained, losses, self._greedy_accuracy(), self._learning_rate())
        self.judged = dict(zip(_JUDGED, found, strict=True))
        if losses["total"] < at.best:
            self.position = replace(at, best=losses["total"], best_epoch=at.epoch)
            self._keep(self.model, self.judged)

    def _finish_epoch(self) -> dict[str, Any]:
        at, updates = self.position, len(self.train) // self.config.reinforce.batch
        metrics = dict(self.judged)
        if self._is_rewarded:
            metrics["reward"] = self.reward_sum / max(updates, 1)
            metrics["greedy_program_accuracy_after_reinforce"] = self._greedy_accuracy()
        metrics["seconds"] = round(at.seconds + time.monotonic() - self._started, 3)
        self.records.append(metrics)
        self.sums.zero_()
        self.reward_sum, self.judged = 0.0, {}
        self.position = replace(at, epoch=at.epoch + 1, phase=_SUPERVISED, step=0)
        return metrics

    # Checkpoints.

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return what a checkpoint needs: arrays, each of its own shape `[...]`, and values."""
        now = time.monotonic()
        self.position = replace(self.position, seconds=self.position.seconds + now - self._started)
        self._started = now
        values = {
            "position": vars(self.position),
            "reward_sum": self.reward_sum,
            "judged": self.judged,
            "records": self.records,
        }
        return arrays_of(self.model, self.steps.optimizers, {"sums": self.sums}), values

    def restore(self, arrays: dict[str, NDArray[Any]], values: dict[str, Any]) -> None:
        """Go on where `to_arrays` was called; `arrays` have their own shapes `[...]`.

        Raises:
            DataFileError: they are damaged, or those of another training.
        """
        self._checkpoint_schema().check(values)
        like(self.sums.cpu().numpy()).check(arrays["sums"], "the array sums")
        position = Position(**values["position"])
        if position.phase == _REINFORCE and set(values["judged"]) != set(_JUDGED):
            raise DataFileError("its epoch was not judged")
        others = put_arrays(arrays, self.model, self.steps.optimizers)
        self.sums = others["sums"].to(self.device)
        self.reward_sum = float(values["reward_sum"])
        self.judged, self.records = values["judged"], values["records"]
        self.position = position

    def _checkpoint_schema(self) -> Record:
        """Return what the values of a checkpoint may be."""
        epoch, losses = Whole(0, self.config.epochs), Record(dict.fromkeys(TERMS, SCORE))
        of_epoch = (epoch, losses, losses, NUMBER, NUMBER)
        metrics: dict[str, Schema] = dict(zip(_JUDGED, of_epoch, strict=True))
        position: dict[str, Schema] = {"epoch": epoch, "step": COUNT, "updates": COUNT}
        position |= {"phase": Whole(_SUPERVISED, _REINFORCE), "best": SCORE}
        position |= {"best_epoch": Whole(-1, self.config.epochs), "seconds": Number(0.0, 1e12)}
        return Record(
            {
                "position": Record(position),
                "reward_sum": NUMBER,
                "judged": Record({}, metrics),
                "records": Listed(Record(metrics, is_open=True)),
            }
        )

    # The end.

    def make_card(
        self, best: Trained, facts: dict[str, Any], report: Callable[[int], None] | None = None
    ) -> dict[str, Any]:
        """Measure the best weights on the test split and describe them.

        Args:
            best: the weights that were kept last.
            facts: what the caller knows of commit and hardware.
            report: told how many test programs were imitated since it was last called.
        """
        embedding = Embedding(best.model, self.device.type)
        test = self.dataset.split("test")
        return {
            "data": {**to_json(self.dataset.config), "draws": self.dataset.draws},
            "recipe": to_json(self.config),
            "epoch": self.position.best_epoch,
            "wall_seconds": round(self.position.seconds, 1),
            "validation": best.card["metrics"],
            "test": evaluate_embedding(embedding, test, report=report) if len(test) else {},
            **facts,
        }


def check_fit(config: TrainingConfig, data: DatasetConfig) -> None:
    """Refuse a training that the dataset is not made for."""
    if config.model.vocabulary != data.vocabulary:
        wanted, got = config.model.vocabulary, data.vocabulary
        raise ConfigError(f"the model reads the {wanted} vocabulary, the dataset has {got}")
    batches = {"batch": config.batch}
    if config.reinforce.start_accuracy <= 1:
        batches["reinforce.batch"] = config.reinforce.batch
    for name, size in batches.items():
        if size > data.train:
            raise ConfigError(f"{name} is {size}, but there are {data.train} programs to learn")
    if config.demonstrations > data.demonstrations:
        wanted_count, there = config.demonstrations, data.demonstrations
        raise ConfigError(f"demonstrations is {wanted_count}, but the dataset has {there}")
    if data.validation < 1:
        raise ConfigError("the dataset has no validation split to choose a checkpoint by")


def _with_def(generated: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Put `DEF` before the tokens: `generated` `[B, L]` uint8 becomes `[B, L + 1]`."""
    return np.concatenate([np.full((len(generated), 1), DEF, np.uint8), generated], axis=1)
