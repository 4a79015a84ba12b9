"""Whole machines with rules, searched as a run: one work for each task and seed.

The folder has `TASK/seedN/` with the machine, its evaluation, pictures and `metrics.jsonl`, a line
for each round; `state.safetensors` there is the checkpoint of a search in progress.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.analysis.simplification import simplify
from pomp.core.compiling import thread_count
from pomp.core.configs import changed, to_json
from pomp.core.cuda import check_device
from pomp.core.errors import ConfigError
from pomp.evolution.config import BUDGETS, EvolveConfig
from pomp.evolution.genome import sensors_of
from pomp.evolution.search import Evolution, is_robust
from pomp.evolution.texts import to_program_machine
from pomp.machine.evaluation import evaluate
from pomp.machine.policy import ProgramMachine
from pomp.runs.asked import Seeds, TaskLike, read_seeds, read_settings, with_sources
from pomp.runs.folder import METRICS_FILE, STATE_FILE, RunFolder, describe_task, name_of
from pomp.runs.published import TEXT
from pomp.runs.results import (
    EVALUATION_FILE,
    SUMMARY_FILE,
    LearnedMachine,
    LearningResult,
    modules_of,
    read_learned,
    sum_up,
    write_learned,
)
from pomp.runs.work import IsStopped, OnEvent, Progress, Stages, Watch, drive
from pomp.tasks.task import Setting
from pomp.version import __version__

SEARCHING, SIMPLIFYING = 0.88, 0.96  # shares of a seed's time when these end; then it is evaluated
DEPENDENT = "budget-dependent"


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
    """

    settings: tuple[Setting, ...]
    seeds: tuple[int, ...]
    config: EvolveConfig
    minutes: float = 5.0
    rounds: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        if not self.minutes > 0:
            raise ConfigError(f"minutes must be positive, got {self.minutes}")
        if isinstance(self.rounds, bool) or not isinstance(self.rounds, int) or self.rounds < 0:
            raise ConfigError(f"rounds must be a whole number from 1, got {self.rounds}")

    def describe(self) -> dict[str, Any]:
        """Return all of it as JSON."""
        return {
            "tasks": {one.task.name: describe_task(one) for one in self.settings},
            "seeds": list(self.seeds),
            "minutes": self.minutes,
            "rounds": self.rounds,
            "device": self.device,
            "evolve": to_json(self.config),
        }


def evolve(
    tasks: TaskLike | Sequence[TaskLike],
    *,
    sensors: str = "perceptions",
    seeds: Seeds = 0,
    minutes: float = 5.0,
    rounds: int | None = None,
    settings: Mapping[str, Any] | None = None,
    device: str = "cpu",
    out: str | Path | None = None,
    resume: bool = False,
    on_event: OnEvent | None = None,
) -> LearningResult:
    """Search whole machines: programs and rules that a person can read.

    Args:
        tasks: one or more tasks: names, `module:NAME`, tasks, or tasks that are configured.
        sensors: what rules may ask: `perceptions`, or `compass`: also where the next marker is.
        seeds: one seed or several; every task is searched with each.
        minutes: time for each task and seed.
        rounds: end each search after so many rounds instead, so that the result depends on the
            seed alone.
        settings: settings to change, as `{"modes": 4, "tokens": 60}`; `own_sensors` has sensors of
            one's own, or their `module:NAME`, that rules may ask for as well.
        device: where machines are played: cpu, cuda or auto.
        out: the run's folder; None: the run is in memory.
        resume: go on with the run in the folder.
        on_event: told of progress; if it returns True, the run is saved and stops.

    Raises:
        ConfigError: something asked for does not fit, or the folder was begun otherwise.
        OutputError: the folder exists, or cannot be written.
    """
    if rounds is not None and rounds < 1:
        raise ConfigError(f"rounds must be at least 1, got {rounds}")
    plan = EvolvePlan(
        tuple(read_settings(tasks)),
        tuple(read_seeds(seeds)),
        changed(EvolveConfig(), with_sources({"sensors": sensors, **(settings or {})})),
        minutes,
        rounds or 0,
        check_device(device),
    )
    run = EvolveRun(plan, RunFolder(out))
    run.folder.open("evolve", plan.describe, resume=resume)
    was_finished = run.is_written
    is_finished = was_finished or drive(Stages(run.works()), Watch(on_event))
    learned = tuple(run.learned.values())
    if is_finished and not run.folder.has(SUMMARY_FILE):
        run.folder.write_text(SUMMARY_FILE, json.dumps(sum_up(learned, TEXT), indent=1) + "\n")
    planned = len(plan.settings) * len(plan.seeds)
    return LearningResult(is_finished, was_finished, learned, planned, run.folder.path, TEXT)


