"""Write files whole or not at all, and read them without trust: texts, JSON, arrays with JSON.

Every file that pomp reads comes through `read_bytes`: a regular file of bounded size. JSON has no
name twice and no deeper nesting than its schema says (`pomp.core.schemas`). Checksums tell damage
from another version; they are no signatures.

An object in JSON may have a `checksum` of everything else in it. Arrays are safetensors with one
header entry, a checksum of the whole file followed by JSON. Files from before had an entry without
a checksum, and are read as well.
"""

import hashlib
import json
import os
import re
import stat
import threading
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.core.errors import ConfigError, DataFileError, OutputError, abridge
from pomp.core.schemas import FREE, Named, Record, Schema, Text

LONGEST_NAME = 255
"""Bytes that the name of a file or a folder may have."""
MOST_JSON_BYTES = 1 << 28
MOST_ARRAY_BYTES = 1 << 34
CHECKSUM = "checksum"
"""The name under which an object in JSON has the checksum of everything else in it."""

# The one header entry: two would be written in any order. No flipped bit makes one the other.
_SEALED, _UNSEALED = "pomp.sealed", "pomp"
_MARK = f'"{_SEALED}":"'.encode()
_DIGITS = 64
_BLANK = b"0" * _DIGITS  # stands for the checksum while it is computed

Arrays = dict[str, NDArray[Any]]


def as_path(path: object) -> Path:
    """Return a path that a caller has given.

    Raises:
        ConfigError: it is none.
    """
    if not isinstance(path, str | Path) or "\0" in str(path):
        raise ConfigError(f"a path is a text or a Path, got {path!r:.80}")
    if path == "":
        raise ConfigError("a path is empty; name a file or a folder")
    path = Path(path)
    if any(len(os.fsencode(part)) > LONGEST_NAME for part in path.parts):
        raise ConfigError(f"no file has a name as long as in '{abridge(str(path), 80)}'")
    return path


def check_new(path: Path, kind: str) -> None:
    """Refuse a path at which something is, or nothing can be written.

    Args:
        path: where something new is to be written.
        kind: what it is: a file or a folder.

    Raises:
        OutputError: says why.
    """
    if path.exists():
        raise OutputError(f"'{path}' exists; name a new {kind}")
    if not path.parent.is_dir():
        raise OutputError(f"cannot write '{path}': there is no folder '{path.parent}'; make it")
    if not os.access(path.parent, os.W_OK):
        raise OutputError(f"cannot write '{path}': permission denied")


def make_folder(path: object) -> Path:
    """Return a folder that a caller has given, made if need be.

    Raises:
        ConfigError: it is no path.
        OutputError: it cannot be made.
    """
    folder = as_path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write '{folder}': {error.strerror or error}") from error
    return folder


def write_atomically(path: str | Path, content: bytes) -> None:
    """Write a file so that readers see all of it or none."""
    path = as_path(path)
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


def read_bytes(path: str | Path, kind: str, most: int = MOST_JSON_BYTES) -> bytes:
    """Read a regular file of bounded size.

    Args:
        path: the file.
        kind: what it should hold, for errors: `dataset`, `machine`, ...
        most: the bytes that it may have.

    Raises:
        DataFileError: it is missing, too long, not readable, or a folder, a pipe or a device.
    """
    path, expected = as_path(path), f"expected a file with a pomp {kind}"
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            what = "is a folder" if stat.S_ISDIR(mode) else "is no regular file"
            raise DataFileError(f"'{path}' {what}; {expected}")
        # Without waiting: what was a file a moment ago may be a pipe now.
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            content = file.read(most + 1)
    except FileNotFoundError as error:
        raise DataFileError(f"'{path}' does not exist; {expected}") from error
    except (OSError, ValueError) as error:
        if isinstance(error, DataFileError):
            raise
        reason = str(getattr(error, "strerror", None) or error).lower()
        raise DataFileError(f"'{path}' cannot be read: {reason}") from error
    if len(content) > most:
        raise DataFileError(f"'{path}' has over {most} bytes: too long for a {kind}")
    return content


