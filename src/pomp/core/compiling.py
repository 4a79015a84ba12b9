"""Compile functions, and keep their machine code on disk.

`scalar` marks a function that other compiled functions inline, `routine` a larger one that they
call; `kernel` marks a launch loop, whose machine code is kept on disk. Each kernel has a folder
named after its fingerprint (`pomp.core.fingerprints`): an edit to anything it is compiled from
leads to another folder, and any other edit to the same one.

A kept file counts only with the checksum that was written beside it, so a truncated or damaged
cache means compiling again and nothing worse. Files are replaced atomically (by Numba, and here),
so processes that compile at the same time write the same files one after the other.
"""

import os
import pickle
import re
import shutil
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numba
from numba.core.caching import FunctionCache
from numba.core.errors import NumbaError

from pomp.core.code_cache import LOGGER, cache_folder, make_private, prune, warn_once
from pomp.core.errors import ConfigError
from pomp.core.fingerprints import fingerprint
from pomp.core.pasting import Compiler
from pomp.core.storage import write_atomically

MOST_THREADS = "POMP_THREADS"
"""The environment variable that says how many threads compiled code may use at most."""

CALLS_AT_ONCE = 1 << 25
"""Calls of the interpreter between two looks for Ctrl-C: less than a second."""

_CONFIG: Any = numba.config
_LOCK = threading.Lock()  # of loading

# A damaged index; an AttributeError: a class of an argument has another name by now.
_UNREADABLE = (
    AttributeError, ImportError, EOFError, IndexError, KeyError, TypeError, ValueError, OSError,
    pickle.UnpicklingError,
)  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])


def scalar(function: F) -> F:
    """Mark a small function of a kernel, which is pasted into its callers."""
    inlined: Any = numba.njit(inline="always", error_model="numpy")(function)
    return inlined


def routine(function: F) -> F:
    """Mark a large function of a kernel, which is called instead of pasted: it compiles sooner."""
    called: Any = _njit(function)
    return called


def _njit(function: Callable[..., Any]) -> Any:
    """Return Numba's dispatcher of a function that is not pasted."""
    # Without `_nrt=False` reference counts stay in the inner loop: a third of the speed.
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}
    return numba.njit(pipeline_class=Compiler, **options)(function)


def check_compiled(
    owner: str, name: str, function: Callable[..., Any] | None, arguments: tuple[str, ...]
) -> None:
    """Refuse a function of somebody's own that is not compiled or takes other arguments.

    Args:
        owner: whose function it is, for errors, as in `task Lawn`.
        name: what the owner calls it.
        function: the function; None: there is none.
        arguments: the names of the arguments that it must have, in order.

    Raises:
        ConfigError: says what is missing.
    """
    expected = f"{name}({', '.join(arguments)})"
    if function is None:
        raise ConfigError(f"{owner} needs {expected}, got none")
    plain = getattr(function, "py_func", function if _CONFIG.DISABLE_JIT else None)
    if plain is None:
        raise ConfigError(f"{name} of {owner} is not compiled: put @scalar on it")
    got = plain.__code__.co_varnames[: plain.__code__.co_argcount]
    if got != arguments:
        raise ConfigError(f"{owner} needs {expected}, got {name}({', '.join(got)})")


def reason_of(error: Exception) -> str:
    """Return in one line why Numba could not compile something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith("Failed in nopython mode")]
    return (told or lines or [type(error).__name__])[0]


def kernel_folder(stem: str, function: Callable[..., Any]) -> Path:
    """Return the folder of a kernel's machine code, named after all it is compiled from.

    Folders of its earlier code go, but for the latest.
    """
    folder = cache_folder() / f"{stem}-{fingerprint(function)}"
    if folder.is_dir():
        prune(folder, re.escape(stem) + "-[0-9a-f]{16}")
    return folder


class _Locator:
    """Tells Numba's cache to use a kernel's own folder."""

    def __init__(self, folder: Path, file: str) -> None:
        self._folder, self._py_file = folder, file

    def get_cache_path(self) -> str:
        """Return the folder."""
        return str(self._folder)

    def ensure_cache_path(self) -> None:
        """Make the folder; Numba asks for it when there is something to write."""
        make_private(self._folder)

    def get_source_stamp(self) -> str:
        """Return what a kept file must agree with: the folder's name says it all."""
        return self._folder.name

    def get_disambiguator(self) -> str:
        """Return what tells apart functions of one name: nothing, since the folder does."""
        return "kernel"


