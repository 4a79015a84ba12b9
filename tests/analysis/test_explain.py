"""Explained machines: programs and rules in words, and what episodes show."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from pomp.analysis.explanation import explain
from pomp.cli.main import main
from pomp.dsl.parser import parse
from pomp.dsl.sampling import sample_programs
from pomp.dsl.vocabulary import LEAPS
from pomp.dsl.words import describe_program
from pomp.karel.world import Map
from pomp.learning.random_transition import randomise
from pomp.machine.evaluation import evaluate
from pomp.machine.sensors import SENSOR_NAMES, describe_condition
from pomp.machine.text import parse_machine, read_machine

ROOT = Path(__file__).parents[2]
FARMER = ROOT / "examples" / "machines" / "farmer.machine"
PROGRAMS = [" ".join(LEAPS.decode(row)) for row in sample_programs(200, 7)]

IDLER = """\
machine StairClimber
start if markersPresent and not idle -> stop
start else -> look

mode look: DEF run m( IF c( markersPresent c) i( turnLeft i) m)
  if marker behind and not frontIsClear -> stop
  if idle -> climb
  else -> look

# Up a stair.
mode climb: DEF run m( turnLeft move turnRight move m)
  if markersPresent -> stop
  if not no marker anywhere -> climb
  else -> look

mode unused: DEF run m( move m)
  else -> stop
