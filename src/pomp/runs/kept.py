"""The folder of a run for those who only look at it: what kind of run it is, and its metrics."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pomp.core.errors import DataFileError
from pomp.core.schemas import COUNT, FREE, Listed, Named, OneOf, Record, Schema
from pomp.core.storage import parse_json, read_bytes
from pomp.runs.folder import CONFIG_FILE, METRICS_FILE, read_config

MODES_FILE, TRAJECTORY_FILE = "modes.json", "trajectory.safetensors"
"""What a search has found for a task and a seed, once that is finished; the paths of its runs."""

KINDS = ("search", "evolve", "train", "embedding")
_PLACES: dict[str, dict[str, Schema]] = {
    "search": {"searches": Named(FREE)},
    "embedding": {},
    **{kind: {"tasks": Named(FREE), "seeds": Listed(COUNT)} for kind in ("evolve", "train")},
}
_RECORD = Named(FREE)


@dataclass(frozen=True)
class KeptRun:
    """A run of any kind that is kept in a folder, finished or not.

    Attributes:
        path: the folder.
        kind: one of `KINDS`.
        config: what the run was begun with.
        places: its tasks and seeds, by name and number; an embedding has none.
    """

    path: Path
    kind: str
    config: dict[str, Any]
    places: tuple[tuple[str, int], ...]

    def place(self, task: str, seed: int) -> Path:
        """Return the folder of a task and a seed."""
        return self.path / task / f"seed{seed}"


def read_run(folder: Path) -> KeptRun:
    """Find out which run a folder holds.

    Raises:
        DataFileError: it holds none.
    """
    hint = "expected the folder of a search, an evolution, a training or an embedding"
    try:
        config = read_config(folder)
    except DataFileError as error:
        why = f"no readable {CONFIG_FILE}"
        raise DataFileError(f"'{folder}' holds no run: {why}; {hint}") from error
    try:
        places = tuple(sorted(_places_of(config)))
    except ValueError as error:
        why = f"its {CONFIG_FILE} is damaged, or that of something else"
        raise DataFileError(f"'{folder}' holds no run: {why}; {hint}") from error
    return KeptRun(folder, config["kind"], config, places)


def read_search(run: KeptRun) -> KeptRun | None:
    """Return the search that is stage 2 of a training; None if there is none, or none yet.

    Raises:
        DataFileError: it is damaged.
    """
    folder = run.path / "search"
    return read_run(folder) if (folder / CONFIG_FILE).is_file() else None


def _places_of(config: dict[str, Any]) -> list[tuple[str, int]]:
    """Return the tasks and seeds of a config.

    Raises:
        ValueError: it is the config of no run, or names a folder elsewhere.
    """
    Record({"kind": OneOf(KINDS)}, is_open=True).check(config)
    Record(_PLACES[config["kind"]], is_open=True).check(config)
    if config["kind"] == "embedding":
        return []
    if config["kind"] == "search":
        names = [name.rpartition("/seed") for name in config["searches"]]
        places = [(task, int(seed)) for task, _, seed in names]
    else:
        places = [(task, seed) for task in config["tasks"] for seed in config["seeds"]]
    if not all(task.isalnum() for task, _ in places):
        raise ValueError("a task's name has letters and digits alone")
    return places


def read_metrics(folder: Path, *needed: str) -> list[dict[str, Any]]:
    """Return the records of a `metrics.jsonl`, up to the first line that is damaged or cut short.

    Args:
        folder: where the file is; there may be none.
        needed: fields that a record must have.
    """
    path, records = folder / METRICS_FILE, list[dict[str, Any]]()
    text = read_bytes(path, "run's metrics").decode(errors="replace") if path.is_file() else ""
    for line in text.splitlines():
        try:
            record = parse_json(line, _RECORD)
        except ValueError:
            break
        if not set(needed) <= set(record):
            break
        records.append(record)
    return records
