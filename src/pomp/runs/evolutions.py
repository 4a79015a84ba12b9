"""Whole machines with rules, searched as a run: one work for each task and seed.

The folder has `TASK/seedN/` with the machine, its evaluation, pictures and `metrics.jsonl`, a line
for each round; `state.safetensors` there is the checkpoint, which stays so that a finished search
can be extended.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.analysis.simplification import simplify
from pomp.core.compiling import thread_count
from pomp.core.configs import changed, check_count
from pomp.core.cuda import check_device
from pomp.core.schemas import COUNT, SCORE, Listed, Number, Record
from pomp.evolution.config import BUDGETS
from pomp.evolution.genome import Machines, sensors_of
from pomp.evolution.population import is_robust
from pomp.evolution.search import Evolution
from pomp.evolution.texts import from_program_machine, to_program_machine
from pomp.machine.evaluation import evaluate
from pomp.machine.policy import ProgramMachine
from pomp.machine.transitions import DecisionList
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
from pomp.runs.evaluations import learn_all
from pomp.runs.evolve_plan import EvolvePlan
from pomp.runs.folder import METRICS_FILE, STATE_FILE, RunFolder, as_folder, name_of
from pomp.runs.given_machines import given_for, read_given_machines
from pomp.runs.given_programs import FROM
from pomp.runs.published import TEXT
from pomp.runs.results import (
    LearnedMachine,
    LearningResult,
    read_all,
    write_learned,
)
from pomp.runs.work import IsStopped, OnEvent, Progress
from pomp.tasks.task import Setting
from pomp.version import __version__

SEARCHING, SIMPLIFYING = 0.88, 0.96  # shares of a seed's time when these end; then it is evaluated
DEPENDENT = "budget-dependent"
_COUNTS = ("round", "evaluated", "programs", "actions", "modes")
_RECORD = Record({"score": SCORE, **dict.fromkeys(_COUNTS, COUNT)})
_CHECKPOINT = Record({"seconds": Number(0.0, 1e9), "records": Listed(_RECORD)}, is_open=True)
"""What a checkpoint holds beside what the search itself remembers."""


def evolve(
    tasks: TaskLike | Sequence[TaskLike] | None = None,
    *,
    sensors: str | None = None,
    seeds: Seeds | None = None,
    minutes: float | None = None,
    rounds: int | None = None,
    settings: Mapping[str, Any] | None = None,
    device: str | None = None,
    out: str | Path | RunFolder | None = None,
    resume: bool = False,
    on_event: OnEvent | None = None,
) -> LearningResult:
    """Search whole machines: programs and rules that a person can read.

    Args:
        tasks: one or more tasks: names, `module:NAME`, tasks, or tasks that are configured.
        sensors: what rules may ask: `perceptions` (the default), or `compass`: also where the next
            marker is.
        seeds: one seed or several; every task is searched with each; 0 by default.
        minutes: time for each task and seed; 5 by default.
        rounds: end each search after so many rounds instead, so that the result depends on the
            seed alone.
        settings: settings to change, as `{"modes": 4, "tokens": 60}`; `own_sensors` has sensors of
            one's own, or their `module:NAME`, that rules may ask for as well; `from` has machines
            that the searches begin with: a file `*.machine`, `zoo:TASK`, or a folder with machines,
            of which those that cannot be used are named and left out.
        device: where machines are played: cpu (the default), cuda or auto.
        out: the run's folder; None: the run is in memory. One that names
            modules of your own is resumed as `RunFolder(path, allow=["module"])`.
        resume: go on with the run in the folder. What is not given is as it was; more minutes, or
            rounds, extend the run, even a finished one.
        on_event: told of progress; if it returns True, the run is saved and stops.

    Raises:
        ConfigError: something asked for does not fit, or the folder was begun otherwise.
        OutputError: the folder exists, or cannot be written.
    """
    if rounds is not None:
        check_count("rounds", rounds)
    with closing(as_folder(out)) as folder:
        chosen = None if tasks is None else tuple(read_settings(tasks))
        changes = with_sources(settings)
        begin_with = changes.pop(FROM, None)
        changes |= {} if sensors is None else {"sensors": sensors}
        sensed = changes.get(OWN_SENSORS, ())
        before = (
            plan_before(
                folder,
                "evolve",
                EvolvePlan.from_json,
                resume=resume,
                trusted=lambda: [*folder.allow, *task_modules(chosen or ()), *modules_of(sensed)],
            )
            or EvolvePlan()
        )
        given = {
            "settings": chosen,
            "seeds": None if seeds is None else tuple(read_seeds(seeds)),
            "config": changed(before.config, changes),
            "minutes": minutes,
            "rounds": rounds,
            "device": None if device is None else check_device(device),
        }
        plan = replace(before, **{name: one for name, one in given.items() if one is not None})
        check_named(plan.settings)
        if begin_with is not None:
            trusted = (*folder.allow, *task_modules(plan.settings), *modules_of(sensed))
            texts = read_given_machines(begin_with, plan.settings, plan.config, trusted)
            plan = replace(plan, given=texts)
        folder.open("evolve", plan.describe, resume=resume, growth=before.growth(folder))
        run = EvolveRun(plan, folder)
        return learn_all(run, len(plan.pairs), TEXT, on_event, was_finished=run.is_written)


class EvolveRun:
    """The searches of all tasks and seeds, one after the other.

    Attributes:
        plan: what was asked for.
        folder: where they are kept.
        learned: the machines found so far, by task and seed.
    """

    def __init__(self, plan: EvolvePlan, folder: RunFolder, stage: str = "") -> None:
        self.plan, self.folder, self._stage = plan, folder, stage
        self.learned = read_all(plan.pairs, folder, modules_of(plan.config.own_sensors))

    @property
    def is_written(self) -> bool:
        """Whether all machines were found by an earlier run."""
        return len(self.learned) == len(self.plan.pairs)

    def works(self) -> Iterator["EvolveSeed"]:
        """Yield the searches that are not finished; what each finds is in `learned` afterwards."""
        for number, (setting, seed) in enumerate(pairs := self.plan.pairs, 1):
            if (setting.task.name, seed) in self.learned:
                continue
            count = f" {number}/{len(pairs)}" if self._stage and len(pairs) > 1 else ""
            stage = f"{self._stage}{count} {setting.task.name}, seed {seed}".lstrip()
            work = EvolveSeed(self.plan, setting, seed, self.folder, stage)
            yield work
            assert work.learned is not None
            self.learned[setting.task.name, seed] = work.learned


class EvolveSeed:
    """The search of one task and seed, as one work.

    Attributes:
        stage: what the work is called in events.
        evolution: the search.
        learned: the machine, once the work is finished.
    """

    save_seconds = 0.0  # after every round

    def __init__(
        self, plan: EvolvePlan, setting: Setting, seed: int, folder: RunFolder, stage: str
    ) -> None:
        self.plan, self.setting, self.seed, self.stage = plan, setting, seed, stage
        self._folder = folder.within(*name_of(setting, seed))
        self._seconds, self._since, self._before = 0.0, time.monotonic(), 0
        self._records: list[dict[str, Any]] = []
        self.learned: LearnedMachine | None = None
        workers = 1 if plan.device == "cuda" else min(plan.config.teams, thread_count())
        given: list[Machines] = []
        if plan.given:  # a task that no file can name has none
            trusted = (*task_modules([setting]), *modules_of(plan.config.own_sensors))
            given = given_for(setting, plan.given, plan.config, trusted)
        self.evolution = Evolution(setting, seed, plan.config, plan.device, workers, given)

    @property
    def is_finished(self) -> bool:
        """Whether the search is over, and has found something."""
        return self._share >= 1.0 and self.evolution.round > 0

    @property
    def _share(self) -> float:
        """How much of the search is over, from 0 to 1."""
        if self.evolution.is_solved:
            return 1.0
        if self.plan.rounds:
            return min(1.0, self.evolution.round / self.plan.rounds)
        return min(1.0, self._spent / (60 * SEARCHING * self.plan.minutes))

    @property
    def _spent(self) -> float:
        """Seconds of this task and seed, those of interrupted runs included."""
        return self._seconds + time.monotonic() - self._since

    def open(self) -> None:
        """Take up the checkpoint if there is one; time counts from here.

        Raises:
            OutputError: the folder cannot be made.
            DataFileError: the checkpoint is damaged.
        """
        self._since = time.monotonic()
        self._folder.make()
        self._folder.restore(self._take)

    def _take(self, arrays: dict[str, NDArray[Any]], values: dict[str, Any]) -> None:
        """Go on from a checkpoint: its `arrays`, each of its own shape `[...]`, and its values."""
        _CHECKPOINT.check(values)
        self.evolution.restore(arrays, values)
        self._seconds, self._records = float(values["seconds"]), values["records"]
        self._before = self.evolution.evaluated

    def advance(self, is_stopped: IsStopped) -> None:
        """Wait for one round, or, when the time is over, for all rounds that have ended."""
        evolution = self.evolution

        def is_over() -> bool:
            is_late = evolution.round > 0 and not self.plan.rounds and self._share >= 1.0
            return is_stopped() or is_late

        before = evolution.round
        if not evolution.advance(is_over) and not is_stopped():
            evolution.gather()
        if evolution.round > before:
            self._records.append(self._record())

    def _record(self) -> dict[str, Any]:
        evolution, hall = self.evolution, self.evolution.hall
        return {
            "round": evolution.round,
            "evaluated": evolution.evaluated,
            "programs": evolution.programs,
            "actions": evolution.actions,
            "score": hall.best,
            "modes": hall.machines[0].modes,
        }

    def save(self) -> None:
        """Write a checkpoint and the rounds so far; those before survive if this fails."""
        if self.evolution.round and self._folder.path is not None:
            arrays, values = self.evolution.to_arrays()
            seconds = 0.0 if self.plan.rounds else self._spent  # by rounds, the same bytes twice
            values |= {"seconds": seconds, "records": self._records}
            self._folder.write_arrays(STATE_FILE, arrays, values)
            self._folder.write_lines(METRICS_FILE, self._records)

    def close(self) -> None:
        """Stop the rounds that are computed in other processes."""
        self.evolution.close()

    def finish(self) -> None:
        """Choose, simplify and evaluate the machine; write everything."""
        chosen, validation = self.evolution.choose()
        known = sensors_of(self.plan.config)
        machine = to_program_machine(self.setting, chosen, known=known)
        end = np.inf if self.plan.rounds else 60 * SIMPLIFYING * self.plan.minutes
        simpler = simplify(machine, seed=self.seed, stop=lambda: self._spent > end).machine
        is_clean = self.evolution.prove(chosen) is not None
        stays_clean = self._is_clean(simpler)
        machine = simpler if stays_clean or not is_clean else machine
        found = evaluate(machine)
        budgets = {budget: evaluate(with_budget(machine, budget)).mean for budget in BUDGETS}
        is_dependent = not is_robust(budgets)
        origin = {"pomp": __version__, "search": "text", "seed": self.seed}
        comments = {"": (DEPENDENT,)} if is_dependent else machine.comments
        machine = replace(machine, comments=comments, provenance=origin)
        about = {
            "sensors": machine.sensors,
            "modes": len(machine.modes),
            "validation": validation,
            "budgets": budgets,
            DEPENDENT: is_dependent,
            "clean": is_clean or stays_clean,
            "search": {
                "rounds": self.evolution.round,
                "machines": self.evolution.evaluated,
                "programs": self.evolution.programs,
                "actions": self.evolution.actions,
            },
        }
        self.learned = write_learned(self.setting, self.seed, machine, found, about, self._folder)

    def _is_clean(self, machine: ProgramMachine) -> bool:
        by = machine.transition
        if isinstance(by, DecisionList) and by.start[0].to is None:  # it stops at once
            return True
        return self.evolution.prove(from_program_machine(machine, self.plan.config)) is not None

    def progress(self) -> Progress:
        """Say how much of the search is over, and what it has found."""
        return Progress(int(self.learned is not None), 1, self._share, self._tell, self.learned)

    def _tell(self) -> str:
        evolution = self.evolution
        tried, seconds = evolution.tried - self._before, time.monotonic() - self._since
        rate = f"{tried / max(seconds, 1e-9):,.0f} machines/s"
        if not evolution.round:
            return rate
        best, modes = evolution.hall.best, evolution.hall.machines[0].modes
        return f"{rate}, round {evolution.round}: {best:.4f} with {modes} modes"


def with_budget(machine: ProgramMachine, calls: int) -> ProgramMachine:
    """Return the same machine whose programs may spend another number of calls."""
    return replace(machine, episode=replace(machine.episode, cap=f"calls{calls}"))
