"""What `pomp verify` says of machines, against small worlds and plays that are counted."""

import json
import shlex
from math import comb
from pathlib import Path

import numpy as np
import pytest

from commands import call
from pomp.core.errors import ConfigError
from pomp.dsl import LEAPS, sample_programs
from pomp.engine.starts import StartName
from pomp.learning.random_transition import randomise
from pomp.machine import DecisionList, ProgramMachine, Rule, evaluate, verify, write_machine
from pomp.machine.verification import BUDGETS, DRAWN, bound_share
from pomp.machine.zoo import load_machine
from pomp.play.story import Story

MOVE = "DEF run m( move m)"
CIRCLE = "DEF run m( WHILE c( noMarkersPresent c) w( move turnLeft w) m)"
ONCE = DecisionList(start=(Rule(to=0),), after=((Rule(to=None),),))
FOREVER = DecisionList(start=(Rule(to=0),), after=((Rule(to=0),),))


def one_mode(mode, transition, task="OneStroke"):
    return ProgramMachine(task=task, modes=(mode,), transition=transition)


def test_a_machine_that_holds_is_proved_to_hold_from_every_start():
    found = verify(one_mode(MOVE, ONCE))
    assert found.holds
    assert found.is_proof
    assert (len(found.found.returns), found.failures, found.bound) == (36, 0, 0.0)
    assert found.faults == ()
    told = found.to_json()
    assert (told["most modes"], told["most actions"], told["cuts"]) == (1, 1, 0)
    assert [one["cap"] for one in told["budgets"]] == list(BUDGETS)
    assert {one["mean"] for one in told["budgets"]} == {evaluate(one_mode(MOVE, ONCE)).mean}


def test_a_machine_that_never_stops_is_caught_when_the_world_comes_back():
    found = verify(one_mode("DEF run m( turnLeft m)", FOREVER))
    assert not found.holds
    assert found.endless.all()
    assert found.found.programs.max() < 20  # a turn comes back after four
    assert "never stops" in found.faults[0].what
    assert found.to_json()["endings"] == {"by choice": 0, "never": 36, "at the limit": 0}


@pytest.mark.parametrize("seed", range(4))
def test_only_what_does_not_end_is_called_endless(seed):
    modes = tuple(" ".join(LEAPS.decode(row)) for row in sample_programs(2, seed).tolist())
    rules = (Rule(to=1, when=("frontIsClear",)), Rule(to=None, when=("idle",)), Rule(to=0))
    machine = ProgramMachine(
        task="OneStroke", modes=modes, transition=DecisionList((Rule(to=0),), (rules, rules))
    )
    found, played = verify(machine, budgets=()), evaluate(machine)
    np.testing.assert_array_equal(found.found.ended, played.ended)
    for name in ("returns", "programs", "actions", "cuts"):
        told, expected = getattr(found.found, name), getattr(played, name)
        np.testing.assert_array_equal(told[played.ended], expected[played.ended])
    # OneStroke's worlds are few: what does not end within a thousand modes is in a circle.
    np.testing.assert_array_equal(found.endless, ~played.ended)


def test_cut_programs_and_budgets_that_matter_are_counterexamples():
    found = verify(one_mode(CIRCLE, ONCE))
    assert not found.holds
    assert found.failures == 36
    assert found.found.cuts.tolist() == [1] * 36
    assert "1 of its programs are cut by their cap" in found.faults[0].what
    assert found.faults[0].start == StartName(0)
    assert found.faults[0].map.splitlines()[1] == "#>.....#"


def test_a_return_that_is_asked_for_counts():
    machine = one_mode(MOVE, ONCE)
    worst = evaluate(machine).returns.min()
    assert verify(machine, least=worst).holds
    assert "less than 0.9" in verify(machine, least=0.9).faults[0].what


def test_chance_makes_a_sample_with_a_bound():
    found = verify(load_machine("zoo:UpNDown/text"), episodes=30, seed=3, budgets=())
    assert (found.is_proof, found.holds, found.failures) == (False, True, 0)
    assert found.bound == pytest.approx(1 - 0.05 ** (1 / 30))
    expected = evaluate("zoo:UpNDown/text", episodes=30, seed=3)
    np.testing.assert_array_equal(found.found.returns, expected.returns)
    drawn = verify(randomise(one_mode(MOVE, ONCE)), episodes=5)
    assert not drawn.is_proof


@pytest.mark.parametrize(("failures", "episodes"), [(0, 1000), (1, 10), (5, 20), (99, 100)])
def test_the_bound_leaves_so_few_failures_one_chance_in_twenty(failures, episodes):
    share = bound_share(failures, episodes)
    chances = (
        comb(episodes, n) * share**n * (1 - share) ** (episodes - n) for n in range(failures + 1)
    )
    assert sum(chances) == pytest.approx(0.05, abs=1e-9)


def test_nothing_is_ruled_out_where_all_fail():
    assert bound_share(7, 7) == 1.0


