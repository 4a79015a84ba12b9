"""The folder of a run: `config.json`, what it was begun with; a checkpoint; and its results.

Every kind of run has the same folder: `config.json` at its top, checkpoints while it goes on, and
`TASK/seedN/` with what was found for each task and seed. A run in memory has a folder without a
path, which keeps nothing.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from pomp.core.errors import ConfigError, DataFileError, OutputError
from pomp.core.storage import read_arrays, remove_drafts, write_arrays, write_text
from pomp.tasks.catalog import source_of
from pomp.tasks.task import Setting
from pomp.version import __version__

CONFIG_FILE, STATE_FILE, METRICS_FILE = "config.json", "state.safetensors", "metrics.jsonl"
FORMAT = 2
"""Rises when runs of an earlier version could not be taken up by this one."""

State = tuple[dict[str, NDArray[Any]], dict[str, Any]]
"""A checkpoint: arrays by name, and values that JSON can hold."""


class RunFolder:
    """Where a run keeps its files.

    Attributes:
        path: the folder; None: the run is in memory, and whatever is written is dropped.
    """

    def __init__(self, path: str | Path | None) -> None:
        self.path = None if path is None else Path(path)

    def within(self, *names: str) -> "RunFolder":
        """Return a folder inside this one."""
        return RunFolder(self.path and self.path.joinpath(*names))

    def has(self, name: str) -> bool:
        """Whether a file is there."""
        return self.path is not None and (self.path / name).is_file()

    def open(self, kind: str, describe: Callable[[], dict[str, Any]], *, resume: bool) -> bool:
        """Begin a new folder, or check that one was begun in the same way.

        Args:
            kind: what is run: search, evolve, train or embedding.
            describe: returns everything the result depends on, as JSON.
            resume: whether to go on with a run that is there.

        Returns:
            Whether the folder was there.

        Raises:
            OutputError: a new folder exists already, or cannot be made.
            DataFileError: there is no run to resume, or one of another kind or an older version.
            ConfigError: the run was begun with another config; names the fields.
        """
        if self.path is None:
            if resume:
                raise ConfigError("a run in memory cannot be resumed; give it a folder (out)")
            return False
        whole = {"kind": kind, "format": FORMAT, "pomp": __version__, **describe()}
        if resume and not _clear_if_not_begun(self.path):
            _check_config(self.path, json.loads(json.dumps(whole)))
            self.make()
            return True
        _check_new(self.path)
        self.make()
        self.write_text(CONFIG_FILE, json.dumps(whole, indent=2))
        return False

    def open_part(self, kind: str, describe: Callable[[], dict[str, Any]]) -> bool:
        """Open the folder of a run that is a part of another, whether it was begun or not."""
        return self.open(kind, describe, resume=self.path is not None and self.path.exists())

    def make(self) -> None:
        """Make the folder if it is missing, and remove what killed runs left half-written.

        Raises:
            OutputError: it cannot be made.
        """
        if self.path is None:
            return
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"cannot write '{self.path}': {error.strerror}") from error
        remove_drafts(self.path)

    def write_text(self, name: str, text: str) -> None:
        """Write a file whole or not at all.

        Raises:
            OutputError: there is no space, or the folder cannot be written.
        """
        if self.path is not None:
            write_text(self.path / name, text)

    def write_lines(self, name: str, records: list[dict[str, Any]]) -> None:
        """Write a file with a line of JSON for each record."""
        self.write_text(name, "".join(json.dumps(one, sort_keys=True) + "\n" for one in records))

    def write_arrays(
        self, name: str, arrays: dict[str, NDArray[Any]], values: dict[str, Any]
    ) -> None:
        """Write a file of `arrays`, each of its own shape `[...]`, and values, whole or not at all.

        Raises:
            OutputError: there is no space, or the folder cannot be written.
        """
        if self.path is not None:
            write_arrays(self.path / name, arrays, values)

    def restore(self, take: Callable[..., None], name: str = STATE_FILE) -> None:
        """Give a checkpoint to whom it belongs to, if there is one.

        Args:
            take: called with the arrays and the values of a `State`.
            name: the checkpoint's file.

        Raises:
            DataFileError: the checkpoint is damaged.
        """
        if not self.has(name):
            return
        assert self.path is not None
        try:
            take(*read_arrays(self.path / name, "checkpoint"))
        except (DataFileError, KeyError, ValueError, TypeError, IndexError, RuntimeError) as error:
            what = f"'{self.path / name}' is damaged, or no checkpoint of this run"
            raise DataFileError(f"{what}; delete it to begin anew from there") from error

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        if self.path is not None:
            (self.path / name).unlink(missing_ok=True)


def describe_task(setting: Setting) -> dict[str, Any]:
    """Return what a run's config says of a task: where it comes from, its variant and options."""
    return {"task": source_of(setting.task), **setting.describe()}


def name_of(setting: Setting, seed: int) -> tuple[str, str]:
    """Return the names of the folder, and of the one in it, for a task and a seed."""
    return setting.task.name, f"seed{seed}"


def _check_new(folder: Path) -> None:
    """Make sure that a new run would overwrite nothing.

    Raises:
        OutputError: the folder exists.
    """
    try:
        is_there = folder.exists()
    except OSError as error:
        raise OutputError(f"cannot write '{folder}': {error.strerror}") from error
    if is_there:
        raise OutputError(f"'{folder}' exists; name a new folder, or --resume it")


def read_config(folder: Path) -> dict[str, Any]:
    """Return the config a run, or a part of it, was begun with.

    Raises:
        DataFileError: there is none that can be read.
    """
    try:
        return dict(json.loads((folder / CONFIG_FILE).read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise DataFileError(
            f"'{folder}' holds no run that could be resumed: no readable {CONFIG_FILE}"
        ) from error


def _clear_if_not_begun(folder: Path) -> bool:
    """Remove a folder whose run was killed before its config was written; returns whether it was.

    Raises:
        OutputError: it cannot be read or removed.
    """
    try:
        if not folder.is_dir():
            return False
        remove_drafts(folder)
        if any(folder.iterdir()):
            return False
        folder.rmdir()
    except OSError as error:
        raise OutputError(f"cannot use '{folder}': {error.strerror}") from error
    return True


def _check_config(folder: Path, config: dict[str, Any]) -> None:
    """Make sure that a run was begun with this config."""
    before = read_config(folder)
    if before.get("format") != FORMAT:
        raise DataFileError(
            f"'{folder}' was begun by another version of pomp, whose runs this one cannot take up; "
            "begin another folder"
        )
    if before.get("kind") != config["kind"]:
        raise DataFileError(
            f"'{folder}' holds a run of pomp {before.get('kind')}, not of pomp {config['kind']}"
        )
    if differing := _differing_fields(before, config):
        raise ConfigError(
            f"'{folder}' was begun otherwise: {'; '.join(differing)}. Resume it with the same "
            "settings, or begin another folder"
        )


def _differing_fields(one: dict[str, Any], other: dict[str, Any], prefix: str = "") -> list[str]:
    """Return the fields in which two configs differ, as `reinforce.batch (512, 256)`."""
    names = []
    for name in sorted(set(one) | set(other)):
        left, right = one.get(name), other.get(name)
        if name not in one or name not in other:
            names.append(f"{prefix}{name} (only {'now' if name in other else 'before'})")
        elif isinstance(left, dict) and isinstance(right, dict):
            names += _differing_fields(left, right, f"{prefix}{name}.")
        elif left != right:
            names.append(f"{prefix}{name} ({left} before, {right} now)")
    return names
