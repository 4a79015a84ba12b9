"""The folder of a run: `config.json`, what it was begun with; a checkpoint; and its results.

Every kind of run has the same folder: `config.json` at its top, checkpoints while it goes on, and
`TASK/seedN/` with what was found for each task and seed. A run in memory has a folder without a
path, which keeps nothing.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from pomp.core.errors import (
    ConfigError,
    DataFileError,
    OutputError,
    PompError,
    UnknownNameError,
    UntrustedModuleError,
    abridge,
)
from pomp.core.locks import LOCK_FILE, locked
from pomp.core.schemas import FREE, NAME, Maybe, Named, OneOf, Record, Schema, Whole
from pomp.core.storage import (
    MOST_ARRAY_BYTES,
    is_draft,
    read_bytes,
    read_json,
    remove_drafts,
    unpack_arrays,
    with_checksum,
    write_arrays,
    write_text,
)
from pomp.machine.schemas import SIZE
from pomp.runs.extending import EXTENDED, Growth, extend
from pomp.tasks.catalog import find_task, source_of
from pomp.tasks.task import Setting
from pomp.version import __version__

CONFIG_FILE, STATE_FILE, METRICS_FILE = "config.json", "state.safetensors", "metrics.jsonl"
FORMAT = 2
"""Rises when runs of an earlier version could not be taken up by this one."""

TASK = Record(
    {"task": NAME, "variant": Maybe(NAME), "options": Named(NAME, most=100)},
    {"size": SIZE, "scale": Whole(1, 1_000_000)},
)
"""What a config says of a task."""
DEVICE = OneOf(("cpu", "cuda"))
"""Where a run computes."""


class RunFolder:
    """Where a run keeps its files. A run that is open holds the lock of its folder.

    Attributes:
        path: the folder; None: the run is in memory, and whatever is written is dropped.
        allow: modules of your own that its files may name, when a run in it is resumed.
    """

    def __init__(self, path: str | Path | None, allow: Collection[str] = ()) -> None:
        self.path, self.allow = None if path is None else Path(path), tuple(allow)
        self._lock = ExitStack()

    def within(self, *names: str) -> "RunFolder":
        """Return a folder inside this one."""
        return RunFolder(self.path and self.path.joinpath(*names))

    def has(self, name: str) -> bool:
        """Whether a file is there."""
        return self.path is not None and (self.path / name).is_file()

    def begun(self, kind: str, *, resume: bool) -> dict[str, Any] | None:
        """Return the config of the run that is to be resumed; None: a run begins here.

        Args:
            kind: what is run: search, evolve, train or embedding.
            resume: whether to go on with a run that is there.

        Raises:
            ConfigError: a run in memory cannot be resumed.
            DataFileError: there is no run to resume, or one of another kind or an older version.
        """
        if not resume:
            return None
        if self.path is None:
            raise ConfigError("a run in memory cannot be resumed; give it a folder (out)")
        return None if _is_blank(self.path) else _read_begun(self.path, kind)

    def open(
        self,
        kind: str,
        describe: Callable[[], dict[str, Any]],
        *,
        resume: bool,
        growth: Growth | None = None,
    ) -> None:
        """Begin a new folder, or check that one was begun in the same way; lock it until `close`.

        Args:
            kind: what is run: search, evolve, train or embedding.
            describe: returns everything the result depends on, as JSON.
            resume: whether to go on with a run that is there.
            growth: which numbers may be larger than they were.

        Raises:
            OutputError: a new folder exists already, cannot be made, or is in use.
            DataFileError: there is no run to resume, or one of another kind or an older version.
            ConfigError: the run was begun with another config; names the fields.
        """
        before = self.begun(kind, resume=resume)
        if self.path is None:
            return
        now = {"kind": kind, "format": FORMAT, "pomp": __version__, **describe()}
        if before is None and not resume:
            _check_new(self.path)
        self._make()
        self._lock.enter_context(locked(self.path))
        remove_drafts(self.path)
        if before is not None:
            now[EXTENDED] = before.get(EXTENDED, {})
            extend(self.path, before, now, growth)
        config = {name: value for name, value in now.items() if name != EXTENDED or value}
        if config != before:
            self.write_config(config)

    def open_part(
        self, kind: str, describe: Callable[[], dict[str, Any]], growth: Growth | None = None
    ) -> None:
        """Open the folder of a run that is a part of another, whether it was begun or not."""
        is_there = self.path is not None and self.path.exists()
        self.open(kind, describe, resume=is_there, growth=growth)

    def close(self) -> None:
        """Give up the lock of the folder, if this holds it."""
        self._lock.close()

    def make(self) -> None:
        """Make the folder if it is missing, and remove what killed runs left half-written.

        Raises:
            OutputError: it cannot be made.
        """
        if self.path is not None:
            self._make()
            remove_drafts(self.path)

    def _make(self) -> None:
        assert self.path is not None
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"cannot write '{self.path}': {error.strerror}") from error

    def write_text(self, name: str, text: str) -> None:
        """Write a file whole or not at all.

        Raises:
            OutputError: there is no space, or the folder cannot be written.
        """
        if self.path is not None:
            write_text(self.path / name, text)

    def write_config(self, config: dict[str, Any]) -> None:
        """Write what a run, or a part of it, is begun with."""
        self.write_text(CONFIG_FILE, json.dumps(with_checksum(config), indent=2))

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
            take: called with its arrays by name, `[...]` each, and its values.
            name: the checkpoint's file.

        Raises:
            DataFileError: the checkpoint is damaged.
        """
        if not self.has(name):
            return
        assert self.path is not None
        try:
            take(*unpack_arrays(read_bytes(self.path / name, "checkpoint", MOST_ARRAY_BYTES)))
        except (LookupError, ValueError, TypeError, RuntimeError) as error:
            what = f"'{self.path / name}' is damaged, or no checkpoint of this run"
            reason = f" ({error})" if isinstance(error, PompError) else ""
            raise DataFileError(f"{what}; delete it to begin anew from there{reason}") from error

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        if self.path is not None:
            (self.path / name).unlink(missing_ok=True)