def test_starts_that_are_too_many_are_drawn_or_refused():
    machine = load_machine("zoo:TopOff/text")
    with pytest.raises(ConfigError, match=rf"over \d+ starts; .*{DRAWN} episodes are drawn"):
        verify(machine, size=(100, 100), exact=True)
    with pytest.raises(ConfigError, match="draws at random"):
        verify(load_machine("zoo:UpNDown/text"), exact=True)
    with pytest.raises(ConfigError, match="not a number of episodes"):
        verify(machine, exact=True, episodes=3)
    with pytest.raises(ConfigError, match="8x8, its map"):
        verify("zoo:DoorKey/text", size=(9, 9))
    with pytest.raises(ConfigError, match="is verified"):
        verify(3)


@pytest.mark.parametrize("start", [StartName(7), StartName(3, 0), StartName(2, 5)])
def test_a_start_that_is_named_can_be_watched(start):
    machine = one_mode(CIRCLE, ONCE)
    drawn = {} if start.seed is None else {"episodes": 4, "seed": start.seed}
    *_, last = Story(machine, machine.configure(), start=StartName.parse(str(start)))
    assert last.worth == evaluate(machine, **drawn).returns[start.number]


@pytest.mark.parametrize("text", ["", "x", "-1", "1:", ":1", "1:2:3", "1.5"])
def test_other_names_are_no_starts(text):
    with pytest.raises(ConfigError, match="a start is a number"):
        StartName.parse(text)


def test_a_start_that_the_task_lacks_is_refused():
    with pytest.raises(ConfigError, match="no start 36: its starts are 0 to 35"):
        StartName(36).open(one_mode(MOVE, ONCE).configure())


def test_the_command_tells_and_its_status_says_whether_it_holds(capsys, tmp_path):
    status, told, _ = call(capsys, "verify", "zoo:Maze/text", "--json")
    assert status == 0
    assert json.loads(told)["proof"]
    path = tmp_path / "circle.machine"
    write_machine(one_mode(CIRCLE, ONCE), path)
    status, told, _ = call(capsys, "verify", path)
    assert status == 1
    assert "OneStroke, 8x8: does not hold: 36 of 36 starts fail\nproof: all 36 starts" in told
    assert f"start 0: 1 of its programs are cut by their cap\n  pomp play {path} --start 0" in told
    status, told, _ = call(capsys, "play", path, "--start", "0", "--cap", "calls217", "--print")
    assert (status, "start 0: return" in told) == (0, True)
    status, _, wrong = call(capsys, "verify", "zoo:DoorKey/text", "--size", "9x9")
    assert (status, wrong) == (2, "pomp: DoorKey takes a grid of 8x8, its map, got 9x9\n")


def test_the_command_that_shows_a_counterexample_can_be_typed_into_a_shell(capsys, tmp_path):
    path = tmp_path / "two words;.machine"
    write_machine(one_mode(CIRCLE, ONCE), path)
    _, told, _ = call(capsys, "verify", path, "--json")
    watch = json.loads(told)["counterexamples"][0]["watch"]
    words = ["pomp", "play", str(path), "--start", "0", "--cap", "calls220"]
    assert shlex.split(watch) == words


def test_what_never_ends_is_told_as_it_was_when_that_was_seen(capsys, tmp_path):
    path = tmp_path / "turn.machine"
    write_machine(one_mode("DEF run m( turnLeft m)", FOREVER), path)
    assert "as it was when that was seen" in call(capsys, "verify", path)[1]
    write_machine(one_mode(MOVE, ONCE), path)
    assert "as it was when that was seen" not in call(capsys, "verify", path)[1]


@pytest.mark.parametrize("command", ["eval", "verify", "play"])
def test_an_empty_size_is_refused(capsys, command):
    status, _, wrong = call(
        capsys, command, "zoo:Maze/text", "--size", "", *["--print"][: command == "play"]
    )
    assert (status, wrong) == (2, "pomp: a size is HEIGHTxWIDTH, as in 12x12, got ''\n")


@pytest.mark.parametrize("episodes", [-1, 0, 100_001])
def test_a_number_of_episodes_that_is_not_drawn_is_refused(capsys, episodes):
    status, _, wrong = call(capsys, "verify", "zoo:Maze/text", "--episodes", episodes)
    expected = "episodes must be at least 1 and at most 100000, a whole number"
    assert (status, wrong) == (2, f"pomp: {expected}, got {episodes}\n")


def test_an_empty_start_is_refused(capsys):
    status, _, wrong = call(capsys, "play", "zoo:Maze/text", "--start", "", "--print")
    assert (status, "a start is a number" in wrong) == (2, True)


def test_the_example_of_the_documents_says_what_they_print(capsys, tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "MACHINES.md").read_text()
    _, text, _, printed, *_ = page.partition("## Whether it holds")[2].split("```")
    monkeypatch.chdir(tmp_path)
    Path("walk.machine").write_text(text.removeprefix("machine\n"))
    status, told, _ = call(capsys, "verify", "walk.machine")
    assert status == 1
    for part in printed.strip("\n").split("\n...\n"):
        assert part in told
    Path("walk.machine").write_text(Path("walk.machine").read_text().replace("right", "front"))
    assert call(capsys, "verify", "walk.machine")[0] == 0