def cache_in(folder: Path, kind: Any, function: Callable[..., Any]) -> Any:
    """Return a cache for one function's dispatcher that keeps machine code in its own folder.

    Args:
        folder: where; its name holds the function's fingerprint.
        kind: Numba's cache class for the target.
        function: the Python function.
    """

    class Locator(_Locator):
        @classmethod
        def from_function(cls, py_func: Any, py_file: str) -> "Locator":
            return cls(folder, py_file)

    class Implementation(kind._impl_class):  # type: ignore[misc]  # Numba has no types
        _locator_classes: ClassVar[list[Any]] = [Locator]

    class Cache(kind):  # type: ignore[misc]  # Numba has no types
        _impl_class = Implementation

        def _index_key(self, sig: Any, codegen: Any) -> Any:
            # The machine code knows the order of a named tuple's fields.
            return (*super()._index_key(sig, codegen), tuple(_fields_of(sig)))

        def save_overload(self, sig: Any, data: Any) -> None:
            try:
                super().save_overload(sig, data)
            except OSError as error:  # it is in memory all the same
                warn_once(f"cannot keep compiled code in {cache_folder()} ({error.strerror})")

    try:
        Cache(function)._cache_file._load_index()
    except _UNREADABLE:
        shutil.rmtree(folder, ignore_errors=True)
    return Cache(function)


def _fields_of(kinds: Iterable[Any]) -> Iterator[tuple[str, ...]]:
    """Yield the fields of all named tuples among argument types, and in them."""
    for kind in kinds:
        if hasattr(kind, "types"):
            yield tuple(getattr(kind, "fields", ()))
            yield from _fields_of(kind.types)


class Kernel:
    """A compiled launch loop: call it with arrays and numbers.

    The first call with new argument types loads the machine code from disk, or compiles it and says
    so on the logger `pomp`. Kernels hold no reference counts, so they allocate nothing and take
    their scratch memory as arguments, and they run without Python's global lock.

    Attributes:
        owner: whose code of their own is in it, as `task Lawn`, and is to blame if it cannot be
            compiled; None: there is the package's alone.
    """

    owner: str | None = None

    def __init__(self, function: Callable[..., Any]) -> None:
        self.py_func = function
        module = Path(function.__code__.co_filename).stem
        self._stem = f"{module.split('_')[0]}.{function.__qualname__}"
        self._title = f"{function.__qualname__.strip('_')} of {module.split('_')[0]}"
        self._dispatcher: Any = None
        self._misses: Mapping[Any, int] = {}  # argument types that were compiled here, not loaded
        self._sealed = 0  # how many of these are on disk with their checksums

    def __call__(self, *args: Any) -> Any:
        """Run the machine code for these arguments, loading or compiling it first if need be."""
        if self._dispatcher is None:
            with _LOCK:
                if self._dispatcher is None:
                    self._dispatcher = self._load()
        try:
            result = self._dispatcher(*args)
        except NumbaError as error:
            if self.owner is None:
                raise
            raise ConfigError(f"{self.owner} cannot be compiled: {reason_of(error)}") from error
        if len(self._misses) != self._sealed:
            self._sealed = len(self._misses)
            self._seal()
        return result

    @cached_property
    def _folder(self) -> Path:
        """The folder of this kernel's machine code."""
        return kernel_folder(self._stem, self.py_func)

    def _load(self) -> Any:
        """Return Numba's dispatcher, with the machine code that is kept if it is undamaged."""
        if _CONFIG.DISABLE_JIT:
            return self.py_func
        kept = self._files()
        if not all(_is_sealed(path) for path in kept):
            for path in kept:
                path.unlink(missing_ok=True)
            kept = []
        if not kept:
            LOGGER.info("compiling %s (once; kept in %s)", self._title, cache_folder())
        dispatcher: Any = _njit(self.py_func)
        dispatcher._cache = cache_in(self._folder, FunctionCache, self.py_func)
        self._misses = dispatcher.stats.cache_misses
        return dispatcher

    def _files(self) -> list[Path]:
        """Return the kept files of this kernel."""
        return sorted(path for path in self._folder.glob("*") if path.suffix in (".nbi", ".nbc"))

    def _seal(self) -> None:
        """Write the checksums of the kept files."""
        for path in self._files():
            try:
                write_atomically(_seal_of(path), str(zlib.crc32(path.read_bytes())).encode())
            except OSError:  # the folder went away or is full: it will be compiled again
                continue


