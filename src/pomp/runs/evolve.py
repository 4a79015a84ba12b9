"""The folder of an evolution: `DIR/<task>/seed<k>/` has the machine, its evaluation and a picture.

`DIR/<task>/seed<k>/state.safetensors` is the checkpoint of a search in progress.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pomp.analysis.pictures import describe_machine, draw_machine, frames_of
from pomp.analysis.simplify import simplify
from pomp.core.compiling import thread_count
from pomp.core.configs import to_json
from pomp.core.errors import DataFileError, OutputError
from pomp.core.storage import read_arrays, remove_drafts, write_arrays, write_text
from pomp.engine.starts import draw_starts
from pomp.evolution.config import BUDGETS, EvolveConfig
from pomp.evolution.search import Evolution, is_robust
from pomp.evolution.texts import to_program_machine
from pomp.karel.render import save_animation
from pomp.machine.evaluation import evaluate
from pomp.machine.policy import ProgramMachine
from pomp.machine.text import SUFFIX, print_machine
from pomp.runs.folder import begin_run, check_config
from pomp.tasks.task import Setting
from pomp.version import __version__

STATE_FILE, METRICS_FILE, EVALUATION_FILE = "state.safetensors", "metrics.jsonl", "evaluation.json"
EVALUATION_SEED = 0
SEARCHING, SIMPLIFYING = 0.88, 0.96  # shares of a seed's time when these end; then it is evaluated
DEPENDENT = "budget-dependent"


@dataclass(frozen=True)
class Plan:
    """What `pomp evolve` is asked for.

    Attributes:
        settings: the tasks.
        seeds: of everything drawn.
        config: how machines are searched.
        minutes: for each task and seed, unless `rounds` are given.
        rounds: after which each search ends; 0: when its time is over.
        device: where machines are played.
    """

    settings: tuple[Setting, ...]
    seeds: tuple[int, ...]
    config: EvolveConfig
    minutes: float = 5.0
    rounds: int = 0
    device: str = "cpu"

    def describe(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {
            "pomp": __version__,
            "tasks": {setting.task.name: setting.describe() for setting in self.settings},
            "seeds": list(self.seeds),
            "minutes": self.minutes,
            "rounds": self.rounds,
            "device": self.device,
            "evolve": to_json(self.config),
        }


class EvolutionRun:
    """One task and seed of an evolution.

    Attributes:
        folder: where its files go.
        evolution: the search.
        seconds: spent by the search so far.
        records: a line for each round.
    """

    def __init__(self, path: Path, plan: Plan, setting: Setting, seed: int) -> None:
        self.plan, self.setting, self.seed = plan, setting, seed
        self.folder = path / setting.task.name / f"seed{seed}"
        self.seconds, self._since = 0.0, time.monotonic()
        self.records: list[dict[str, Any]] = []
        workers = 1 if plan.device == "cuda" else min(plan.config.teams, thread_count())
        self.evolution = Evolution(setting, seed, plan.config, plan.device, workers)

    @property
    def is_finished(self) -> bool:
        """Whether everything is written."""
        return (self.folder / EVALUATION_FILE).is_file()

    @property
    def share(self) -> float:
        """How much of the search is over, from 0 to 1."""
        if self.evolution.is_solved:
            return 1.0
        if self.plan.rounds:
            return min(1.0, self.evolution.round / self.plan.rounds)
        return min(1.0, self.spent / (60 * SEARCHING * self.plan.minutes))

    @property
    def spent(self) -> float:
        """Seconds of this task and seed, those of interrupted runs included."""
        return self.seconds + time.monotonic() - self._since

    def open(self) -> None:
        """Make the folder, or go on from its checkpoint; time counts from here.

        Raises:
            OutputError: the folder cannot be made.
            DataFileError: the checkpoint is damaged.
        """
        self._since = time.monotonic()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"cannot write '{self.folder}': {error.strerror}") from error
        remove_drafts(self.folder, STATE_FILE, METRICS_FILE, EVALUATION_FILE, self.file.name)
        state = self.folder / STATE_FILE
        if not state.exists():
            return
        try:
            arrays, values = read_arrays(state, "checkpoint of a search for machines")
            self.evolution.restore(arrays, values)
            self.seconds, self.records = float(values["seconds"]), list(values["records"])
        except (DataFileError, KeyError, ValueError, TypeError, IndexError) as error:
            what = f"'{state}' is damaged, or no checkpoint of this search"
            raise DataFileError(f"{what}; delete it to begin this seed anew") from error

    def advance(self, stop: Callable[[], bool]) -> bool:
        """One round and a checkpoint; whether it came to its end.

        When the time is over, all rounds that came to theirs.
        """
        evolution = self.evolution

        def is_over() -> bool:
            return stop() or (evolution.round > 0 and not self.plan.rounds and self.share >= 1.0)

        before = evolution.round
        if not evolution.advance(is_over) and not stop():
            evolution.gather()
        if evolution.round == before:
            return False
        hall = evolution.hall
        self.records.append(
            {
                "round": evolution.round,
                "evaluated": evolution.evaluated,
                "programs": evolution.programs,
                "actions": evolution.actions,
                "score": hall.best,
                "modes": hall.machines[0].modes,
            }
        )
        arrays, values = evolution.to_arrays()
        values |= {"seconds": self.spent, "records": self.records}
        write_arrays(self.folder / STATE_FILE, arrays, values)
        return True

    def close(self) -> None:
        """Stop what goes on beside this."""
        self.evolution.close()

    @property
    def file(self) -> Path:
        """Where the machine goes."""
        return self.folder / f"{self.setting.task.name}{SUFFIX}"

    def finish(self) -> dict[str, Any]:
        """Choose, simplify and evaluate the machine; write everything."""
        chosen, judged = self.evolution.choose()
        machine = to_program_machine(self.setting, chosen)
        end = np.inf if self.plan.rounds else 60 * SIMPLIFYING * self.plan.minutes
        machine = simplify(machine, seed=self.seed, stop=lambda: self.spent > end).machine
        found = evaluate(machine, seed=EVALUATION_SEED)
        budgets = {
            budget: evaluate(with_budget(machine, budget), seed=EVALUATION_SEED).mean
            for budget in BUDGETS
        }
        is_dependent = not is_robust(budgets)
        if is_dependent:
            machine = replace(machine, comments={"": (DEPENDENT,)})
        starts = draw_starts(found.setting, len(found.returns), EVALUATION_SEED)
        write_text(self.file, print_machine(machine))
        write_text(self.folder / "machine.txt", describe_machine(machine, found) + "\n")
        write_text(self.folder / "machine.svg", draw_machine(machine, found))
        save_animation(frames_of(machine, found, starts), self.folder / "episode.gif")
        lines = "".join(json.dumps(one, sort_keys=True) + "\n" for one in self.records)
        write_text(self.folder / METRICS_FILE, lines)
        told = {
            "task": self.setting.task.name,
            "seed": self.seed,
            "sensors": machine.sensors,
            "modes": len(machine.modes),
            "validation": judged,
            "budgets": budgets,
            DEPENDENT: is_dependent,
            "search": {
                "rounds": self.evolution.round,
                "machines": self.evolution.evaluated,
                "programs": self.evolution.programs,
                "actions": self.evolution.actions,
            },
            **{name: value for name, value in found.to_json().items() if name != "returns"},
            "text": print_machine(machine),
        }
        write_text(self.folder / EVALUATION_FILE, json.dumps(told, indent=1) + "\n")
        (self.folder / STATE_FILE).unlink(missing_ok=True)
        return told


def with_budget(machine: ProgramMachine, calls: int) -> ProgramMachine:
    """The same machine whose programs may spend another number of calls."""
    return replace(machine, episode=replace(machine.episode, cap=f"calls{calls}"))


def begin_evolution(path: Path, plan: Plan) -> None:
    """Make the folder.

    Raises:
        OutputError: it exists, or cannot be made.
    """
    begin_run(path, plan.describe())


def check_evolution(path: Path, plan: Plan) -> None:
    """Make sure that the folder was begun with this plan."""
    check_config(path, plan.describe())


def read_result(folder: Path) -> dict[str, Any]:
    """What `finish` wrote."""
    return dict(json.loads((folder / EVALUATION_FILE).read_text()))
