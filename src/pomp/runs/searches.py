"""Stage 2 as a run: searches for modes, of many tasks and seeds, that advance together.

The folder has `TASK/seedN/` for each search: `config.json`, `metrics.jsonl` with a line for each
run, the paths of some runs, and `modes.json` when it is finished. `state.safetensors` is the
checkpoint of everything in progress.
"""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pomp.analysis.bounds import check_bounded
from pomp.analysis.selection import choose_modes
from pomp.core.configs import check_changes, to_json
from pomp.core.cuda import check_device
from pomp.core.errors import ConfigError, DataFileError
from pomp.core.extras import LEARN, require
from pomp.core.schemas import COUNT, NAME, SCORE, TEXT, Listed, Record
from pomp.core.storage import MOST_ARRAY_BYTES, read_bytes, read_json, with_checksum
from pomp.core.texts import escape_html
from pomp.embedding.weights import find_weights
from pomp.modes.batch import ActiveRun, Batch
from pomp.modes.jobs import Job, RunRecord
from pomp.modes.proposers import Method
from pomp.runs.asked import (
    Seeds,
    TaskLike,
    check_named,
    plan_before,
    read_seeds,
    read_settings,
    task_modules,
)
from pomp.runs.folder import (
    METRICS_FILE,
    STATE_FILE,
    RunFolder,
    as_folder,
    describe_task,
    name_of,
)
from pomp.runs.given_programs import FROM, with_programs
from pomp.runs.kept import MODES_FILE, TRAJECTORY_FILE, read_metrics
from pomp.runs.search_checkpoint import checkpoint_of, restore
from pomp.runs.search_plan import SearchPlan, module_of
from pomp.runs.work import SAVE_SECONDS, IsStopped, OnEvent, Progress, Watch, drive


@dataclass(frozen=True)
class SearchResult:
    """What `pomp.search` returns.

    Attributes:
        is_finished: whether the search came to its end; else it was stopped.
        was_finished: whether an earlier run had come to its end, and this one did nothing.
        searches: for each finished task and seed what its `modes.json` holds.
        done: runs that have ended.
        total: runs in all.
        path: the search's folder; None: it was in memory.
    """

    is_finished: bool
    was_finished: bool
    searches: tuple[dict[str, Any], ...]
    done: int
    total: int
    path: Path | None

    def __repr__(self) -> str:
        """Say in a line how far it is."""
        state = "finished" if self.is_finished else "stopped"
        return f"SearchResult({state}, {self.done} of {self.total} runs have ended)"

    @property
    def modes(self) -> tuple[str, ...]:
        """The programs of the first task and seed."""
        if not self.searches:
            raise ConfigError("the search was stopped before it found modes; resume it")
        return tuple(mode["program"] for mode in self.searches[0]["modes"])

    def _repr_html_(self) -> str:
        """What a notebook shows: the modes of every task and seed, and their returns."""
        rows = "".join(
            f"<tr><td>{escape_html(str(one['task']))}</td><td>seed {one['seed']}</td>"
            f"<td>{mode['return']:.3f}</td><td><code>{escape_html(mode['program'])}</code></td></tr>"
            for one in self.searches
            for mode in one["modes"]
        )
        return f"<div>{self.done} of {self.total} runs have ended<table>{rows}</table></div>"


