"""`pomp train`."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, UseAppendAction, arg

from pomp.cli.evolve import print_table, search_machine
from pomp.cli.inputs import parse_options, parse_seeds, read_value
from pomp.cli.progress import Progress
from pomp.cli.search import SAVE_SECONDS, advance_search
from pomp.cli.stopping import Stop, check_minutes, stopping
from pomp.core.errors import ConfigError

if TYPE_CHECKING:
    from pomp.runs.plan import Plan
    from pomp.runs.train import Group, TrainingRun


@dataclass(frozen=True, kw_only=True)
class Train:
    """Learn a machine: search its modes, learn its transitions, evaluate it. Ctrl-C saves."""

    tasks: Annotated[Positional[tuple[str, ...]], arg(metavar="TASK...")]
    """One or more tasks."""
    out: str
    """The training's folder; a new one unless --resume is given."""
    seeds: str = "0"
    """One number, a list (0,3) or a range (0-4)."""
    preset: Literal["paper", "code", "best"] = "best"
    """Whose settings."""
    method: str | None = None
    """What searches the modes: text-modes (whole machines with rules; a network learns on their
    modes, and the better machine is kept), pomp, pomp-program-space, annealing-modes, cem-xm,
    cem-diversity-topk or cem-diversity-xm; without it text-modes for the preset best, pomp for the
    others. Or text: machines with rules alone. Or a baseline without a search: psmp, drl or
    perception-ppo."""
    modes: str | None = None
    """Modes found before: the folder of a search or of pomp evolve (whose machines compete with
    the networks on their modes), a modes.json, the results of many searches as
    results/search/pomp.json, or a file with a program per line."""
    learning_rates: str | None = None
    """Learning rates to try, as in 1e-2,1e-3,1e-4; the best by validation is kept."""
    set: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="NAME=VALUE")] = ()
    """Change a setting, as in ppo.entropy=0.1 or search.mode.runs=5; may be given several times."""
    variant: str | None = None
    """The tasks' variant; without it each task's default."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where it runs."""
    resume: bool = False
    """Go on with the training in the folder."""
    minutes: float | None = None
    """Stop after so many minutes, saved, to be resumed."""
    json: bool = False
    """Print one JSON document."""

    def run(self) -> int:
        """All stages, each from where it was left."""
        check_minutes(self.minutes)
        plan = self._plan()
        from pomp.core.cuda import check_device
        from pomp.runs.folder import clear_if_not_begun
        from pomp.runs.train import TrainingRun

        check_device(self.device)
        training = TrainingRun(Path(self.out), plan, self.device)
        if not self.resume or clear_if_not_begun(training.path):
            training.begin()
        elif training.check():
            return self._report(training, "was finished before")
        with stopping(self.minutes) as stop:
            is_finished = _search(training, stop) and self._learn(training, stop)
        if is_finished:
            return self._report(training, "finished")
        if self.json:
            print(json.dumps({"finished": False}))
        else:
            print("stopped; go on with --resume and the same settings")
        return 130 if stop.was_asked else 0

    def _plan(self) -> "Plan":
        from pomp.learning.baselines import BASELINES
        from pomp.runs.plan import make_plan
        from pomp.tasks.catalog import find_task

        if not self.tasks:
            raise ConfigError("name a task to train, as in 'pomp train UpNDown --out runs/up'")
        settings = [find_task(name).configure(self.variant) for name in self.tasks]
        names = [setting.task.name for setting in settings]
        if len(set(names)) < len(names):
            raise ConfigError("a task is named twice")
        seeds = parse_seeds(self.seeds)
        machines = _read_machines(Path(self.modes), names, seeds) if self.modes else None
        given = None
        if self.modes and not machines:
            given = _read_given(Path(self.modes), names, seeds)
        changes = {
            name: read_value(text)
            for name, text in parse_options(self.set, "ppo.entropy=0.1").items()
        }
        rates = _parse_rates(self.learning_rates) if self.learning_rates else ()
        method = self.method
        if method in BASELINES:
            if self.modes:
                raise ConfigError(f"{method} has modes of its own; leave out --modes")
            baseline, method = BASELINES[method], None
            given = {(name, seed): baseline.modes for name in names for seed in seeds}
            changes = {**baseline.changes, **changes}
        return make_plan(settings, seeds, self.preset, method, changes, rates, given, machines)

    def _learn(self, training: "TrainingRun", stop: Stop) -> bool:
        """Stages 3 and 4; whether they came to their end."""
        groups = training.open_groups()
        for number, group in enumerate(groups):
            label = f"transitions {number + 1}/{len(groups)}" if len(groups) > 1 else "transitions"
            _advance(group, f"stage 3/4 {label}", stop)
            if not group.training.is_finished:
                training.write_metrics(groups)
                return False
        progress = Progress("stage 4/4 evaluation", len(self.tasks))
        training.finish(groups, progress.step)
        progress.close()
        return True

    def _report(self, training: "TrainingRun", how: str) -> int:
        from pomp.runs.summary import SUMMARY_FILE

        summary = json.loads((training.path / SUMMARY_FILE).read_text())
        if self.json:
            print(json.dumps({"finished": True, **summary}))
            return 0
        print(f"{self.out}: {how}")
        for task, row in summary["tasks"].items():
            best = max(row["machines"], key=lambda one: (one["validation"] or 0.0, -one["seed"]))
            folder = training.path / task / f"seed{best['seed']}"
            print(f"\n{task}, seed {best['seed']}: {folder}")
            print((folder / "machine.txt").read_text().rstrip())
        print()
        print_table(summary["tasks"])
        return 0


