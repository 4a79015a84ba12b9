"""`pomp embedding`: make data, train, describe and measure."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Literal

from tyro.conf import OmitSubcommandPrefixes, Positional, arg, subcommand

from pomp.cli.inputs import check_output
from pomp.cli.progress import Progress
from pomp.embedding.config import BEST, PAPER, DatasetConfig, Recipe
from pomp.errors import ConfigError

_PAPER = "The paper's recipe."
_BEST = "The best recipe known here."


@dataclass(frozen=True, kw_only=True)
class EmbeddingDataset:
    """Make a dataset of random programs and demonstrations: one file, the same on any machine."""

    out: str
    """The file to write."""
    config: Annotated[DatasetConfig, arg(name="")] = field(default_factory=DatasetConfig)
    stats: bool = False
    """Print the dataset's numbers beside those of an independent re-implementation."""
    json: bool = False
    """Print one JSON document."""

    def run(self) -> int:
        """Write the file."""
        from pomp.embedding.dataset import PUBLISHED, describe, make_dataset, save_dataset

        path = check_output(self.out)
        progress = Progress("programs", self.config.programs)
        try:
            dataset = make_dataset(self.config, lambda found: progress.step(parts=found))
        finally:
            progress.close()
        save_dataset(dataset, path)
        found: dict[str, Any] = {"programs": len(dataset), "draws": dataset.draws}
        found |= {"bytes": path.stat().st_size}
        if self.stats:
            found["stats"] = describe(dataset)
        if self.json:
            print(json.dumps(found))
            return 0
        print(f"{self.out}: {len(dataset)} of {dataset.draws} drawn programs, {found['bytes']} B")
        if self.stats:
            print(f"{'':<24} {'here':>10} {'published':>10}")
            for name, value in found["stats"].items():
                print(f"{name:<24} {value:>10.4g} {PUBLISHED[name]:>10.4g}")
            print("shares and lengths after the filters rise with the number of draws: short")
            print("programs are drawn early and only once; the published ones are of few draws")
        return 0


@dataclass(frozen=True, kw_only=True)
class EmbeddingTrain:
    """Train an embedding. Ctrl-C saves; --resume goes on to the identical result."""

    out: str
    """The run's folder; a new one unless --resume is given."""
    recipe: (
        Annotated[Recipe, arg(name=""), subcommand("paper", default=PAPER, description=_PAPER)]
        | Annotated[Recipe, arg(name=""), subcommand("best", default=BEST, description=_BEST)]
    ) = field(default_factory=Recipe)
    data: str | None = None
    """A dataset file; without one the recipe's dataset is made first."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where to train."""
    resume: bool = False
    """Go on with the run in the folder."""
    minutes: float | None = None
    """Stop after so many minutes, saved, to be resumed."""
    tensorboard: bool = False
    """Also write the metrics for TensorBoard, into the run's folder."""
    json: bool = False
    """Print one JSON document."""

    def run(self) -> int:
        """Train, then measure the best weights on the test split."""
        import torch

        from pomp._cuda import check_device
        from pomp.embedding.checkpoint import check_new, finished_card, read_config
        from pomp.embedding.dataset import load_dataset, make_dataset
        from pomp.embedding.train import Trainer

        if self.minutes is not None and self.minutes <= 0:
            raise ConfigError(f"--minutes must be positive, got {self.minutes}")
        folder = Path(self.out)
        if self.resume and (card := finished_card(folder)):
            return self._report(folder, card, "was finished before")
        check_device(self.device)
        if self.resume:
            read_config(folder)
        else:
            check_new(folder)
        dataset = load_dataset(Path(self.data)) if self.data else make_dataset(self.recipe.dataset)
        trainer = Trainer(self.recipe.training, dataset, folder, torch.device(self.device))
        if self.resume:
            trainer.resume()
        else:
            trainer.begin()
        log = _tensorboard(folder) if self.tensorboard else None
        progress = Progress("training", self.recipe.training.epochs)
        with _stopping(self.minutes) as stop:
            try:
                is_done = trainer.run(
                    stop,
                    lambda at: progress.share(at.epoch, at.done, at.line),
                    log or (lambda metrics: None),
                )
            finally:
                progress.close()
        if not is_done:
            position = trainer.position
            print(f"stopped in epoch {position.epoch + 1}; go on with --resume")
            return 130
        card = trainer.finish(_provenance(self.device))
        return self._report(folder, card, "finished")

    def _report(self, folder: Path, card: dict[str, Any], how: str) -> int:
        if self.json:
            print(json.dumps(card))
            return 0
        print(f"{folder}: {how}, best epoch {card['epoch'] + 1}, {card['wall_seconds']:.0f} s")
        _print_metrics(card["test"])
        return 0


