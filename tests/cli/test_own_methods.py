"""Search methods and learning methods of one's own, in a module of the current folder."""

import json
import shutil
import sys
from pathlib import Path

import pytest

import pomp
from pomp.cli.main import main
from pomp.core import ConfigError
from pomp.modes import Method

EXAMPLES = Path(__file__).parents[2] / "examples"
FEW = ("--set", "proposer.candidates=640")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty current folder with the examples in it, which nothing has imported."""
    for name in ("one_plus_many",):
        shutil.copy(EXAMPLES / f"{name}.py", tmp_path)
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one])
    return tmp_path


def call(capsys, *given):
    with pytest.raises(SystemExit) as caught:
        main([str(part) for part in given])
    captured = capsys.readouterr()
    return caught.value.code, captured.out, captured.err


def modes_in(folder):
    return json.loads((folder / "modes.json").read_text())["modes"]


def test_a_search_by_it_is_resumed_to_the_same_bytes(capsys, here):
    search = ("search", "Maze", "--method", "one_plus_many:ONE_PLUS_MANY", *FEW)
    assert call(capsys, *search, "--out", "whole")[0] == 0
    (mode,) = modes_in(here / "whole/Maze/seed0")
    assert mode["candidates"] <= 640
    assert mode["return"] > 0
    import one_plus_many

    halves = pomp.search(
        "Maze",
        method=one_plus_many.ONE_PLUS_MANY,
        settings={"proposer.candidates": 640},
        out="halves",
        on_event=lambda event: event.progress.share > 0.3,
    )
    assert not halves.is_finished
    assert call(capsys, *search, "--out", "halves", "--resume")[0] == 0
    assert modes_in(here / "halves/Maze/seed0") == modes_in(here / "whole/Maze/seed0")
    status, output, _ = call(capsys, "report", "whole")
    assert status == 0
    assert "one_plus_many:ONE_PLUS_MANY" in output


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("ONE_PLUS_MANY = 3", "'one_plus_many:ONE_PLUS_MANY' is a int, not a pomp Method"),
        ("del OnePlusMany.restore", "its runs lack restore"),
        ("OnePlusMany.ask = lambda self: self.best", "ask must return rows of candidates"),
        (
            "OnePlusMany.ask = lambda self: np.zeros((4, 9), np.float32)",
            "ask must return [N, L] uint8, got [4, 9] float32",
        ),
        ("OnePlusMany.ask = lambda self: np.full((4, 9), 99, np.uint8)", "none of the token ids"),
        ("OnePlusMany.restore = lambda self, arrays, values: None", "asks for other candidates"),
        ("OnePlusMany.VALUES = ('settings',)", "to_arrays must return values for JSON"),
        ("OnePlusMany.tell = lambda self, *given: None", "tell must return slice(first, last)"),
        (
            "ONE_PLUS_MANY = Method('x', OnePlusMany, OnePlusMany, False)",
            "proposer must be a dataclass of settings",
        ),
        (
            "Settings = dataclass(type('S', (), {'__annotations__': {'a': tuple}, 'a': (1,)}))\n"
            "ONE_PLUS_MANY = Method('x', Settings, OnePlusMany, False)",
            "the setting a must be a number, a text or a flag, got tuple",
        ),
        ("OnePlusMany.__init__ = lambda self: None", "TypeError"),
    ],
)
def test_what_does_not_fit_is_refused_before_work_begins(capsys, here, change, message):
    with (here / "one_plus_many.py").open("a") as file:
        file.write(change)
    search = ("search", "Maze", "--method", "one_plus_many:ONE_PLUS_MANY", "--out", "out")
    status, _, errors = call(capsys, *search)
    assert status == 2
    assert message in errors
    assert len(errors.splitlines()) == 1
    assert not (here / "out").exists()


def test_a_method_must_stand_at_the_top_of_a_module(here, monkeypatch):
    monkeypatch.syspath_prepend(here)
    import one_plus_many

    homeless = Method("homeless", one_plus_many.Settings, one_plus_many.OnePlusMany, False)
    with pytest.raises(ConfigError, match="no name at the top of an imported module"):
        pomp.search("Maze", method=homeless)


def test_a_method_that_finds_one_program_takes_no_number_of_modes(capsys, here):
    search = ("search", "Maze", "--method", "one_plus_many:ONE_PLUS_MANY", "--out", "out")
    status, _, errors = call(capsys, *search, "--modes", "3")
    assert status == 2
    assert "one-plus-many finds one program" in errors
