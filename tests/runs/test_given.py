"""Searches that begin with machines or programs that somebody wrote."""

import json
import logging
from pathlib import Path

import pytest

from commands import call
from pomp.core.errors import ConfigError, DataFileError
from pomp.machine.text import read_machine, write_machine
from pomp.machine.zoo import load_machine
from pomp.modes.methods import configure
from pomp.runs.evolutions import evolve
from pomp.runs.given_programs import with_programs
from pomp.runs.searches import search

QUICK = {"chains": 2, "steps": 2, "starts": 2, "validation_starts": 4}
CLIMB = """machine StairClimber
sensors perceptions only
start climb

mode climb: DEF run m( turnLeft move turnRight move m)
  if markersPresent -> stop
  else -> climb
"""


@pytest.fixture
def climber(tmp_path: Path) -> Path:
    path = tmp_path / "climb.machine"
    path.write_text(CLIMB)
    return path


def test_a_search_begins_with_a_given_machine_and_does_not_lose_it(climber: Path) -> None:
    found = evolve("StairClimber", rounds=1, settings=QUICK | {"from": climber})
    assert found.learned[0].mean == 1.0
    without = evolve("StairClimber", rounds=1, settings=QUICK)
    assert without.learned[0].mean < 1.0


def test_a_resumed_search_remembers_what_it_began_with(tmp_path: Path, climber: Path) -> None:
    out = tmp_path / "run"
    evolve("StairClimber", rounds=1, settings=QUICK | {"from": climber}, out=out)
    told = json.loads((out / "config.json").read_text())
    assert told["from"][0].startswith("machine StairClimber")
    climber.unlink()
    longer = evolve(out=out, resume=True, rounds=3)
    assert longer.is_finished
    assert longer.learned[0].mean == 1.0


def test_of_a_folder_what_cannot_be_used_is_named_and_left_out(
    tmp_path: Path, climber: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "broken.machine").write_text("no machine")
    write_machine(load_machine("zoo:Maze/text"), tmp_path / "maze.machine")
    with caplog.at_level(logging.WARNING, "pomp"):
        found = evolve("StairClimber", rounds=1, settings=QUICK | {"from": tmp_path})
    assert found.learned[0].mean == 1.0
    told = caplog.text
    assert "broken.machine" in told
    assert "it is a machine of Maze; one of StairClimber was expected" in told
    assert "2 of 3 files were left out" in told


@pytest.mark.parametrize(
    ("task", "source", "told"),
    [
        (
            "Maze",
            "climb.machine",
            "climb.machine' cannot begin this search: it is a machine of StairClimber; one of Maze "
            "was expected",
        ),
        ("UpNDown", "zoo:UpNDown/text", "'zoo:UpNDown/text' cannot begin this search: it asks for"),
        ("UpNDown", "zoo:UpNDown/text", "which takes --sensors compass"),
        ("StairClimber", "empty", "holds no machine; expected files *.machine or machine.json"),
        ("StairClimber", "nowhere", "does not exist"),
    ],
)
def test_what_no_search_could_begin_with_is_refused(
    tmp_path: Path, climber: Path, task: str, source: str, told: str
) -> None:
    (tmp_path / "empty").mkdir()
    given = source if source.startswith("zoo:") else tmp_path / source
    with pytest.raises((ConfigError, DataFileError)) as caught:
        evolve(task, rounds=1, settings=QUICK | {"from": given})
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_machines_that_are_too_large_or_ask_for_too_much_are_refused(tmp_path: Path) -> None:
    changes = (
        (
            CLIMB.replace("if markersPresent", "if markers below 3").replace(
                "perceptions only", "with counts"
            ),
            "its rules count",
        ),
        (
            CLIMB.replace("start climb", "start if frontIsClear -> climb\nstart else -> stop"),
            "first",
        ),
        (
            CLIMB.replace("if markersPresent", "if markersPresent and idle and frontIsClear"),
            "at most 2",
        ),
        (CLIMB.replace("m( ", "m( " + "move " * 60), "tokens, at most 45 fit"),
        (CLIMB.replace("  if", "  if idle -> stop\n" * 4 + "  if"), "at most 4 fit"),
    )
    for text, told in changes:
        path = tmp_path / "given.machine"
        path.write_text(text)
        with pytest.raises(ConfigError, match=told):
            evolve("StairClimber", rounds=1, settings=QUICK | {"from": path})


