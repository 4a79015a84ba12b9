"""Settings of the dataset, the model and its training. Defaults are the paper's recipe."""

from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, TypeVar

from pomp.errors import ConfigError

MAX_GENERATED = 45
"""Tokens a decoder generates after `DEF`."""

VOCABULARIES = ("leaps", "hprl")
MOST_PROGRAMS, MOST_SEED = 100_000_000, (1 << 63) - 1

Config = TypeVar("Config")


def _check_range(name: str, value: float, low: float, high: float) -> None:
    """Refuse a number outside a range, and NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ConfigError(f"{name} must be from {low:g} to {high:g}, got {value}")


def _check_whole(config: object, **ranges: tuple[int, int]) -> None:
    """Refuse fields that are not whole numbers within their ranges."""
    for name, (low, high) in ranges.items():
        value = getattr(config, name)
        if not isinstance(value, int):
            raise ConfigError(f"{name} must be a whole number, got {value}")
        _check_range(name, value, low, high)


def _check_choice(name: str, value: object, known: tuple[object, ...]) -> None:
    if value not in known:
        listed = ", ".join(map(str, known))
        raise ConfigError(f"{name} must be one of {listed}, got '{value}'")


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetConfig:
    """Which random programs are kept, and how their behaviour is shown."""

    train: int = 35_000
    """Programs to learn from."""
    validation: int = 7_500
    """Programs that choose the checkpoint."""
    test: int = 7_500
    """Programs that are looked at once, at the end."""
    seed: int = 0
    """The same seed gives the same file, byte for byte."""
    vocabulary: Literal["leaps", "hprl"] = "leaps"
    """The dialect, with its probabilities and, for hprl, its filters."""
    max_tokens: int = 44
    """Longest program, `DEF` included."""
    max_depth: int = 6
    """A statement deeper than this becomes an action."""
    max_nesting: int = 4
    """A statement inside more loops and branches than this becomes an action."""
    demonstrations: int = 10
    """Demonstrations of each program; one with fewer is dropped."""
    trials: int = 100
    """Random worlds a program is tried on to find them."""
    least_states: int = 4
    """A demonstration with fewer states is kept only if it shows something new, or by a coin."""
    most_states: int = 20
    """A demonstration with more states is not kept; the first state counts."""
    walls: float = 0.1
    """Probability that an inner cell is a wall."""
    markers: float = 0.1
    """Probability that a free cell holds a marker."""

    def __post_init__(self) -> None:
        _check_choice("vocabulary", self.vocabulary, VOCABULARIES)
        splits = dict.fromkeys(("train", "validation", "test"), (0, MOST_PROGRAMS))
        _check_whole(self, **splits, seed=(0, MOST_SEED), max_tokens=(5, MAX_GENERATED))
        _check_whole(self, max_depth=(0, 100), max_nesting=(0, 100), trials=(1, 1_000_000))
        _check_whole(self, demonstrations=(1, min(1000, self.trials)))
        _check_whole(self, most_states=(1, 200), least_states=(1, self.most_states))
        _check_range("walls", self.walls, 0, 1)
        _check_range("markers", self.markers, 0, 1)
        if self.programs < 1:
            raise ConfigError("train, validation and test are all 0: nothing to make")

    @property
    def programs(self) -> int:
        """Programs in all."""
        return self.train + self.validation + self.test


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig:
    """Shape of the networks. The defaults are LEAPS's, which POMP uses."""

    vocabulary: Literal["leaps", "hprl"] = "leaps"
    """The dialect whose tokens are read and written."""
    latent: int = 256
    """Numbers that stand for a program."""
    width: int = 256
    """Of the encoder's and the decoder's GRU; if it is not `latent`, two linear maps join them."""
    policy_width: int = 256
    """Of the condition policy."""
    channels: Literal[8, 16] = 16
    """Planes of a world the condition policy sees."""
    noise: float = 1.0
    """Standard deviation of the noise that sigma scales."""
    tanh: bool = False
    """Squash the sampled latent into (-1, 1)."""

    def __post_init__(self) -> None:
        _check_choice("vocabulary", self.vocabulary, VOCABULARIES)
        _check_choice("channels", self.channels, (8, 16))
        sizes = dict.fromkeys(("latent", "width", "policy_width"), (1, 4096))
        _check_whole(self, **sizes)
        _check_range("noise", self.noise, 0, 1000)


