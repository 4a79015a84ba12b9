"""What a training is asked for: tasks, seeds, and the settings of every stage."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pomp.core.configs import changed, check_settings, from_json, to_json
from pomp.core.errors import ConfigError, UnknownNameError
from pomp.core.schemas import (
    COUNT,
    FREE,
    NAME,
    Flag,
    Listed,
    Maybe,
    Named,
    Number,
    Record,
    Schema,
    Text,
    Whole,
)
from pomp.core.sources import load_object
from pomp.evolution.config import EvolveConfig
from pomp.learning.baselines import ACTIONS, BASELINES
from pomp.learning.config import LearningConfig, configure_learning
from pomp.learning.methods import LearningMethod, OwnLearning
from pomp.machine.policy import ProgramMachine
from pomp.machine.text import parse_machine, print_machine
from pomp.machine.transitions import DecisionList
from pomp.modes.config import SearchConfig
from pomp.modes.jobs import Job
from pomp.modes.methods import METHODS, SEVERAL, configure, find_method, read_search_config
from pomp.modes.proposers import Method
from pomp.runs.asked import OWN_SENSORS, modules_of, read_seeds, with_sources
from pomp.runs.evolve_plan import EvolvePlan
from pomp.runs.folder import DEVICE, TASK, describe_task, read_task, take_fields
from pomp.runs.given import Key, Machines, Modes, read_given, read_machines, same_for_all
from pomp.runs.published import TEXT
from pomp.tasks.task import Setting

SEARCH, ROUNDS, RATES = "search.", "rounds", "learning_rates"
TEXT_MODES = "text-modes"
"""The method that finds whole machines with rules, as `TEXT` does, which the preset best takes,
and learns a network on their modes as well; the better machine is kept."""

GIVEN, OWN = "given", "own"
"""What the method of a training is called whose modes were found before, and one of your own."""

_ROUNDS = 20  # of a search for whole machines
_EVOLVE = EvolveConfig(sensors="compass")


_FIELDS: dict[str, Schema] = {
    "device": DEVICE,
    "threads": Maybe(Whole(1)),
    "tasks": Named(TASK),
    "seeds": Listed(COUNT, 1),
    "preset": NAME,
    "method": NAME,
    "search": Listed(Record({"method": NAME, "proposer": FREE}, is_open=True)),
    "evolution": Maybe(Named(FREE)),
    "network": Flag(),
    "learning": FREE,
    RATES: Listed(Number(0.0, 1e3), 1),
    "modes": Named(Listed(Text(), 1)),
    "machines": Named(Text()),
}
_OWN: dict[str, Schema] = {"own": Record({"method": NAME, "settings": FREE})}


@dataclass(frozen=True, kw_only=True)
class TrainPlan:
    """A training: every task with every seed.

    Attributes:
        settings: the tasks.
        seeds: of search, training and validation.
        preset: whose settings.
        method: what searches the modes, a baseline, `GIVEN` or `OWN`.
        learning: the settings of stage 3.
        learning_rates: those that are tried, of which the best by validation is kept.
        searches: the settings of stage 2, one per task; empty if the modes are given, or come with
            whole machines.
        evolution: the search for whole machines that is stage 2 instead, if it is.
        has_network: whether transitions are learned.
        own: what learns them, if that is not the package's PPO.
        modes: modes by (task, seed), if they were found before.
        machines: whole machines by (task, seed) whose modes these are, if they are.
        own_sensors: sensors of one's own that rules of whole machines may ask for, `module:NAME`.
    """

    settings: tuple[Setting, ...]
    seeds: tuple[int, ...]
    preset: str
    method: str
    learning: LearningConfig
    learning_rates: tuple[float, ...]
    searches: tuple[SearchConfig, ...] = ()
    evolution: EvolvePlan | None = None
    has_network: bool = True
    own: OwnLearning | None = None
    modes: Modes = field(default_factory=dict)
    machines: Machines = field(default_factory=dict)
    own_sensors: tuple[str, ...] = ()

    @property
    def has_machines(self) -> bool:
        """Whether stage 2 finds, or found, whole machines."""
        return bool(self.evolution or self.machines)

    @property
    def needs_torch(self) -> bool:
        """Whether modes are searched with an embedding, or transitions learned by PPO."""
        return bool(self.searches) or (self.has_network and self.own is None)

    @property
    def pairs(self) -> list[tuple[Setting, int]]:
        """Every task with every seed."""
        return [(setting, seed) for setting in self.settings for seed in self.seeds]

    def jobs(self) -> list[Job]:
        """Return the searches of stage 2."""
        pairs = zip(self.settings, self.searches, strict=bool(self.searches))
        return [Job(setting, seed, config) for setting, config in pairs for seed in self.seeds]

    def describe(self) -> dict[str, Any]:
        """Return all of it as JSON, for the folder's config."""
        texts = {key: print_machine(machine) for key, machine in self.machines.items()}
        return {
            "tasks": {one.task.name: describe_task(one) for one in self.settings},
            "seeds": list(self.seeds),
            "preset": self.preset,
            "method": self.method,
            "search": [to_json(config) for config in self.searches],
            "evolution": self.evolution.describe() if self.evolution else None,
            "network": self.has_network,
            "learning": to_json(self.learning),
            **({"own": self.own.describe()} if self.own else {}),
            "learning_rates": list(self.learning_rates),
            "modes": {f"{task}/seed{seed}": list(m) for (task, seed), m in self.modes.items()},
            "machines": {f"{task}/seed{seed}": text for (task, seed), text in texts.items()},
        }

    @classmethod
    def from_json(cls, config: Mapping[str, Any], allow: Collection[str]) -> "TrainPlan":
        """Read the plan from a training's config, which `describe` is the main part of.

        Args:
            config: its fields.
            allow: modules that it may name as homes of tasks and methods.

        Raises:
            UntrustedModuleError: it names another module.
        """
        parts = take_fields(config, {**_FIELDS, **(_OWN if "own" in config else {})})
        _, _, tasks, seeds, preset, method, searches, evolution, network, learning, *rest = parts
        rates, modes, texts, *own = rest
        machines = {name: parse_machine(text, allow=allow) for name, text in texts.items()}
        evolved = EvolvePlan.from_json(evolution, allow) if evolution else None
        return cls(
            settings=tuple(read_task(one, allow) for one in tasks.values()),
            seeds=tuple(read_seeds(seeds)),
            preset=preset,
            method=method,
            learning=from_json(LearningConfig, learning),
            learning_rates=tuple(rates),
            searches=tuple(read_search_config(one, allow) for one in searches),
            evolution=evolved,
            has_network=network,
            own=OwnLearning.from_json(own[0], allow) if own else None,
            modes={_key(name): tuple(programs) for name, programs in modes.items()},
            machines={_key(name): machine for name, machine in machines.items()},
            own_sensors=evolved.config.own_sensors if evolved else sensors_in(machines.values()),
        )

    @property
    def searcher(self) -> str | None:
        """What searches the modes; None if they are given."""
        if self.evolution is not None:
            return TEXT_MODES if self.has_network else TEXT
        return self.searches[0].method if self.searches else None


