"""A search's folder: one folder per task and seed, and a checkpoint of everything in progress."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from pomp.core.configs import to_json
from pomp.core.errors import DataFileError, OutputError
from pomp.core.storage import read_arrays, remove_drafts, write_arrays, write_text
from pomp.embedding.weights import find_weights
from pomp.modes.batch import ActiveRun, Batch
from pomp.modes.cem import Arrays
from pomp.modes.jobs import Job, RunKey, RunRecord
from pomp.runs.folder import CONFIG_FILE, begin_run, check_config
from pomp.version import __version__

STATE_FILE, MODES_FILE, METRICS_FILE = "state.safetensors", "modes.json", "metrics.jsonl"
TRAJECTORY_FILE = "trajectory.safetensors"


class SearchFolder:
    """Where a batch of jobs is kept.

    Attributes:
        path: the folder.
        jobs: its jobs, in a fixed order.
    """

    def __init__(self, path: Path, jobs: list[Job], device: str) -> None:
        self.path, self.jobs, self.device = path, jobs, device

    def describe(self) -> dict[str, Any]:
        """The config a resumed search must have, too."""
        searches = {self._name(job): _describe(job) for job in self.jobs}
        names = {job.config.embedding for job in self.jobs}
        weights = {name: _digest(find_weights(name)) for name in sorted(names)}
        made_by = {"pomp": __version__, "device": self.device, "weights": weights}
        return {**made_by, "searches": searches}

    @staticmethod
    def _name(job: Job) -> str:
        return f"{job.setting.task.name}/seed{job.seed}"

    def of(self, job: Job) -> Path:
        """The folder of one job."""
        return self.path / self._name(job)

    def begin(self) -> None:
        """Make the folders of a new search.

        Raises:
            OutputError: they exist, or cannot be made.
        """
        begin_run(self.path, self.describe())
        self._make_folders()

    def _make_folders(self) -> None:
        for job in self.jobs:
            folder = self.of(job)
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise OutputError(f"cannot write '{folder}': {error.strerror}") from error
            config = {"task": job.source, "seed": job.seed, **_describe(job)}
            write_text(folder / CONFIG_FILE, json.dumps(config, indent=2))

    def resume(self, batch: Batch) -> None:
        """Put the last checkpoint in place; without one the search begins anew.

        Raises:
            DataFileError: the checkpoint is damaged.
        """
        self._make_folders()
        remove_drafts(self.path, STATE_FILE, CONFIG_FILE)
        for job in self.jobs:
            remove_drafts(self.of(job), MODES_FILE, METRICS_FILE, TRAJECTORY_FILE, CONFIG_FILE)
        state = self.path / STATE_FILE
        if state.exists():
            try:
                _restore(batch, *read_arrays(state, "search checkpoint"))
            except (DataFileError, KeyError, ValueError, TypeError, IndexError) as error:
                what = f"'{state}' is damaged, or no checkpoint of this search"
                raise DataFileError(f"{what}; delete it to begin anew") from error
        for job in self.jobs:
            self._write_metrics(job)

    def check(self) -> bool:
        """Make sure that the search was begun with this config; returns whether it is finished.

        Raises:
            DataFileError: there is no search here.
            ConfigError: it was begun with another config.
        """
        check_config(self.path, self.describe())
        has_state = (self.path / STATE_FILE).exists()
        return not has_state and all((self.of(job) / MODES_FILE).is_file() for job in self.jobs)

    def save(self, batch: Batch) -> None:
        """Write a checkpoint; the one before survives if this fails."""
        arrays, header = _state_of(batch)
        write_arrays(self.path / STATE_FILE, arrays, header)

    def note(self, ended: ActiveRun) -> None:
        """Write down a run that has ended, and its job's modes if that was the last one."""
        job, folder = ended.job, self.of(ended.job)
        self._write_metrics(job)
        if ended.trajectory:
            paths = {f"run{key.run}": path for key, path in sorted(job.trajectories.items())}
            write_arrays(folder / TRAJECTORY_FILE, paths, {"task": job.setting.task.name})
        if job.is_finished:
            write_text(folder / MODES_FILE, _in_lines(job.result()))

    def _write_metrics(self, job: Job) -> None:
        """All finished runs in order, whichever of them ended first."""
        lines = "".join(json.dumps(record.to_json()) + "\n" for record in job.records)
        write_text(self.of(job) / METRICS_FILE, lines)

    def close(self) -> None:
        """Remove the checkpoint of a search that has come to its end."""
        (self.path / STATE_FILE).unlink(missing_ok=True)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _in_lines(result: dict[str, Any]) -> str:
    """JSON with a line for each mode: latents are long."""
    modes = ",\n  ".join(json.dumps(mode) for mode in result["modes"])
    head = json.dumps({name: value for name, value in result.items() if name != "modes"})
    return f'{head[:-1]}, "modes": [\n  {modes}\n]}}\n'