HPRL_MODEL = ModelConfig(
    vocabulary="hprl", latent=64, policy_width=64, channels=8, noise=0.1, tanh=True
)
"""The model of the HPRL baseline."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReinforceConfig:
    """The pass that rewards decoded programs for behaving like the original."""

    start_accuracy: float = 0.8
    """Greedy program accuracy on the validation split from which on an epoch gets the pass; above
    1: never."""
    batch: int = 512
    """Programs sampled for one update."""
    minibatches: int = 2
    """Optimiser steps an update is cut into."""
    learning_rate: float = 5e-5
    """Falls linearly to zero over `decay_updates`. Paper: silent; the published code says 5e-4,
    which here takes the programs that come back whole from 82 % to under 1 % in every pass."""
    decay_updates: int = 19_531
    """Updates after which the learning rate would be zero."""
    adam_epsilon: float = 1e-5
    """Of the pass's own Adam."""
    clip: float = 0.5
    """Largest norm of the gradient."""
    entropy: float = 0.1
    """Weight of the mean entropy of a token."""
    kl: float = 0.1
    """Weight of the KL term."""
    states: int = 10
    """Random worlds on which behaviours are compared."""
    trials: int = 1000
    """Random worlds tried to find them."""
    walls: float = 0.25
    """Probability that an inner cell of such a world is a wall."""
    most_states: int = 100
    """States of the original's behaviour at most."""

    def __post_init__(self) -> None:
        _check_whole(self, batch=(2, MOST_PROGRAMS), minibatches=(1, self.batch))
        _check_whole(self, decay_updates=(1, 10**12), trials=(1, 1_000_000))
        _check_whole(self, states=(1, min(1000, self.trials)), most_states=(1, 200))
        for name in ("start_accuracy", "entropy", "kl"):
            _check_range(name, getattr(self, name), 0, 1000)
        for name in ("learning_rate", "adam_epsilon", "clip"):
            _check_range(name, getattr(self, name), 1e-30, 1000)
        _check_range("walls", self.walls, 0, 1)
        if self.batch % self.minibatches:
            raise ConfigError(f"batch, {self.batch}, must be a multiple of {self.minibatches}")


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingConfig:
    """How the model is trained on a dataset."""

    epochs: int = 150
    """Passes over the training split."""
    batch: int = 256
    """Programs in a step; the rest of an epoch that fills no batch is left out."""
    learning_rate: float = 1e-3
    """Of Adam, in the supervised steps."""
    schedule: Literal["steps", "cosine"] = "steps"
    """steps: times 0.95 every ten epochs. cosine: down to zero at the last epoch."""
    beta: float = 0.1
    """Weight of the KL term, a mean over latent dimensions."""
    behaviour: float = 1.0
    """Weight of the latent behaviour reconstruction; 0 leaves it out."""
    demonstrations: int = 10
    """Demonstrations of each program in a step; fewer than there are: drawn afresh in each."""
    seed: int = 0
    """Of the first weights, the order of programs and the noise."""
    model: ModelConfig = field(default_factory=ModelConfig)
    reinforce: ReinforceConfig = field(default_factory=ReinforceConfig)

    def __post_init__(self) -> None:
        _check_choice("schedule", self.schedule, ("steps", "cosine"))
        _check_whole(self, epochs=(1, 1_000_000), batch=(1, MOST_PROGRAMS), seed=(0, MOST_SEED))
        _check_whole(self, demonstrations=(1, 1000))
        _check_range("learning_rate", self.learning_rate, 1e-30, 1000)
        _check_range("beta", self.beta, 0, 1e6)
        _check_range("behaviour", self.behaviour, 0, 1e6)


def to_json(config: Any) -> dict[str, Any]:
    """A config as plain values."""
    return asdict(config)


def from_json(kind: type[Config], values: dict[str, Any]) -> Config:
    """A config from plain values.

    Raises:
        ConfigError: a field is missing, unknown or has a value it cannot have.
    """
    known = {entry.name: entry for entry in fields(kind)}  # type: ignore[arg-type]  # a dataclass
    if not isinstance(values, dict) or set(values) != set(known):
        got = ", ".join(sorted(set(values) ^ set(known))) if isinstance(values, dict) else "nothing"
        raise ConfigError(f"{kind.__name__} needs its fields and no others; differing: {got}")
    nested = {"model": ModelConfig, "reinforce": ReinforceConfig}
    parts = {
        name: from_json(nested[name], value) if name in nested else value
        for name, value in values.items()
    }
    try:
        return kind(**parts)
    except TypeError as error:
        raise ConfigError(f"{kind.__name__} has a field of the wrong type: {error}") from error


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """A dataset and a training on it."""

    dataset: DatasetConfig = field(default_factory=DatasetConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)


PAPER = Recipe()
"""The paper's sizes and losses."""

BEST = Recipe(
    dataset=DatasetConfig(train=1_000_000, validation=10_000, test=10_000),
    training=TrainingConfig(
        epochs=18,
        batch=512,
        schedule="cosine",
        demonstrations=4,
        reinforce=ReinforceConfig(start_accuracy=2.0),
    ),
)
"""More programs, fewer passes, a learning rate that falls to zero."""
