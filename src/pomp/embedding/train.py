"""The training loop: resumable at every step, to the identical result.

Nothing here keeps random state: the order of programs, the noise and the worlds of every step are
keyed by (seed, epoch, phase, step). A checkpoint is the weights, the two optimisers and a position.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pomp._numba import write_atomically
from pomp.embedding.batches import (
    BehaviourBatch,
    DataOnDevice,
    Planes,
    ProgramBatch,
    grammar_states,
)
from pomp.embedding.config import MAX_GENERATED, TrainingConfig, differing_fields, to_json
from pomp.embedding.dataset import Dataset
from pomp.embedding.evaluate import compare_tokens, evaluate
from pomp.embedding.files import read_arrays, write_arrays
from pomp.embedding.graphs import Replayed
from pomp.embedding.losses import normalise
from pomp.embedding.model import EmbeddingModel, Posterior, initialise
from pomp.embedding.objective import (
    Terms,
    behaviour_rewards,
    reinforce_loss,
    show_originals,
    supervised_terms,
)
from pomp.embedding.space import Embedding, make_decoder
from pomp.embedding.weights import load_weights, save_weights
from pomp.errors import ConfigError, DataFileError, OutputError
from pomp.streams import Purpose, open_streams

STATE_FILE, WEIGHTS_FILE = "state.safetensors", "weights.safetensors"
CONFIG_FILE, METRICS_FILE = "config.json", "metrics.jsonl"
SAVE_SECONDS = 60.0  # at least so often; and after every epoch
_ORDER, _SUPERVISED, _REINFORCE, _VALIDATION, _PICK = range(5)  # phases, and what draws are for
_VALIDATED_AT_ONCE = 500
_STEP_DECAY, _DECAY_EPOCHS = 0.95, 10
_SUMS = tuple(field.name for field in fields(Terms))


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


@dataclass(frozen=True)
class Progress:
    """What a caller may show after every step."""

    epoch: int
    done: float
    """Share of the whole training."""
    line: str
    """The latest epoch's metrics."""


