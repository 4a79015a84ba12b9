"""Processes beside this one, begun without running the user's script in them again."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

_BEGINNING = threading.Lock()


@contextmanager
def main_hidden() -> Iterator[None]:
    """Hide the main module from processes that are begun meanwhile.

    A spawned process runs the script that began it, unless that is under `if __name__ ==
    "__main__":`; a script that begins a search at its top would begin it in each process again.
    What pomp lets processes do is found in modules that can be imported, never in the script.
    """
    with _BEGINNING:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main