@dataclass(frozen=True, kw_only=True)
class EmbeddingInfo:
    """Describe embeddings: data, recipe, hardware, wall-clock, metrics on the test split."""

    name: Positional[str | None] = None
    """Shipped weights or a file; without it, all that are shipped."""
    json: bool = False
    """Print one JSON document."""

    def run(self) -> int:
        """Print the cards."""
        from pomp.embedding.weights import find_weights, load_weights, shipped_names

        names = [self.name] if self.name else shipped_names()
        trained = {name: load_weights(find_weights(name)) for name in names}
        if self.json:
            cards = {
                name: {"parameters": one.model.parameter_counts(), **one.card}
                for name, one in trained.items()
            }
            print(json.dumps(cards))
            return 0
        for name, one in trained.items():
            card, counts = one.card, one.model.parameter_counts()
            is_default = " (the default)" if [name] == shipped_names()[:1] else ""
            print(f"{name}{is_default}: {counts['total']:,} parameters")
            data, recipe = card.get("data", {}), card.get("recipe", {})
            if data:
                print(f"  data      {data['train']:,} programs, up to {data['max_tokens']} tokens")
                print(f"  recipe    {recipe['epochs']} epochs, epoch {card['epoch'] + 1} kept")
                print(f"  made      {card.get('commit')}, {card.get('hardware')}")
                print(f"  took      {card['wall_seconds']:.0f} s")
            _print_metrics(card.get("test", {}), "  test      ")
        return 0


@dataclass(frozen=True, kw_only=True)
class EmbeddingEval:
    """Measure an embedding on fresh programs that are in none of its splits."""

    name: Positional[str | None] = None
    """Shipped weights or a file; without it, the best that is shipped."""
    programs: int = 2000
    """How many programs."""
    seed: int = 0
    """Of the programs, the latents and the worlds."""
    split: Literal["fresh", "test"] = "fresh"
    """fresh: new programs. test: the first of the held-out split, made again."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where to run."""
    json: bool = False
    """Print one JSON document."""

    def run(self) -> int:
        """Print the measures."""
        import numpy as np

        from pomp.embedding.config import from_json
        from pomp.embedding.dataset import draw_fresh, make_dataset
        from pomp.embedding.evaluate import evaluate
        from pomp.embedding.space import Embedding

        if self.programs < 1 or self.seed < 0:
            raise ConfigError("--programs must be at least 1, --seed not negative")
        embedding = Embedding.load(self.name, self.device)
        data = embedding.card.get("data")
        if not data:
            raise ConfigError("these weights do not say what they were trained on: no card")
        config = from_json(DatasetConfig, {key: data[key] for key in data if key != "draws"})
        if self.split == "test":
            whole = make_dataset(config).split("test")
            dataset = whole.take(np.arange(min(self.programs, len(whole))))
        else:
            dataset = draw_fresh(config, self.programs, self.seed, draws=data["draws"])
        progress = Progress("programs", len(dataset))
        try:
            found = evaluate(embedding, dataset, self.seed, lambda n: progress.step(parts=n))
        finally:
            progress.close()
        if self.json:
            print(json.dumps({**found, "programs": len(dataset), "split": self.split}))
        else:
            _print_metrics(found)
        return 0


Embedding = (
    Annotated[EmbeddingDataset, subcommand("dataset")]
    | Annotated[OmitSubcommandPrefixes[EmbeddingTrain], subcommand("train")]
    | Annotated[EmbeddingInfo, subcommand("info")]
    | Annotated[EmbeddingEval, subcommand("eval")]
)


def _print_metrics(metrics: dict[str, float], indent: str = "") -> None:
    if metrics:
        shown = ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())
        print(f"{indent}{shown}")


@contextmanager
def _stopping(minutes: float | None) -> Iterator[Any]:
    """A function that says whether to stop: after some time, or at the first Ctrl-C."""
    import time

    asked: list[int] = []
    end = None if minutes is None else time.monotonic() + 60 * minutes

    def ask(number: int, frame: FrameType | None) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked) or (end is not None and time.monotonic() > end)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _tensorboard(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ConfigError(f"--tensorboard needs 'pip install tensorboard' ({error})") from error
    writer = SummaryWriter(str(folder / "tensorboard"))

    def log(metrics: dict[str, Any]) -> None:
        flat = {key: value for key, value in metrics.items() if not isinstance(value, dict)}
        for split in ("train", "validation"):
            flat |= {f"{split}/{key}": value for key, value in metrics[split].items()}
        for key, value in flat.items():
            writer.add_scalar(key, value, metrics["epoch"])
        writer.flush()

    return log


def _provenance(device: str) -> dict[str, str]:
    """Commit, versions and hardware, for a card."""
    import torch

    from pomp.bench.machine import describe_machine

    machine = describe_machine(device)
    found = subprocess.run(
        ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return {
        "commit": found.stdout.strip() or "unknown",
        "pomp": machine["pomp"],
        "hardware": machine["processor"],
        "date": machine["date"],
        "torch": torch.__version__,
        "numpy": machine["numpy"],
    }