def _describe(job: Job) -> dict[str, Any]:
    return {**job.setting.describe(), **to_json(job.config)}


def read_modes(path: Path) -> dict[str, Any]:
    """The modes.json of a finished job.

    Raises:
        DataFileError: it is missing or damaged.
    """
    try:
        found = json.loads((path / MODES_FILE if path.is_dir() else path).read_text())
        if not {"task", "method", "seed", "modes"} <= set(found) or not found["modes"]:
            raise ValueError
    except FileNotFoundError as error:
        raise DataFileError(f"'{path}' is not finished; go on with --resume first") from error
    except (OSError, ValueError, TypeError) as error:
        raise DataFileError(f"'{path}' holds no readable {MODES_FILE} of a search") from error
    return dict(found)


def read_records(folder: Path) -> list[RunRecord]:
    """The finished runs of a job, up to the first line that is damaged or cut short."""
    path, records = folder / METRICS_FILE, list[RunRecord]()
    for line in path.read_text(errors="replace").splitlines() if path.exists() else ():
        try:
            records.append(RunRecord.from_json(json.loads(line)))
        except (ValueError, KeyError, TypeError):
            break
    return records


def find_jobs(path: Path) -> list[Path]:
    """The folders of a search's jobs, in order.

    Raises:
        DataFileError: there are none.
    """
    found = sorted(file.parent for file in path.glob(f"*/seed*/{CONFIG_FILE}"))
    if not found:
        raise DataFileError(f"'{path}' holds no search; expected folders TASK/seedN in it")
    return found


def _state_of(batch: Batch) -> tuple[Arrays, dict[str, Any]]:
    arrays: Arrays = {}
    jobs, runs = [], []
    for number, job in enumerate(batch.jobs):
        jobs.append([record.to_json() for record in job.records])
        if job.vectors:
            arrays[f"job{number}.vectors"] = np.stack(job.vectors)
            arrays[f"job{number}.latents"] = np.stack(job.latents)
        for key, path in job.trajectories.items():
            arrays[f"job{number}.trajectory{key.run}"] = path
    for number, one in enumerate(batch.active):
        kept, values = one.run.to_arrays()
        arrays |= {f"run{number}.{name}": array for name, array in kept.items()}
        if one.trajectory:
            arrays[f"run{number}.trajectory"] = np.stack(one.trajectory)
        results = {name: getattr(one, name) for name in _RESULTS}
        place = {"job": batch.jobs.index(one.job), "mode": one.key.mode, "run": one.key.run}
        runs.append({**place, "values": values, "results": results})
    return arrays, {"jobs": jobs, "runs": runs}


_RESULTS = ("candidates", "executions", "actions", "best_return", "curve")


def _restore(batch: Batch, arrays: Arrays, header: dict[str, Any]) -> None:
    for number, (job, lines) in enumerate(zip(batch.jobs, header["jobs"], strict=True)):
        none = np.empty((0, 1), np.float32)
        vectors = arrays.get(f"job{number}.vectors", none)
        latents = arrays.get(f"job{number}.latents", none)
        for line, vector, latent in zip(lines, vectors, latents, strict=True):
            job.finish(RunRecord.from_json(line), vector, latent)
        for run in range(len(lines)):
            if f"job{number}.trajectory{run}" in arrays:
                job.trajectories[RunKey(0, run)] = arrays[f"job{number}.trajectory{run}"]
    for number, line in enumerate(header["runs"]):
        job, key = batch.jobs[line["job"]], RunKey(line["mode"], line["run"])
        job.mark_started(key)
        one = batch.make_run(job, key)
        own = {
            name.partition(".")[2]: array
            for name, array in arrays.items()
            if name.partition(".")[0] == f"run{number}"
        }
        one.run.restore(own, line["values"])
        one.trajectory = list(own.get("trajectory", ()))
        for name in _RESULTS:
            setattr(one, name, line["results"][name])
        one.curve = [(int(a), int(b), float(c)) for a, b, c in one.curve]
        batch.active.append(one)
