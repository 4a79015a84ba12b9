"""Write files whole or not at all, and read them without trust: texts, and arrays with JSON."""

import json
import os
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.core.errors import ConfigError, DataFileError, OutputError

_ENTRY = "pomp"  # the one header entry: two would be written in any order


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that readers see all of it or none."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        draft.write_bytes(content)
        os.replace(draft, path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Write a text file; one that was there survives if this fails.

    Raises:
        OutputError: the disk is full, or the folder cannot be written.
    """
    try:
        write_atomically(path, text.encode())
    except OSError as error:
        raise OutputError(f"cannot write '{path}': {error.strerror or error}") from error


def remove_drafts(folder: Path) -> None:
    """Remove what `write_atomically` leaves behind in a folder when its process is killed."""
    for path in folder.glob(".*"):
        if is_draft(path.name) and path.is_file():
            path.unlink(missing_ok=True)


def is_draft(name: str) -> bool:
    """Whether a name is one of files that `write_atomically` has not put in place yet."""
    return re.fullmatch(r"\.(.+)\.\d+\.\d+", name) is not None


def write_arrays(path: Path, arrays: dict[str, NDArray[Any]], header: dict[str, Any]) -> None:
    """Write arrays and a header; a file that was there survives if this fails.

    Args:
        path: the file.
        arrays: by name, of any shape `[...]` and dtype.
        header: values for JSON.

    Raises:
        OutputError: the disk is full, or the folder cannot be written.
    """
    from safetensors.numpy import save

    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    try:
        write_atomically(path, save(plain, {_ENTRY: json.dumps(header, sort_keys=True)}))
    except OSError as error:
        raise OutputError(f"cannot write '{path}': {error.strerror or error}") from error


def read_arrays(path: Path, kind: str) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read what `write_arrays` wrote: arrays by name, of any shape `[...]`, and the header.

    Args:
        path: the file.
        kind: what it should hold, for the error: `dataset`, `embedding`, ...

    Raises:
        DataFileError: no such file, truncated, or something else.
    """
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise DataFileError(f"'{path}' {what}; expected a file with a pomp {kind}")
    if not os.access(path, os.R_OK):
        raise DataFileError(f"'{path}' cannot be read: permission denied")
    try:
        with safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {})[_ENTRY])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no dict
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        reason = "its header is not pomp's" if isinstance(error, KeyError) else str(error)
        raise DataFileError(
            f"'{path}' is no pomp {kind}, or was cut short ({reason}); make it or fetch it again"
        ) from error
    if not isinstance(header, dict):
        raise DataFileError(f"'{path}' is no pomp {kind}: its header is not pomp's")
    return arrays, header


def through_file(
    arrays: dict[str, NDArray[Any]], header: dict[str, Any]
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return what a file would give back of `arrays`, of any shape `[...]`, and a header.

    Raises:
        ConfigError: a file could not hold them.
    """
    from safetensors.numpy import load, save

    try:
        plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        return load(save(plain)), dict(json.loads(json.dumps(header)))
    except Exception as error:  # of many kinds, whatever the arrays are
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ConfigError(f"a file cannot hold these arrays and values: {reason}") from error
