"""What `pomp train` is asked for: tasks, seeds, and the settings of every stage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pomp.configs import to_json
from pomp.errors import ConfigError
from pomp.machine.config import MachineConfig, configure_machine
from pomp.search.config import SearchConfig
from pomp.search.jobs import Job
from pomp.search.methods import MODE_SEARCHES, SEVERAL, configure
from pomp.tasks.task import Setting

SEARCH = "search."


@dataclass(frozen=True)
class Plan:
    """A training: every task with every seed.

    Attributes:
        settings: the tasks.
        seeds: of search, training and validation.
        searches: the settings of stage 2, one per task; empty if the modes are given.
        machine: the settings of stage 3.
        rates: learning rates, of which the best by validation is kept.
        given: modes by (task, seed), if they were found before.
        preset: whose settings.
    """

    settings: tuple[Setting, ...]
    seeds: tuple[int, ...]
    searches: tuple[SearchConfig, ...]
    machine: MachineConfig
    rates: tuple[float, ...]
    given: Mapping[tuple[str, int], tuple[str, ...]]
    preset: str

    def jobs(self) -> list[Job]:
        """The searches of stage 2."""
        pairs = zip(self.settings, self.searches, strict=not self.given)
        return [Job(setting, seed, config) for setting, config in pairs for seed in self.seeds]

    def describe(self) -> dict[str, Any]:
        """All of it as JSON, for the folder's config."""
        return {
            "tasks": {
                setting.task.name: {
                    "variant": setting.variant,
                    "options": {name: str(value) for name, value in setting.options.items()},
                }
                for setting in self.settings
            },
            "seeds": list(self.seeds),
            "preset": self.preset,
            "search": [to_json(config) for config in self.searches],
            "machine": to_json(self.machine),
            "learning_rates": list(self.rates),
            "modes": {f"{task}/seed{seed}": list(m) for (task, seed), m in self.given.items()},
        }


def make_plan(
    settings: Sequence[Setting],
    seeds: Sequence[int],
    preset: str,
    method: str | None = None,
    changes: Mapping[str, Any] | None = None,
    rates: Sequence[float] = (),
    given: Mapping[tuple[str, int], tuple[str, ...]] | None = None,
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
    machine = configure_machine(preset, own)
    name = method or MODE_SEARCHES[preset]
    if name not in SEVERAL:
        raise ConfigError(f"a machine needs several modes; {name} finds one (try {SEVERAL[0]})")
    if given and (of_search or method):
        raise ConfigError("the modes are given: there is no search whose settings could change")
    for setting in settings:
        missing = [seed for seed in seeds if given and (setting.task.name, seed) not in given]
        if missing:
            raise ConfigError(f"there are no modes of {setting.task.name} with seed {missing[0]}")
    searches = () if given else tuple(configure(name, preset, one, of_search) for one in settings)
    tried = tuple(rates) or (machine.ppo.learning_rate,)
    return Plan(tuple(settings), tuple(seeds), searches, machine, tried, dict(given or {}), preset)
