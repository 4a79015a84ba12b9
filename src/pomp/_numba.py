"""Compiled functions and where their machine code is kept.

`scalar` marks a function that other compiled functions inline; `kernel` marks a launch loop, whose
machine code is kept on disk. The folder is keyed by a digest of the package's sources, because
Numba's own cache does not notice an edit to a function that a kernel imports from another file.

A kept file counts only with the checksum that was written beside it, so a truncated or damaged
cache means compiling again and nothing worse. Files are replaced atomically (by Numba, and here),
so processes that compile at the same time write the same files one after the other.
"""

import hashlib
import logging
import os
import shutil
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np

LOGGER = logging.getLogger("pomp")
KEPT_DIGESTS = 8  # folders of earlier sources that stay before the oldest is deleted

_CONFIG: Any = numba.config
_PACKAGE = Path(__file__).parent
_LOCK = threading.Lock()  # Numba's plainest threading layer takes one parallel call at a time

F = TypeVar("F", bound=Callable[..., Any])


def scalar(function: F) -> F:
    """Decorator of the small functions that make up a kernel: they are pasted into callers."""
    inlined: Any = numba.njit(inline="always", error_model="numpy")(function)
    return inlined


def digest_of(*texts: bytes) -> str:
    """A short name for some sources, the compiler's version and NumPy's."""
    digest = hashlib.sha256(f"{numba.__version__} {np.__version__} {sys.version}".encode())
    for text in texts:
        digest.update(hashlib.sha256(text).digest())
    return digest.hexdigest()[:16]


@cache
def cache_folder() -> Path:
    """The folder of this version's compiled code; made if need be, and always writable."""
    sources = sorted(_PACKAGE.rglob("*.py"))
    name = digest_of(*(source.read_bytes() for source in sources))
    folder = _user_cache() / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        fallback = Path(tempfile.mkdtemp(prefix="pomp-"))
        LOGGER.warning("cannot keep compiled code in %s (%s); using %s", folder, error, fallback)
        return fallback
    _prune(folder)
    return folder


def _user_cache() -> Path:
    """POMP_CACHE_DIR, or the place the operating system has for such files."""
    if chosen := os.environ.get("POMP_CACHE_DIR"):
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "pomp"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "pomp"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pomp"


def _prune(folder: Path) -> None:
    os.utime(folder)
    others = [other for other in folder.parent.iterdir() if other.is_dir() and other != folder]
    others.sort(key=lambda other: other.stat().st_mtime, reverse=True)
    for other in others[KEPT_DIGESTS - 1 :]:
        shutil.rmtree(other, ignore_errors=True)


class Kernel:
    """A compiled launch loop: call it with arrays.

    The first call with new argument types loads the machine code from disk, or compiles it and says
    so on the logger `pomp`.
    """

    def __init__(self, function: Callable[..., Any], parallel: bool) -> None:
        self.name = f"{Path(function.__code__.co_filename).stem}.{function.__qualname__}"
        module = Path(function.__code__.co_filename).stem.split("_")[0]
        self._title = f"{function.__qualname__.strip('_')} of {module}"
        self._function = function
        self._parallel = parallel
        self._dispatcher: Any = None

    def __call__(self, *args: Any) -> Any:
        with _LOCK:
            if self._dispatcher is None:
                self._dispatcher = self._load()
            known = len(getattr(self._dispatcher, "overloads", ()))
            result = self._dispatcher(*args)
            if len(getattr(self._dispatcher, "overloads", ())) != known:
                self._seal()
            return result

    def _load(self) -> Any:
        kept = [path for path in self._files() if path.suffix in (".nbi", ".nbc")]
        if not all(_is_sealed(path) for path in kept):
            for path in kept:
                path.unlink(missing_ok=True)
            kept = []
        if not kept and not _CONFIG.DISABLE_JIT:
            LOGGER.info("compiling %s (once; kept in %s)", self._title, cache_folder())
        before = _CONFIG.CACHE_DIR
        _CONFIG.CACHE_DIR = str(cache_folder())  # read while decorating, by this kernel only
        try:
            return numba.njit(parallel=self._parallel, cache=True, error_model="numpy")(
                self._function
            )
        finally:
            _CONFIG.CACHE_DIR = before

    def _files(self) -> list[Path]:
        return sorted(cache_folder().rglob(f"{self.name}-*"))

    def _seal(self) -> None:
        for path in self._files():
            if path.suffix in (".nbi", ".nbc"):
                try:
                    write_atomically(_seal_of(path), str(zlib.crc32(path.read_bytes())).encode())
                except OSError:  # the folder went away or is full: it will be compiled again
                    continue


def kernel(*, parallel: bool) -> Callable[[Callable[..., Any]], Kernel]:
    """Decorator of a launch loop; `parallel` lets it use `prange`."""
    return lambda function: Kernel(function, parallel)


def _seal_of(path: Path) -> Path:
    return path.with_name(path.name + ".crc")


def _is_sealed(path: Path) -> bool:
    try:
        return _seal_of(path).read_bytes() == str(zlib.crc32(path.read_bytes())).encode()
    except OSError:
        return False


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that readers see all of it or none."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
    try:
        os.replace(file.name, path)
    except OSError:
        Path(file.name).unlink(missing_ok=True)
        raise


def use_threads(threads: int | None) -> int:
    """Let kernels use so many threads (None: all); returns the number in force."""
    most: int = _CONFIG.NUMBA_NUM_THREADS
    numba.set_num_threads(most if threads is None else max(1, min(threads, most)))
    return int(numba.get_num_threads())
