"""Settings of stage 3: PPO, validation, and the presets.

Defaults are the paper's; where paper and published code disagree, the field says how.
"""

from dataclasses import dataclass, field
from typing import Any

from pomp.core.configs import (
    ADDED,
    MOST,
    changed,
    check_flags,
    check_parts,
    check_preset,
    check_ranges,
)
from pomp.core.errors import ConfigError
from pomp.machine.config import EpisodeConfig, NetworkConfig, QuantisingConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class PpoConfig:
    """Proximal policy optimisation of the transitions."""

    total: int = 20_000_000
    """Macro steps of the whole training."""
    actors: int = 32
    """Worlds played side by side."""
    steps: int = 32
    """Macro steps of each actor in a rollout."""
    minibatch: int = 32
    """Macro steps in a gradient step. Published code: 8. For a network that remembers, a multiple
    of `steps`: whole sequences."""
    epochs: int = 4
    """Passes over a rollout."""
    clip_ratio: float = 0.05
    """How far the ratio of a choice's new probability to its old one may move from 1 in an update;
    also how far the value may move."""
    clip_value: bool = True
    """Whether the value is clipped, too."""
    discount: float = 0.99
    """Factor of the value one macro step later."""
    gae_lambda: float = 0.95
    """Factor, beside the discount, of the advantage one macro step later."""
    value_weight: float = 0.5
    """Weight of the value's loss, which has another one half."""
    entropy: float = 0.01
    """Weight of the entropy in the loss. Paper: 0.1."""
    step_cost: float = 0.0
    """Taken from the reward of every macro step in training, so that idling is not free. Paper and
    published code: none."""
    reward_scale: float = field(default=1.0, metadata=ADDED)
    """What rewards are multiplied by in training. Paper and published code: 1, with which values
    are so small that their gradients hardly count beside those of the choices."""
    learning_rate: float = 1e-3
    """Learning rate of Adam. Paper: the best of 1e-1 to 1e-5."""
    decay: bool = True
    """Whether the learning rate falls to zero over the training, in a line."""
    adam_epsilon: float = 1e-5
    """Added to the root of Adam's second moment."""
    gradient_norm: float = 0.5
    """The norm to which longer gradients are cut."""

    def __post_init__(self) -> None:
        check_ranges(self, total=(1, 10**13), actors=(1, 1_000_000), steps=(1, 100_000))
        check_ranges(self, minibatch=(1, MOST), epochs=(1, 1000), clip_ratio=(1e-9, 1e6))
        check_ranges(self, discount=(0.0, 1.0), gae_lambda=(0.0, 1.0), value_weight=(0.0, 1e6))
        check_ranges(self, entropy=(0.0, 1e6), learning_rate=(1e-30, 1e3), step_cost=(0.0, 1e6))
        check_ranges(self, reward_scale=(1e-6, 1e6))
        check_ranges(self, adam_epsilon=(1e-30, 1.0), gradient_norm=(1e-9, 1e9))
        check_flags(self, "clip_value", "decay")
        if self.rollout % self.minibatch:
            raise ConfigError(
                f"a rollout of {self.rollout} macro steps does not divide into mini-batches of "
                f"{self.minibatch}"
            )

    @property
    def rollout(self) -> int:
        """The macro steps of a rollout, those of all actors together."""
        return self.actors * self.steps

    @property
    def updates(self) -> int:
        """The rollouts of the whole training."""
        return max(1, self.total // self.rollout)


@dataclass(frozen=True, kw_only=True, slots=True)
class TeachingConfig:
    """What transitions learn from a planner before PPO begins. Paper: nothing."""

    steps: int = 0
    """Gradient steps of all rounds; 0: PPO begins with first weights that were drawn."""
    rounds: int = 6
    """In the first round the planner shows what it chooses, with random modes in between; in each
    other one the network runs most modes, and the planner shows what it would choose there."""
    choices: int = 10_000
    """Choices that are shown in a round at least, in whole episodes."""
    variety: float = 0.15
    """The share of the planner's plans instead of which a random mode runs in the first round."""
    lead: float = 0.8
    """The same of what the network chooses, in later rounds."""
    batch: int = 256
    """Choices in a gradient step, of all that were shown so far."""
    learning_rate: float = 4e-3
    """Learning rate of Adam, which falls to zero in a line."""
    value_weight: float = 10.0
    """Weight of the error of values, beside that of choices."""

    def __post_init__(self) -> None:
        check_ranges(self, steps=(0, 100_000_000), rounds=(1, 1000), choices=(1, 10_000_000))
        check_ranges(self, variety=(0.0, 1.0), lead=(0.0, 1.0), batch=(1, 1_000_000))
        check_ranges(self, learning_rate=(1e-30, 1e3), value_weight=(0.0, 1e6))


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidationConfig:
    """How the best transitions of a training are found."""

    every: int = 128
    """Updates between validations."""
    episodes: int = 32
    """Episodes of each validation, with choices drawn as in training."""
    needs_end: bool = True
    """Keep only transitions with which at least one episode of the validation ended by choice."""
    patience: int = 0
    """Stop after so many validations without a better one; 0: go on to the end."""

    def __post_init__(self) -> None:
        check_ranges(self, every=(1, MOST), episodes=(1, 1_000_000), patience=(0, MOST))
        check_flags(self, "needs_end")


@dataclass(frozen=True, kw_only=True, slots=True)
class LearningConfig:
    """All settings of stage 3."""

    episode: EpisodeConfig = field(default_factory=EpisodeConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    ppo: PpoConfig = field(default_factory=PpoConfig)
    validation: ValidationConfig = field(default_factory=ValidationConfig)
    alone: bool = False
    """Train another machine that has only the mode that earned most in the search; the better
    machine by validation is kept."""

    tries: int = field(default=1, metadata=ADDED)
    """How often the transitions of each machine are learned, side by side, from other first weights
    and starts; the best by validation are kept. Paper: once."""
    quantising: QuantisingConfig = field(default_factory=QuantisingConfig, metadata=ADDED)
    teaching: TeachingConfig = field(default_factory=TeachingConfig, metadata=ADDED)

    def __post_init__(self) -> None:
        check_flags(self, "alone")
        check_ranges(self, tries=(1, 1000))
        check_parts(self, episode=EpisodeConfig, network=NetworkConfig, ppo=PpoConfig)
        check_parts(self, validation=ValidationConfig, quantising=QuantisingConfig)
        check_parts(self, teaching=TeachingConfig)
        if self.teaching.steps and (self.network.memory or self.network.inputs != "grid+mode"):
            raise ConfigError(
                "a planner teaches networks that see grid and mode and have no memory; "
                "teaching.steps must be 0 here"
            )
        ppo = self.ppo
        if self.network.memory and ppo.minibatch % ppo.steps:
            raise ConfigError(
                f"a network that remembers learns from whole sequences of {ppo.steps} steps; "
                f"ppo.minibatch must be a multiple of ppo.steps, got {ppo.minibatch}"
            )


_PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    "code": {"ppo.minibatch": 8, "network.hidden": 16, "episode.last_words": True},
    "best": {
        "ppo.actors": 128,
        "ppo.minibatch": 256,
        "ppo.total": 1_000_000,
        "validation.every": 8,
        "validation.patience": 8,
        "alone": True,
    },
}


def configure_learning(preset: str, changes: dict[str, Any] | None = None) -> LearningConfig:
    """Return the settings of a preset with some fields changed.

    Args:
        preset: its name.
        changes: new values by the names of the fields, as `ppo.entropy`.

    Raises:
        UnknownNameError: no such preset or field.
        ConfigError: a value that does not fit.
    """
    check_preset(preset)
    config: LearningConfig = changed(LearningConfig(), {**_PRESETS[preset], **(changes or {})})
    return config
