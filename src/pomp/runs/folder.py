"""The folder of a run that can be resumed: made once, with the config it was begun with."""

import json
from pathlib import Path
from typing import Any

from pomp.core.errors import ConfigError, DataFileError, OutputError
from pomp.core.storage import remove_drafts, write_text

CONFIG_FILE = "config.json"


def check_new(folder: Path) -> None:
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


def begin_run(folder: Path, config: dict[str, Any]) -> None:
    """Make the folder of a new run.

    Raises:
        OutputError: it exists, or cannot be made.
    """
    check_new(folder)
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise OutputError(f"cannot write '{folder}': {error.strerror}") from error
    write_text(folder / CONFIG_FILE, json.dumps(config, indent=2))


def clear_if_not_begun(folder: Path) -> bool:
    """Remove a folder whose run was killed before its config was written; returns whether it was.

    Raises:
        OutputError: it cannot be read or removed.
    """
    try:
        if not folder.is_dir():
            return False
        remove_drafts(folder, CONFIG_FILE)
        if any(folder.iterdir()):
            return False
        folder.rmdir()
    except OSError as error:
        raise OutputError(f"cannot use '{folder}': {error.strerror}") from error
    return True


def check_config(folder: Path, config: dict[str, Any]) -> None:
    """Make sure that a run was begun with this config.

    Raises:
        DataFileError: there is no run.
        ConfigError: it was begun with another; names the fields.
    """
    before = read_config(folder)
    if differing := differing_fields(before, json.loads(json.dumps(config))):
        raise ConfigError(
            f"'{folder}' was begun otherwise: {'; '.join(differing)}. Resume it with the same "
            "settings, or begin another folder"
        )


def read_config(folder: Path) -> dict[str, Any]:
    """The config a run was begun with."""
    try:
        return dict(json.loads((folder / CONFIG_FILE).read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise DataFileError(
            f"'{folder}' holds no run that could be resumed: no readable {CONFIG_FILE}"
        ) from error


def differing_fields(one: dict[str, Any], other: dict[str, Any], prefix: str = "") -> list[str]:
    """Names of the fields in which two configs differ, as `reinforce.batch (512, 256)`."""
    names = []
    for name in sorted(set(one) | set(other)):
        left, right = one.get(name), other.get(name)
        if name not in one or name not in other:
            names.append(f"{prefix}{name} (only {'now' if name in other else 'before'})")
        elif isinstance(left, dict) and isinstance(right, dict):
            names += differing_fields(left, right, f"{prefix}{name}.")
        elif left != right:
            names.append(f"{prefix}{name} ({left} before, {right} now)")
    return names