def _search(training: "TrainingRun", stop: Stop) -> bool:
    """Stage 2; whether it came to its end."""
    for number, one in enumerate(runs := training.open_evolutions(), 1):
        if not one.is_finished:
            label = f"stage 2/4 machines {number}/{len(runs)}" if len(runs) > 1 else "stage 2/4"
            if not search_machine(one, stop, label):
                return False
            one.finish()
    if not training.needs_search():
        return True
    batch = training.open_search()
    advance_search(batch, training.search, stop, "stage 2/4 search")
    if batch.is_finished:
        training.search.close()
    return batch.is_finished


def _advance(group: "Group", label: str, stop: Stop) -> None:
    """Update until the ensemble is finished or a stop is asked for, with checkpoints."""
    training = group.training
    total = training.config.ppo.updates
    progress = Progress(label, len(training.members))
    began, before, saved = time.monotonic(), training.update, time.monotonic()

    def note() -> str:
        done = (training.update - before) * training.config.ppo.rollout * len(training.members)
        rate = done / max(time.monotonic() - began, 1e-9)
        scores = [kept.score for kept in training.kept if kept.score is not None]
        best = f", best validation {max(scores):.3f}" if scores else ""
        return f"{rate:,.0f} steps/s{best}"

    try:
        while not training.is_finished and not stop():
            group.advance()
            finished = sum(when is not None for when in training.finished_at)
            progress.share(finished, training.update / total, note)
            if time.monotonic() - saved > SAVE_SECONDS:
                group.save()
                saved = time.monotonic()
    finally:
        progress.close()
    group.save()


def _parse_rates(text: str) -> tuple[float, ...]:
    try:
        rates = tuple(float(part) for part in text.split(","))
    except ValueError:
        rates = ()
    if not rates or not all(0 < rate < 1e3 for rate in rates) or len(set(rates)) < len(rates):
        raise ConfigError(f"learning rates are numbers, as in 1e-2,1e-3, got '{text}'")
    return rates


def _read_machines(path: Path, tasks: list[str], seeds: list[int]) -> dict[tuple[str, int], str]:
    """Texts of the machines in an evolution's folder, for every task and seed; none elsewhere."""
    from pomp.machine.text import SUFFIX, print_machine, read_machine

    files = {
        (task, seed): path / task / f"seed{seed}" / f"{task}{SUFFIX}"
        for task in tasks
        for seed in seeds
    }
    if not any(file.is_file() for file in files.values()):
        return {}
    machines = {key: read_machine(file) for key, file in files.items()}
    for (task, _), machine in machines.items():
        if machine.task.name != task:
            raise ConfigError(
                f"'{path}' has a machine of {machine.task.name} where {task}'s should be"
            )
    return {key: print_machine(machine) for key, machine in machines.items()}


def _read_given(
    path: Path, tasks: list[str], seeds: list[int]
) -> dict[tuple[str, int], tuple[str, ...]]:
    """Modes of a search's folder or of one file, for every task and seed."""
    from pomp.dsl.parser import parse
    from pomp.runs.report import modes_of_results
    from pomp.runs.search_folder import MODES_FILE, read_modes

    def programs(file: Path) -> tuple[str, ...]:
        return tuple(mode["program"] for mode in read_modes(file)["modes"])

    if path.is_dir() and not (path / MODES_FILE).is_file():
        return {
            (task, seed): programs(path / task / f"seed{seed}") for task in tasks for seed in seeds
        }
    if path.is_dir() or path.suffix == ".json":
        results = modes_of_results(path)
        if results is not None:
            return {key: modes for key, modes in results.items() if key[0] in tasks}
        modes = programs(path)
    else:
        try:
            lines = path.read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"'{path}' cannot be read as a file of programs") from error
        modes = tuple(line.strip() for line in lines if line.strip())
        for line in modes:
            parse(line)
    if not modes:
        raise ConfigError(f"'{path}' holds no programs")
    return {(task, seed): modes for task in tasks for seed in seeds}
