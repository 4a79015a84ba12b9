"""What an evolution is asked for: tasks, seeds, how long and how machines are searched."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from pomp.core.configs import MOST, from_json, to_json
from pomp.core.errors import ConfigError
from pomp.core.schemas import COUNT, FREE, TEXT, Listed, Named, Number, Schema, Whole
from pomp.evolution.config import EvolveConfig
from pomp.evolution.ground import settings_of
from pomp.karel.sensor_set import find_sensors
from pomp.runs.asked import read_seeds
from pomp.runs.extending import Growth
from pomp.runs.folder import DEVICE, TASK, RunFolder, describe_task, name_of, read_task, take_fields
from pomp.runs.given_machines import given_for
from pomp.runs.results import EVALUATION_FILE, SUMMARY_FILE
from pomp.tasks.task import Setting

_GIVEN, _TEXTS = "from", Listed(TEXT)
_FIELDS: dict[str, Schema] = {
    "tasks": Named(TASK),
    "seeds": Listed(COUNT, 1),
    "minutes": Number(0.0, 1e9),
    "rounds": Whole(0, MOST),
    "device": DEVICE,
    "evolve": FREE,
}


@dataclass(frozen=True)
class EvolvePlan:
    """What an evolution is asked for.

    Attributes:
        settings: the tasks.
        seeds: of everything drawn; every task is searched with each.
        config: how machines are searched.
        minutes: time for each task and seed, unless `rounds` are given.
        rounds: rounds after which each search ends; 0: when its time is over.
        device: where machines are played, cpu or cuda.
        given: texts of machines that the searches of their tasks begin with.
    """

    settings: tuple[Setting, ...] = ()
    seeds: tuple[int, ...] = (0,)
    config: EvolveConfig = field(default_factory=EvolveConfig)
    minutes: float = 5.0
    rounds: int = 0
    device: str = "cpu"
    given: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.minutes, bool) or not isinstance(self.minutes, int | float):
            raise ConfigError(f"minutes must be a number, got {self.minutes!r:.80}")
        if not self.minutes > 0:
            raise ConfigError(f"minutes must be positive, got {self.minutes}")
        if isinstance(self.rounds, bool) or not isinstance(self.rounds, int) or self.rounds < 0:
            raise ConfigError(f"rounds must be a whole number from 1, got {self.rounds}")
        for setting in self.settings:
            settings_of(setting, self.config)  # which refuses sizes and horizons a task lacks

    def describe(self) -> dict[str, Any]:
        """Return all of it as JSON."""
        return {
            "tasks": {one.task.name: describe_task(one) for one in self.settings},
            "seeds": list(self.seeds),
            "minutes": self.minutes,
            "rounds": self.rounds,
            "device": self.device,
            "evolve": to_json(self.config),
            **({_GIVEN: list(self.given)} if self.given else {}),
        }

    @classmethod
    def from_json(cls, config: Mapping[str, Any], allow: Collection[str]) -> "EvolvePlan":
        """Read what `describe` returned.

        Args:
            config: its fields.
            allow: modules that it may name as homes of tasks and sensors.

        Raises:
            UntrustedModuleError: it names another module.
        """
        given = config.get(_GIVEN, [])
        _TEXTS.check(given, _GIVEN)
        rest = {name: value for name, value in config.items() if name != _GIVEN}
        tasks, seeds, minutes, rounds, device, evolve = take_fields(rest, _FIELDS)
        settings = tuple(read_task(one, allow) for one in tasks.values())
        own: EvolveConfig = from_json(EvolveConfig, evolve)
        find_sensors(own.own_sensors, allow)
        for setting in settings:
            given_for(setting, given, own, allow)
        return cls(settings, tuple(read_seeds(seeds)), own, minutes, rounds, device, tuple(given))

    @property
    def pairs(self) -> list[tuple[Setting, int]]:
        """Every task with every seed."""
        return [(setting, seed) for setting in self.settings for seed in self.seeds]

    def growth(self, folder: RunFolder) -> Growth:
        """Return what a resumed run may have more of: rounds, or else minutes."""

        def reopen(_: Collection[str]) -> None:
            for setting, seed in self.pairs:
                folder.within(*name_of(setting, seed)).remove(EVALUATION_FILE)
            folder.remove(SUMMARY_FILE)

        return Growth({"rounds" if self.rounds else "minutes": True}, reopen)
