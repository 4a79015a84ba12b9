"""Files that name code: none of it is imported, and the command says how to allow it."""

import ast
import json
import os
import sys
from pathlib import Path

import pytest

import pomp.cli
from commands import call
from edited import edit_json, read_values
from pomp.core import UntrustedModuleError
from pomp.experiments.pieces import WorkPiece, read_told
from stores import keep, make_cell, seeds_of

MODES = ("DEF run m( move m)", "DEF run m( turnLeft m)")
EVOLVE = {"chains": 4, "starts": 4, "validation_starts": 4, "steps": 10, "teams": 1}
MACHINE = "machine {}\nstart go\nmode go: DEF run m( move m)\n  else -> stop\n"
EVIL = "open('was-run', 'w').close()\nTASK = SENSOR = METHOD = CLASS = 1\n"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A current folder with a module that leaves a file behind when it is imported."""
    (tmp_path / "evil.py").write_text(EVIL)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert not os.path.exists(tmp_path / "was-run")
    assert "evil" not in sys.modules


@pytest.mark.parametrize(
    "text",
    [
        MACHINE.format("evil:TASK"),
        MACHINE.format("StairClimber").replace("start go", "sensor evil:SENSOR\nstart go"),
    ],
    ids=["task", "sensor"],
)
@pytest.mark.parametrize("command", ["eval", "bound", "explain", "simplify", "play"])
def test_a_text_machine_imports_nothing(capsys, here, command, text):
    (here / "it.machine").write_text(text)
    more = ("--print",) if command == "play" else ()
    status, _, errors = call(capsys, command, "it.machine", *more)
    assert (status, "--allow evil" in errors) == (2, True), errors


@pytest.mark.parametrize("source", [".evil:TASK", "evil", "evil:", "evil.:TASK", "../evil:TASK"])
def test_a_name_that_is_no_module_is_refused_in_a_line(capsys, here, source):
    (here / "it.machine").write_text(MACHINE.format(source))
    status, _, errors = call(capsys, "eval", "it.machine")
    assert (status, "Traceback" in errors) == (2, False)


def plant(values, *path, value):
    """Put a value into nested values."""
    for key in path[:-1]:
        values = values[key]
    values[path[-1]] = value


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("task",), "evil:TASK"),
        (("transition", "kind"), "evil:CLASS"),
        (("transition", "sensors"), ["evil:SENSOR"]),
    ],
)
def test_a_machine_folder_imports_nothing(capsys, here, place, value):
    pomp.load_machine("zoo:StairClimber/text").save("it")
    values = read_values(here / "it/machine.json")
    plant(values, *place, value=value)
    edit_json(here / "it/machine.json", **values)
    status, _, errors = call(capsys, "eval", "it")
    assert (status, "--allow evil" in errors) == (2, True), errors
    with pytest.raises(UntrustedModuleError):
        pomp.load_machine("it", allow="evi")  # a part of a name is none


def begin_evolution():
    pomp.evolve("StairClimber", rounds=1, settings=EVOLVE, out="it", on_event=lambda _: True)


def begin_search():
    settings = {"proposer.candidates": 64, "proposer.chains": 8}
    pomp.search("StairClimber", method="hill-climbing", settings=settings, out="it",
                on_event=lambda _: True)  # fmt: skip


def begin_training():
    pomp.train("StairClimber", preset="paper", modes=MODES, out="it", on_event=lambda _: True)


SEARCHED = ("searches", "StairClimber/seed0")


@pytest.mark.parametrize(
    ("begin", "kind", "place", "value"),
    [
        (begin_evolution, "evolve", ("tasks", "StairClimber", "task"), "evil:TASK"),
        (begin_evolution, "evolve", ("evolve", "own_sensors"), ["evil:SENSOR"]),
        (begin_search, "search", (*SEARCHED, "task"), "evil:TASK"),
        (begin_search, "search", (*SEARCHED, "method"), "evil:METHOD"),
        (begin_training, "train", ("tasks", "StairClimber", "task"), "evil:TASK"),
        (begin_training, "train", ("own",), {"method": "evil:METHOD", "settings": {}}),
        (begin_training, "train", ("machines", "it/seed0"), MACHINE.format("evil:TASK")),
        (begin_training, "train", ("search",), [{"method": "evil:METHOD", "proposer": {}}]),
    ],
)
def test_the_config_of_a_run_imports_nothing(capsys, here, begin, kind, place, value):
    begin()
    values = read_values(here / "it/config.json")
    plant(values, *place, value=value)
    edit_json(here / "it/config.json", **values)
    status, _, errors = call(capsys, kind, "--out", "it", "--resume")
    assert (status, "--allow evil" in errors) == (2, True), errors
    call(capsys, "report", "it")


@pytest.mark.parametrize(
    "changes", [{"task": "evil:TASK"}, {"changes": {"search.own_sensors": ["evil:SENSOR"]}}]
)
def test_a_cell_and_a_piece_import_nothing(capsys, here, changes):
    folder = keep(here / "store", seeds_of("pomp", "Farmer", (0.5, 0.75)))
    file = folder / "cells/paper/pomp/Farmer/seed0.json"
    edit_json(file, cell={**read_values(file)["cell"], **changes})
    status, _, _ = call(capsys, "results", "query", "select mean from cells", "--store", "store")
    assert status == 0  # the other cell; this one is set aside
    assert (folder / "set-aside/paper/pomp/Farmer/seed0.json").is_file()
    told = WorkPiece("search", (make_cell("leaps"),), "cpu").to_json()
    told["cells"][0] |= changes
    (here / "piece.json").write_text(json.dumps(told))
    with pytest.raises((ValueError, LookupError)):
        WorkPiece.from_json(read_told(here / "piece.json"))


def test_commands_print_through_one_place():
    calls = [
        (file.name, node.func.id)
        for file in sorted(Path(pomp.cli.__file__).parent.glob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    assert {file for file, name in calls if name == "print"} == {"output.py"}
    assert ("evaluate.py", "say") in calls


def test_nothing_that_files_say_reaches_the_terminal_raw(capsys, here):
    text = MACHINE.format("StairClimber").replace("mode go:", "# \x1b[2J\x07 wipes\nmode go:")
    (here / "it.machine").write_text(text)
    for words in (("simplify", "it.machine"), ("explain", "it.machine", "--episodes", "1")):
        status, output, errors = call(capsys, *words)
        assert (status, "\x1b" in output + errors) == (0, False)
    (here / "bad.machine").write_text("machine \x1b[31mred\n")
    (here / "program.txt").write_text("DEF run m( \x1b]0;title\x07 m)")
    (here / "map.txt").write_text("###\n#\x1b#\n###\n")
    for words in (
        ("eval", "bad.machine"),
        ("check", "program.txt"),
        ("run", "StairClimber", MODES[0], "--world", "map.txt"),
        ("eval", "no\x1b[2J.machine"),
    ):
        status, output, errors = call(capsys, *words)
        assert (status, "\x1b" in output + errors) in ((1, False), (2, False)), (words, errors)
        assert "\\x1b" in errors
