"""What `pomp train` is asked for: tasks, seeds, and the settings of every stage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pomp.core.configs import changed, to_json
from pomp.core.errors import ConfigError, UnknownNameError
from pomp.evolution.config import EvolveConfig
from pomp.learning.config import LearningConfig, configure_learning
from pomp.machine.policy import ProgramMachine
from pomp.machine.text import parse_machine
from pomp.modes.config import SearchConfig
from pomp.modes.jobs import Job
from pomp.modes.methods import METHODS, SEVERAL, configure
from pomp.runs.evolve import Plan as EvolutionPlan
from pomp.tasks.task import Setting

SEARCH, ROUNDS = "search.", "rounds"
TEXT, TEXT_MODES = "text", "text-modes"
"""Methods whose search finds whole machines with rules: those alone, or a network on their modes
as well, whichever is better."""

_ROUNDS = 20  # of a search for whole machines
_EVOLVE = EvolveConfig(sensors="compass")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A training: every task with every seed.

    Attributes:
        settings: the tasks.
        seeds: of search, training and validation.
        searches: the settings of stage 2, one per task; empty if the modes are given, or come with
            whole machines.
        evolution: the search for whole machines that is stage 2 instead, if it is.
        has_network: whether transitions are learned.
        machine: the settings of stage 3.
        rates: learning rates, of which the best by validation is kept.
        given: modes by (task, seed), if they were found before.
        machines: texts of whole machines by (task, seed) whose modes these are, if they are.
        preset: whose settings.
    """

    settings: tuple[Setting, ...]
    seeds: tuple[int, ...]
    searches: tuple[SearchConfig, ...]
    evolution: EvolutionPlan | None
    has_network: bool
    machine: LearningConfig
    rates: tuple[float, ...]
    given: Mapping[tuple[str, int], tuple[str, ...]]
    machines: Mapping[tuple[str, int], str]
    preset: str

    @property
    def has_machines(self) -> bool:
        """Whether stage 2 finds, or found, whole machines."""
        return bool(self.evolution or self.machines)

    def jobs(self) -> list[Job]:
        """The searches of stage 2."""
        pairs = zip(self.settings, self.searches, strict=bool(self.searches))
        return [Job(setting, seed, config) for setting, config in pairs for seed in self.seeds]

    def describe(self) -> dict[str, Any]:
        """All of it as JSON, for the folder's config."""
        return {
            "tasks": {setting.task.name: setting.describe() for setting in self.settings},
            "seeds": list(self.seeds),
            "preset": self.preset,
            "search": [to_json(config) for config in self.searches],
            "evolution": self.evolution.describe() if self.evolution else None,
            "network": self.has_network,
            "machine": to_json(self.machine),
            "learning_rates": list(self.rates),
            "modes": {f"{task}/seed{seed}": list(m) for (task, seed), m in self.given.items()},
            "machines": {f"{task}/seed{seed}": m for (task, seed), m in self.machines.items()},
        }


def make_plan(
    settings: Sequence[Setting],
    seeds: Sequence[int],
    preset: str,
    method: str | None = None,
    changes: Mapping[str, Any] | None = None,
    rates: Sequence[float] = (),
    given: Mapping[tuple[str, int], tuple[str, ...]] | None = None,
    machines: Mapping[tuple[str, int], str] | None = None,
) -> Plan:
    """A plan.

    Args:
        settings: the tasks.
        seeds: whole numbers.
        preset: paper, code or best.
        method: what searches the modes; None: the preset's.
        changes: settings to change: `ppo.entropy`, `network.hidden`, ..., `search.mode.runs`.
        rates: learning rates to try; none: the preset's.
        given: modes that were found before, for every task and seed.
        machines: texts of whole machines that were found before, instead.

    Raises:
        UnknownNameError: no such preset, method or field.
        ConfigError: a value that does not fit.
    """
    own = {name: value for name, value in (changes or {}).items() if not name.startswith(SEARCH)}
    of_search = {
        name.removeprefix(SEARCH): value
        for name, value in (changes or {}).items()
        if name.startswith(SEARCH)
    }
    machine = configure_learning(preset, own)
    name = method or (TEXT_MODES if preset == "best" else "pomp")
    if name not in (TEXT, TEXT_MODES, *SEVERAL):
        if name not in METHODS:
            raise UnknownNameError("method", name, (TEXT, TEXT_MODES, *SEVERAL))
        raise ConfigError(f"a machine needs several modes; {name} finds one (try {SEVERAL[0]})")
    if machines:
        given = {key: modes_of(parse_machine(text)) for key, text in machines.items()}
    if given and (of_search or method):
        raise ConfigError("the modes are given: there is no search whose settings could change")
    for setting in settings:
        missing = [seed for seed in seeds if given and (setting.task.name, seed) not in given]
        if missing:
            raise ConfigError(f"there are no modes of {setting.task.name} with seed {missing[0]}")
    searches, evolution = tuple[SearchConfig, ...](), None
    if not given and name in (TEXT, TEXT_MODES):
        evolution = _plan_evolution(settings, seeds, of_search)
    elif not given:
        searches = tuple(configure(name, preset, one, of_search) for one in settings)
    return Plan(
        settings=tuple(settings),
        seeds=tuple(seeds),
        searches=searches,
        evolution=evolution,
        has_network=bool(given) or name != TEXT,
        machine=machine,
        rates=tuple(rates) or (machine.ppo.learning_rate,),
        given=dict(given or {}),
        machines=dict(machines or {}),
        preset=preset,
    )


def modes_of(machine: ProgramMachine) -> tuple[str, ...]:
    """Its programs, each once."""
    return tuple(dict.fromkeys(machine.modes))


def _plan_evolution(
    settings: Sequence[Setting], seeds: Sequence[int], changes: Mapping[str, Any]
) -> EvolutionPlan:
    """By rounds, not by time, so that a training is the same twice."""
    rounds = changes.get(ROUNDS, _ROUNDS)
    if not isinstance(rounds, int) or rounds < 1:
        raise ConfigError(f"search.{ROUNDS} must be a whole number from 1, got {rounds}")
    own = {name: value for name, value in changes.items() if name != ROUNDS}
    config: EvolveConfig = changed(_EVOLVE, own)
    return EvolutionPlan(tuple(settings), tuple(seeds), config, rounds=rounds)
