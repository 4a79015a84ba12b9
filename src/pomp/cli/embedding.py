"""`pomp embedding`: make data, train, describe, measure and look into it."""

import json
import subprocess
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Fixed, OmitSubcommandPrefixes, Positional, Suppress, arg, subcommand

from pomp.cli.inputs import Device, check_output, check_seed
from pomp.cli.output import say
from pomp.cli.progress import ProgressLine
from pomp.cli.space import EmbeddingInterpolation, EmbeddingSpace
from pomp.cli.stopping import check_minutes, how_to_resume, showing
from pomp.core.configs import changed
from pomp.core.errors import ConfigError
from pomp.core.extras import LEARN, require
from pomp.embedding.config import BEST, HPRL_RECIPE, PAPER, RECIPES, DatasetConfig, Recipe

_OF_RECIPE = ("--dataset.", "--training.")  # how its options begin
_PAPER = "The paper's recipe."
_BEST = "The best recipe known here."
_HPRL = "The embedding of the HPRL baseline: its language, 64 numbers a program."


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
        path = check_output(self.out)
        from pomp.embedding.dataset import REFERENCE, dataset_statistics
        from pomp.embedding.dataset_file import save_dataset

        dataset = _make(self.config)
        save_dataset(dataset, path)
        found: dict[str, Any] = {"programs": len(dataset), "draws": dataset.draws}
        found |= {"bytes": path.stat().st_size}
        if self.stats:
            found["stats"] = dataset_statistics(dataset)
        if self.json:
            say(json.dumps(found))
            return 0
        say(f"{self.out}: {len(dataset)} of {dataset.draws} drawn programs, {found['bytes']} B")
        if self.stats:
            is_leaps = self.config.vocabulary == "leaps"
            say(f"{'':<24} {'here':>10} {'reference' if is_leaps else '':>10}")
            for name, value in found["stats"].items():
                beside = f" {REFERENCE[name]:>10.4g}" if is_leaps else ""
                say(f"{name:<24} {value:>10.4g}{beside}")
            say("after the filters, lengths and shares depend on the number of draws: short")
            say("programs are drawn early and counted once; the reference is of about 30,000")
        return 0


@dataclass(frozen=True)
class AsBegun:
    """With --resume, the recipe that the folder was begun with; else the paper's."""