def as_folder(out: "str | Path | RunFolder | None") -> RunFolder:
    """Return a run's folder in any of the ways that a caller may give it."""
    return out if isinstance(out, RunFolder) else RunFolder(out)


def describe_task(setting: Setting) -> dict[str, Any]:
    """Return what a run's config says of a task: where it comes from, its variant and options."""
    return {"task": source_of(setting.task), **setting.describe()}


def read_task(described: Mapping[str, Any], allow: Collection[str]) -> Setting:
    """Return the task that `describe_task` described.

    Args:
        described: what stands in a config.
        allow: modules that the config may name as the home of a task.

    Raises:
        UntrustedModuleError: the task is one of a module that is not allowed.
    """
    TASK.check(dict(described), "the task")
    size = tuple(described["size"]) if "size" in described else None
    task = find_task(described["task"], allow)
    return task.configure(
        described["variant"], described["options"], size, described.get("scale", 1)
    )


def name_of(setting: Setting, seed: int) -> tuple[str, str]:
    """Return the names of the folder, and of the one in it, for a task and a seed."""
    return setting.task.name, f"seed{seed}"


def _check_new(folder: Path) -> None:
    """Make sure that a new run would overwrite nothing.

    A run that was killed before it wrote its config leaves a folder in which nothing is.

    Raises:
        OutputError: the folder exists, and holds something.
    """
    try:
        is_there = folder.exists() and not _is_blank(folder)
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
        return dict(read_json(folder / CONFIG_FILE, "run", Named(FREE)))
    except DataFileError as error:
        raise DataFileError(
            f"'{folder}' holds no run that could be resumed: no readable {CONFIG_FILE} ({error})"
        ) from error


def _is_blank(folder: Path) -> bool:
    """Whether a folder is there whose run was killed before its config was written."""
    try:
        names = {path.name for path in folder.iterdir()} if folder.is_dir() else {CONFIG_FILE}
    except OSError as error:
        raise OutputError(f"cannot use '{folder}': {error.strerror}") from error
    return all(name == LOCK_FILE or is_draft(name) for name in names)


def _read_begun(folder: Path, kind: str) -> dict[str, Any]:
    """Return the config of a run of a kind, begun by a version that this one agrees with."""
    config = read_config(folder)
    if config.get("format") != FORMAT:
        raise DataFileError(
            f"'{folder}' was begun by another version of pomp, whose runs this one cannot take up; "
            "begin another folder"
        )
    if config.get("kind") != kind:
        got = abridge(str(config.get("kind")))
        raise DataFileError(f"'{folder}' holds a run of pomp {got}, not of pomp {kind}")
    return config


@contextmanager
def reading(folder: RunFolder) -> Iterator[None]:
    """Tell what is wrong with a config that is read inside.

    Raises:
        DataFileError: a field is missing, unknown or no value of its kind.
    """
    try:
        yield
    except UntrustedModuleError as error:
        raise error.in_run() from error
    except (
        ConfigError,
        UnknownNameError,
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
    ) as error:
        what = f"the config.json in '{folder.path}' is damaged, or of another version"
        reason = f"no field {error}" if type(error) is KeyError else str(error)
        raise DataFileError(f"{what}: {reason}") from error


def take_fields(config: Mapping[str, Any], fields: Mapping[str, Schema]) -> list[Any]:
    """Return the values of a config's fields.

    Args:
        config: what a folder holds.
        fields: what each of its fields may be, but for those that every config has.

    Raises:
        ConfigError: a field is missing or unknown.
        DataFileError: a field is something else.
    """
    about = {"kind", "format", "pomp", EXTENDED}
    if differing := (set(config) - about) ^ set(fields):
        raise ConfigError(f"missing or unknown fields: {', '.join(sorted(differing))}")
    for name, schema in fields.items():
        schema.check(config[name], name)
    return [config[name] for name in fields]
