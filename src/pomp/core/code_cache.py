"""Where compiled code is kept: a folder that nobody else can write to, or none.

Loading machine code runs it. So a folder counts only if it and all folders above it, links
resolved, belong to this user or to root, and nobody else can write there; it is made for this user
alone, whatever the umask. One that cannot be trusted, or written, is replaced by a folder of this
user's among the temporary files, and a line says so: compiled code is a convenience, and never a
reason to stop.
"""

import atexit
import logging
import os
import re
import shutil
import stat
import sys
import tempfile
from functools import cache
from pathlib import Path

from pomp.core.errors import ConfigError, OutputError
from pomp.core.fingerprints import versions
from pomp.core.storage import write_atomically

LOGGER = logging.getLogger("pomp")
CODE_FOLDER = "pomp-code"  # within the cache folder: nothing but ours is in it
KEPT = 8  # folders of earlier versions, and of each kernel's earlier code, before the oldest goes

_PRIVATE = 0o700
_PROBE = bytes(1 << 16)  # what must fit into the folder, or it is full


@cache
def cache_folder() -> Path:
    """Return the folder of these versions' compiled code; it is trusted and can be written.

    Raises:
        ConfigError: there is no such folder, not even among the temporary files.
    """
    folder = _user_cache() / CODE_FOLDER / versions()
    try:
        make_private(folder)
        check_trust(folder)
        _close_to_others(folder)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(_PROBE)
            file.flush()
    except OSError as error:
        fallback = _temporary_folder(folder.name)
        warn_once(f"cannot keep compiled code in {folder} ({error}); using {fallback}")
        return fallback
    prune(folder, "[0-9a-f]{16}")
    return folder


def keep_source(name: str, content: bytes) -> Path:
    """Write a module into the folder, unless it is there, and return its file.

    If the folder has filled up meanwhile, the file is in a folder of this process's.

    Raises:
        OutputError: nothing can be written there either.
    """
    path = cache_folder() / name
    try:
        if not path.is_file() or path.read_bytes() != content:
            write_atomically(path, content)
    except OSError as error:
        path = _own_folder() / name
        warn_once(f"cannot keep compiled code in {cache_folder()} ({error})")
        try:
            write_atomically(path, content)
        except OSError as again:
            raise OutputError(f"cannot write '{path}', code to be compiled: {again}") from again
    return path


@cache
def warn_once(line: str) -> None:
    """Log a warning, unless it was logged before."""
    LOGGER.warning("%s", line)


def make_private(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for this user alone."""
    for place in reversed([folder, *folder.parents]):
        if not place.exists():
            place.mkdir(mode=_PRIVATE, exist_ok=True)
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder} is no folder")


def check_trust(folder: Path) -> None:
    """Refuse a folder into which somebody else could put code.

    Above it, a folder in which everybody may write is fine if only owners can rename and remove
    there, as in that of temporary files.

    Raises:
        OutputError: says whose it is, or which folder others can write to.
    """
    if not hasattr(os, "getuid"):
        return
    real = folder.resolve(strict=True)
    for place in (real, *real.parents):
        found = place.stat()
        if found.st_uid not in (os.getuid(), 0):
            raise OutputError(f"{place} belongs to user {found.st_uid}, who could put code there")
        is_shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if is_shared and (place == real or not found.st_mode & stat.S_ISVTX):
            raise OutputError(f"others can write to {place}; chmod go-w closes it")


def _close_to_others(folder: Path) -> None:
    """Let nobody else into a folder; what is in it must be as trustworthy as the folder.

    Raises:
        OutputError: somebody else could have written to a part of it.
    """
    if not hasattr(os, "getuid") or not folder.stat().st_mode & 0o077:
        return
    for place in folder.rglob("*"):
        found = place.lstat()
        is_mine = found.st_uid in (os.getuid(), 0) and not stat.S_ISLNK(found.st_mode)
        if not is_mine or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise OutputError(f"others could write to {place}; remove {folder} to begin anew")
    folder.chmod(_PRIVATE)


def _temporary_folder(name: str) -> Path:
    """Return a folder of this user's among the temporary files, the same for every process."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(tempfile.gettempdir()) / f"pomp-{user}-{name}"
    try:
        folder.mkdir(mode=_PRIVATE, exist_ok=True)
        found = folder.lstat()  # a link would lead elsewhere
        is_private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077
        if hasattr(os, "getuid") and (found.st_uid != user or not is_private):
            return _own_folder()
        check_trust(folder)
    except OSError:
        return _own_folder()
    return folder


@cache
def _own_folder() -> Path:
    """Return a folder of this process alone, which goes with it.

    Raises:
        ConfigError: there is no place for one.
    """
    try:
        folder = Path(tempfile.mkdtemp(prefix="pomp-"))
        check_trust(folder)
    except OSError as error:
        raise ConfigError(
            f"there is no folder for compiled code ({error}); name one of your own that can be "
            "written, as POMP_CACHE_DIR=~/pomp-cache"
        ) from error
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _user_cache() -> Path:
    """Return POMP_CACHE_DIR, or the place the operating system has for such files."""
    if chosen := os.environ.get("POMP_CACHE_DIR"):
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "pomp"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "pomp"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pomp"


def prune(folder: Path, pattern: str) -> None:
    """Mark a folder as used, and delete all but the latest of those beside it with such names."""
    os.utime(folder)
    others = [
        other
        for other in folder.parent.iterdir()
        if other != folder and other.is_dir() and re.fullmatch(pattern, other.name)
    ]
    others.sort(key=lambda other: other.stat().st_mtime, reverse=True)
    for other in others[KEPT - 1 :]:
        shutil.rmtree(other, ignore_errors=True)