@dataclass(frozen=True, kw_only=True)
class EmbeddingTrain:
    """Train an embedding. Ctrl-C saves; --resume goes on to the identical result."""

    out: str
    """The run's folder; a new one unless --resume is given."""
    recipe: (
        Annotated[Recipe, arg(name=""), subcommand("paper", default=PAPER, description=_PAPER)]
        | Annotated[Recipe, arg(name=""), subcommand("best", default=BEST, description=_BEST)]
        | Annotated[
            Recipe, arg(name=""), subcommand("hprl", default=HPRL_RECIPE, description=_HPRL)
        ]
        | Annotated[AsBegun, subcommand("as-begun")]
    ) = field(default_factory=AsBegun)
    data: str | None = None
    """A dataset file; without one the recipe's dataset is made first."""
    device: Device = "cpu"
    """Where to train."""
    resume: bool = False
    """Go on with the run in the folder. What is not given is as it was begun; what is given must
    be as it was, but more epochs extend it: --resume paper --training.epochs 200."""
    minutes: float | None = None
    """Stop after so many minutes, saved, to be resumed."""
    tensorboard: bool = False
    """Also write the metrics as event files for TensorBoard, into the run's folder."""
    json: bool = False
    """Print one JSON document."""
    arguments: Suppress[Fixed[tuple[str, ...]]] = ()
    """The words of the command, which say what of a recipe was given."""

    def run(self) -> int:
        """Train, then measure the best weights on the test split."""
        check_minutes(self.minutes)
        from pomp.runs.embeddings import EmbeddingRun

        recipe = self.recipe if isinstance(self.recipe, Recipe) else PAPER
        if self.resume:
            begun = EmbeddingRun.begun(self.out, self.device)
            recipe = self._go_on_with(Recipe(dataset=begun.data, training=begun.training))
        data = self._load(recipe) or recipe.dataset
        run = EmbeddingRun(recipe.training, data, self.out, self.device)
        with showing(self.minutes, self.out if self.tensorboard else None) as (shown, stop):
            is_done = run.run(_provenance(run.device), resume=self.resume, on_event=shown)
        if not is_done:
            return self._stopped(stop.status)
        card = run.card()
        assert card is not None
        how = "was finished before" if run.was_finished else "finished"
        return self._report(Path(self.out), card, how)

    def _go_on_with(self, before: Recipe) -> Recipe:
        """Return the recipe that a folder was begun with, but for what is given now."""
        if not isinstance(self.recipe, Recipe):
            return before
        for name in ("training.schedule", "training.model.vocabulary"):
            now, had = attrgetter(name)(self.recipe), attrgetter(name)(before)
            if now != had:
                raise ConfigError(
                    f"'{self.out}' was begun with another recipe: {name} is {had}, not {now}"
                )
        options = [word.partition("=")[0] for word in self.arguments if word.startswith(_OF_RECIPE)]
        names = [option.removeprefix("--").replace("-", "_") for option in options]
        found: Recipe = changed(before, {name: attrgetter(name)(self.recipe) for name in names})
        return found

    def _load(self, recipe: Recipe) -> Any:
        """The dataset of --data, if there is one."""
        if self.data is None:
            return None
        from pomp.embedding.dataset_file import load_dataset

        dataset = load_dataset(Path(self.data))
        plain = [known.dataset for known in RECIPES.values()]
        if recipe.dataset not in (*plain, dataset.config) and not self.resume:
            raise ConfigError("--data and --dataset.* contradict each other; give one of them")
        return dataset

    def _stopped(self, status: int) -> int:
        """Say how far a training is that is not finished; returns the status it ends with."""
        from pomp.runs.embeddings import read_epochs

        epoch = len(read_epochs(Path(self.out)))
        if self.json:
            say(json.dumps({"finished": False, "epoch": epoch}))
        else:
            how = how_to_resume("pomp embedding train", self.out)
            say(f"stopped in epoch {epoch + 1}; {how}")
        return status

    def _report(self, folder: Path, card: dict[str, Any], how: str) -> int:
        if self.json:
            say(json.dumps(card))
            return 0
        say(f"{folder}: {how}, best epoch {card['epoch'] + 1}, {card['wall_seconds']:.0f} s")
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
        from pomp.embedding.weights import data_of, find_weights, load_weights, shipped_names

        names = shipped_names() if self.name is None else [self.name]
        trained = {name: load_weights(find_weights(name)) for name in names}
        if self.json:
            cards = {
                name: {"parameters": one.model.parameter_counts(), **one.card}
                for name, one in trained.items()
            }
            say(json.dumps(cards))
            return 0
        for name, one in trained.items():
            model, count = one.model.config, one.model.parameter_counts()["total"]
            is_default = " (the default)" if [name] == shipped_names()[:1] else ""
            say(f"{name}{is_default}: {model.vocabulary}, latent {model.latent}, {count:,} weights")
            if "data" in one.card:
                data, draws = data_of(one.card)
                say(f"  data         {data.train:,} of {draws:,} drawn programs to learn from")
            for fact in ("recipe", "epoch", "commit", "hardware", "wall_seconds"):
                if fact in one.card:
                    say(f"  {fact:<12} {_shown(one.card[fact])}")
            _print_metrics(one.card.get("test"), "  test         ")
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
    device: Device = "cpu"
    """Where to run."""
    json: bool = False
    """Print one JSON document."""

    def run(self) -> int:
        """Print the measures."""
        require(LEARN, "an embedding")
        import numpy as np

        from pomp.embedding.dataset import draw_fresh
        from pomp.embedding.evaluate import evaluate_embedding
        from pomp.embedding.space import Embedding
        from pomp.embedding.weights import data_of

        if not 1 <= self.programs <= 1_000_000:
            raise ConfigError(f"--programs must be from 1 to 1,000,000, got {self.programs}")
        check_seed(self.seed)
        embedding = Embedding.load(self.name, self.device)
        config, draws = data_of(embedding.card)
        if self.split == "test":
            whole = _make(config).split("test")
            dataset = whole.take(np.arange(min(self.programs, len(whole))))
        else:
            dataset = draw_fresh(config, self.programs, self.seed, draws=draws)
        progress = ProgressLine("programs", len(dataset))
        try:
            found = evaluate_embedding(
                embedding, dataset, self.seed, lambda n: progress.step(parts=n)
            )
        finally:
            progress.close()
        if self.json:
            say(json.dumps({**found, "programs": len(dataset), "split": self.split}))
        else:
            _print_metrics(found)
        return 0


Embedding = (
    Annotated[EmbeddingDataset, subcommand("dataset")]
    | Annotated[OmitSubcommandPrefixes[EmbeddingTrain], subcommand("train")]
    | Annotated[EmbeddingInfo, subcommand("info")]
    | Annotated[EmbeddingEval, subcommand("eval")]
    | Annotated[EmbeddingSpace, subcommand("space")]
    | Annotated[EmbeddingInterpolation, subcommand("interpolation")]
)


def _make(config: DatasetConfig) -> Any:
    """Make a dataset, with progress."""
    from pomp.embedding.dataset import make_dataset

    progress = ProgressLine("programs", config.programs)
    try:
        return make_dataset(config, lambda found: progress.step(parts=found))
    finally:
        progress.close()


def _shown(fact: Any) -> str:
    """A fact of a card in a line."""
    if not isinstance(fact, dict):
        return str(fact)
    plain = {name: value for name, value in fact.items() if not isinstance(value, dict)}
    return ", ".join(f"{name} {value}" for name, value in plain.items())


_MEASURES = (
    *("program_accuracy", "token_accuracy", "action_accuracy", "demo_accuracy"),
    *("parse_rate", "smoothness"),
)


def _print_metrics(metrics: Any, indent: str = "") -> None:
    if isinstance(metrics, dict):
        shown = [f"{name} {metrics[name]:.4f}" for name in _MEASURES if name in metrics]
        say(f"{indent}{', '.join(shown)}")


def _provenance(device: str) -> dict[str, str]:
    """Commit, versions and hardware, for a card."""
    import torch

    from pomp.core.hardware import describe_hardware

    machine = describe_hardware(device)
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
