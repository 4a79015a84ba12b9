"""What a request may take: memory, asked for before work begins, and time between two looks."""

import os
from collections.abc import Iterator
from pathlib import Path

from pomp.core.errors import TooLargeError

_SHARE = 0.8  # of the memory that is free, which one request may take
_CERTAIN = 64 << 20
"""Bytes that are not asked about: below them, asking would take longer than it helps."""
_MEMORY = Path("/proc/meminfo")
_OWN_PAGES = Path("/proc/self/statm")
_GROUPS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/memory"))
_LIMITS = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))


def free_memory() -> int:
    """Return how many bytes this process may still take, as far as the system tells."""
    found = [1 << 62]
    try:
        lines = dict(line.split(":", 1) for line in _MEMORY.read_text().splitlines() if ":" in line)
        found.append(int(lines["MemAvailable"].split()[0]) << 10)
    except (OSError, KeyError, ValueError):
        if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
            found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    found += _address_space()
    for group, (limit, usage) in zip(_GROUPS, _LIMITS, strict=True):
        try:
            found.append(int((group / limit).read_text()) - int((group / usage).read_text()))
        except (OSError, ValueError):  # there is no such group, or it has no limit
            continue
    return max(0, min(found))


def _address_space() -> list[int]:
    """Return how many bytes a limit of this process (`ulimit -v`) leaves it, if there is one."""
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        taken = int(_OWN_PAGES.read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError, ValueError, IndexError):
        return []
    return [] if limit == resource.RLIM_INFINITY else [limit - taken]


def check_memory(what: str, count: int, bytes_each: int) -> None:
    """Refuse a request that does not fit into memory.

    Args:
        what: what is asked for, as `1000000 worlds`.
        count: how many.
        bytes_each: what each takes.

    Raises:
        TooLargeError: says how many would fit.
    """
    if count * bytes_each <= _CERTAIN:
        return
    room = int(_SHARE * free_memory())
    if count * bytes_each > room:
        needed, most = count * bytes_each / (1 << 30), room // max(bytes_each, 1)
        raise TooLargeError(
            f"{what} need {needed:.1f} GiB of memory, {room / (1 << 30):.1f} GiB are free: "
            f"ask for at most {most}, or do it in parts"
        )


def slices(count: int, most: int) -> Iterator[slice]:
    """Yield slices that cover `count` rows, at most so many (and at least one) at a time."""
    step = max(1, most)
    return (slice(first, min(first + step, count)) for first in range(0, count, step))
