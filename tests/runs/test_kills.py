"""Runs that are killed at random moments, and end with the same bytes as if nothing had been.

Of arrays and metrics the contents are compared, without the seconds that a training notes.

A moment is a number of events of Python's audit (files opened, renamed, modules found, ...), drawn
with a seed from those of an undisturbed run: no clock decides, and a slow machine changes nothing.
"""

import json
import random
import signal
from pathlib import Path

import pytest
from safetensors.numpy import load_file

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


def changes(settings):
    return [part for setting in settings for part in ("--set", setting)]


RUNS = {
    "search": ["search", "Seesaw", "--method", "pomp", "--modes", "2", *changes(SEARCH)],
    "evolve": ["evolve", "Farmer", "--rounds", "3", *changes(QUICK)],
    "train": ["train", "UpNDown", "--preset", "paper", "--modes", "modes.txt", *changes(PPO)],
    "embedding": ["embedding", "train"],
}


def command(kind, out, *more):
    """The command line of a run into a folder."""
    last = ("paper", *SIZES, *SMALL) if kind == "embedding" else ()
    return [*RUNS[kind], "--out", out, *more, *last]


def files_of(folder):
    """What a run has written, by name; the embedding's also note the seconds that it took."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): _content_of(path) for path in files}


def _content_of(path):
    if path.name == "metrics.jsonl":
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        return [{name: line[name] for name in line if name != "seconds"} for line in lines]
    if path.suffix == ".safetensors":
        return {name: array.tobytes() for name, array in load_file(path).items()}
    return path.read_bytes()


def check_kills(kind, folder, moments, seed):
    """Kill a run at each of so many moments, one run each; resume it; compare every byte."""
    (folder / "modes.txt").write_text(MODES)
    events = run_counted(*command(kind, "whole"), cwd=folder)
    expected = files_of(folder / "whole")
    assert expected
    draw = random.Random(seed)
    for number in range(moments):
        out, moment = f"cut{number}", draw.randrange(1, events)
        status, _, errors = run_killed(moment, *command(kind, out), cwd=folder)
        assert status == -signal.SIGKILL, errors
        is_begun = (folder / out / "config.json").exists()
        resumed = command(kind, out, *(["--resume"] if is_begun else []))
        status, _, errors = run_pomp(*resumed, cwd=folder)
        assert status == 0, (moment, errors)
        found = files_of(folder / out)
        assert found.keys() == expected.keys(), moment
        assert [name for name in found if found[name] != expected[name]] == [], moment


@pytest.mark.parametrize("kind", RUNS)
def test_a_run_killed_at_a_random_moment_goes_on_to_the_same_bytes(tmp_path, kind):
    check_kills(kind, Path(tmp_path), moments=1, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", RUNS)
def test_runs_killed_at_twenty_moments_go_on_to_the_same_bytes(tmp_path, kind):
    check_kills(kind, Path(tmp_path), moments=20, seed=0)