class EvolveRun:
    """The searches of all tasks and seeds, one after the other.

    Attributes:
        folder: where they are kept.
        learned: the machines found so far, by task and seed.
    """

    def __init__(self, plan: EvolvePlan, folder: RunFolder, stage: str = "") -> None:
        self._plan, self.folder, self._stage = plan, folder, stage
        self.learned: dict[tuple[str, int], LearnedMachine] = {}
        for setting, seed in self._pairs():
            place = folder.within(*name_of(setting, seed))
            if place.has(EVALUATION_FILE):
                self.learned[setting.task.name, seed] = read_learned(
                    setting, seed, place, modules_of(plan.config.own_sensors)
                )

    def _pairs(self) -> list[tuple[Setting, int]]:
        return [(setting, seed) for setting in self._plan.settings for seed in self._plan.seeds]

    @property
    def is_written(self) -> bool:
        """Whether all machines were found by an earlier run."""
        return len(self.learned) == len(self._pairs())

    def works(self) -> Iterator["EvolveSeed"]:
        """Yield the searches that are not finished; what each finds is in `learned` afterwards."""
        for number, (setting, seed) in enumerate(pairs := self._pairs(), 1):
            if (setting.task.name, seed) in self.learned:
                continue
            count = f" {number}/{len(pairs)}" if self._stage and len(pairs) > 1 else ""
            stage = f"{self._stage}{count} {setting.task.name}, seed {seed}".lstrip()
            work = EvolveSeed(self._plan, setting, seed, self.folder, stage)
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
        self._seconds, self._since = 0.0, time.monotonic()
        self._records: list[dict[str, Any]] = []
        self.learned: LearnedMachine | None = None
        workers = 1 if plan.device == "cuda" else min(plan.config.teams, thread_count())
        self.evolution = Evolution(setting, seed, plan.config, plan.device, workers)

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
        self.evolution.restore(arrays, values)
        self._seconds, self._records = float(values["seconds"]), list(values["records"])

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
            values |= {"seconds": self._spent, "records": self._records}
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
        machine = simplify(machine, seed=self.seed, stop=lambda: self._spent > end).machine
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
            "search": {
                "rounds": self.evolution.round,
                "machines": self.evolution.evaluated,
                "programs": self.evolution.programs,
                "actions": self.evolution.actions,
            },
        }
        self.learned = write_learned(self.setting, self.seed, machine, found, about, self._folder)
        self._folder.remove(STATE_FILE)

    def progress(self) -> Progress:
        """Say how much of the search is over, and what it has found."""
        return Progress(int(self.learned is not None), 1, self._share, self._tell, self.learned)

    def _tell(self) -> str:
        evolution = self.evolution
        rate = f"{evolution.tried / max(self._spent, 1e-9):,.0f} machines/s"
        if not evolution.round:
            return rate
        best, modes = evolution.hall.best, evolution.hall.machines[0].modes
        return f"{rate}, round {evolution.round}: {best:.4f} with {modes} modes"


def with_budget(machine: ProgramMachine, calls: int) -> ProgramMachine:
    """Return the same machine whose programs may spend another number of calls."""
    return replace(machine, episode=replace(machine.episode, cap=f"calls{calls}"))