"""


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("turnLeft turnLeft", "Turns left twice."),
        ("move", "Moves."),
        ("move turnRight putMarker", "Moves, turns right, then puts a marker down."),
        (
            "WHILE c( frontIsClear c) w( IF c( markersPresent c) i( pickMarker i) move w)",
            "While the front is clear: picks a marker up if there is one, then moves.",
        ),
        (
            "putMarker WHILE c( leftIsClear c) w( turnLeft move w) turnRight",
            "Puts a marker down. While the left is clear: turns left, then moves. "
            "Then turns right.",
        ),
        (
            "WHILE c( not c( frontIsClear c) c) w( turnLeft w)",
            "Turns left as long as the front is blocked.",
        ),
        (
            "IF c( not c( markersPresent c) c) i( putMarker i)",
            "Puts a marker down if there is none.",
        ),
        ("IF c( noMarkersPresent c) i( move i)", "Moves if there is no marker here."),
        ("REPEAT R=5 r( move r)", "Moves 5 times."),
        ("REPEAT R=1 r( move turnLeft r)", "Once: moves, then turns left."),
        (
            "REPEAT R=5 r( move REPEAT R=2 r( turnLeft move r) turnRight r)",
            "5 times: moves, (twice: turns left, then moves), then turns right.",
        ),
        ("REPEAT R=4 r( move move r)", "4 times: moves twice."),
        (
            "IFELSE c( frontIsClear c) i( move i) ELSE e( turnLeft e)",
            "Moves if the front is clear, else turns left.",
        ),
        (
            "IFELSE c( rightIsClear c) i( turnRight move i) ELSE e( turnLeft e)",
            "If the right is clear: turns right, then moves; else: turns left.",
        ),
    ],
)
def test_a_program_in_words(program, words):
    assert describe_program(parse(f"DEF run m( {program} m)")) == words


@settings(max_examples=100)
@given(st.sampled_from(PROGRAMS))
def test_words_are_whole_sentences_that_name_every_action(text):
    words = describe_program(parse(text))
    assert not words[0].islower()
    assert words.endswith(".")
    assert words.count("(") == words.count(")")
    named = {"move": "moves", "turnLeft": "turns left", "turnRight": "turns right",
             "pickMarker": "picks a marker up", "putMarker": "puts a marker down"}  # fmt: skip
    for token, verb in named.items():
        assert (verb in words.lower()) == (token in text.split())


def test_what_is_nested_too_deeply_is_left_out():
    text = "DEF run m( " + "WHILE c( frontIsClear c) w( turnLeft " * 500 + "w) " * 500 + "m)"
    words = describe_program(parse(text))
    assert words.count("while the front is clear") + 1 == 6
    assert "nested too deeply to be told" in words


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("frontIsClear", "the front is clear"),
        ("not noMarkersPresent", "there is a marker here"),
        ("idle", "it did nothing"),
        ("not idle", "it did something"),
        ("marker left", "the nearest marker is to the left"),
        ("not marker behind", "the nearest marker is not behind"),
        ("no marker anywhere", "no other cell has a marker"),
        ("not no marker anywhere", "another cell has a marker"),
    ],
)
def test_a_condition_in_words(condition, words):
    assert describe_condition(condition) == words


def test_every_condition_has_words_of_its_own():
    told = {describe_condition(f"{sign}{name}") for name in SENSOR_NAMES for sign in ("", "not ")}
    assert len(told) == 2 * len(SENSOR_NAMES) - 2  # a marker is here, or none is: said in two ways


def test_rules_in_words():
    found = explain(parse_machine(IDLER), episodes=2)
    assert found.start == (
        "Ends at once if there is a marker here and it did something; else begins with `look`."
    )
    assert [mode.rules for mode in found.modes] == [
        "Afterwards: stops if the nearest marker is behind and the front is blocked; "
        "goes on with `climb` if it did nothing; else repeats itself.",
        "Afterwards: stops if there is a marker here; repeats itself if another cell has a "
        "marker; else goes on with `look`.",
        "Afterwards: stops.",
    ]
    assert found.sensors == (
        "frontIsClear", "markersPresent", "marker behind", "no marker anywhere", "idle"
    )  # fmt: skip


@pytest.mark.parametrize("text", [IDLER, FARMER.read_text()], ids=["idler", "farmer"])
@pytest.mark.parametrize("has_rules", [True, False], ids=["rules", "network"])
def test_numbers_are_those_of_the_evaluation(text, has_rules):
    machine = parse_machine(text) if has_rules else randomise(parse_machine(text))
    found, expected = explain(machine, episodes=5, seed=3), evaluate(machine, episodes=5, seed=3)
    assert (found.found.returns == expected.returns).all()
    assert (found.found.paths == expected.paths).all()
    assert sum(mode.runs for mode in found.modes) == expected.programs.sum()
    assert sum(mode.runs * mode.actions for mode in found.modes) == pytest.approx(
        expected.actions.sum()
    )
    assert sum(mode.share for mode in found.modes) == pytest.approx(1.0)
    paths = expected.paths
    for number, mode in enumerate(found.modes):
        assert mode.runs == (paths == number).sum() == pytest.approx(5 * mode.per_episode)
        last = paths[(paths >= 0).cumsum(1).argmax(1)[:, None] == np.arange(paths.shape[1])]
        assert sum(mode.then.values()) == mode.runs - (last == number).sum()
        assert list(mode.then.values()) == sorted(mode.then.values(), reverse=True)
        assert bool(mode.rules) == has_rules
    assert sum(found.begins.values()) == 5


def test_idle_runs_are_counted_and_an_acting_one_is_the_example():
    look, climb, unused = explain(parse_machine(IDLER), episodes=4).modes
    assert (look.idle, look.actions, look.per_episode) == (1.0, 0.0, 1.0)
    assert look.example.before == look.example.after
    assert (climb.idle, climb.actions, climb.example.actions) == (0.0, 4.0, 4)
    before, after = (
        Map.from_text("\n".join(rows)) for rows in (climb.example.before, climb.example.after)
    )
    assert (after.row, after.col) == (before.row - 1, before.col + 1)
    assert (unused.runs, unused.example, unused.then) == (0, None, {})


# The command.


def run_command(capsys, *arguments):
    """The exit status of a command, what it printed and what it complained about."""
    with pytest.raises(SystemExit) as stopped:
        main(list(map(str, arguments)))
    return stopped.value.code, *capsys.readouterr()


def test_the_command_tells_each_mode(capsys):
    status, out, _ = run_command(capsys, "explain", FARMER, "--episodes", 2)
    assert status == 0
    head, start, first, *_ = out.split("\n\n")
    assert head.startswith("Farmer: mean return 0.831411 (99.6% of the ceiling 0.835)\n2 episodes")
    assert "2 of them ended by the machine itself" in head
    assert "sensors: frontIsClear, noMarkersPresent" in head
    assert start == "Begins with `sow-first`."
    assert first.startswith("sow-first\n# The bottom row, eastward; ends looking north.")
    assert "11.0 runs an episode (8.4% of all); 12.0 actions each\n" in first
    assert "then: sow-west 90.9%, stop 9.1%\n" in first
    assert "    #>.....#    #mmmmmn#\n" in first
    machine = read_machine(FARMER)
    assert all(f"\n\n{name}\n" in out for name in machine.names)


def test_a_mode_that_never_runs_is_said_to(tmp_path, capsys):
    (tmp_path / "idler.machine").write_text(IDLER)
    status, out, _ = run_command(capsys, "explain", tmp_path / "idler.machine", "--episodes", 3)
    assert status == 0
    assert out.endswith("Moves.\n  Afterwards: stops.\n  It never ran.\n")
    assert "100.0% of them idle; 0.0 actions each" in out


def test_a_network_is_told_by_frequency(capsys):
    status, out, _ = run_command(capsys, "explain", "zoo:Snake/network", "--episodes", 4)
    assert status == 0
    assert "\na network chooses\n" in out
    assert "\nBegins with: mode " in out
    assert "Afterwards" not in out


def test_one_json_document_holds_all_of_it(capsys):
    status, out, _ = run_command(capsys, "explain", FARMER, "--episodes", 2, "--json")
    told = json.loads(out)
    assert status == 0
    assert told["mean"] == pytest.approx(0.831411, abs=1e-6)
    assert told["sensors"] == ["frontIsClear", "noMarkersPresent"]
    assert [mode["title"] for mode in told["modes"]] == list(read_machine(FARMER).names)
    assert told["modes"][-1]["words"] == "Turns left."
    assert told["modes"][-1]["then"] == {"sow-first": 20}
    assert len(told["modes"][0]["example"]["before"]) == 8


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("no.machine",), "'no.machine' does not exist"),
        (("zoo:Farmr",), "unknown machine of the zoo 'Farmr'"),
        ((FARMER, "--episodes", "0"), "--episodes must be from 1 to 1,000,000, got 0"),
        ((FARMER, "--seed", "-1"), "--seed must not be negative, got -1"),
    ],
)
def test_bad_input_is_refused_in_one_line(arguments, reason, capsys):
    status, out, complaint = run_command(capsys, "explain", *arguments)
    assert (status, out) == (2, "")
    assert reason in complaint
    assert complaint.count("\n") == 1