def kernel(function: Callable[..., Any]) -> Kernel:
    """Mark a launch loop, whose machine code is kept on disk."""
    return Kernel(function)


def launch(threads: int, call: Callable[[int], object], pieces: int | None = None) -> None:
    """Call `call(piece)` for every piece, on so many threads; the first runs right here.

    Compiled code hears no signal while it runs, Python hears them between two pieces: after Ctrl-C
    no piece begins, on any thread.

    Args:
        threads: how many.
        call: what runs a piece.
        pieces: how many there are, dealt out to the threads in turn; None: one for each.
    """
    count = threads if pieces is None else pieces
    if threads == 1:
        for piece in range(count):
            call(piece)
        return
    is_stopped = threading.Event()

    def run(first: int) -> None:
        for piece in range(first, count, threads):
            if is_stopped.is_set():
                return
            call(piece)

    others = [_workers().submit(run, first) for first in range(1, threads)]
    try:
        run(0)
        for other in others:
            other.result()
    finally:
        is_stopped.set()
        wait(others)


def parts_for(work: int, threads: int | None, *, least: int) -> int:
    """Return how many threads to use, so that each has `least` units of work or more.

    Args:
        work: how many units of work there are.
        threads: at most so many; None: one per core.
        least: units that are worth a thread.
    """
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int)):
        raise ConfigError(f"threads must be a whole number, or None for all, got {threads!r:.80}")
    if work < 2 * least:  # asking how many there are takes longer than other checks together
        return 1
    available = thread_count()
    wanted = available if threads is None else max(1, min(threads, available))
    return max(1, min(wanted, work // least))


def pieces_for(threads: int, calls: int) -> int:
    """Return into how many pieces work is cut, as many for each thread, none of them long.

    Args:
        threads: how many do it.
        calls: calls of the interpreter that it may take.
    """
    return threads * max(1, -(-calls // (threads * CALLS_AT_ONCE)))


def thread_count() -> int:
    """Return how many CPU threads this process may use: its cores, or `POMP_THREADS` if fewer.

    Raises:
        ConfigError: the variable is no number of threads.
    """
    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    most = os.environ.get(MOST_THREADS)
    if not most:
        return cores
    if not most.isdecimal() or int(most) < 1:
        raise ConfigError(f"{MOST_THREADS} must be a whole number above 0, got '{most}'")
    return min(cores, int(most))


@cache
def _workers() -> ThreadPoolExecutor:
    """Return the threads of this process, which all launches share."""
    return ThreadPoolExecutor(max_workers=thread_count(), thread_name_prefix="pomp")


if hasattr(os, "register_at_fork"):  # a forked child has none of its parent's threads
    os.register_at_fork(after_in_child=_workers.cache_clear)


def _seal_of(path: Path) -> Path:
    """Return the file with the checksum of a kept file."""
    return path.with_name(path.name + ".crc")


def _is_sealed(path: Path) -> bool:
    """Whether a kept file agrees with its checksum."""
    try:
        return _seal_of(path).read_bytes() == str(zlib.crc32(path.read_bytes())).encode()
    except OSError:
        return False
