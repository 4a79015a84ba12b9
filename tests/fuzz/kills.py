"""No tests: the trial of runs that are killed, and must end with the same bytes all the same.

A case is a number, with which a moment is drawn: one of those at which an undisturbed run touches
a file of its folder, and for odd cases some milliseconds more. Of arrays and metrics the contents
are compared, without the seconds that a training notes.
"""

import json
import shutil
import signal
from pathlib import Path

from mutations import drawing
from safetensors.numpy import load_file
from workers import DIFFERS, OK, TRACEBACK, WHOLE

from processes import run_counted, run_killed, run_pomp

MODES = "DEF run m( move m)\nDEF run m( turnLeft m)\n"
QUICK = ("chains=8", "starts=4", "validation_starts=8", "steps=30", "teams=1")
PPO = (
    "ppo.total=512", "ppo.actors=8", "ppo.steps=16", "ppo.minibatch=32", "validation.every=2",
    "validation.episodes=8", "episode.most_steps=60",
)  # fmt: skip
SEARCH = ("mode.runs=2", "proposer.iterations=8", "proposer.population=8")
SIZES = ("--dataset.train", "40", "--dataset.validation", "8", "--dataset.test", "8")
SMALL = (
    "--training.batch", "20", "--training.reinforce.batch", "20", "--training.epochs", "2",
    "--training.model.latent", "16", "--training.model.width", "16",
    "--training.model.policy-width", "16",
)  # fmt: skip
LATEST = 200
"""Milliseconds after which a run is killed at the latest, once it has touched its file."""


def _changes(settings):
    return [part for setting in settings for part in ("--set", setting)]


RUNS = {
    "search": ["search", "Seesaw", "--method", "pomp", "--modes", "2", *_changes(SEARCH)],
    "evolve": ["evolve", "Farmer", "--rounds", "3", *_changes(QUICK)],
    "train": ["train", "UpNDown", "--preset", "paper", "--modes", "modes.txt", *_changes(PPO)],
    "embedding": ["embedding", "train"],
}


def kinds(seed):
    """Return the kinds of runs."""
    return list(RUNS)


def why_not(kind):
    """Return nothing: runs need what pomp needs."""


def prepare(kind, root):
    """Do a run to its end, and count how often it touches its files."""
    folder = Path(root) / kind
    folder.mkdir()
    (folder / "modes.txt").write_text(MODES)
    touched = run_counted("whole", *_command(kind, "whole"), cwd=folder)
    (folder / "touched.txt").write_text(str(touched))
    return OK, "", ""


def judge(kind, case, seed, root):
    """Kill a run at a moment, resume it, and compare every byte with those of a whole one."""
    folder = Path(root) / kind
    touched, out = int((folder / "touched.txt").read_text()), f"cut{case}"
    moment, late = _draw_moment(case, seed, kind, touched)
    how = f"touch {moment} of {touched}" + (f" and {late} ms" if late else "")
    if case != WHOLE:
        status, _, errors = run_killed(moment, late, out, *_command(kind, out), cwd=folder)
        if status != -signal.SIGKILL and not (late and status == 0):  # at the end, too late
            return TRACEBACK, how, f"status {status} instead of a kill\n{errors}"
    is_begun = (folder / out / "config.json").exists()
    again = _command(kind, out, *(["--resume"] if is_begun else []))
    status, _, errors = run_pomp(*again, cwd=folder)
    if status != 0:
        return TRACEBACK, how, f"status {status}\n{errors}"
    expected, found = _files_of(folder / "whole"), _files_of(folder / out)
    shutil.rmtree(folder / out)
    others = sorted(name for name in expected | found if expected.get(name) != found.get(name))
    return (DIFFERS if others or not expected else OK), how, ", ".join(others)


def _draw_moment(case, seed, kind, touched):
    draw = drawing(seed, kind, case)
    late = draw.randrange(1, LATEST) if case != WHOLE and case % 2 else 0
    return draw.randrange(1, touched + 1), late


def _command(kind, out, *more):
    """Return the command line of a run into a folder."""
    last = ("paper", *SIZES, *SMALL) if kind == "embedding" else ()
    return [*RUNS[kind], "--out", out, *more, *last]


def _files_of(folder):
    """Return what a run has written, by name; the embedding's also note how long it took."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): _content_of(path) for path in files}


def _content_of(path):
    if path.name == "metrics.jsonl":
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        return [{name: line[name] for name in line if name != "seconds"} for line in lines]
    if path.suffix == ".safetensors":
        return {name: array.tobytes() for name, array in load_file(path).items()}
    return path.read_bytes()