def make_plan(
    settings: Sequence[Setting],
    seeds: Sequence[int],
    preset: str,
    method: str | Method | LearningMethod | None,
    modes: str | Path | Sequence[str] | None,
    changes: Mapping[str, Any],
    allow: Collection[str] = (),
) -> TrainPlan:
    """Plan a training.

    Args:
        settings: the tasks.
        seeds: whole numbers.
        preset: paper, code or best.
        method: what searches the modes, a baseline, or a method of your own that does one or the
            other; None: the preset's.
        modes: where modes or machines are that were found before, or the modes themselves.
        changes: settings to change: `ppo.entropy`, `network.hidden`, ..., `search.mode.runs`, and
            `learning_rates`, a sequence of numbers that are tried; `search.own_sensors` also
            allows the modules of these sensors to the machines that are given.
        allow: further modules that these machines may name.

    Raises:
        UnknownNameError: no such preset, method or field.
        ConfigError: a value that does not fit.
    """
    own, of_search, rates = sort_changes(changes)
    is_given = modes is not None
    of_search = with_sources(of_search)
    own_sensors = of_search.pop(OWN_SENSORS, ())
    method, learns = find_own(method)
    baseline = BASELINES.get(method) if isinstance(method, str) else None
    if has_modes := baseline or (learns if learns and learns.modes else None):
        if modes is not None:
            raise ConfigError(f"{has_modes.name} has modes of its own; leave out the modes")
        modes = has_modes.modes
    if baseline is not None:
        method, own = None, {**baseline.changes, **own}
    by_own = _plan_own(learns, own, settings[0]) if learns else None
    own = {} if by_own else own
    learning = configure_learning(preset, own)
    best = TEXT_MODES if by_own else TEXT
    name = method or (best if preset == "best" else "pomp")
    _check_searcher(name)
    is_own = learns is not None or isinstance(name, Method)
    plan = TrainPlan(
        settings=tuple(settings),
        seeds=tuple(seeds),
        preset=preset,
        method=OWN if is_own else GIVEN if is_given else baseline.name if baseline else str(name),
        learning=learning,
        learning_rates=rates or (learning.ppo.learning_rate,),
        own=by_own,
        own_sensors=own_sensors,
    )
    if modes is not None:
        if of_search or method:
            raise ConfigError("the modes are given: there is no search whose settings could change")
        return with_given(plan, modes, allow)
    if name in (TEXT, TEXT_MODES):
        if name == TEXT:
            _refuse_unused([*own, *([RATES] if rates else [])])
        whole = EvolvePlan(plan.settings, plan.seeds, _EVOLVE, rounds=_ROUNDS)
        evolution = evolve_again(whole, {OWN_SENSORS: own_sensors, **of_search})
        return replace(plan, evolution=evolution, has_network=name != TEXT)
    if own_sensors:
        raise ConfigError(
            f"{name} finds no rules that could ask for sensors; the method {TEXT} does"
        )
    searches = tuple(configure(name, preset, one, of_search) for one in settings)
    return replace(plan, searches=searches)


