"""HPRL as a run: policies that write programs, learned, evaluated and written.

The folder is that of a training: `DIR/TASK/seedN/` gets the policy, the programs it wrote, metrics
and its evaluation, and `DIR/ensemble*` are the checkpoints.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pomp.core.compiling import thread_count
from pomp.core.configs import changed, from_json, to_json
from pomp.core.cuda import check_device
from pomp.core.errors import ConfigError
from pomp.core.extras import LEARN, require
from pomp.core.schemas import COUNT, FREE, NAME, Listed, Maybe, Named, Schema, Text, Whole
from pomp.hprl.config import HprlConfig, configure_hprl
from pomp.runs.asked import check_named, plan_before, read_seeds, task_modules
from pomp.runs.evaluations import Evaluations, learn_all
from pomp.runs.extending import Growth
from pomp.runs.folder import (
    DEVICE,
    TASK,
    RunFolder,
    describe_task,
    name_of,
    read_task,
    take_fields,
)
from pomp.runs.results import (
    EVALUATION_FILE,
    SUMMARY_FILE,
    LearnedMachine,
    LearningResult,
    read_all,
    write_policy,
)
from pomp.runs.transitions import TransitionsRun
from pomp.runs.work import OnEvent, Work
from pomp.tasks.task import Setting
from pomp.version import __version__

if TYPE_CHECKING:
    from pomp.embedding.space import Embedding

HPRL = "hprl"
"""What the method is called."""
POLICIES_STAGE = "stage 3/4 policies"

_FIELDS: dict[str, Schema] = {
    "device": DEVICE,
    "threads": Maybe(Whole(1)),
    "space": Text(),
    "tasks": Named(TASK),
    "seeds": Listed(COUNT, 1),
    "preset": NAME,
    "method": NAME,
    "hprl": FREE,
}


@dataclass(frozen=True)
class HprlAsked:
    """What a caller asks for; None: as before, or the default.

    Attributes:
        settings: the tasks.
        seeds: whole numbers.
        preset: paper, code or best.
        changes: settings to change, as `{"ppo.total": 1_000_000, "policy.programs": 3}`.
        device: cpu, cuda or auto.
    """

    settings: Sequence[Setting] | None
    seeds: Sequence[int] | None
    preset: str | None
    changes: Mapping[str, Any]
    device: str | None


@dataclass(frozen=True, kw_only=True)
class HprlPlan:
    """A training of HPRL: every task with every seed.

    Attributes:
        settings: the tasks.
        seeds: of training and validation.
        preset: whose settings.
        config: all settings.
    """

    settings: tuple[Setting, ...]
    seeds: tuple[int, ...]
    preset: str
    config: HprlConfig

    @property
    def pairs(self) -> list[tuple[Setting, int]]:
        """Every task with every seed."""
        return [(setting, seed) for setting in self.settings for seed in self.seeds]

    def describe(self) -> dict[str, Any]:
        """Return all of it as JSON, for the folder's config."""
        return {
            "tasks": {one.task.name: describe_task(one) for one in self.settings},
            "seeds": list(self.seeds),
            "preset": self.preset,
            "method": HPRL,
            "hprl": to_json(self.config),
        }

    @classmethod
    def from_json(cls, config: Mapping[str, Any], allow: Collection[str]) -> "HprlPlan":
        """Read the plan from a training's config, which `describe` is the main part of.

        Args:
            config: its fields.
            allow: modules that it may name as homes of tasks.

        Raises:
            UntrustedModuleError: it names another module.
        """
        *_, tasks, seeds, preset, _, settings = take_fields(config, _FIELDS)
        return cls(
            settings=tuple(read_task(one, allow) for one in tasks.values()),
            seeds=tuple(read_seeds(seeds)),
            preset=preset,
            config=from_json(HprlConfig, settings),
        )

    @classmethod
    def of(cls, asked: HprlAsked) -> "HprlPlan":
        """Plan a training."""
        preset = asked.preset or "paper"
        return cls(
            settings=tuple(check_named(asked.settings)),
            seeds=tuple(asked.seeds or (0,)),
            preset=preset,
            config=configure_hprl(preset, _own(asked.changes)),
        )

    def again(self, asked: HprlAsked) -> "HprlPlan":
        """Plan a training that was begun before: what is asked for replaces what it had."""
        config: HprlConfig = changed(self.config, _own(asked.changes))
        return replace(
            self,
            settings=tuple(asked.settings or self.settings),
            seeds=tuple(asked.seeds or self.seeds),
            preset=asked.preset or self.preset,
            config=config,
        )


