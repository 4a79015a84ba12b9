"""Files of programs: comments and empty lines are no programs."""

import json

import pytest

from pomp.cli.main import main
from pomp.dsl.parser import split_programs, strip_comments
from pomp.runs.given import read_given
from pomp.tasks import find_task

MOVE, TURN = "DEF run m( move m)", "DEF run m( turnLeft m)"
FILE = f"# two modes\n\n  {MOVE}  # forward\n   \n#{TURN}\n{TURN}\r\n"


def test_comments_and_empty_lines_are_no_programs():
    assert split_programs(FILE) == (MOVE, TURN)
    assert split_programs("# nothing\n\n") == ()
    assert strip_comments(f"{MOVE} # a # b").split() == MOVE.split()


def test_modes_are_read_without_comments(tmp_path):
    (tmp_path / "modes.txt").write_text(FILE)
    setting = find_task("Maze").configure()
    assert read_given(tmp_path / "modes.txt", [setting], [0]) == {("Maze", 0): (MOVE, TURN)}


def test_a_program_in_a_file_may_have_comments(tmp_path, capsys):
    (tmp_path / "walk.karel").write_text("# walk\nDEF run m(  # begin\n\n  move # one\nm)\n")
    with pytest.raises(SystemExit) as ended:
        main(["check", str(tmp_path / "walk.karel"), "--json"])
    assert ended.value.code == 0
    assert json.loads(capsys.readouterr().out)["program"] == MOVE
