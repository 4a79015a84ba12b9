"""No tests: files of every format, changed at random and read, in processes that may die.

As a command, `python tests/fuzz/damage.py [--cases N] [--minutes M] [FORMAT ...]`, it prints for
each format how many changed files were read, refused in a line, or ended in a traceback, a crash or
a hang, and how many damaged ones went unnoticed though there is a checksum.
"""

import argparse
import multiprocessing
import os
import queue
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_HERE = Path(__file__).parent
sys.path[:0] = [str(_HERE), str(_HERE.parent)]

from formats import FORMATS, make_example  # noqa: E402 - found there
from mutations import DAMAGES, drawing, mutate  # noqa: E402 - found there

LIMIT, MAKING = 120, 600
"""Seconds for a case, and for the example of a format; code may have to be compiled first."""
MOST_BYTES = 24 << 30
MAKE = "make"
OK, REFUSED, TRACEBACK, CRASH, HANG, UNNOTICED = OUTCOMES = (
    "ok", "refused", "traceback", "crash", "hang", "unnoticed",
)  # fmt: skip
BAD = OUTCOMES[2:]


def judge(name, case, root):
    """Change and read one file in this process; what became of it, how, and its last words.

    The case None changes nothing.
    """
    from pomp.core.errors import PompError

    shape, draw = FORMATS[name], drawing(name, case)
    with tempfile.TemporaryDirectory(dir=root) as scratch:
        folder = Path(scratch) / "it"
        shutil.copytree(make_example(name, root), folder)
        how = "" if case is None else mutate(folder / shape.file, draw)
        try:
            shape.read(folder)
        except PompError as error:
            text = str(error)
            is_line = 0 < len(text) < 2000 and len(text.splitlines()) <= 3  # a place may be shown
            return (REFUSED if is_line else TRACEBACK), how, text
        except BaseException:
            return TRACEBACK, how, traceback.format_exc(limit=-4)
    is_unnoticed = shape.has_checksum and how in DAMAGES
    return (UNNOTICED if is_unnoticed else OK), how, ""


def _serve(pipe, root):
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.chdir(root)
    while True:
        name, case = pipe.recv()
        pipe.send(make_example(name, root) if case == MAKE else judge(name, case, root))


class Worker:
    """A process that tries one case after the other, and is replaced when it dies.

    Args:
        root: a folder for examples and changed files.
    """

    def __init__(self, root):
        self._root, self._process, self._pipe = root, None, None
        self._made = set()

    def try_one(self, name, case):
        """Return what became of a case: one of `OUTCOMES`, how it was changed, and a text."""
        if name not in self._made:
            self._made.add(name)
            self._ask(name, MAKE, MAKING)
        return self._ask(name, case, LIMIT)

    def _ask(self, name, case, seconds):
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._pipe, other = context.Pipe()
            self._process = context.Process(target=_serve, args=(other, self._root), daemon=True)
            self._process.start()
            other.close()
        self._pipe.send((name, case))
        if not self._pipe.poll(seconds):
            self.close()
            return HANG, "?", f"over {seconds} seconds"
        try:
            return self._pipe.recv()
        except EOFError:
            self._process.join()
            status, self._process = self._process.exitcode, None
            return CRASH, "?", f"status {status}"

    def close(self):
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None


def try_files(names, cases, seconds=float("inf"), workers=1):
    """Yield format, case, outcome, how it was changed and a text, until the time is over."""
    end, pool = time.monotonic() + seconds, queue.SimpleQueue()

    def try_one(asked):
        if time.monotonic() > end:
            return None
        worker = pool.get()
        try:
            return (*asked, *worker.try_one(*asked))
        finally:
            pool.put(worker)

    with tempfile.TemporaryDirectory() as root, ThreadPoolExecutor(workers) as threads:
        for number in range(workers):
            (Path(root) / str(number)).mkdir()
            pool.put(Worker(f"{root}/{number}"))
        asked = ((name, case) for case in cases for name in names)
        yield from filter(None, threads.map(try_one, asked))
        for _ in range(workers):
            pool.get().close()


def _main():
    asked = argparse.ArgumentParser(description="Read damaged files of every format.")
    asked.add_argument("formats", nargs="*", default=list(FORMATS))
    asked.add_argument("--cases", type=int, default=2000, help="of each format")
    asked.add_argument("--first", type=int, default=0, help="the number of the first case")
    asked.add_argument("--workers", type=int, default=os.cpu_count(), help="processes")
    asked.add_argument("--minutes", type=float, default=60.0, help="at most, for all formats")
    given = asked.parse_args()
    counts = {name: Counter() for name in given.formats}
    cases = range(given.first, given.first + given.cases)
    limits = (60 * given.minutes, given.workers)
    for name, case, outcome, how, text in try_files(given.formats, cases, *limits):
        counts[name][outcome] += 1
        if outcome in BAD:
            print(f"{name}, case {case} ({how}): {outcome}\n{text}", flush=True)
    print(f"{'':<18}" + "".join(f"{outcome:>11}" for outcome in OUTCOMES))
    for name, found in counts.items():
        print(f"{name:<18}" + "".join(f"{found[outcome]:>11}" for outcome in OUTCOMES))
    return int(any(found[outcome] for found in counts.values() for outcome in BAD))


if __name__ == "__main__":
    sys.exit(_main())
