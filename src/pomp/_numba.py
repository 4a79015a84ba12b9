"""Compiled functions and where their machine code is kept.

`scalar` marks a function that other compiled functions inline, `routine` a larger one that they
call; `kernel` marks a launch loop, whose machine code is kept on disk. The folder is keyed by a
digest of the package's sources, because Numba's own cache does not notice an edit to a function
that a kernel imports from another file.

A kept file counts only with the checksum that was written beside it, so a truncated or damaged
cache means compiling again and nothing worse. Files are replaced atomically (by Numba, and here),
so processes that compile at the same time write the same files one after the other.
"""

import hashlib
import logging
import os
import re
import shutil
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np

LOGGER = logging.getLogger("pomp")
CODE_FOLDER = "pomp-code"  # within the cache folder: nothing but ours is in it
KEPT_DIGESTS = 8  # folders of earlier sources that stay before the oldest is deleted

_CONFIG: Any = numba.config
_PACKAGE = Path(__file__).parent
_LOCK = threading.Lock()  # of loading

F = TypeVar("F", bound=Callable[..., Any])


def scalar(function: F) -> F:
    """Decorator of the small functions that make up a kernel: they are pasted into callers."""
    inlined: Any = numba.njit(inline="always", error_model="numpy")(function)
    return inlined


def routine(function: F) -> F:
    """Decorator of a large function of a kernel: called, not pasted, which is compiled sooner."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}
    called: Any = numba.njit(**options)(function)
    return called


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
    folder = _user_cache() / CODE_FOLDER / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        fallback = _temporary_folder(name)
        LOGGER.warning("cannot keep compiled code in %s (%s); using %s", folder, error, fallback)
        return fallback
    _prune(folder)
    return folder


def _temporary_folder(name: str) -> Path:
    """A folder of this user's among the temporary files, the same for every process."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(tempfile.gettempdir()) / f"pomp-{user}-{name}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if (
        hasattr(os, "getuid") and folder.stat().st_uid != user
    ):  # not ours: code must not come from it
        return Path(tempfile.mkdtemp(prefix="pomp-"))
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
    others = [other for other in folder.parent.iterdir() if _is_digest(other) and other != folder]
    others.sort(key=lambda other: other.stat().st_mtime, reverse=True)
    for other in others[KEPT_DIGESTS - 1 :]:
        shutil.rmtree(other, ignore_errors=True)


def _is_digest(path: Path) -> bool:
    return path.is_dir() and re.fullmatch("[0-9a-f]{16}", path.name) is not None


class Kernel:
    """A compiled launch loop: call it with arrays and numbers.

    The first call with new argument types loads the machine code from disk, or compiles it and says
    so on the logger `pomp`. Kernels hold no reference counts, so they allocate nothing and take
    their scratch memory as arguments, and they run without Python's global lock.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name = f"{Path(function.__code__.co_filename).stem}.{function.__qualname__}"
        module = Path(function.__code__.co_filename).stem.split("_")[0]
        self._title = f"{function.__qualname__.strip('_')} of {module}"
        self._function = function
        self._dispatcher: Any = None

    def __call__(self, *args: Any) -> Any:
        if self._dispatcher is None:
            with _LOCK:
                if self._dispatcher is None:
                    self._dispatcher = self._load()
        known = self._compiled()
        result = self._dispatcher(*args)
        if self._compiled() != known:
            self._seal()
        return result

    def _compiled(self) -> int:
        """How many argument types were compiled here, not loaded."""
        stats = getattr(self._dispatcher, "stats", None)
        return sum(stats.cache_misses.values()) if stats else 0

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
            # Without `_nrt=False` reference counts stay in the inner loop: a third of the speed.
            return numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)(  # type: ignore[call-overload]  # Numba's types leave _nrt out
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


def kernel(function: Callable[..., Any]) -> Kernel:
    """Decorator of a launch loop."""
    return Kernel(function)


def launch(parts: int, call: Callable[[int], object]) -> None:
    """Call `call(part)` for every part, on as many threads; the first part runs right here."""
    others = [_workers().submit(call, part) for part in range(1, parts)]
    try:
        call(0)
    finally:
        for other in others:
            other.result()


def parts_for(work: int, threads: int | None, *, least: int) -> int:
    """How many threads to use: all or as many as asked for, but no less than `least` work each."""
    available = thread_count()
    wanted = available if threads is None else max(1, min(threads, available))
    return max(1, min(wanted, work // least))


def thread_count() -> int:
    """The CPU threads this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _workers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=thread_count(), thread_name_prefix="pomp")


if hasattr(os, "register_at_fork"):  # a forked child has none of its parent's threads
    os.register_at_fork(after_in_child=_workers.cache_clear)


def _seal_of(path: Path) -> Path:
    return path.with_name(path.name + ".crc")


def _is_sealed(path: Path) -> bool:
    try:
        return _seal_of(path).read_bytes() == str(zlib.crc32(path.read_bytes())).encode()
    except OSError:
        return False


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that readers see all of it or none."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        draft.write_bytes(content)
        os.replace(draft, path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