def read_text(path: str | Path, kind: str, most: int = MOST_JSON_BYTES) -> str:
    """Read a regular file of UTF-8 text, with or without a mark at its beginning.

    Args:
        path: the file.
        kind: what it should hold, for errors.
        most: the bytes that it may have.

    Raises:
        DataFileError: it cannot be read, or is no UTF-8 text.
    """
    content = read_bytes(path, kind, most)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataFileError(f"'{path}' is not UTF-8 text (byte {error.start})") from error


def read_json(path: str | Path, kind: str, schema: Schema = FREE) -> Any:
    """Read a JSON file, check it, and take its checksum off.

    Args:
        path: the file.
        kind: what it should hold, for errors.
        schema: what it may hold.

    Raises:
        DataFileError: it cannot be read, is damaged, or holds something else.
    """
    text = read_text(path, kind)
    try:
        return parse_json(text, schema)
    except ValueError as error:
        raise DataFileError(
            f"'{path}' is no pomp {kind}, or damaged, or of another version: {error}"
        ) from error


def parse_json(text: str, schema: Schema = FREE, *, is_sealed: bool = False) -> Any:
    """Read JSON, check it, and take its checksum off.

    Args:
        text: the JSON.
        schema: what it may hold.
        is_sealed: whether there must be a checksum.

    Raises:
        ValueError: it is no JSON, damaged, or something else than the schema says.
    """
    value = _load(text)
    if isinstance(value, dict) and (is_sealed or CHECKSUM in value or _was_sealed(value)):
        _check_seal(value, text)
    schema.check(value)
    return value


def _load(text: str) -> Any:
    """Read JSON that is not nested too deeply, whose objects have no name twice.

    Raises:
        ValueError: it is something else.
    """
    try:
        value = json.loads(text, object_pairs_hook=_object_of)
        FREE.check(value)
        if "\\ud" in text.lower():  # perhaps half a character, which could not be written again
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise DataFileError("it has half a character in a text") from error
    except RecursionError as error:
        raise DataFileError("it is nested too deeply") from error
    return value


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object in JSON.

    Raises:
        DataFileError: a name comes twice.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        raise DataFileError("a name comes twice in an object")
    return found


def with_checksum(values: dict[str, Any]) -> dict[str, Any]:
    """Return an object for JSON with the checksum of everything in it."""
    plain = json.loads(json.dumps(values))  # as it will be read: all names are texts
    return {**plain, CHECKSUM: _checksum_of(plain)}