def search(
    tasks: TaskLike | Sequence[TaskLike] | None = None,
    *,
    method: str | Method | None = None,
    preset: str | None = None,
    modes: int | None = None,
    seeds: Seeds | None = None,
    settings: Mapping[str, Any] | None = None,
    device: str | None = None,
    out: str | Path | RunFolder | None = None,
    resume: bool = False,
    on_event: OnEvent | None = None,
) -> SearchResult:
    """Search programs that are modes of machines: stage 2 of the paper, or a method beside it.

    Args:
        tasks: one or more tasks: names, `module:NAME`, tasks, or tasks that are configured.
        method: what searches, as listed by `pomp search --help`, or a method of your own:
            `module:NAME`, or the `pomp.modes.Method` itself; pomp by default.
        preset: whose settings: paper (the default), code or best.
        modes: how many modes, for methods that find several; None: as many as the paper has.
        seeds: one seed or several; every task is searched with each; 0 by default.
        settings: settings to change, as `{"proposer.sigma": 0.25}`; `from` has a file of programs,
            one per line, that a search in program space begins with: those that cannot be used are
            named and left out.
        device: cpu (the default), cuda or auto.
        out: the search's folder; None: the search is in memory. One that names
            modules of your own is resumed as `RunFolder(path, allow=["module"])`.
        resume: go on with the search in the folder. What is not given is as it was.
        on_event: told of progress; if it returns True, the search is saved and stops.

    Raises:
        ConfigError: something asked for does not fit, or the folder was begun otherwise.
        OutputError: the folder exists, or cannot be written.
        MissingExtraError: torch is not installed.
    """
    require(LEARN, "a search for modes")
    with closing(as_folder(out)) as folder:
        chosen = None if tasks is None else tuple(read_settings(tasks))
        before = plan_before(
            folder,
            "search",
            SearchPlan.from_json,
            resume=resume,
            trusted=lambda: [*folder.allow, *task_modules(chosen or ()), *module_of(method)],
        ) or SearchPlan((), ())
        wanted = before.settings if chosen is None else chosen
        check_named(wanted)
        changes = dict(check_changes(settings))
        given = changes.pop(FROM, None)
        configs = [before.configure(one, method, preset, modes, changes) for one in wanted]
        if given is not None:
            configs = [with_programs(one, given) for one in configs]
        plan = SearchPlan(
            wanted,
            tuple(configs),
            before.seeds if seeds is None else tuple(read_seeds(seeds)),
            check_device(device or before.device),
        )
        run = SearchRun(plan.jobs(), plan.device, folder)
        folder.open("search", run.describe, resume=resume)
        if run.is_written:
            return run.result(was_finished=True)
        drive(run, Watch(on_event))
        return run.result()


class SearchRun:
    """Searches of many tasks and seeds, as one work.

    Attributes:
        jobs: the searches, in a fixed order.
        folder: where they are kept.
        stage: what the work is called in events.
    """

    save_seconds = SAVE_SECONDS

    def __init__(
        self, jobs: list[Job], device: str, folder: RunFolder, stage: str = "runs"
    ) -> None:
        self.jobs, self.device, self.folder, self.stage = jobs, device, folder, stage
        for job in jobs:
            if job.config.mode.select == "bound":
                check_bounded(job.setting, range(job.config.mode.modes))
        self._batch: Batch | None = None
        self._began = time.monotonic()

    def describe(self) -> dict[str, Any]:
        """Return the config that a resumed search must have, too."""
        searches = {"/".join(_name_of(job)): _describe(job) for job in self.jobs}
        names = {job.config.embedding for job in self.jobs}
        weights = {name: _digest(find_weights(name)) for name in sorted(names)}
        return {"device": self.device, "weights": weights, "searches": searches}

    @property
    def is_written(self) -> bool:
        """Whether the search was finished by an earlier run."""
        folders = [self._folder_of(job) for job in self.jobs]
        return not self.folder.has(STATE_FILE) and all(one.has(MODES_FILE) for one in folders)

    @property
    def is_finished(self) -> bool:
        """Whether all modes are found."""
        return self._batch is not None and all(job.is_finished for job in self.jobs)

    def _folder_of(self, job: Job) -> RunFolder:
        return self.folder.within(*_name_of(job))

    def open(self) -> None:
        """Load the embedding, and take up the checkpoint if there is one.

        Raises:
            DataFileError: the checkpoint is damaged.
        """
        batch = self._batch = Batch(self.jobs, device=self.device)
        self.folder.make()
        for job in self.jobs if self.folder.path is not None else ():
            folder, config = self._folder_of(job), {"seed": job.seed, **_describe(job)}
            folder.make()
            folder.write_config(config)
        self.folder.restore(lambda arrays, values: restore(batch, arrays, values))
        for job in self.jobs:
            self._write_metrics(job)
            self._take_choice(job)
        self._began = time.monotonic()

    def advance(self, is_stopped: IsStopped) -> None:
        """Advance every run in progress by one iteration; then choose modes by bound, if asked."""
        assert self._batch is not None
        if self._batch.is_finished:
            self._choose(next(job for job in self.jobs if not job.is_finished), is_stopped)
            return
        for ended in self._batch.step():
            self._write(ended)

    def _take_choice(self, job: Job) -> None:
        """Take over the modes that an earlier run has chosen, if it has."""
        folder = self._folder_of(job)
        if job.is_searched and not job.is_finished and folder.has(MODES_FILE):
            assert folder.path is not None
            texts = [record.program for record in job.records]
            job.choose([texts.index(mode["program"]) for mode in read_modes(folder.path)["modes"]])

    def _choose(self, job: Job, is_stopped: IsStopped) -> None:
        """Choose the modes of a job anew, by their bound."""
        texts, cap = [record.program for record in job.records], job.config.score.cap
        chosen = choose_modes(job.setting, texts, job.modes, cap, is_stopped=is_stopped)
        if chosen is not None:
            job.choose(chosen)
            self._folder_of(job).write_text(MODES_FILE, _in_lines(job.result()))

    def save(self) -> None:
        """Write a checkpoint; the one before survives if this fails."""
        if self._batch is not None and self.folder.path is not None:
            self.folder.write_arrays(STATE_FILE, *checkpoint_of(self._batch))

    def close(self) -> None:
        """Do nothing: nothing goes on beside this."""

    def finish(self) -> None:
        """Remove the checkpoint: all results are written."""
        self.folder.remove(STATE_FILE)

    def progress(self) -> Progress:
        """Say how many runs have ended."""
        assert self._batch is not None
        done, total = self._counts()
        return Progress(done, total, self._batch.progress(), self._tell)

    def _counts(self) -> tuple[int, int]:
        return sum(len(job.records) for job in self.jobs), sum(job.total_runs for job in self.jobs)

    def _tell(self) -> str:
        assert self._batch is not None
        rate = self._batch.proposed / max(time.monotonic() - self._began, 1e-9)
        speed, best = f"{rate:,.0f} programs/s", self._batch.best()
        if best is None:
            return speed
        task, mode, score, text = best
        return f"{speed}, {task} mode {mode + 1}: {score:.3f} {text}"

    def found(self, job: Job) -> dict[str, Any]:
        """Return what the `modes.json` of a finished job holds."""
        if job.is_finished:
            return job.result()
        folder = self._folder_of(job).path
        assert folder is not None
        return read_modes(folder)

    def result(self, *, was_finished: bool = False) -> SearchResult:
        """Return what was found so far."""
        is_finished = was_finished or self.is_finished
        ended = self.jobs if is_finished else [job for job in self.jobs if job.is_finished]
        done, total = self._counts()
        searches = tuple(self.found(job) for job in ended)
        return SearchResult(is_finished, was_finished, searches, done, total, self.folder.path)

    def _write(self, ended: ActiveRun) -> None:
        """Write down a run that has ended, and its job's modes if that was the last one."""
        job, folder = ended.job, self._folder_of(ended.job)
        self._write_metrics(job)
        if ended.trajectory:
            paths = {f"run{key.run}": path for key, path in sorted(job.trajectories.items())}
            folder.write_arrays(TRAJECTORY_FILE, paths, {"task": job.setting.task.name})
        if job.is_finished:
            folder.write_text(MODES_FILE, _in_lines(job.result()))

    def _write_metrics(self, job: Job) -> None:
        """Write all finished runs in order, whichever of them ended first."""
        lines = "".join(json.dumps(record.to_json()) + "\n" for record in job.records)
        self._folder_of(job).write_text(METRICS_FILE, lines)


