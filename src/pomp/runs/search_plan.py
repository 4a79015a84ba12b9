"""What a search is asked for: tasks, seeds and how each task is searched."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from pomp.core.configs import changed
from pomp.core.errors import ConfigError
from pomp.core.schemas import FREE, NAME, Named, Record, Schema
from pomp.modes.config import SearchConfig
from pomp.modes.jobs import Job
from pomp.modes.methods import SEVERAL, configure, find_method, method_source, read_search_config
from pomp.modes.proposers import Method
from pomp.runs.folder import DEVICE, TASK, read_task, take_fields
from pomp.tasks.task import Setting

_JOB = Record({**TASK.fields, "method": NAME, "proposer": FREE}, TASK.others, is_open=True)
_FIELDS: dict[str, Schema] = {"device": DEVICE, "weights": Named(NAME), "searches": Named(_JOB)}


@dataclass(frozen=True)
class SearchPlan:
    """What a search is asked for: every task with every seed.

    Attributes:
        settings: the tasks.
        configs: how each of them is searched.
        seeds: of everything drawn.
        device: where programs are decoded and executed, cpu or cuda.
    """

    settings: tuple[Setting, ...]
    configs: tuple[SearchConfig, ...]
    seeds: tuple[int, ...] = (0,)
    device: str = "cpu"

    @classmethod
    def from_json(cls, config: Mapping[str, Any], allow: Collection[str]) -> "SearchPlan":
        """Read what `SearchRun.describe` returned.

        Args:
            config: its fields.
            allow: modules that it may name as homes of tasks and methods.

        Raises:
            UntrustedModuleError: it names another module.
        """
        device, _, searches = take_fields(config, _FIELDS)
        first = {name.partition("/")[0]: described for name, described in searches.items()}
        seeds = {int(name.rpartition("/seed")[2]): None for name in searches}
        tasks = [_some_of(one, (*TASK.fields, *TASK.others)) for one in first.values()]
        names = [entry.name for entry in fields(SearchConfig)]
        own = [_some_of(one, names) for one in first.values()]
        return cls(
            tuple(read_task(one, allow) for one in tasks),
            tuple(read_search_config(one, allow) for one in own),
            tuple(seeds),
            device,
        )

    def configure(
        self,
        setting: Setting,
        method: str | Method | None,
        preset: str | None,
        modes: int | None,
        changes: Mapping[str, Any],
    ) -> SearchConfig:
        """Return how a task is searched: as in this plan where nothing else is asked for.

        Args:
            setting: the task.
            method: what searches; None: as in this plan, or pomp if the task is not in it.
            preset: whose settings; None: as in this plan, or the paper's.
            modes: how many modes; None: as in this plan, or as many as the task asks for.
            changes: settings to change, by name.
        """
        by_name = dict(zip((one.task.name for one in self.settings), self.configs, strict=True))
        known = by_name.get(setting.task.name)
        name = method or (known.method if known else "pomp")
        if modes is not None:
            _check_several(find_method(name))
            changes = {**changes, "mode.modes": modes}
        if known is None or preset is not None:
            return configure(name, preset or "paper", setting, changes)
        return replace(changed(known, changes), method=method_source(find_method(name)))

    def jobs(self) -> list[Job]:
        """Return the searches."""
        pairs = zip(self.settings, self.configs, strict=True)
        return [Job(setting, seed, config) for setting, config in pairs for seed in self.seeds]


def _some_of(values: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return those of some values that have one of the names."""
    return {name: value for name, value in values.items() if name in names}


def module_of(method: str | Method | None) -> list[str]:
    """Return the module of a method of one's own, which a caller that names it trusts."""
    source = method_source(method) if isinstance(method, Method) else method or ""
    return [source.partition(":")[0]] if ":" in source else []


def _check_several(method: Method) -> None:
    """Refuse a number of modes for a method that finds one program."""
    if not method.finds_several:
        several = ", ".join(SEVERAL)
        raise ConfigError(f"--modes goes with {several}; {method.name} finds one program")
