"""`pomp search`."""

import json
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, UseAppendAction, arg

from pomp.cli.inputs import parse_options, parse_seeds, read_value
from pomp.cli.progress import Progress
from pomp.cli.stopping import Stop, check_minutes, stopping
from pomp.core.errors import ConfigError

if TYPE_CHECKING:
    from pomp.modes.batch import Batch
    from pomp.modes.jobs import Job
    from pomp.runs.search_folder import SearchFolder

SAVE_SECONDS = 15.0


@dataclass(frozen=True, kw_only=True)
class Search:
    """Search for programs that are modes of a machine. Ctrl-C saves; --resume goes on."""

    tasks: Annotated[Positional[tuple[str, ...]], arg(metavar="TASK...")]
    """One or more tasks."""
    out: str
    """The search's folder; a new one unless --resume is given."""
    method: str = "pomp"
    """pomp, cem, cem-diversity, cem-xm, cem-diversity-topk, cem-diversity-xm, leaps, leaps-grid,
    hill-climbing, cebs, annealing, annealing-modes or pomp-program-space."""
    modes: int | None = None
    """How many modes, for methods that find several; without it 3 or 5, as in the paper."""
    seeds: str = "0"
    """One number, a list (0,3) or a range (0-4)."""
    preset: Literal["paper", "code", "best"] = "paper"
    """Whose settings."""
    set: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="NAME=VALUE")] = ()
    """Change a setting, as in proposer.sigma=0.25; may be given several times."""
    variant: str | None = None
    """The tasks' variant; without it each task's default."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where programs are decoded and executed."""
    resume: bool = False
    """Go on with the search in the folder."""
    minutes: float | None = None
    """Stop after so many minutes, saved, to be resumed."""
    json: bool = False
    """Print one JSON document."""

    def run(self) -> int:
        """Search, then print the modes."""
        check_minutes(self.minutes)
        jobs = self._jobs()
        from pomp.core.cuda import check_device
        from pomp.modes.batch import Batch
        from pomp.runs.folder import check_new, clear_if_not_begun
        from pomp.runs.search_folder import SearchFolder

        check_device(self.device)
        folder = SearchFolder(Path(self.out), jobs, self.device)
        is_new = not self.resume or clear_if_not_begun(folder.path)
        if not self.resume:
            check_new(folder.path)
        elif not is_new and folder.check():
            return self._report(folder, "was finished before")
        batch = Batch(jobs, device=self.device)
        if is_new:
            folder.begin()
        else:
            folder.resume(batch)
        with stopping(self.minutes) as stop:
            advance_search(batch, folder, stop)
        if not batch.is_finished:
            return self._stopped(batch, was_asked=stop.was_asked)
        folder.close()
        return self._report(folder, "finished")

    def _jobs(self) -> list["Job"]:
        from pomp.modes.jobs import Job
        from pomp.modes.methods import SEVERAL, configure
        from pomp.tasks.catalog import find_task

        if not self.tasks:
            raise ConfigError("name a task to search, as in 'pomp search UpNDown --out runs/up'")
        changes: dict[str, Any] = {
            name: read_value(text)
            for name, text in parse_options(self.set, "proposer.sigma=0.25").items()
        }
        if self.modes is not None:
            if self.method not in SEVERAL or "mode.modes" in changes:
                methods = ", ".join(SEVERAL)
                raise ConfigError(f"--modes goes with {methods}, and without --set mode.modes")
            changes["mode.modes"] = self.modes
        settings = [find_task(name).configure(self.variant) for name in self.tasks]
        names = [setting.task.name for setting in settings]
        if len(set(names)) < len(names):
            raise ConfigError("a task is named twice")
        configs = [configure(self.method, self.preset, one, changes) for one in settings]
        seeds = parse_seeds(self.seeds)
        sources = [name if ":" in name else None for name in self.tasks]
        parts = zip(settings, configs, sources, strict=True)
        return [Job(one, seed, config, source) for one, config, source in parts for seed in seeds]

    def _stopped(self, batch: "Batch", *, was_asked: bool) -> int:
        done = sum(len(job.records) for job in batch.jobs)
        total = sum(job.total_runs for job in batch.jobs)
        if self.json:
            print(json.dumps({"finished": False, "runs": done, "of": total}))
        else:
            print(
                f"stopped after {done} of {total} runs; go on with --resume and the same settings"
            )
        return 130 if was_asked else 0

    def _report(self, folder: "SearchFolder", how: str) -> int:
        from pomp.runs.search_folder import read_modes

        found = [read_modes(folder.of(job)) for job in folder.jobs]
        if self.json:
            print(json.dumps({"finished": True, "searches": found}))
            return 0
        print(f"{self.out}: {how}")
        for result in found:
            spent = sum(mode["candidates"] for mode in result["modes"])
            print(f"{result['task']}, seed {result['seed']}: {spent:,} candidates")
            for number, mode in enumerate(result["modes"], 1):
                print(f"  {number}  score {mode['score']:.4f}  {mode['program']}")
        return 0


def advance_search(batch: "Batch", folder: "SearchFolder", stop: Stop, label: str = "runs") -> None:
    """Step until all is done or a stop is asked for; checkpoints on the way and at the end."""
    total = sum(job.total_runs for job in batch.jobs)
    progress = Progress(label, total)
    began = saved = time.monotonic()
    try:
        while not batch.is_finished and not stop():
            for ended in batch.step():
                folder.note(ended)
            now = time.monotonic()
            if now - saved > SAVE_SECONDS:
                folder.save(batch)
                saved = time.monotonic()
            done = sum(len(job.records) for job in batch.jobs)
            rate = batch.proposed / max(now - began, 1e-9)
            progress.share(done, batch.progress(), partial(_note_of, batch, rate))
    finally:
        progress.close()
    folder.save(batch)  # not after an error: a step cut short is no place to go on from


def _note_of(batch: "Batch", rate: float) -> str:
    speed = f"{rate:,.0f} programs/s"
    best = batch.best()
    if best is None:
        return speed
    task, mode, score, text = best
    return f"{speed}, {task} mode {mode + 1}: {score:.3f} {text}"
