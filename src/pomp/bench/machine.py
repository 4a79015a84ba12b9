"""What a table was measured on."""

import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from pomp.version import __version__


def describe_machine() -> dict[str, str]:
    """Date, processor and the versions that matter for speed."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "processor": _processor(),
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "numba": version("numba"),
        "pomp": __version__,
    }


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