def _own(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes of settings, if they are HPRL's."""
    for name in changes:
        if name.startswith("search.") or name == "learning_rates":
            raise ConfigError(f"{HPRL} has no {name}: it searches nothing, and learns at one rate")
    return dict(changes)


def is_of_hprl(folder: RunFolder, method: object, *, resume: bool) -> bool:
    """Whether a training is one of HPRL: it is asked for, or was begun and no other is asked for.

    Raises:
        ConfigError: the folder was begun with another method.
    """
    before = folder.begun("train", resume=resume)
    if before is None:
        return isinstance(method, str) and method == HPRL
    had = before.get("method")
    if (had == HPRL) != (method == HPRL) and method is not None:
        raise ConfigError(f"the training was begun with the method {had}, not with {method}")
    return bool(had == HPRL)


def refuse_modes(modes: object) -> None:
    """Refuse modes beside a method that has none."""
    if modes is not None:
        raise ConfigError(f"{HPRL} writes its programs itself; leave out the modes")


def train_hprl(
    asked: HprlAsked, folder: RunFolder, *, resume: bool, on_event: OnEvent | None
) -> LearningResult:
    """Learn policies that write programs, and evaluate them.

    Args:
        asked: what is to be learned.
        folder: the run's, which is closed by the caller.
        resume: go on with the training in the folder.
        on_event: told of progress; if it returns True, the training is saved and stops.

    Raises:
        ConfigError: something asked for does not fit, or the folder was begun otherwise.
        OutputError: the folder exists, or cannot be written.
        TrainingError: a loss is not a number any more.
        MissingExtraError: torch is not installed.
    """
    before = plan_before(
        folder,
        "train",
        lambda config, allowed: (config["device"], HprlPlan.from_json(config, allowed)),
        resume=resume,
        trusted=lambda: [*folder.allow, *task_modules(asked.settings or ())],
    )
    plan = HprlPlan.of(asked) if before is None else before[1].again(asked)
    require(LEARN, "a training with an embedding")
    device = check_device(asked.device or (before[0] if before else "cpu"))
    run = HprlRun(plan, device, folder)
    folder.open("train", run.describe, resume=resume, growth=run.growth())
    run.learned = read_all(plan.pairs, folder)
    was_finished = folder.has(SUMMARY_FILE)
    return learn_all(run, len(plan.pairs), HPRL, on_event, was_finished=was_finished)


class HprlRun:
    """A training of HPRL: its ensembles, and what they have learned.

    Attributes:
        plan: what was asked for.
        folder: where it is kept.
        learned: the policies that are evaluated, by task and seed.
    """

    def __init__(self, plan: HprlPlan, device: str, folder: RunFolder) -> None:
        """Load the embedding, so that what does not fit is told before any work begins."""
        from pomp.hprl.episodes import load_space

        self.plan, self.folder, self._device = plan, folder, device
        self._space: Embedding = load_space(plan.config.policy.embedding, device)
        self._ensembles: list[TransitionsRun] = []
        self.learned: dict[tuple[str, int], LearnedMachine] = {}

    @property
    def pairs(self) -> list[tuple[Setting, int]]:
        """Every task with every seed."""
        return self.plan.pairs

    def describe(self) -> dict[str, Any]:
        """Return the config that a resumed training must have, too."""
        threads = thread_count() if self._device == "cpu" else None
        where = {"device": self._device, "threads": threads}
        return {**where, "space": self._space.digest, **self.plan.describe()}

    def growth(self) -> Growth:
        """Return what a resumed training may have more of: steps."""
        return Growth({"hprl.ppo.total": False}, self._reopen)

    def _reopen(self, _: Collection[str]) -> None:
        """Remove what a training led to that is extended now."""
        self.folder.remove(SUMMARY_FILE)
        for setting, seed in self.pairs:
            self._folder_of(setting, seed).remove(EVALUATION_FILE)

    def _folder_of(self, setting: Setting, seed: int) -> RunFolder:
        return self.folder.within(*name_of(setting, seed))

    def works(self) -> Iterator[Work]:
        """Yield the works that are left, each when those before are finished."""
        self._ensembles = self._make_ensembles()
        yield from self._ensembles
        if len(self.learned) < len(self.pairs):
            yield Evaluations(self)

    def _make_ensembles(self) -> list[TransitionsRun]:
        """Return the trainings, one for each size of grid."""
        from pomp.hprl.training import MetaTraining, meta_member

        config, sizes = self.plan.config, dict[tuple[int, int], list[Any]]()
        for setting, seed in self.pairs:
            own = sizes.setdefault((setting.height, setting.width), [])
            own.append(meta_member(setting, seed, config))
        ensembles = []
        for number, members in enumerate(sizes.values(), 1):
            count = f" {number}/{len(sizes)}" if len(sizes) > 1 else ""
            training = MetaTraining(members, config, self._device, self._space)
            ensembles.append(TransitionsRun(training, self.folder, POLICIES_STAGE + count))
        return ensembles

    def finish_one(self, setting: Setting, seed: int) -> None:
        """Evaluate and write the best policy of a task and seed."""
        [(training, index)] = [
            (run.training, index)
            for run in self._ensembles
            for index, _ in run.members_of(setting.task.name, seed)
        ]
        score = training.kept[index].score
        provenance = {
            "pomp": __version__,
            "preset": self.plan.preset,
            "seed": seed,
            "validation": score,
            "steps": training.update * training.config.ppo.rollout,
        }
        policy = training.policy(index, provenance)
        found = policy.evaluate(embedding=self._space if self._device == "cpu" else None)
        self.learned[setting.task.name, seed] = write_policy(
            policy, seed, found, {"validation": score}, self._folder_of(setting, seed)
        )
