"""Settings of a machine: how it acts, the network that may choose its modes, its bottlenecks.

Defaults are the paper's; where paper and published code disagree, the field says how.
"""

from dataclasses import dataclass, field
from typing import Literal

from pomp.core.configs import ADDED, check_choices, check_flags, check_parts, check_ranges
from pomp.core.errors import ConfigError
from pomp.engine.units import DEFAULT_CAP
from pomp.karel.interpreter import Cap

Inputs = Literal["grid+mode", "grid", "perceptions+mode"]
Recipe = Literal["decisions", "paper"]

MAX_MODES = 100

POLICY_FILE = "policy.json"
"""The file in the folder of a policy that is no machine: it writes its programs itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EpisodeConfig:
    """How a machine acts."""

    cap: str = DEFAULT_CAP
    """How long one execution of a mode may last. Paper: actions200; the published code counts 220
    calls."""
    most_steps: int = 1000
    """Macro steps an episode may take on the task's own grid at scale 1, after the last of which it
    has ended; more in proportion on a larger grid and at a larger scale."""
    last_words: bool = False
    """Turn left four times before ending, as the published code does. Paper: ends at once."""

    def __post_init__(self) -> None:
        check_ranges(self, most_steps=(1, 1_000_000))
        check_flags(self, "last_words")
        if not isinstance(self.cap, str):
            raise ConfigError(f"cap must be a text as {DEFAULT_CAP}, got {self.cap}")
        Cap.parse(self.cap)


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkConfig:
    """The network that chooses the next mode."""

    inputs: Inputs = "grid+mode"
    """What it sees: the grid and the last mode; the grid alone; or the five perceptions and the
    last mode."""
    hidden: int = 32
    """Width of its layers. Published code: 16."""
    weight_norm: bool = True
    """Whether length and direction of the weights are learned apart, but for the last layers."""
    memory: int = field(default=0, metadata=ADDED)
    """Units of a GRU before the last layers, which remembers the episode; 0: none."""

    def __post_init__(self) -> None:
        check_choices(self, inputs=Inputs)
        check_ranges(self, hidden=(1, 4096), memory=(0, 4096))
        check_flags(self, "weight_norm")


@dataclass(frozen=True, kw_only=True, slots=True)
class BottleneckConfig:
    """How a bottleneck is learned."""

    recipe: Recipe = "decisions"
    """What it must keep: decisions, of the network with the decoded feature, and the feature; or
    as in the paper the feature alone."""
    weight: float = 0.98
    """The share of the decisions in the loss of that recipe; the feature has the rest."""
    end_weight: float = 20.0
    """How much more the decision to end counts than that between modes: a wrong end is for good."""
    epochs: int = 400
    """Passes over the features at most."""
    steps: int = 2000
    """Gradient steps at most."""
    batch: int = 256
    """Features of a step. Published: 32."""
    learning_rate: float = 3e-3
    """At the first step; it falls to 0 in a straight line. Published: 1e-4, without falling."""

    def __post_init__(self) -> None:
        check_choices(self, recipe=Recipe)
        check_ranges(
            self, weight=(0.0, 1.0), end_weight=(1.0, 1e6), epochs=(1, 1_000_000),
            steps=(1, 100_000_000), batch=(1, 1_000_000), learning_rate=(1e-9, 10.0),
        )  # fmt: skip

    @classmethod
    def of(cls, recipe: str) -> "BottleneckConfig":
        """Return the settings of a recipe.

        Paper: the published code tries the weights of each epoch in the policy and keeps the best;
        here the last ones are kept.
        """
        if recipe != "paper":
            return cls(recipe=recipe)  # type: ignore[arg-type]  # checked there
        return cls(recipe="paper", steps=100_000_000, batch=32, learning_rate=1e-4)


@dataclass(frozen=True, kw_only=True, slots=True)
class QuantisingConfig:
    """How a network that remembers is quantised."""

    seen_units: int = 128
    """Units of the codes of what is seen."""
    state_units: int = 16
    """Units of the codes of what is remembered."""
    bottleneck: BottleneckConfig = field(default_factory=lambda: BottleneckConfig(steps=2000))
    epochs: int = 60
    """Passes over the episodes in fine-tuning at most."""
    patience: int = 20
    """Epochs without a better result after which fine-tuning ends. Published: 50."""
    every: int = 5
    """Epochs after which the result is measured. Published: 1."""
    window: int = 100
    """Steps through which gradients go back."""
    learning_rate: float = 1e-3
    """Of fine-tuning. Published: 1e-4."""
    episodes: int = 32
    """Episodes that teach. Published: 20, and 15 for fine-tuning."""
    most_steps: int = 1000
    """Macro steps of an episode that teaches, or that measures a result, at most."""
    trials: int = 32
    """Episodes in which a result is measured."""
    most_inputs: int = 1000
    """Codes of what is seen that the Moore machine knows at most: the most frequent."""
    most_states: int = 1000
    """States of the Moore machine, before it is made minimal, at most."""

    def __post_init__(self) -> None:
        check_parts(self, bottleneck=BottleneckConfig)
        check_ranges(
            self, seen_units=(1, 4096), state_units=(1, 4096), epochs=(0, 1_000_000),
            patience=(1, 1_000_000), every=(1, 1_000_000), window=(1, 1_000_000),
            learning_rate=(1e-9, 10.0), episodes=(1, 100_000), most_steps=(1, 1_000_000),
            trials=(1, 100_000), most_inputs=(1, 100_000), most_states=(1, 100_000),
        )  # fmt: skip
