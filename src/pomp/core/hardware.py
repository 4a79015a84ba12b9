"""The computer that something was measured or computed on, and what is installed on it."""

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pomp.core.code_cache import cache_folder
from pomp.core.compiling import thread_count
from pomp.core.cuda import load_cuda
from pomp.core.errors import CudaError
from pomp.version import __version__


def describe_hardware(device: str = "cpu") -> dict[str, str]:
    """Return the date, the processor (and threads) or GPU, and versions that matter for speed."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "processor": name_processor(device),
        **({"threads": str(thread_count())} if device == "cpu" else {}),
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "numba": version("numba"),
        "pomp": __version__,
    }


def describe_installation() -> dict[str, str]:
    """Return the versions of pomp and of what it stands on, the GPU, and where code is kept."""
    libraries = ("numpy", "numba", "numba-cuda", "torch")
    return {
        "pomp": __version__,
        "python": platform.python_version(),
        **{name: version_of(name) or "not installed" for name in libraries},
        "CUDA": _gpu_if_any(),
        "cache": str(cache_folder()),
    }


def version_of(library: str) -> str | None:
    """Return the version of an installed library; None: it is not installed."""
    try:
        return version(library)
    except PackageNotFoundError:
        return None


def _gpu_if_any() -> str:
    try:
        return f"available, {_gpu()}"
    except CudaError:
        return "not available"


@contextmanager
def on_one_core() -> Iterator[None]:
    """Let this process have one core alone, where the system can do that."""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    if cores:
        os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        if cores:
            os.sched_setaffinity(0, cores)


def name_processor(device: str) -> str:
    """Return the name of the GPU, for `cuda`, or of the processor."""
    return _gpu() if device == "cuda" else _processor()


def _gpu() -> str:
    """Return the name of the GPU."""
    name = load_cuda().get_current_device().name
    return name.decode() if isinstance(name, bytes) else str(name)


def _processor() -> str:
    """Return the name of the processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
