"""Settings of HPRL: what its policy sees and writes, PPO, validation, and the presets."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pomp.core.configs import (
    changed,
    check_changes,
    check_choices,
    check_parts,
    check_preset,
    check_ranges,
)
from pomp.core.errors import ConfigError
from pomp.engine.units import DEFAULT_CAP
from pomp.learning.config import PpoConfig, ValidationConfig
from pomp.machine.config import POLICY_FILE, EpisodeConfig

Observation = Literal["env_state", "step_counter"]


def holds_policy(name: str | Path) -> bool:
    """Whether a folder, or the file in it, is that of a policy that writes programs."""
    path = Path(name)
    return (path / POLICY_FILE).is_file() or (path.name == POLICY_FILE and path.is_file())


def _ppo() -> PpoConfig:
    return PpoConfig(total=25_000_000, minibatch=128, entropy=0.1, learning_rate=1e-5)


@dataclass(frozen=True, kw_only=True, slots=True)
class MetaConfig:
    """What a meta-policy is, and how it acts."""

    embedding: str = "hprl"
    """The space of programs: shipped weights by name, or a file."""
    programs: int = 5
    """Programs of an episode; fewer where the task is done before, unless its horizon is long."""
    observation: Observation = "env_state"
    """What the policy sees: the world, or a grid that only tells how many programs ran. Paper: the
    world; the published code has the other."""
    cap: str = DEFAULT_CAP
    """How long one program may run. Published code: calls500."""
    hidden: int = 64
    """Width of the features of the grid, and of what is remembered of an episode."""

    def __post_init__(self) -> None:
        check_choices(self, observation=Observation)
        check_ranges(self, programs=(1, 1000), hidden=(1, 4096))
        if not isinstance(self.embedding, str):
            raise ConfigError(f"embedding must be a name or a file, got {self.embedding}")
        _ = self.episode  # refuses a cap that is none

    @property
    def episode(self) -> EpisodeConfig:
        """How episodes go on and end."""
        return EpisodeConfig(cap=self.cap, most_steps=self.programs)


@dataclass(frozen=True, kw_only=True, slots=True)
class HprlConfig:
    """All settings of a training of HPRL."""

    policy: MetaConfig = field(default_factory=MetaConfig)
    ppo: PpoConfig = field(default_factory=_ppo)
    validation: ValidationConfig = field(default_factory=lambda: ValidationConfig(needs_end=False))
    invalid_cost: float = 0.001
    """Taken from the reward of a macro step, in training, whose latent is no program."""

    def __post_init__(self) -> None:
        check_parts(self, policy=MetaConfig, ppo=PpoConfig, validation=ValidationConfig)
        check_ranges(self, invalid_cost=(0.0, 1e6))
        if self.ppo.minibatch % self.ppo.steps:
            raise ConfigError(
                f"a mini-batch holds whole actors, of {self.ppo.steps} macro steps each; "
                f"{self.ppo.minibatch} is no multiple of that"
            )
        if self.validation.needs_end:
            raise ConfigError("validation.needs_end must be off: this policy never chooses to end")


_PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    # Ten mini-batches were published; sixteen actors cannot be dealt out to them.
    "code": {
        "policy.observation": "step_counter",
        "policy.cap": "calls500",
        "ppo.total": 100_000_000,
        "ppo.actors": 16,
        "ppo.steps": 800,
        "ppo.minibatch": 800,
        "ppo.epochs": 3,
        "ppo.clip_ratio": 0.2,
        "ppo.entropy": 0.05,
        "validation.every": 10,
    },
    "best": {},  # nothing better than the paper's is known here
}


def configure_hprl(preset: str, changes: dict[str, Any] | None = None) -> HprlConfig:
    """Return the settings of a preset with some fields changed.

    Args:
        preset: its name.
        changes: new values by the names of the fields, as `ppo.entropy`.

    Raises:
        UnknownNameError: no such preset or field.
        ConfigError: a value that does not fit.
    """
    check_preset(preset)
    own = check_changes(changes)
    config: HprlConfig = changed(HprlConfig(), {**_PRESETS[preset], **own})
    return config
