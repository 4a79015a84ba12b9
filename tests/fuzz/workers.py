"""No tests: cases of a trial, each tried in a process that may die or hang, many side by side.

A trial is a module with these names:

- `kinds(seed)`: the kinds of its cases;
- `why_not(kind)`: what is missing here that a kind needs, or nothing;
- `prepare(kind, root)`: what all cases of a kind use is put into a folder;
- `judge(kind, case, seed, root)`: tries one case, and returns its outcome, how it was made, and a
  text. The case `WHOLE` changes nothing.
"""

import faulthandler
import importlib
import multiprocessing
import os
import queue
import resource
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

_HERE = Path(__file__).parent
WHOLE = "whole"
LIMIT, PREPARING = 120, 900
"""Seconds for a case, and for what precedes it; code may have to be compiled first."""
MOST_BYTES = 24 << 30
BAD = TRACEBACK, CRASH, HANG, UNNOTICED, DIFFERS = (
    "traceback", "crash", "hang", "unnoticed", "differs",
)  # fmt: skip
GOOD = OK, REFUSED = "ok", "refused"


class Told(NamedTuple):
    """What became of a case.

    Attributes:
        kind, case: which one.
        outcome: one of `GOOD` or `BAD`.
        how: in which way it was made.
        text: its last words.
        seconds: how long it took.
    """

    kind: str
    case: object
    outcome: str
    how: str
    text: str
    seconds: float


def _serve(pipe, trial, root, log):
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in (1, 2):  # whatever a case prints is no answer
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    faulthandler.enable()
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # there are other processes
    scratch = tempfile.mkdtemp(dir=root)
    os.chdir(scratch)
    sys.path[:0] = [str(_HERE), str(_HERE.parent)]
    module = importlib.import_module(trial)
    while True:
        call, *arguments = pipe.recv()
        pipe.send(getattr(module, call)(*arguments, root))


class Worker:
    """A process that tries one case after the other, and is replaced when it dies.

    Args:
        trial: the module's name.
        root: the folder of the trial.
        number: which worker it is.
    """

    def __init__(self, trial, root, number):
        self._given = (trial, root, f"{root}/worker{number}.log")
        self._process, self._pipe = None, None

    def prepare(self, kind):
        """Make what the cases of a kind use; returns nothing, or what went wrong."""
        outcome, _, text = self._ask(PREPARING, "prepare", kind) or (OK, "", "")
        return "" if outcome == OK else f"{outcome}: {text}"

    def try_one(self, kind, case, seed):
        """Return what became of a case."""
        began = time.monotonic()
        outcome, how, text = self._ask(LIMIT, "judge", kind, case, seed)
        return Told(kind, case, outcome, how, text, time.monotonic() - began)

    def _ask(self, seconds, *asked):
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._pipe, other = context.Pipe()
            given = (other, *self._given)
            self._process = context.Process(target=_serve, args=given)
            self._process.start()
            other.close()
        self._pipe.send(asked)
        if not self._pipe.poll(seconds):
            self.close()
            return HANG, "?", f"over {seconds} seconds"
        try:
            return self._pipe.recv()
        except EOFError:
            self._process.join()
            status, self._process = self._process.exitcode, None
            last = Path(self._given[2]).read_text(errors="replace")[-1500:]
            return CRASH, "?", f"status {status}\n{last}"

    def close(self):
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None


class Workers:
    """So many workers of a trial side by side, and a folder; a context manager.

    Args:
        trial: the module's name.
        count: how many processes.
        seconds: after which no case is begun any more.
    """

    def __init__(self, trial, count=1, seconds=float("inf")):
        self._trial, self._count = trial, count
        self._end = time.monotonic() + seconds
        self._free = queue.SimpleQueue()

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory()
        self._threads = ThreadPoolExecutor(self._count)
        for number in range(self._count):
            self._free.put(Worker(self._trial, self._folder.name, number))
        return self

    def __exit__(self, *_):
        self._threads.shutdown(cancel_futures=True)
        for _ in range(self._count):
            self._free.get().close()
        self._folder.cleanup()

    def prepare(self, kinds):
        """Make what the cases of kinds use; returns what went wrong, by kind."""
        found = self._all("prepare", [(kind,) for kind in kinds])
        return {kind: text for kind, text in zip(kinds, found, strict=True) if text}

    def try_all(self, cases, seed=0):
        """Yield what became of cases, pairs of kind and case, until the time is over."""
        yield from filter(None, self._all("try_one", [(*case, seed) for case in cases]))

    def _all(self, call, asked):
        def one(arguments):
            if time.monotonic() > self._end:
                return None
            worker = self._free.get()
            try:
                return getattr(worker, call)(*arguments)
            finally:
                self._free.put(worker)

        return self._threads.map(one, asked)