class Trainer:
    """Trains one model into one folder."""

    def __init__(
        self, config: TrainingConfig, dataset: Dataset, folder: Path, device: torch.device
    ) -> None:
        if config.model.vocabulary != dataset.config.vocabulary:
            raise ConfigError(
                f"the model reads the {config.model.vocabulary} vocabulary, the dataset has "
                f"{dataset.config.vocabulary}"
            )
        if min(config.batch, config.reinforce.batch) > dataset.config.train:
            raise ConfigError(
                f"a batch is larger than the {dataset.config.train} programs to learn"
            )
        if config.demonstrations > dataset.config.demonstrations:
            has = dataset.config.demonstrations
            raise ConfigError(f"the dataset has {has} demonstrations of each program")
        if dataset.config.validation < 1:
            raise ConfigError("the dataset has no validation split to choose a checkpoint by")
        self.config, self.dataset, self.folder, self.device = config, dataset, folder, device
        if device.type == "cuda":  # what cuBLAS needs to be deterministic, read when it starts
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        self.model = EmbeddingModel(config.model)
        initialise(self.model, config.seed)
        self.model.to(device)
        self.planes = Planes(config.model.channels).to(device)
        self.decoder = make_decoder(self.model)
        self.adam = self._make_adam(1e-8)
        self.reinforce_adam = self._make_adam(config.reinforce.adam_epsilon)
        self._descend = Replayed(self._descend_supervised, lambda: self._changed(self.adam))
        self._reward = Replayed(self._descend_reinforce, lambda: self._changed(self.reinforce_adam))
        self._measure = Replayed(self._validation_terms, list)
        self._place = Replayed(self._posterior, list)
        self.position = Position()
        self.sums = torch.zeros(len(_SUMS), device=device)
        self.reward_sum = 0.0
        self.judged: dict[str, Any] = {}
        self.train = DataOnDevice(dataset.split("train"), device)
        self.validation = DataOnDevice(dataset.split("validation"), device)
        self._train_ids = dataset.split("train").ids
        self._started = time.monotonic()
        self._saved = self._started
        self._order: tuple[int, int, NDArray[np.int64]] = (-1, -1, np.zeros(0, np.int64))

    def _make_adam(self, epsilon: float) -> torch.optim.Adam:
        weights = self.model.parameters()
        if self.device.type != "cuda":
            return torch.optim.Adam(weights, eps=epsilon)
        rate = torch.zeros((), device=self.device)  # a graph reads it anew in every replay
        return torch.optim.Adam(weights, lr=rate, eps=epsilon, fused=True, capturable=True)

    def _changed(self, adam: torch.optim.Adam) -> list[Tensor]:
        """What a step writes to."""
        states = (adam.state[weight] for weight in self.model.parameters() if weight in adam.state)
        kept = [value for state in states for value in state.values()]
        return [weight.data for weight in self.model.parameters()] + kept

    # One step at a time.

    def run(
        self,
        stop: Callable[[], bool],
        show: Callable[[Progress], None],
        log: Callable[[dict[str, Any]], None] = lambda metrics: None,
    ) -> bool:
        """Train until the end or until told to stop; returns whether it is finished.

        Args:
            stop: asked before every step; if it says so, a checkpoint is written and that is it.
            show: told after every step where the training is.
            log: told the metrics of every finished epoch.
        """
        line = ""
        with _exact(self.device):
            while self.position.epoch < self.config.epochs:
                if stop():
                    self.save()
                    return False
                if metrics := self._step():
                    log(metrics)
                    loss = metrics["validation"]["total"]
                    accuracy = metrics["greedy_program_accuracy"]
                    line = f"loss {loss:.4f}, programs right {accuracy:.1%}"
                if time.monotonic() - self._saved > SAVE_SECONDS:
                    self.save()
                epoch = self.position.epoch
                show(Progress(epoch, (epoch + self._share()) / self.config.epochs, line))
        return True

    def _step(self) -> dict[str, Any] | None:
        """One step of the current phase, or the change to the next; a finished epoch's metrics."""
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
        rows = self._rows(_SUPERVISED, config.batch)
        noise = self._noise(_SUPERVISED, at.step, len(rows))
        tensors = [noise, *vars(self.train.programs(rows)).values()]
        if config.behaviour:
            behaviours = self.train.behaviours(rows, self._pick(len(rows)))
            tensors += vars(behaviours).values()
        _set_rate(self.adam, self._learning_rate())
        self.sums += self._descend(*tensors)

    def _descend_supervised(self, noise: Tensor, *tensors: Tensor) -> Tensor:
        """One optimiser step on L_P and L_L; returns the terms."""
        terms = self._terms(noise, *tensors)
        self.adam.zero_grad(set_to_none=True)
        terms.total.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.adam.step()
        return terms.stacked()

    def _learning_rate(self) -> float:
        config, at = self.config, self.position
        if config.schedule == "cosine":
            done = (at.epoch + at.step / (len(self.train) // config.batch)) / config.epochs
            return config.learning_rate * 0.5 * (1 + float(np.cos(np.pi * done)))
        return float(config.learning_rate * _STEP_DECAY ** (at.epoch // _DECAY_EPOCHS))

    def _reinforce(self) -> None:
        config, at = self.config.reinforce, self.position
        vocabulary = self.model.vocabulary
        rows = self._rows(_REINFORCE, config.batch)
        programs = self.train.programs(rows)
        sampled = self._sample(programs)  # goes on on the GPU while the CPU does the next lines
        streams = open_streams(
            Purpose.TRAINING, self.config.seed, at.epoch, _REINFORCE, at.step, worlds=len(rows)
        )
        originals = show_originals(self._train_ids[rows], streams, vocabulary, config)
        ids = _with_def(sampled.cpu().numpy())
        rewards = behaviour_rewards(originals, ids, vocabulary, config)
        self.reward_sum += float(rewards.mean())
        worth = normalise(torch.from_numpy(rewards).to(self.device))
        noise = self._noise(_REINFORCE, 3 * at.step + 2, len(rows))
        decay = max(0.0, 1 - at.updates / config.decay_updates)
        _set_rate(self.reinforce_adam, config.learning_rate * decay)
        tensors = [worth, noise, *vars(programs).values(), *vars(self._as_batch(ids)).values()]
        size = config.batch // config.minibatches
        for first in range(0, config.batch, size):
            self._reward(*(tensor[first : first + size] for tensor in tensors))

    def _descend_reinforce(self, worth: Tensor, noise: Tensor, *tensors: Tensor) -> Tensor:
        """One optimiser step on L_R; returns it."""
        config = self.config.reinforce
        programs, written = ProgramBatch(*tensors[:3]), ProgramBatch(*tensors[3:])
        loss = reinforce_loss(self.model, programs, written, worth, noise, config)
        self.reinforce_adam.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.clip)
        self.reinforce_adam.step()
        return loss.detach()

    def _sample(self, originals: ProgramBatch) -> Tensor:
        """Programs sampled from the originals' posteriors: `[B, 45]` ids behind `DEF`."""
        count, at = len(originals.ids), self.position
        latent = self._latents(originals, self._noise(_REINFORCE, 3 * at.step, count))
        self.decoder.refresh(self.model)
        uniform = torch.rand(
            (MAX_GENERATED, count, len(self.model.vocabulary)),
            generator=self._generator(_REINFORCE, 3 * at.step + 1), device=self.device,
        )  # fmt: skip
        gumbel = -torch.log(-torch.log(uniform.clamp_(1e-20, 1 - 1e-7)))
        drawn: Tensor = self.decoder.decode(latent, gumbel)
        return drawn

    def _latents(self, programs: ProgramBatch, noise: Tensor) -> Tensor:
        """Latents sampled from programs' posteriors."""
        mean, log_sigma = self._place(programs.ids, programs.lengths)
        return self.model.sample(Posterior(mean, log_sigma), noise)

    def _posterior(self, ids: Tensor, lengths: Tensor) -> Tensor:
        with torch.no_grad():
            return torch.stack(self.model.posterior(ids, lengths))

    def _as_batch(self, ids: NDArray[np.uint8]) -> ProgramBatch:
        states = grammar_states(ids, self.model.vocabulary)
        lengths = (ids != self.model.vocabulary.pad).sum(axis=1)
        up = [torch.from_numpy(array).to(self.device).long() for array in (ids, lengths, states)]
        return ProgramBatch(*up)

    # Validation.

    def _greedy_accuracy(self) -> float:
        """Share of validation programs that come back whole; their latents are sampled."""
        rows = np.arange(len(self.validation))
        programs = self.validation.programs(rows)
        latent = self._latents(programs, self._noise(_VALIDATION, 0, len(rows)))
        self.decoder.refresh(self.model)
        generated = self.decoder.decode(latent).cpu().numpy()
        ids = programs.ids.cpu().numpy().astype(np.uint8)
        return float(compare_tokens(generated, ids, self.dataset)[0].mean())

    def _validate(self) -> dict[str, float]:
        """Mean losses over the validation split."""
        sums = torch.zeros(len(_SUMS), device=self.device)
        every = np.arange(self.validation.demonstrations)
        for first in range(0, len(self.validation), _VALIDATED_AT_ONCE):
            rows = np.arange(first, min(first + _VALIDATED_AT_ONCE, len(self.validation)))
            noise = self._noise(_VALIDATION, 1 + first, len(rows))
            tensors = [noise, *vars(self.validation.programs(rows)).values()]
            if self.config.behaviour:
                behaviours = self.validation.behaviours(rows, np.tile(every, (len(rows), 1)))
                tensors += vars(behaviours).values()
            sums += len(rows) * self._measure(*tensors)
        return dict(zip(_SUMS, (sums / len(self.validation)).tolist(), strict=True))

    def _validation_terms(self, noise: Tensor, *tensors: Tensor) -> Tensor:
        with torch.no_grad():
            return self._terms(noise, *tensors).stacked()

    def _terms(self, noise: Tensor, *tensors: Tensor) -> Terms:
        config = self.config
        programs = ProgramBatch(*tensors[:3])
        behaviours = BehaviourBatch(*tensors[3:]) if config.behaviour else None
        return supervised_terms(
            self.model, self.planes, programs, behaviours, noise, config.beta, config.behaviour
        )

    def _judge(self) -> None:
        """Validate after the supervised steps; keep the weights if they are the best so far."""
        at, config = self.position, self.config
        losses = self._validate()
        means = (self.sums / (len(self.train) // config.batch)).tolist()
        self.judged = {
            "epoch": at.epoch,
            "train": dict(zip(_SUMS, means, strict=True)),
            "validation": losses,
            "greedy_program_accuracy": self._greedy_accuracy(),
            "learning_rate": self._learning_rate(),
        }
        if losses["total"] < at.best:
            self.position = replace(at, best=losses["total"], best_epoch=at.epoch)
            save_weights(self.folder / WEIGHTS_FILE, self.model, {"metrics": self.judged})

    def _finish_epoch(self) -> dict[str, Any]:
        at, updates = self.position, len(self.train) // self.config.reinforce.batch
        metrics = dict(self.judged)
        if self._is_rewarded:
            metrics["reward"] = self.reward_sum / max(updates, 1)
            metrics["greedy_program_accuracy_after_reinforce"] = self._greedy_accuracy()
        metrics["seconds"] = round(at.seconds + time.monotonic() - self._started, 3)
        with (self.folder / METRICS_FILE).open("a") as file:
            file.write(json.dumps(metrics) + "\n")
        self.sums.zero_()
        self.reward_sum, self.judged = 0.0, {}
        self.position = replace(at, epoch=at.epoch + 1, phase=_SUPERVISED, step=0)
        self.save()
        return metrics

    # Draws.

    def _rows(self, phase: int, size: int) -> NDArray[np.int64]:
        at = self.position
        if self._order[:2] != (at.epoch, phase):
            keys = open_streams(
                Purpose.TRAINING, self.config.seed, at.epoch, phase, _ORDER, worlds=len(self.train)
            )
            self._order = (at.epoch, phase, np.argsort(keys, kind="stable"))
        return self._order[2][at.step * size : (at.step + 1) * size]

    def _pick(self, rows: int) -> NDArray[np.int64]:
        """Which demonstrations of each program a step looks at."""
        wanted, there = self.config.demonstrations, self.train.demonstrations
        if wanted == there:
            return np.tile(np.arange(there), (rows, 1))
        at = self.position
        keys = open_streams(
            Purpose.TRAINING, self.config.seed, at.epoch, _PICK, at.step, worlds=rows * there
        )
        return np.argsort(keys.reshape(rows, there), axis=1, kind="stable")[:, :wanted]

    def _generator(self, phase: int, step: int) -> torch.Generator:
        key = open_streams(
            Purpose.TRAINING, self.config.seed, self.position.epoch, phase, worlds=1, first=step
        )
        return torch.Generator(self.device).manual_seed(int(key[0] >> np.uint64(1)))

    def _noise(self, phase: int, step: int, rows: int) -> Tensor:
        shape = (rows, self.config.model.latent)
        generator = self._generator(phase, step)
        return torch.randn(shape, generator=generator, device=self.device)

    # The folder.

    def begin(self) -> None:
        """Make the folder of a new run.

        Raises:
            OutputError: it exists, or cannot be made.
        """
        if self.folder.exists():
            raise OutputError(f"'{self.folder}' exists; name a new folder, or --resume it")
        try:
            self.folder.mkdir(parents=True)
            write_atomically(
                self.folder / CONFIG_FILE, json.dumps(self._description(), indent=2).encode()
            )
        except OSError as error:
            raise OutputError(f"cannot write '{self.folder}': {error.strerror}") from error

    def _description(self) -> dict[str, Any]:
        return {"training": to_json(self.config), "dataset": to_json(self.dataset.config)}

    def save(self) -> None:
        """Write a checkpoint; the one before survives if this fails."""
        now = time.monotonic()
        self.position = replace(self.position, seconds=self.position.seconds + now - self._started)
        self._started = self._saved = now
        arrays = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        names = [name for name, _ in self.model.named_parameters()]
        for prefix, adam in (("adam", self.adam), ("reinforce", self.reinforce_adam)):
            for index, state in adam.state_dict()["state"].items():
                for key, value in state.items():
                    arrays[f"{prefix}.{names[index]}.{key}"] = value
        arrays["sums"] = self.sums
        header = {
            "position": vars(self.position),
            "config": self._description(),
            "reward_sum": self.reward_sum,
            "judged": self.judged,
        }
        plain = {name: value.detach().cpu().numpy() for name, value in arrays.items()}
        write_arrays(self.folder / STATE_FILE, plain, header)

    def resume(self) -> None:
        """Go on from the folder's checkpoint, or from the beginning if there is none yet.

        Raises:
            ConfigError: the run was begun with another config.
            DataFileError: there is no run, or its files are damaged.
        """
        before = read_config(self.folder)
        if differing := differing_fields(before, json.loads(json.dumps(self._description()))):
            raise ConfigError(f"'{self.folder}' was begun otherwise: {'; '.join(differing)}")
        if not (self.folder / STATE_FILE).exists():
            (self.folder / METRICS_FILE).unlink(missing_ok=True)
            return
        arrays, header = read_arrays(self.folder / STATE_FILE, "training state")
        try:
            self._restore(arrays, header)
        except (KeyError, TypeError, RuntimeError, ValueError) as error:
            raise DataFileError(f"'{self.folder / STATE_FILE}' is damaged ({error})") from error
        kept = [line for line in read_metrics(self.folder) if line["epoch"] < self.position.epoch]
        text = "".join(json.dumps(line) + "\n" for line in kept)
        write_atomically(self.folder / METRICS_FILE, text.encode())

    def _restore(self, arrays: dict[str, NDArray[Any]], header: dict[str, Any]) -> None:
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        groups: dict[str, dict[str, Tensor]] = {"model": {}, "adam": {}, "reinforce": {}}
        for name, tensor in tensors.items():
            if name != "sums":
                prefix, rest = name.split(".", 1)
                groups[prefix][rest] = tensor
        self.model.load_state_dict(groups["model"])
        names = [name for name, _ in self.model.named_parameters()]
        for prefix, adam in (("adam", self.adam), ("reinforce", self.reinforce_adam)):
            states: dict[int, dict[str, Tensor]] = {}
            for name, tensor in groups[prefix].items():
                parameter, key = name.rsplit(".", 1)
                states.setdefault(names.index(parameter), {})[key] = tensor
            groups_now = adam.state_dict()["param_groups"]
            adam.load_state_dict({"state": states, "param_groups": groups_now})
        self.sums = tensors["sums"].to(self.device)
        self.reward_sum = float(header["reward_sum"])
        self.judged = dict(header["judged"])
        self.position = Position(**header["position"])

    def finish(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Measure the best weights on the test split and write their card; returns it.

        Args:
            facts: what the caller knows of commit and hardware.
        """
        path = self.folder / WEIGHTS_FILE
        trained = load_weights(path)
        embedding = Embedding(trained.model, self.device.type)
        test = self.dataset.split("test")
        card = {
            "data": {**to_json(self.dataset.config), "draws": self.dataset.draws},
            "recipe": to_json(self.config),
            "epoch": self.position.best_epoch,
            "wall_seconds": round(self.position.seconds, 1),
            "validation": trained.card["metrics"],
            "test": evaluate(embedding, test) if len(test) else {},
            **facts,
        }
        save_weights(path, trained.model, card)
        return card


def is_finished(folder: Path) -> bool:
    """Whether the folder holds a training that has come to its end."""
    path = folder / WEIGHTS_FILE
    return path.is_file() and "recipe" in load_weights(path).card


def read_card(folder: Path) -> dict[str, Any]:
    """The card of a finished training's weights."""
    return load_weights(folder / WEIGHTS_FILE).card


def read_config(folder: Path) -> dict[str, Any]:
    """The config a run was begun with."""
    try:
        config = json.loads((folder / CONFIG_FILE).read_text())
    except (OSError, ValueError) as error:
        raise DataFileError(f"'{folder}' holds no training run ({error})") from error
    return dict(config)


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The metrics of a run's epochs; a line that was cut short is left out."""
    path = folder / METRICS_FILE
    lines = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            lines.append(json.loads(line))
        except ValueError:
            break
    return lines


def _set_rate(adam: torch.optim.Adam, rate: float) -> None:
    for group in adam.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def _with_def(generated: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """`DEF` before the generated tokens."""
    return np.concatenate([np.zeros((len(generated), 1), np.uint8), generated], axis=1)


@contextmanager
def _exact(device: torch.device) -> Iterator[None]:
    """On a GPU: deterministic kernels, and products in TF32, which training can bear."""
    if device.type != "cuda":
        yield
        return
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    memory: Any = torch.utils.deterministic
    before = (
        matmul.allow_tf32, cudnn.allow_tf32, cudnn.deterministic,
        torch.are_deterministic_algorithms_enabled(),
        memory.fill_uninitialized_memory,
    )  # fmt: skip
    matmul.allow_tf32 = cudnn.allow_tf32 = cudnn.deterministic = True
    torch.use_deterministic_algorithms(True)
    memory.fill_uninitialized_memory = False  # no kernel here reads any
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32, cudnn.deterministic = before[:3]
        torch.use_deterministic_algorithms(before[3])
        memory.fill_uninitialized_memory = before[4]
