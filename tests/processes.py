"""The `pomp` command in a process of its own, stopped where a test says and never by the clock.

A signal that is sent after some seconds finds a fast machine at the end of its work and a slow one
at its beginning. Here the process signals itself, just before a file of some name is put in place.
"""

import subprocess
import sys

PATIENCE = 900
"""Seconds after which a process counts as hung; no slow machine needs so many."""

_DRIVER = """
import itertools, os, queue, signal, sys, threading, time
number, name, left, is_hasty, target = (
    int(part) if part.isdigit() else part for part in sys.argv[1:6]
)
if is_hasty:  # these minutes pass between two looks at the clock, so every step is saved
    minutes = itertools.count(0.0, 60.0)
    time.monotonic = lambda: next(minutes)

def watch(event, arguments):
    global left
    if event == "os.rename" and str(arguments[1]).endswith(name):
        left -= 1
        if left == 0:
            signal_to(target, number)

def signal_to(target, number):
    if target == "child":
        import multiprocessing
        os.kill(multiprocessing.active_children()[0].pid, number)
    elif target == "group":
        os.killpg(0, number)
    else:
        os.kill(os.getpid(), number)

sys.addaudithook(watch)
from pomp.cli.main import main
main(sys.argv[6:])
"""


_COUNTER = """
import itertools, os, signal, sys, threading, time
moment, late, folder = int(sys.argv[1]), int(sys.argv[2]), os.path.abspath(sys.argv[3])
touched, own = 0, os.getpid()
minutes = itertools.count(0.0, 60.0)
time.monotonic = lambda: next(minutes)  # so every step is saved

def count(event, arguments):
    global touched
    if os.getpid() != own or event not in ("open", "os.rename", "os.mkdir", "os.remove"):
        return
    path = arguments[event == "os.rename"]
    if not isinstance(path, str | os.PathLike) or not os.path.abspath(path).startswith(folder):
        return
    touched += 1
    if touched == moment:
        threading.Timer(late / 1000, kill).start() if late else kill()

def kill():
    os.kill(own, signal.SIGKILL)

from pomp.cli.main import main
sys.addaudithook(count)
try:
    main(sys.argv[4:])
finally:
    print(f"touched {touched}", file=sys.stderr)
"""


def run_counted(folder, *arguments, **options):
    """Run `pomp` to its end, which must be a good one: how often it touched files of a folder."""
    status, _, errors = _run_counter((0, 0, folder), arguments, options)
    assert status == 0, errors
    return int(errors.split()[-1])


def run_killed(moment, late, folder, *arguments, **options):
    """Run `pomp` until it touches a file of a folder, and kill it: its status, output and errors.

    Args:
        moment: which time it is, counted from 1; files are opened, renamed, removed, folders made.
        late: milliseconds later.
        folder: the folder.
        arguments: the command's.
        options: of `subprocess.run`.
    """
    return _run_counter((moment, late, folder), arguments, options)


def _run_counter(when, arguments, options):
    command = [sys.executable, "-c", _COUNTER, *map(str, (*when, *arguments))]
    return _run(command, timeout=PATIENCE, start_new_session=True, **options)


def run_pomp(*arguments, timeout=PATIENCE, **options):
    """Run `pomp` to its end: its status, output and errors."""
    return _run([sys.executable, "-m", "pomp", *map(str, arguments)], timeout=timeout, **options)


def run_until(place, number, *arguments, is_hasty=False, to_group=False, to_child=False):
    """Run `pomp` until it signals itself, its process group or a child: status, output and errors.

    Args:
        place: a file's name and which time it is put in place, counted from 1.
        number: the signal.
        arguments: the command's.
        is_hasty: whether what is saved from time to time is saved after every step.
        to_group: whether the signal goes to all processes that it has begun, too.
        to_child: whether the signal goes to a process that it has begun instead.
    """
    name, times = place
    target = "group" if to_group else "child" if to_child else "itself"
    driver = (_DRIVER, int(number), name, times, int(is_hasty), target)
    command = [sys.executable, "-c", *map(str, (*driver, *arguments))]
    return _run(command, timeout=PATIENCE, start_new_session=True)


def _run(command, **options):
    done = subprocess.run(command, capture_output=True, check=False, **options)
    return done.returncode, done.stdout.decode(), done.stderr.decode()
