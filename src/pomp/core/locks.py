"""A lock on a folder: one process at a time may write there.

The system holds the lock and gives it up when its process ends, however that ends, so nothing stale
is left behind. What stays in the folder is an empty file, on which the next lock is taken.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from pomp.core.errors import FolderInUseError, OutputError

LOCK_FILE = ".lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder that exists.

    Where the file system has no locks, as on some network drives, nothing is held.

    Raises:
        FolderInUseError: another process, or another run in this one, holds it.
        OutputError: the folder cannot be written.
    """
    try:
        file = (folder / LOCK_FILE).open("a+b")
    except OSError as error:
        raise OutputError(f"cannot write '{folder}': {error.strerror}") from error
    with file:  # closing it gives the lock up
        if not _take(file):
            raise FolderInUseError(folder)
        yield


if sys.platform == "win32":
    import msvcrt

    def _take(file: IO[bytes]) -> bool:
        """Lock a file's first byte; returns whether nobody else has it."""
        file.seek(0)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _take(file: IO[bytes]) -> bool:
        """Lock a file; returns False if somebody else has it."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks
            return True
        return True