def _name_of(job: Job) -> tuple[str, str]:
    return name_of(job.setting, job.seed)


def _digest(path: Path) -> str:
    return hashlib.sha256(read_bytes(path, "embedding", MOST_ARRAY_BYTES)).hexdigest()[:16]


def _in_lines(result: dict[str, Any]) -> str:
    """JSON with a line for each mode: latents are long."""
    modes = ",\n  ".join(json.dumps(mode) for mode in result["modes"])
    sealed = with_checksum(result)
    head = json.dumps({name: value for name, value in sealed.items() if name != "modes"})
    return f'{head[:-1]}, "modes": [\n  {modes}\n]}}\n'


def _describe(job: Job) -> dict[str, Any]:
    return {**describe_task(job.setting), **to_json(job.config)}


def read_modes(path: Path) -> dict[str, Any]:
    """The modes.json of a finished job.

    Raises:
        DataFileError: it is missing or damaged.
    """
    file = path / MODES_FILE if path.is_dir() else path
    if not file.exists():
        raise DataFileError(f"'{path}' is not finished; go on with --resume first")
    try:
        return dict(read_json(file, "search's modes", _MODES))
    except DataFileError as error:
        what = f"'{path}' holds no readable {MODES_FILE} of a search"
        raise DataFileError(f"{what}: {error}") from error


_MODE = Record(
    {"program": TEXT},
    {
        **{"latent": Listed(SCORE, most=4096), "score": SCORE, "return": SCORE},
        **dict.fromkeys(("candidates", "executions", "actions"), COUNT),
    },
)
_MODES = Record({"task": NAME, "method": NAME, "seed": COUNT, "modes": Listed(_MODE, 1)})


def read_records(folder: Path) -> list[RunRecord]:
    """The finished runs of a job, up to the first line that is damaged or cut short."""
    records = list[RunRecord]()
    for line in read_metrics(folder):
        try:
            records.append(RunRecord.from_json(line))
        except DataFileError:
            break
    return records