def _checksum_of(values: dict[str, Any]) -> str:
    text = json.dumps(values, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _was_sealed(values: dict[str, Any]) -> bool:
    """Whether the last thing in an object looks like a checksum whose name is damaged."""
    name, value = next(reversed(values.items()), ("", None))
    if not isinstance(value, str) or not re.fullmatch("[0-9a-f]{16}", value):
        return False
    return SequenceMatcher(None, name, CHECKSUM).ratio() > 0.5


def _check_seal(values: dict[str, Any], text: str) -> None:
    """Take the checksum off an object that was read from a text.

    Raises:
        DataFileError: the checksum is that of something else, or the text is written otherwise.
    """
    # Blanks aside: numbers and texts must be as they are written here, or a flipped bit shows not.
    is_verbatim = "".join(json.dumps(values).split()) == "".join(text.split())
    if values.pop(CHECKSUM, None) != _checksum_of(values) or not is_verbatim:
        raise DataFileError(
            "its checksum is that of something else; fetch or make it again (if you changed it "
            f'yourself, delete its "{CHECKSUM}")'
        )


def write_arrays(path: str | Path, arrays: Arrays, header: dict[str, Any]) -> None:
    """Write arrays and a header; a file that was there survives if this fails.

    Args:
        path: the file.
        arrays: by name, of any shape `[...]` and dtype.
        header: values for JSON.

    Raises:
        OutputError: the disk is full, or the folder cannot be written.
    """
    try:
        write_atomically(path, pack_arrays(arrays, header))
    except OSError as error:
        raise OutputError(f"cannot write '{path}': {error.strerror or error}") from error


def pack_arrays(arrays: Arrays, header: dict[str, Any]) -> bytes:
    """Return the content of a file of `arrays`, of any shape `[...]`, and a header."""
    from safetensors.numpy import save

    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    text = _BLANK.decode() + json.dumps(header, sort_keys=True)
    content = bytearray(save(plain, {_SEALED: text}))
    place = content.index(_MARK) + len(_MARK)
    content[place : place + _DIGITS] = hashlib.sha256(content).hexdigest().encode()
    return bytes(content)


def read_arrays(
    path: str | Path, kind: str, header: Schema = FREE
) -> tuple[Arrays, dict[str, Any]]:
    """Read what `write_arrays` wrote: arrays by name, of any shape `[...]`, and the header.

    Args:
        path: the file.
        kind: what it should hold, for the error: `dataset`, `embedding`, ...
        header: what the header may hold.

    Raises:
        DataFileError: no such file, truncated, damaged, or something else.
    """
    content = read_bytes(path, kind, MOST_ARRAY_BYTES)
    try:
        return unpack_arrays(content, header)
    except DataFileError as error:
        raise DataFileError(
            f"'{path}' is no pomp {kind}, or was cut short or damaged ({error}); make it or fetch "
            "it again"
        ) from error


def unpack_arrays(content: bytes, header: Schema = FREE) -> tuple[Arrays, dict[str, Any]]:
    """Return what `pack_arrays` packed: arrays by name, of any shape `[...]`, and the header.

    Args:
        content: of a file, in which everything may be wrong.
        header: what the header may hold.

    Raises:
        DataFileError: says what is wrong.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    end = 8 + int.from_bytes(content[:8], "little")
    try:
        if end > len(content) or end == 8:
            raise DataFileError("it is cut short, or no safetensors")
        entries = _load(content[8:end].decode())
        _HEADER.check(entries)
        told = entries["__metadata__"]
        text = told[_UNSEALED] if _UNSEALED in told else _open_sealed(content, told[_SEALED])
        values = parse_json(text, header)
        arrays = load(content)
    except (SafetensorError, ValueError, LookupError, TypeError, ImportError) as error:
        reason = "its header is not pomp's" if isinstance(error, KeyError) else str(error)
        raise DataFileError(reason) from error
    if not isinstance(values, dict):
        raise DataFileError("its header is not pomp's")
    return arrays, values


_HEADER = Record({"__metadata__": Named(Text(most=MOST_JSON_BYTES))}, is_open=True)


def _open_sealed(content: bytes, text: str) -> str:
    """Return the JSON of a file's entry, a `text` that begins with the checksum of the `content`.

    Raises:
        DataFileError: the content has another checksum.
    """
    place = content.index(_MARK) + len(_MARK)
    found = hashlib.sha256(content[:place] + _BLANK)
    found.update(memoryview(content)[place + _DIGITS :])
    if text[:_DIGITS] != found.hexdigest():
        raise DataFileError("its checksum is that of something else")
    return text[_DIGITS:]


def through_file(arrays: Arrays, header: dict[str, Any]) -> tuple[Arrays, dict[str, Any]]:
    """Return what a file would give back of `arrays`, of any shape `[...]`, and a header.

    Raises:
        ConfigError: a file could not hold them.
    """
    try:
        return unpack_arrays(pack_arrays(arrays, header))
    except Exception as error:  # of many kinds, whatever the arrays are
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ConfigError(f"a file cannot hold these arrays and values: {reason}") from error
