"""pomp without the extra `learn`: what works, and what is refused before any work begins.

All commands run in one process, in which torch cannot be imported.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from processes import PATIENCE

EXAMPLES = Path(__file__).parents[2] / "examples"
MOW = "DEF run m( WHILE c( frontIsClear c) w( pickMarker move w) pickMarker m)"
SMALL = ("chains=4", "starts=2", "validation_starts=2", "steps=10")
LINE = "torch, which is not installed: pip install 'pomp-rl[learn]' (without a GPU, first: pip "

_PRELUDE = """
import contextlib, importlib.machinery, io, json, sys

class Without(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, *where):
        return None if name == "torch" else super().find_spec(name, *where)

sys.meta_path[sys.meta_path.index(importlib.machinery.PathFinder)] = Without
"""
_COMMANDS = """
from pomp.cli.main import main

def call(arguments):
    with contextlib.redirect_stdout(io.StringIO()) as output:
        with contextlib.redirect_stderr(io.StringIO()) as errors:
            try:
                main(arguments)
            except SystemExit as ended:
                return int(ended.code or 0), output.getvalue(), errors.getvalue()

print(json.dumps([call(arguments) for arguments in json.loads(sys.argv[1])]))
"""
_LIBRARY = """
import importlib, pkgutil, pomp

refused = []
for found in pkgutil.iter_modules(pomp.__path__, "pomp."):
    package = importlib.import_module(found.name) if found.name != "pomp.__main__" else None
    for name in dir(package) if hasattr(package, "__all__") else ():
        try:
            getattr(package, name)
        except pomp.PompError as error:
            refused.append([name, str(error)])
for name in dir(pomp):
    try:
        getattr(pomp, name)
    except ImportError as error:
        refused.append([name, str(error)])
kind = pomp.load_machine("zoo:Seesaw").transition.kind
print(json.dumps([refused, kind]))
"""


def run(code, *arguments, cwd):
    command = [sys.executable, "-c", _PRELUDE + code, *arguments]
    done = subprocess.run(command, capture_output=True, cwd=cwd, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout.decode().splitlines()[-1])


def changes(settings, prefix=""):
    return [part for one in settings for part in ("--set", prefix + one)]


def test_every_package_is_imported_and_names_that_need_torch_say_so(tmp_path):
    refused, kind = run(_LIBRARY, cwd=tmp_path)
    names = {name for name, _ in refused}
    assert names == {
        *("Embedding", "KarelTorchEnv", "MetaPolicy", "MetaTraining"),
        *("Shape", "Training", "draw_weights"),
    }
    assert all(f"{name} needs {LINE}" in error for name, error in refused)
    assert kind == "decision list"


def test_the_core_works(tmp_path):
    for name in ("lawn.py", "q_learning.py"):
        shutil.copy(EXAMPLES / name, tmp_path)
    (tmp_path / "modes.txt").write_text(f"{MOW}\nDEF run m( turnLeft m)\n")
    own = ("--method", "q_learning:Q_LEARNING", "--modes", "modes.txt", "--set", "steps=200")
    rounds = ("--rounds", "1", *changes(SMALL))
    text = ("--method", "text", "--set", "search.rounds=1", *changes(SMALL, "search."))
    commands = [
        ["version"],
        ["check", MOW],
        ["run", "lawn:LAWN", MOW],
        ["eval", "zoo:Seesaw"],
        ["explain", "zoo:Seesaw", "--episodes", "4"],
        ["bound", "zoo:Seesaw"],
        ["evolve", "lawn:LAWN", "--out", "evolved", *rounds],
        ["eval", "evolved/Lawn/seed0/machine", "--allow", "lawn"],
        ["train", "lawn:LAWN", "--out", "trained", *text],
        ["train", "lawn:LAWN", "--out", "trained", *text, "--resume"],
        ["train", "lawn:LAWN", "--out", "own", *own],
    ]
    found = run(_COMMANDS, json.dumps(commands), cwd=tmp_path)
    for command, (status, _, errors) in zip(commands, found, strict=True):
        assert status == 0, (command, errors)
    outputs = [output for _, output, _ in found]
    assert "torch       " in outputs[0]
    assert "transitions by rules" in outputs[3]
    assert "was finished before" in outputs[9]


@pytest.fixture(scope="module")
def refusals(tmp_path_factory):
    folder = tmp_path_factory.mktemp("refused")
    return folder, run(_COMMANDS, json.dumps(REFUSED), cwd=folder)


REFUSED = [
    ["search", "Seesaw", "--out", "run"],
    ["train", "Seesaw", "--preset", "paper", "--out", "run"],
    ["train", "Seesaw", "--method", "drl", "--out", "run"],
    ["eval", "zoo:Seesaw/network"],
    ["embedding", "info"],
    ["embedding", "eval"],
    ["embedding", "train", "--out", "run"],
    ["embedding", "interpolation"],
    ["embedding", "space"],
    ["bench", "decode"],
    ["bench", "search"],
    ["bench", "train"],
]


@pytest.mark.parametrize("number", range(len(REFUSED)), ids=lambda n: " ".join(REFUSED[n][:3]))
def test_what_needs_torch_is_refused_in_a_line_before_it_begins(number, refusals):
    folder, found = refusals
    status, output, errors = found[number]
    assert (status, output) == (2, "")
    assert errors.startswith("pomp: ")
    assert LINE in errors
    assert "usable machine" not in errors
    assert errors.count("\n") == 1
    assert not list(folder.iterdir())