def find_own(
    method: str | Method | LearningMethod | None,
) -> tuple[str | Method | None, LearningMethod | None]:
    """Return what searches the modes, and what learns transitions if that is not PPO."""
    if isinstance(method, str) and ":" in method:
        found = load_object(method, "method", object)
        if not isinstance(found, Method | LearningMethod):
            kind = type(found).__name__
            raise ConfigError(f"'{method}' is a {kind}, not a pomp Method or LearningMethod")
        method = found
    return (None, method) if isinstance(method, LearningMethod) else (method, None)


def _plan_own(method: LearningMethod, changes: Mapping[str, Any], setting: Setting) -> OwnLearning:
    """Return a learning method of one's own with its settings, tried out on a task."""
    check_settings(method.settings)
    settings = changed(method.settings(), changes)
    method.check(setting, ACTIONS, settings)
    return OwnLearning(method, settings)


def _check_searcher(name: str | Method) -> None:
    """Refuse what does not search the modes of a machine."""
    if name in (TEXT, TEXT_MODES):
        return
    if isinstance(name, str) and name not in METHODS:
        raise UnknownNameError("method", name, (TEXT, TEXT_MODES, *SEVERAL, *BASELINES))
    method = find_method(name)
    if not method.finds_several:
        raise ConfigError(
            f"a machine needs several modes; {method.name} finds one. The method {SEVERAL[0]} "
            "finds several"
        )


def modes_of(machine: ProgramMachine) -> tuple[str, ...]:
    """Return a machine's programs, each once."""
    return tuple(dict.fromkeys(machine.modes))