def test_the_command_begins_with_a_machine(tmp_path: Path, climber: Path, capsys) -> None:
    quick = [word for name, value in QUICK.items() for word in ("--set", f"{name}={value}")]
    arguments = ["StairClimber", "--rounds", "1", "--from", str(climber), *quick]
    status, out, _ = call(capsys, "evolve", *arguments, "--out", tmp_path / "run")
    assert status == 0
    assert "return 1.0000" in out
    machine = read_machine(tmp_path / "run" / "StairClimber" / "seed0" / "StairClimber.machine")
    assert len(machine.modes) == 1


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("evolve", "--from goes once, got it 2 times; name a folder with all of the machines"),
        ("search", "--from goes once, got it 2 times; put all of the programs into one file"),
    ],
)
def test_a_second_from_is_refused_and_none_is_lost(
    tmp_path: Path, capsys, command: str, told: str
) -> None:
    out = tmp_path / "run"
    twice = ("--from", "a", "--from", "b")
    status, _, wrong = call(capsys, command, "StairClimber", *twice, "--out", out)
    assert (status, wrong) == (2, f"pomp: {told}\n")
    assert not out.exists()


@pytest.mark.parametrize("command", ["evolve", "search"])
def test_an_empty_from_is_not_the_current_folder(tmp_path: Path, capsys, command: str) -> None:
    arguments = ["StairClimber", "--from", "", "--out", tmp_path / "run"]
    arguments += ["--method", "annealing"] if command == "search" else []
    status, _, wrong = call(capsys, command, *arguments)
    assert (status, wrong) == (2, "pomp: a path is empty; name a file or a folder\n")


def test_a_run_that_began_with_other_machines_says_so_in_a_line(
    tmp_path: Path, climber: Path
) -> None:
    out = tmp_path / "run"
    evolve("StairClimber", rounds=1, settings=QUICK | {"from": climber}, out=out)
    climber.write_text(CLIMB.replace("climb", "rise"))
    with pytest.raises(ConfigError, match="begun otherwise: from") as caught:
        evolve(out=out, resume=True, settings={"from": climber})
    assert len(str(caught.value)) < 500


PROGRAM = "DEF run m( WHILE c( noMarkersPresent c) w( turnLeft move turnRight move w) m)"


def test_a_search_in_program_space_begins_with_given_programs(tmp_path: Path) -> None:
    path = tmp_path / "programs.txt"
    path.write_text(f"# mine\n{PROGRAM}\nDEF run m( jump m)\n{PROGRAM}\n")
    settings = {"proposer.candidates": 4, "proposer.chains": 4, "score.starts": 4}
    changed = settings | {"from": path}
    found = search("StairClimber", method="annealing", settings=changed)
    assert found.modes == (PROGRAM,)
    assert search("StairClimber", method="annealing", settings=settings).modes != (PROGRAM,)


def test_programs_that_cannot_be_used_are_named_counted_and_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "programs.txt"
    path.write_text(f"DEF run m( jump m)\n{PROGRAM}\nDEF run m( {'move ' * 60}m)\n")
    config = configure("annealing", "paper", "StairClimber")
    with caplog.at_level(logging.WARNING, "pomp"):
        changed = with_programs(config, path)
    assert changed.proposer.given == PROGRAM
    assert "left out program 1, 'DEF run m( jump m)'" in caplog.text
    assert "it has 64 tokens, at most 45 fit" in caplog.text
    assert "2 of 3 programs were left out" in caplog.text


@pytest.mark.parametrize(
    ("method", "text", "told"),
    [
        ("cem", PROGRAM, "--from goes with methods that search in program space"),
        ("annealing", "", "holds no program that could be used: it is empty"),
        ("annealing", "jump", "holds no program that could be used: program 1, 'jump'"),
    ],
)
def test_files_that_no_search_could_begin_with_are_refused(
    tmp_path: Path, method: str, text: str, told: str
) -> None:
    path = tmp_path / "programs.txt"
    path.write_text(text)
    with pytest.raises(ConfigError, match=told):
        with_programs(configure(method, "paper", "StairClimber"), path)
