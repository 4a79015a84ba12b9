"""A cell of a table: one method on one task with one seed, and what it is computed with."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from math import ceil
from typing import Any, Literal, TypeVar, get_args

from pomp.core.configs import MOST_SEED, changed, check_preset, to_json
from pomp.core.errors import ConfigError
from pomp.core.schemas import COUNT, Named, Number, OneOf, Record, Scalar, Text, Whole
from pomp.evolution.config import EvolveConfig
from pomp.experiments.rows import ENGINE_REVISION, TableRow, find_row
from pomp.hprl.config import HprlConfig, configure_hprl
from pomp.learning.baselines import BASELINES
from pomp.learning.config import LearningConfig, configure_learning
from pomp.modes.config import CemConfig, SearchConfig
from pomp.modes.methods import configure
from pomp.runs.folder import describe_task
from pomp.tasks.catalog import find_task
from pomp.tasks.task import Setting

Stage = Literal["search", "learn", "policy"]
STAGES: tuple[Stage, ...] = get_args(Stage)

Training = TypeVar("Training", LearningConfig, HprlConfig)

CELL = Record(
    {
        **dict.fromkeys(("method", "task", "preset"), Text(most=100)),
        "stage": OneOf(STAGES),
        **{"seed": COUNT, "scale": Whole(1, 1_000_000), "budget": Number(0.0, 1.0)},
        "changes": Named(Scalar(), most=1000),
    }
)
"""What a file says of a cell."""

LEAST_BUDGET = 1e-4
_SEARCH = "search."  # what the names of settings of a search begin with
_OF_META = ("policy.", "invalid_cost")  # the same of what only the kind latents has
# And of what that kind has not.
_NOT_OF_META = ("network.", "episode.", "alone", "tries", "quantising.", "teaching.")
PLATEAU_STEPS = 10_000_000
"""Steps without a better validation after which a training by the presets paper and code ends.
Some machines learn nothing in five million, and then more than others."""
EVOLVE_ROUNDS = 20
"""Rounds of a search for rules, as in `pomp train`."""


@dataclass(frozen=True, order=True, kw_only=True)
class Cell:
    """One method on one task with one seed.

    Attributes:
        method: the name of its row.
        task: the task's name.
        seed: of everything drawn, but for evaluations, which have seeds of their own.
        stage: policy: what the table shows. search and learn: what a policy with a network comes
            from, its modes and its transitions.
        scale: how many times longer the task is in the evaluation; the policy is that of scale 1.
        preset: whose settings: paper, code or best.
        budget: the share of the method's full work that is done.
        changes: settings that are changed, by name, in the order of names; those that begin with
            `search.` are settings of a search, the others of PPO and its network, or of HPRL.
            Those that a cell does not depend on are left out.
    """

    method: str
    task: str
    seed: int
    stage: Stage = "policy"
    scale: int = 1
    preset: str = "paper"
    budget: float = 1.0
    changes: tuple[tuple[str, Any], ...] = field(default=())

    def __post_init__(self) -> None:
        find_row(self.method)
        object.__setattr__(self, "task", find_task(self.task).name)
        if not LEAST_BUDGET <= self.budget <= 1:
            raise ConfigError(f"a budget is from {LEAST_BUDGET:g} to 1, got {self.budget:g}")
        check_preset(self.preset)
        if not isinstance(self.seed, int) or not 0 <= self.seed <= MOST_SEED:
            raise ConfigError(f"a seed is a whole number, not negative, got {self.seed!r}")
        own = tuple(pair for pair in self.changes if self._depends_on(pair[0]))
        object.__setattr__(self, "changes", own)

    def _depends_on(self, name: str) -> bool:
        """Whether a setting of this name changes something here."""
        is_meta = self.row.kind == "latents"
        has_training = self.stage != "search" and self.has_network
        if name.startswith(_SEARCH):
            return not is_meta and self.row.kind != "actions"
        return has_training and not name.startswith(_NOT_OF_META if is_meta else _OF_META)

    @property
    def row(self) -> TableRow:
        """The row that it belongs to."""
        return find_row(self.method)

    @property
    def has_network(self) -> bool:
        """Whether a network learns: transitions, or to write programs."""
        return self.row.kind in ("modes", "actions", "latents")

    @property
    def is_quantised(self) -> bool:
        """Whether its policy is a network that remembers, quantised."""
        is_learned = self.stage == "policy" and self.row.kind == "actions"
        return is_learned and self.learning.network.memory > 0

    @property
    def is_choice(self) -> bool:
        """Whether it is a choice of modes from the runs of another cell."""
        return self.stage == "search" and self.row.modes_of != ""

    @property
    def name(self) -> str:
        """What it is called in files: `paper/pomp/Farmer/seed0`, `.../seed0.x16`."""
        share = "" if self.budget == 1 else f"-{self.budget:g}"
        other = f"-{_digest(list(self.changes))[:8]}" if self.changes else ""
        stage = "" if self.stage == "policy" else f".{self.stage}"
        scale = "" if self.scale == 1 else f".x{self.scale}"
        place = f"{self.preset}{share}{other}/{self.method}/{self.task}"
        return f"{place}/seed{self.seed}{stage}{scale}"

    @property
    def setting(self) -> Setting:
        """Its task with everything decided."""
        return find_task(self.task).configure(scale=self.scale)

    @property
    def needs(self) -> "tuple[Cell, ...]":
        """The cells whose results it is computed from."""
        if self.row.kind == "random":
            return (replace(self, method=self.row.modes_of, stage="search", scale=1),)
        if self.stage == "policy" and self.has_network:
            return (replace(self, stage="learn", scale=1),)
        if self.stage == "learn" and self.row.kind == "modes":
            return (replace(self, method=self.row.same_modes or self.method, stage="search"),)
        if self.is_choice:
            return (replace(self, method=self.row.modes_of),)
        return (replace(self, scale=1),) if self.scale > 1 else ()

    # Settings

    def _changes(self, *, of_search: bool) -> dict[str, Any]:
        return {
            name.removeprefix(_SEARCH): value
            for name, value in self.changes
            if name.startswith(_SEARCH) is of_search
        }

    @cached_property
    def search(self) -> SearchConfig:
        """The settings of its search for programs or modes, if it has one."""
        method, own = self.row.modes_of or self.method, {**self.row.settings}
        own |= self._changes(of_search=True)
        config = configure(method, self.preset, self.setting, own)
        amount = "iterations" if isinstance(config.proposer, CemConfig) else "candidates"
        work = max(1, round(self.budget * getattr(config.proposer, amount)))
        return changed(config, {f"proposer.{amount}": work})

    @property
    def training(self) -> LearningConfig | HprlConfig:
        """The settings of its training, if it has one."""
        return self.meta if self.row.kind == "latents" else self.learning

    @cached_property
    def learning(self) -> LearningConfig:
        """The settings of its training, if that is one of transitions."""
        baseline = BASELINES.get(self.method)
        of_row = baseline.changes if baseline else self.row.learning
        own = {**of_row, **self._changes(of_search=False)}
        config = self._limited(configure_learning(self.preset, own))
        if not config.teaching.steps:
            return config
        work = {name: getattr(config.teaching, name) for name in ("steps", "rounds", "choices")}
        shares = {name: max(1, round(self.budget * count)) for name, count in work.items()}
        return changed(config, {f"teaching.{name}": count for name, count in shares.items()})

    @cached_property
    def meta(self) -> HprlConfig:
        """The settings of its training, if that is one of a policy that writes programs."""
        return self._limited(configure_hprl(self.preset, self._changes(of_search=False)))

    def _limited(self, config: Training) -> Training:
        """Return the settings of a training with the steps of the budget, and the plateau rule."""
        ppo, validation = config.ppo, config.validation
        settings = {"ppo.total": max(ppo.rollout, round(self.budget * ppo.total))}
        if not validation.patience:
            waits = ceil(self.budget * PLATEAU_STEPS / (validation.every * ppo.rollout))
            settings["validation.patience"] = waits
        limited: Training = changed(config, settings)
        return limited

    @cached_property
    def evolution(self) -> EvolveConfig:
        """The settings of its search for rules, if it has one."""
        config: EvolveConfig = changed(
            EvolveConfig(), {**self.row.settings, **self._changes(of_search=True)}
        )
        steps, actions = round(self.budget * config.steps), round(self.budget * config.actions)
        return changed(config, {"steps": max(1, steps), "actions": max(1, actions)})

    def settings(self) -> dict[str, Any]:
        """Return everything that it is computed with, but for the seed, as JSON."""
        kind, found = self.row.kind, dict[str, Any]()
        if kind == "program" or self.stage == "search":
            found["search"] = to_json(self.search)
        elif self.stage == "learn":
            found["learning"] = to_json(self.training)
        elif kind == "rules":
            found |= {"evolve": to_json(self.evolution), "rounds": EVOLVE_ROUNDS}
        elif self.is_quantised:
            found["quantising"] = to_json(self.learning.quantising)
        if self.needs:
            found["needs"] = [one.settings() for one in self.needs]
        return {"task": describe_task(self.setting), **found}

    def fingerprint(self) -> dict[str, Any]:
        """Return what must agree with other cells of a table.

        `settings` must agree between the seeds of a method on a task, `method` (its revision)
        between its tasks, and the rest in the whole table.
        """
        return {
            "preset": self.preset,
            "budget": self.budget,
            "engine": ENGINE_REVISION,
            "method": self.row.revision,
            "settings": _digest(self.settings()),
        }

    def to_json(self) -> dict[str, Any]:
        """Return its fields."""
        return {**asdict(self), "changes": dict(self.changes)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Cell":
        """Read what `to_json` returned; a task must be one of the package's."""
        CELL.check(dict(values), "cell")
        find_task(values["task"], ())  # a file may not name code to run
        changes = tuple(sorted(dict(values["changes"]).items()))
        return cls(**{**values, "changes": changes})


def _digest(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]