def sensors_in(machines: Iterable[ProgramMachine]) -> tuple[str, ...]:
    """Return the sensors of one's own that machines with rules ask for, as `module:NAME`."""
    rules = [one.transition for one in machines if isinstance(one.transition, DecisionList)]
    return tuple(dict.fromkeys(source for one in rules for source in one.known.sources()))


def dropped_modes(given: Sequence[str], machine: ProgramMachine) -> list[dict[str, str]]:
    """Return the modes that a training had and its machine has not, and why.

    Args:
        given: the programs of the modes that were found or given.
        machine: what was learned on them.
    """
    left, dropped = list(machine.modes), []
    for program in given:
        if program in left:
            left.remove(program)
        elif program in machine.modes:
            dropped.append({"program": program, "why": "it is a mode already"})
        else:
            why = "the first mode alone earns as much in validation as all together"
            dropped.append({"program": program, "why": why})
    return dropped


def sort_changes(
    changes: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[str, Any], tuple[float, ...]]:
    """Return the changes of stage 3's settings, of stage 2's, and the learning rates."""
    given = dict(changes)
    rates = tuple(given.pop(RATES, ()))
    if not all(0 < rate < 1e3 for rate in rates) or len(set(rates)) < len(rates):
        raise ConfigError(f"learning rates are different numbers above 0, got {list(rates)}")
    own = {name: value for name, value in given.items() if not name.startswith(SEARCH)}
    of_search = {
        name.removeprefix(SEARCH): value for name, value in given.items() if name not in own
    }
    return own, of_search, rates


def _refuse_unused(names: list[str]) -> None:
    """Refuse settings of a network in a plan without one; `names` are those that were changed."""
    if names:
        raise ConfigError(
            f"{names[0]} is a setting of the network, and none is learned here; ask for one with "
            f"the method {TEXT_MODES}"
        )


def with_given(
    plan: TrainPlan, modes: str | Path | Sequence[str], allow: Collection[str]
) -> TrainPlan:
    """Plan a training on modes, or on the modes of machines, that were found before.

    Args:
        plan: the training, but for these.
        modes: where they are, or the modes themselves.
        allow: modules, beside those of its tasks and sensors, that files of machines may name.
    """
    settings, seeds = plan.settings, plan.seeds
    machines: Machines = {}
    if isinstance(modes, str | Path):
        allowed = (*allow, *modules_of(plan.own_sensors))
        machines = read_machines(Path(modes), settings, seeds, allowed)
        given = {key: modes_of(machine) for key, machine in machines.items()}
        given = given or read_given(Path(modes), settings, seeds)
    else:
        given = same_for_all(modes, settings, seeds, "the list of modes")
    for setting in settings:
        missing = [seed for seed in seeds if (setting.task.name, seed) not in given]
        if missing:
            name, seed = setting.task.name, missing[0]
            known = sorted(other for task, other in given if task == name)
            found = (
                f"there are those of seeds {', '.join(map(str, known))}" if known else "none at all"
            )
            raise ConfigError(
                f"there are no modes of {name} with seed {seed} ({found}); search them first: "
                f"pomp search {name} --seeds {seed}"
            )
    if plan.own_sensors and not machines:
        raise ConfigError("programs as modes have no rules that could ask for sensors")
    sensed = plan.own_sensors or sensors_in(machines.values())
    return replace(plan, modes=given, machines=machines, own_sensors=sensed)


def evolve_again(before: EvolvePlan, changes: Mapping[str, Any]) -> EvolvePlan:
    """Plan a search for whole machines, by rounds and not by time: the same twice."""
    rounds = changes.get(ROUNDS, before.rounds)
    if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:
        raise ConfigError(f"search.{ROUNDS} must be a whole number from 1, got {rounds}")
    own = {name: value for name, value in changes.items() if name != ROUNDS}
    return replace(before, config=changed(before.config, own), rounds=rounds)


def _key(name: str) -> Key:
    """Read the task and the seed of a name as `Farmer/seed0`."""
    task, _, seed = name.rpartition("/seed")
    return task, int(seed)
