"""All stages as one run: modes or whole machines, transitions, evaluation.

`DIR/search/` is the folder of the search, of modes or of whole machines. `DIR/TASK/seedN/` gets the
machine, its programs as text, metrics, evaluation, a picture and an animation. `DIR/ensemble*` are
the checkpoints of the transitions, which stay so that a finished training can be extended.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pomp.analysis.bounds import adds_up
from pomp.core.compiling import thread_count
from pomp.core.configs import check_changes
from pomp.core.cuda import check_device
from pomp.core.errors import ConfigError
from pomp.core.extras import LEARN, require
from pomp.learning.methods import LearningMethod, OwnLearning
from pomp.machine.evaluation import evaluate, validate
from pomp.machine.policy import ProgramMachine
from pomp.modes.proposers import Method
from pomp.runs.asked import (
    OWN_SENSORS,
    Seeds,
    TaskLike,
    check_named,
    modules_of,
    plan_before,
    read_seeds,
    read_settings,
    task_modules,
    with_sources,
)
from pomp.runs.evaluations import Evaluations, learn_all
from pomp.runs.evolutions import EvolveRun
from pomp.runs.extending import Growth
from pomp.runs.folder import RunFolder, as_folder, name_of
from pomp.runs.hprl_runs import HprlAsked, is_of_hprl, refuse_modes, train_hprl
from pomp.runs.own_transitions import OWN_CHECKPOINT, OwnTransitionsRun
from pomp.runs.plan import TrainPlan, dropped_modes, make_plan, modes_of, sort_changes
from pomp.runs.plan_again import plan_again
from pomp.runs.quantised import quantise_learned
from pomp.runs.results import (
    EVALUATION_FILE,
    SUMMARY_FILE,
    LearningResult,
    read_all,
    write_learned,
)
from pomp.runs.search_plan import module_of
from pomp.runs.searches import SearchRun
from pomp.runs.transitions import TransitionsRun, remove_checkpoints
from pomp.runs.work import OnEvent, Work
from pomp.tasks.task import Setting
from pomp.version import __version__

if TYPE_CHECKING:
    from pomp.learning.members import Member

SEARCH_STAGE, MACHINES_STAGE = "stage 2/4 search", "stage 2/4 machines"
TRANSITIONS_STAGE = "stage 3/4 transitions"


def train(
    tasks: TaskLike | Sequence[TaskLike] | None = None,
    *,
    preset: str | None = None,
    method: str | Method | LearningMethod | None = None,
    modes: str | Path | Sequence[str] | None = None,
    seeds: Seeds | None = None,
    settings: Mapping[str, Any] | None = None,
    device: str | None = None,
    out: str | Path | RunFolder | None = None,
    resume: bool = False,
    on_event: OnEvent | None = None,
) -> LearningResult:
    """Learn machines: search their modes, learn their transitions, evaluate them.

    Args:
        tasks: one or more tasks: names, `module:NAME`, tasks, or tasks that are configured.
        preset: whose settings: paper, code or best (the default).
        method: what searches the modes, or a baseline, as listed by `pomp train --help`, or a
            method of your own that searches modes or learns transitions: `module:NAME`, or the
            `pomp.modes.Method` or `pomp.learning.LearningMethod` itself; None: the preset's.
        modes: modes found before: a folder or a file of a search or an evolution, or programs.
        seeds: one seed or several; a machine is learned for every task with each; 0 by default.
        settings: settings to change, as `{"ppo.entropy": 0.1, "search.mode.runs": 5}`;
            `learning_rates` has those that are tried, `search.own_sensors` sensors of one's own
            that the rules of machines may ask for.
        device: cpu (the default), cuda or auto.
        out: the training's folder; None: the training is in memory. One that names
            modules of your own is resumed as `RunFolder(path, allow=["module"])`; so are machines
            read that are given as modes and ask for sensors of your own.
        resume: go on with the training in the folder. What is not given is as it was; a larger
            `ppo.total` or `search.rounds` (of machines with rules) extends it, even if it is
            finished.
        on_event: told of progress; if it returns True, the training is saved and stops.

    Raises:
        ConfigError: something asked for does not fit, or the folder was begun otherwise.
        OutputError: the folder exists, or cannot be written.
        TrainingError: a loss is not a number any more.
        MissingExtraError: networks are asked for, and torch is not installed.
    """
    with closing(as_folder(out)) as folder:
        chosen = None if tasks is None else read_settings(tasks)
        own = None if seeds is None else read_seeds(seeds)
        changes = check_changes(settings)
        if is_of_hprl(folder, method, resume=resume):
            refuse_modes(modes)
            asked_of = HprlAsked(chosen, own, preset, changes, device)
            return train_hprl(asked_of, folder, resume=resume, on_event=on_event)
        named = method.source if isinstance(method, LearningMethod) else method
        sensed = with_sources(sort_changes(changes)[1]).get(OWN_SENSORS, ())
        before = plan_before(
            folder,
            "train",
            lambda config, allowed: (config["device"], TrainPlan.from_json(config, allowed)),
            resume=resume,
            trusted=lambda: [
                *(*folder.allow, *task_modules(chosen or ())),
                *(*module_of(named), *modules_of(sensed)),
            ],
        )
        if before is None:
            asked = (check_named(chosen), own or [0], preset or "best")
            plan = make_plan(*asked, method, modes, changes, folder.allow)
        else:
            given = (chosen, own, preset, method, modes, changes)
            plan = plan_again(before[1], *given, folder.allow)
        if plan.needs_torch:
            require(LEARN, "a training with a network or an embedding")
        where = check_device(device or (before[0] if before else "cpu"))
        with closing(TrainRun(plan, where, folder)) as run:
            folder.open("train", run.describe, resume=resume, growth=run.growth())
            was_finished, planned = folder.has(SUMMARY_FILE), len(plan.pairs)
            found = learn_all(run, planned, plan.method, on_event, was_finished=was_finished)
            if found.is_finished and not was_finished:
                run.remove_own()
            return found


def _check_teaching(plan: TrainPlan) -> None:
    """Refuse tasks for which a planner is asked that cannot plan there."""
    if plan.has_network and plan.own is None and plan.learning.teaching.steps:
        for setting in plan.settings:
            if not adds_up(setting):
                raise ConfigError(
                    f"no planner can teach {setting.task.name} ({setting.variant}): its rewards do "
                    "not add up to its return; teaching.steps must be 0 here"
                )


class TrainRun:
    """A training: its stages, and what goes from one to the next.

    Attributes:
        plan: what was asked for.
        folder: where it is kept.
        learned: the machines that are evaluated, by task and seed.
    """

    def __init__(self, plan: TrainPlan, device: str, folder: RunFolder) -> None:
        _check_teaching(plan)
        self.plan, self._device, self.folder = plan, device, folder
        self._part = folder.within("search")
        self._search = SearchRun(plan.jobs(), device, self._part, SEARCH_STAGE)
        self._evolved: dict[tuple[str, int], ProgramMachine] = dict(plan.machines)
        self._ensembles: list[TransitionsRun] = []
        self._own: dict[tuple[str, int], OwnTransitionsRun] = {}
        sources = [*plan.own_sensors, *([plan.own.method.source] if plan.own else [])]
        trusted = (*folder.allow, *modules_of(sources))
        self.learned = read_all(plan.pairs, folder, trusted)

    @property
    def pairs(self) -> list[tuple[Setting, int]]:
        """Every task with every seed."""
        return self.plan.pairs

    def describe(self) -> dict[str, Any]:
        """Return the config that a resumed training must have, too."""
        threads = thread_count() if self._device == "cpu" else None
        return {"device": self._device, "threads": threads, **self.plan.describe()}

    def growth(self) -> Growth:
        """Return what a resumed training may have more of: steps, and rounds of its search."""
        return Growth({"learning.ppo.total": False, "evolution.rounds": True}, self._reopen)

    def _reopen(self, names: Collection[str]) -> None:
        """Remove what a training led to that is extended now."""
        self.folder.remove(SUMMARY_FILE)
        for setting, seed in self.plan.pairs:
            self._folder_of(setting, seed).remove(EVALUATION_FILE)
        self.learned.clear()
        if "evolution.rounds" in names:  # other modes: their transitions are learned anew
            remove_checkpoints(self.folder)
            self.remove_own()

    def remove_own(self) -> None:
        """Remove the checkpoints of a learning method of one's own, which cannot be extended."""
        for setting, seed in self.plan.pairs:
            self._folder_of(setting, seed).remove(OWN_CHECKPOINT)

    def close(self) -> None:
        """Give up the lock of the search's folder."""
        self._part.close()

    def _folder_of(self, setting: Setting, seed: int) -> RunFolder:
        return self.folder.within(*name_of(setting, seed))

    def works(self) -> Iterator[Work]:
        """Yield the works of stages 2 to 4 that are left, each when those before are finished."""
        yield from self._searches()
        if self.plan.own is not None:
            self._own = self._begin_own(self.plan.own)
            yield from self._own.values()
        elif self.plan.has_network:
            self._ensembles = self._make_ensembles()
            yield from self._ensembles
        if len(self.learned) < len(self.plan.pairs):
            yield Evaluations(self)

    # Stage 2: modes, or whole machines

    def _searches(self) -> Iterator[Work]:
        if self.plan.evolution is not None:
            evolution, folder = self.plan.evolution, self._part
            folder.open_part("evolve", evolution.describe, evolution.growth(folder))
            run = EvolveRun(evolution, folder, MACHINES_STAGE)
            yield from run.works()
            self._evolved = {key: one.machine for key, one in run.learned.items()}
        elif self.plan.searches:
            self._part.open_part("search", self._search.describe)
            if not self._search.is_written:
                yield self._search

    def _modes_of(self, setting: Setting, seed: int) -> tuple[str, ...]:
        """Return the modes of a task and seed, given or found."""
        key = (setting.task.name, seed)
        if key in self.plan.modes:
            return self.plan.modes[key]
        if key in self._evolved:
            return modes_of(self._evolved[key])
        jobs = self._search.jobs
        job = next(job for job in jobs if (job.setting.task.name, job.seed) == key)
        found = self._search.found(job)["modes"]
        if self.plan.learning.alone:
            found = sorted(found, key=lambda mode: -mode["return"])
        return tuple(mode["program"] for mode in found)

    # Stage 3: transitions

    def _make_ensembles(self) -> list[TransitionsRun]:
        """Return the trainings of stage 3, one for each size of grid."""
        from pomp.learning.training import Training

        sizes: dict[tuple[int, int], list[Member]] = {}
        for setting, seed in self.plan.pairs:
            size = setting.height, setting.width
            sizes.setdefault(size, []).extend(self._members_of(setting, seed))
        ensembles = []
        for number, members in enumerate(sizes.values(), 1):
            count = f" {number}/{len(sizes)}" if len(sizes) > 1 else ""
            training = Training(members, self.plan.learning, self._device)
            ensembles.append(TransitionsRun(training, self.folder, TRANSITIONS_STAGE + count))
        return ensembles

    def _begin_own(self, own: OwnLearning) -> dict[tuple[str, int], OwnTransitionsRun]:
        """Return the works of stage 3 by a method of one's own, one for each machine."""
        works: dict[tuple[str, int], OwnTransitionsRun] = {}
        for setting, seed in self.plan.pairs:
            learner = own.begin(setting, self._modes_of(setting, seed), seed)
            folder, number = self._folder_of(setting, seed), len(works) + 1
            count = f" {number}/{len(self.plan.pairs)}" if len(self.plan.pairs) > 1 else ""
            stage = TRANSITIONS_STAGE + count
            works[setting.task.name, seed] = OwnTransitionsRun(learner, folder, stage)
        return works

    def _members_of(self, setting: Setting, seed: int) -> "list[Member]":
        from pomp.learning.members import Member

        modes = self._modes_of(setting, seed)
        # Of equals the first is taken: the machine with fewer modes.
        has_first = self.plan.learning.alone and not self.plan.has_machines and len(modes) > 1
        sets = [modes[:1], modes] if has_first else [modes]
        rates, tries = self.plan.learning_rates, range(self.plan.learning.tries)
        return [
            Member(setting, one, seed, rate, attempt)
            for one in sets
            for rate in rates
            for attempt in tries
        ]

    # Stage 4: evaluation

    def finish_one(self, setting: Setting, seed: int) -> None:
        """Choose the best machine of a task and seed by validation, evaluate and write it.

        Of a learning method of one's own it is what that learned, whatever the search found.
        """
        evolved = None if self._own else self._evolved.get((setting.task.name, seed))
        found = [self._learned(setting, seed)] if self._ensembles else []
        if self._own:
            found = [self._learned_by_own(setting, seed)]
        has_no_score = evolved is not None or bool(self._own)  # of a training's validations
        if evolved is not None:
            known = {"pomp": __version__, "preset": self.plan.preset, "seed": seed}
            provenance = {**known, "modes": len(evolved.modes), "search": "text"}
            found = [replace(evolved, provenance=provenance), *found]
        scores = [validate(machine) if has_no_score else None for machine in found]
        best = max(range(len(found)), key=lambda one: (scores[one] or 0.0, -one))
        how, folder = self.plan.learning.quantising, self._folder_of(setting, seed)
        machine, about = quantise_learned(found[best], how, seed, folder)
        if has_no_score:
            machine.provenance = {**machine.provenance, "validation": scores[best]}
        kind = {"transitions": machine.transition.kind, "sensors": machine.sensors}
        dropped = dropped_modes(
            self._modes_of(setting, seed) if evolved is None else evolved.modes, machine
        )
        self.learned[setting.task.name, seed] = write_learned(
            setting,
            seed,
            machine,
            evaluate(machine),
            {"validation": machine.provenance["validation"], **kind, "dropped": dropped, **about},
            folder,
        )

    def _learned(self, setting: Setting, seed: int) -> ProgramMachine:
        """Return the best machine with a network, by the validations of its training."""
        found = [
            (run.training, index)
            for run in self._ensembles
            for index, _ in run.members_of(setting.task.name, seed)
        ]
        training, index = max(found, key=lambda one: one[0].kept[one[1]].worth)
        member, search = training.members[index], "text" if self.plan.has_machines else "given"
        provenance = {
            "pomp": __version__,
            "preset": self.plan.preset,
            "seed": seed,
            "learning_rate": member.learning_rate,
            "modes": len(member.modes),
            "validation": training.kept[index].score,
            "steps": training.update * training.config.ppo.rollout,
            "search": self.plan.searches[0].method if self.plan.searches else search,
        }
        return training.machine(index, provenance)

    def _learned_by_own(self, setting: Setting, seed: int) -> ProgramMachine:
        """Return the machine whose transitions a method of one's own has learned."""
        assert self.plan.own is not None
        modes = self._modes_of(setting, seed)
        return ProgramMachine(
            task=setting.task,
            modes=modes,
            transition=self._own[setting.task.name, seed].learner.transition(),
            variant=setting.variant,
            options=setting.option_texts,
            size=(setting.height, setting.width),
            provenance={
                "pomp": __version__,
                "preset": self.plan.preset,
                "seed": seed,
                "modes": len(modes),
                "learning": self.plan.own.method.name,
            },
        )
