"""No tests: misuses tried in processes that may die, and what became of each.

As a command, `python tests/fuzz/workers.py [WORDS]`, it tries those whose names hold all the words,
prints the bad ones and counts.
"""

import os
import select
import subprocess
import sys
import time
import traceback
from collections import Counter
from dataclasses import FrozenInstanceError
from pathlib import Path

LIMIT = 60
"""Seconds for a misuse; compiled code may have to be made first."""
BAD = ("crash", "hang", "raw")
_HERE = Path(__file__).parent


def judge(name):
    """Try a misuse in this process: what became of it, and its last words."""
    from misuses import ALL

    from pomp.core.errors import PompError

    try:
        ALL[name]()
    except PompError as error:
        text = str(error)
    except Exception as error:
        if not _is_clear(error):
            return "raw", _told(error)
        text = str(error)
    except BaseException as error:
        return "raw", _told(error)
    else:
        return "accepted", ""
    return ("refused" if 0 < len(text) < 1000 else "raw"), text.replace("\n", " ")


def _is_clear(error):
    """Whether an error that is not pomp's own is as clear as those are.

    Python itself says what a frozen object or a read-only array cannot take, where it was tried.
    Where Python's protocols want it, pomp raises an IndexError or a TypeError on purpose.
    An unknown keyword means that the table of misuses is wrong: nothing was tried.
    """
    if isinstance(error, FrozenInstanceError) or "mappingproxy" in str(error):
        return True
    if not isinstance(error, IndexError | TypeError | ValueError) or "keyword" in str(error):
        return False
    frame = traceback.extract_tb(error.__traceback__)[-1]
    is_here = Path(frame.filename).parent == _HERE
    return is_here or ("/pomp/" in frame.filename and (frame.line or "").startswith("raise"))


def _told(error):
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno})"


class Worker:
    """A process that tries one misuse after the other, and is replaced when it dies."""

    def __init__(self):
        self._process = None

    def try_one(self, name):
        """What became of a misuse: its kind, and a line about it."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, __file__, "--serve"], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                env={**os.environ, "PYTHONWARNINGS": "ignore"},
            )  # fmt: skip
        self._process.stdin.write(name + "\n")
        self._process.stdin.flush()
        is_there, *_ = select.select([self._process.stdout], [], [], LIMIT)
        if not is_there:
            self.close()
            return "hang", f"over {LIMIT} seconds"
        line = self._process.stdout.readline()
        if not line:
            status = self._process.wait()
            self._process = None
            return "crash", f"status {status}"
        kind, _, text = line.rstrip("\n").partition("\t")
        return kind, text

    def close(self):
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def try_all(names):
    """What became of misuses, by name."""
    worker = Worker()
    try:
        return {name: worker.try_one(name) for name in names}
    finally:
        worker.close()


def _serve():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a call prints is no answer
    for line in sys.stdin:
        kind, text = judge(line.rstrip("\n"))
        answers.write(f"{kind}\t{text!r:.300}\n")
        answers.flush()


def _main(words):
    from misuses import ALL

    began = time.monotonic()
    found = try_all([name for name in ALL if all(word in name for word in words)])
    for name, (kind, text) in found.items():
        if kind in BAD or os.environ.get("SHOW") == kind:
            print(f"{kind:8} {name}: {text}")
    counts = Counter(kind for kind, _ in found.values())
    print(f"{len(found)} misuses in {time.monotonic() - began:.0f} s:", dict(counts))


if __name__ == "__main__":
    sys.path.insert(0, str(_HERE))
    _serve() if sys.argv[1:2] == ["--serve"] else _main(sys.argv[1:])
