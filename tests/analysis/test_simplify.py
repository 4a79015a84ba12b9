"""Simplified machines: what goes, what stays, and that nothing is lost."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from pomp.analysis.equivalence import Parts, reduce
from pomp.analysis.simplification import OTHER_CAPS, simplify
from pomp.cli.main import main
from pomp.core.errors import ConfigError
from pomp.core.streams import Purpose
from pomp.dsl.sampling import sample_programs
from pomp.dsl.vocabulary import LEAPS
from pomp.engine.starts import draw_starts
from pomp.learning.random_transition import randomise
from pomp.machine.config import EpisodeConfig
from pomp.machine.evaluation import evaluate_exactly, play
from pomp.machine.policy import ProgramMachine
from pomp.machine.sensors import SENSOR_NAMES
from pomp.machine.text import parse_machine, print_machine, read_machine, unreachable_modes
from pomp.machine.transitions import DecisionList, Rule
from seeing import SIGHT

ROOT = Path(__file__).parents[2]
FARMER = ROOT / "examples" / "machines" / "farmer.machine"
PROGRAMS = [" ".join(LEAPS.decode(row)) for row in sample_programs(200, 3)]

CLUTTERED = """\
# Climbs: a move into a wall turns Karel round.
machine StairClimber
sensors with compass
variant paper
start if idle -> lost
start else -> climb

# Up a stair.
mode climb:
    DEF run m(
      turnRight move
      IF c( not c( frontIsClear c) c) i( REPEAT R=0 r( putMarker r) i)
    m)
  if markersPresent and not noMarkersPresent -> stop
  if markersPresent and frontIsClear -> lost
  if marker ahead and not marker left -> again
  if noMarkersPresent -> climb
  else -> lost

# The same once more.
mode again:
    DEF run m(
      turnRight move
      IF c( not c( frontIsClear c) c) i( REPEAT R=0 r( putMarker r) i)
    m)
  if markersPresent -> stop
  else -> climb

mode lost: DEF run m( move m)
  else -> stop
"""
CLEAN = """\
# Climbs: a move into a wall turns Karel round.
machine StairClimber
sensors perceptions only
variant paper
start climb

# Up a stair.
mode climb: DEF run m( turnRight move m)
  if markersPresent -> stop
  else -> climb
"""
WALKER = """\
machine UpNDown
most_steps 40
start up
mode up: DEF run m( turnLeft move turnRight move m)
  if no marker anywhere -> stop
  if marker behind -> turn
  else -> up
mode turn: DEF run m( turnLeft turnLeft m)
  else -> down
mode down: DEF run m( move turnLeft move turnRight m)
  if no marker anywhere -> stop
  if marker ahead -> down
  else -> turn-up
mode turn-up: DEF run m( turnLeft turnLeft m)
  else -> up
"""


@pytest.fixture(scope="module")
def farmer():
    """The example, simplified."""
    return simplify(read_machine(FARMER))


def reduced(text):
    machine = parse_machine(text)
    steps = reduce(Parts.of(machine))
    left = steps[-1].parts.into(machine) if steps else machine
    return print_machine(left), [step.what for step in steps]


def with_rules(rules, sensors="with compass"):
    """A machine of three modes, of which the first has these rules."""
    return (
        f"machine StairClimber\nsensors {sensors}\nstart a\n\n"
        f"mode a: DEF run m( move m)\n{rules}\n"
        "mode b: DEF run m( turnLeft m)\n  else -> a\n\n"
        "mode c: DEF run m( turnRight m)\n  else -> b\n"
    )


def test_own_sensors_may_hold_in_any_combination():
    rules = {
        "a": (Rule(1, ("marker in sight",)), Rule(2, ("not marker in sight",)), Rule(None)),
        "b": (Rule(0, ("marker in sight left", "marker in sight right")), Rule(None)),
        "c": (Rule(0, ("marker in sight", "idle")), Rule(1, ("marker in sight",)), Rule(None)),
    }
    programs = tuple(f"DEF run m( {action} m)" for action in ("move", "turnLeft", "turnRight"))
    machine = ProgramMachine(
        "StairClimber",
        programs,
        DecisionList((Rule(0),), tuple(rules.values()), SIGHT),
        names=tuple(rules),
    )
    steps = reduce(Parts.of(machine))
    left = steps[-1].parts.into(machine).transition
    assert left.after == ((Rule(1, ("marker in sight",)), Rule(2)), rules["b"], rules["c"])
    assert left.own == SIGHT


def test_a_cluttered_machine_becomes_the_expected_text():
    found = simplify(parse_machine(CLUTTERED))
    assert print_machine(found.machine) == CLEAN
    assert found.mean_before == found.mean_after == 1.0
    assert found.is_exact
    assert found.size_before.modes == 3
    assert (found.size_after.modes, found.size_after.rules, found.size_after.tokens) == (1, 3, 6)
    saved = sum(removal.saved.words for removal in found.removals)
    assert saved == found.size_before.words - found.size_after.words


@pytest.mark.parametrize(
    ("rules", "left"),
    [
        pytest.param(
            "  if idle -> b\n  if idle and marker left -> c\n  else -> c\n",
            "  if idle -> b\n  else -> c\n",
            id="a rule behind one that holds more often",
        ),
        pytest.param(
            "  if idle -> b\n  if marker left -> c\n  else -> c\n",
            "  if idle -> b\n  else -> c\n",
            id="a rule that leads where the next one leads",
        ),
        pytest.param(
            "  if markersPresent and noMarkersPresent -> stop\n  if idle -> b\n  else -> c\n",
            "  if idle -> b\n  else -> c\n",
            id="a marker is there or not",
        ),
        pytest.param(
            "  if marker left and marker right -> stop\n  if idle -> b\n  else -> c\n",
            "  if idle -> b\n  else -> c\n",
            id="the nearest marker is in one place",
        ),
        pytest.param(
            "  if marker left and not marker right -> b\n  else -> c\n",
            "  if marker left -> b\n  else -> c\n",
            id="a condition that follows from another",
        ),
        pytest.param(
            "  if idle and idle -> b\n  else -> c\n",
            "  if idle -> b\n  else -> c\n",
            id="a condition twice",
        ),
        pytest.param(
            "  if idle -> b\n  if not idle -> c\n  else -> stop\n",
            "  if idle -> b\n  else -> c\n",
            id="a default that is never reached",
        ),
        pytest.param(
            "  if row below 3 -> b\n  if not row at least 3 and idle -> c\n  else -> c\n",
            "  if row below 3 -> b\n  else -> c\n",
            id="a count below a number that it is not at least",
        ),
        pytest.param(
            "  if markers at least 2 and markers at least 5 -> b\n  else -> c\n",
            "  if markers at least 5 -> b\n  else -> c\n",
            id="a number that a larger one makes needless",
        ),
        pytest.param(
            "  if row at least 5 and row below 5 -> stop\n  if idle and row at least 0 -> b\n"
            "  else -> c\n",
            "  if idle -> b\n  else -> c\n",
            id="counts that cannot be, and that are always",
        ),
    ],
)
def test_rules_that_make_no_difference_go(rules, left):
    text, what = reduced(with_rules(rules, "with compass and counts"))
    assert text == with_rules(left, _sensors(left))
    assert all(one.startswith("a: ") for one in what)


def _sensors(rules):
    if "row" in rules or "markers at" in rules:
        return "with counts"
    return "with compass" if "marker left" in rules else "perceptions only"


@pytest.mark.parametrize(
    "rules",
    [
        "  if idle -> b\n  if marker left and frontIsClear -> c\n  else -> stop\n",
        "  if marker left and row below 2 -> b\n  if row below 3 -> c\n  else -> stop\n",
    ],
)
def test_rules_that_matter_stay(rules):
    text = with_rules(rules, "with compass" + " and counts" * ("row" in rules))
    assert reduced(text) == (text, [])


def test_what_can_be_counted_in_too_many_ways_is_left_to_the_trials():
    names = ("row", "column", "markers", "walls", "free ahead", "free left", "free right")
    many = " and ".join(f"{name} at least {n}" for name in names for n in (2, 4))
    rules = f"  if {many} -> b\n  if idle and idle -> b\n  else -> c\n"
    text, what = reduced(with_rules(rules, "with counts"))
    assert what == []
    assert many in text


def test_nothing_is_idle_at_the_start():
    text = with_rules("  if idle -> b\n  else -> c\n").replace("with compass", "perceptions only")
    text = text.replace("start a", "start if idle -> b\nstart else -> a")
    left, what = reduced(text)
    assert "\nstart a\n" in left
    assert what == ["start: 'if idle -> b'"]


def test_modes_that_lead_alike_are_one_even_in_circles():
    text = """\
machine Farmer
start a
mode a: DEF run m( move m)
  if idle -> stop
  else -> b
mode b: DEF run m( turnLeft m)
  else -> c
mode c: DEF run m( move m)
  if idle -> stop
  else -> d
mode d: DEF run m( turnLeft m)
  else -> a
"""
    left, what = reduced(text)
    assert parse_machine(left).names == ("a", "b")
    assert what == ["mode d: the same as b", "mode c: the same as a"]


def test_a_machine_that_ends_at_once_keeps_a_mode():
    machine = parse_machine(
        CLUTTERED.replace("start if idle -> lost\nstart else -> climb", "start stop")
    )
    found = simplify(machine)
    assert found.machine.names == ("climb",)
    assert unreachable_modes(found.machine) == [0]
    assert found.mean_before == found.mean_after


def test_names_and_comments_of_what_stays_survive(farmer):
    machine = read_machine(FARMER)
    assert farmer.machine.names == machine.names
    assert farmer.machine.comments == machine.comments


def test_a_loop_that_never_repeats_goes(farmer):
    """At most one marker lies on a cell of the example's field."""
    assert (farmer.size_before.tokens, farmer.size_after.tokens) == (134, 98)
    assert farmer.machine.modes[3] == (
        "DEF run m( turnRight pickMarker WHILE c( frontIsClear c) w( move pickMarker w) "
        "turnRight m)"
    )
    assert {removal.mean for removal in farmer.removals} == {farmer.mean_before}
    assert farmer.mean_after == evaluate_exactly(farmer.machine).mean


def test_modes_without_names_get_those_of_their_text():
    machine = replace(parse_machine(CLUTTERED), names=None)
    assert simplify(machine).machine.names == ("mode1",)


def test_what_only_a_larger_budget_of_calls_reaches_stays():
    """220 calls end before the first marker is put, 500 do not."""
    turns = "REPEAT R=16 r( turnLeft turnLeft turnLeft turnLeft turnLeft r)"
    sow = f"IF c( frontIsClear c) i( {'putMarker move ' * 4}i)"
    machine = parse_machine(
        f"machine Seeder\nstart a\nmode a: DEF run m( {turns} {sow} m)\n else -> stop\n"
    )
    before = mean_under("calls500", machine)
    assert mean_under("calls220", machine) == mean_under("calls221", machine) == 0 < before
    assert mean_under("calls500", simplify(machine).machine) >= before
    strange = replace(machine, episode=EpisodeConfig(cap="calls221"))
    assert simplify(strange).machine.modes == ("DEF run m( turnLeft m)",)


def mean_under(cap, machine):
    return evaluate_exactly(replace(machine, episode=EpisodeConfig(cap=cap))).mean


def test_a_tolerance_buys_a_smaller_machine_and_is_kept():
    machine = parse_machine(CLUTTERED)
    found = simplify(machine, tolerance=1.5)
    assert found.size_after.words < simplify(machine).size_after.words
    assert found.mean_before - 1.5 <= found.mean_after < found.mean_before
    assert found.mean_after == evaluate_exactly(found.machine).mean


def test_a_machine_that_ends_goes_on_ending():
    """Nothing is lost by climbing on and on, but the machine would be stopped at its limit."""
    machine = parse_machine(CLEAN.replace("variant paper\n", ""))
    assert evaluate_exactly(simplify(machine).machine).ended.all()


def test_a_clean_machine_stays_clean():
    """Without its turn the loop is shorter and earns more, but only its cap would stop it."""
    text = """machine OneStroke
start a
mode a: DEF run m( WHILE c( leftIsClear c) w( turnLeft move w) m)
  else -> stop
"""
    machine, without = parse_machine(text), parse_machine(text.replace("turnLeft ", ""))
    assert evaluate_exactly(machine).mean < evaluate_exactly(without).mean
    assert not evaluate_exactly(without).is_clean
    found = simplify(machine)
    assert evaluate_exactly(machine).is_clean
    assert evaluate_exactly(found.machine).is_clean


def test_starts_are_drawn_where_the_task_draws_and_never_those_of_evaluation():
    machine = parse_machine(WALKER)
    found = simplify(machine, episodes=20, seed=5)
    assert (found.episodes, found.is_exact) == (20, False)
    setting = machine.configure()
    starts = draw_starts(setting, 20, 5, Purpose.VALIDATION)
    assert play(machine, setting, starts.copy(), None).mean == found.mean_before
    assert play(found.machine, setting, starts, None).mean == found.mean_after
    assert found.mean_after >= found.mean_before


# Properties.


COUNTED = ("row below 5", "row below 7", "free ahead at least 2", "not heading at least 1")
CONDITIONS = st.sampled_from([*SENSOR_NAMES, *(f"not {name}" for name in SENSOR_NAMES), *COUNTED])
SHORT = [program for program in PROGRAMS if len(program.split()) <= 12]


@st.composite
def machines(draw):
    count = draw(st.integers(1, 3))
    targets = st.none() | st.integers(0, count - 1)
    conditions = st.lists(CONDITIONS, min_size=1, max_size=2).map(tuple)
    lists = st.tuples(st.lists(st.builds(Rule, targets, conditions), max_size=2), targets)
    rules = lists.map(lambda parts: (*parts[0], Rule(parts[1])))
    return ProgramMachine(
        task=draw(st.sampled_from(["StairClimber", "FourCorner"])),
        modes=tuple(draw(st.sampled_from(SHORT)) for _ in range(count)),
        transition=DecisionList(draw(rules), tuple(draw(rules) for _ in range(count))),
        episode=EpisodeConfig(most_steps=20),
        names=tuple("abc"[:count]),
    )


@settings(max_examples=60)
@given(machines())
def test_nothing_is_lost_and_nothing_more_can_go(machine):
    found = simplify(machine)
    assert found.mean_before == evaluate_exactly(machine).mean
    assert found.mean_after == evaluate_exactly(found.machine).mean >= found.mean_before
    for cap in OTHER_CAPS:
        episode = EpisodeConfig(cap=cap, most_steps=machine.episode.most_steps)
        before, after = (replace(one, episode=episode) for one in (machine, found.machine))
        assert evaluate_exactly(after).mean >= evaluate_exactly(before).mean - 1e-9
    again = simplify(found.machine)
    assert again.removals == ()
    assert again.machine == found.machine


@settings(max_examples=60)
@given(machines())
def test_what_makes_no_difference_makes_none(machine):
    steps = reduce(Parts.of(machine))
    left = steps[-1].parts.into(machine) if steps else machine
    before, after = evaluate_exactly(machine), evaluate_exactly(left)
    assert (before.returns == after.returns).all()
    assert (before.actions == after.actions).all()
    assert (before.programs == after.programs).all()


# The command.


def run_command(capsys, *arguments):
    """The exit status of a command, what it printed and what it complained about."""
    with pytest.raises(SystemExit) as stopped:
        main(list(map(str, arguments)))
    return stopped.value.code, *capsys.readouterr()


@pytest.fixture
def cluttered(tmp_path):
    path = tmp_path / "cluttered.machine"
    path.write_text(CLUTTERED)
    return path


def test_the_command_tells_what_went_and_prints_the_rest(cluttered, capsys):
    status, out, _ = run_command(capsys, "simplify", cluttered)
    assert status == 0
    assert out.endswith(f"\n\n{CLEAN}")
    assert "modes 3 -> 1, rules" in out
    assert "return 1.000000 -> 1.000000 on all starts, exactly\n" in out
    assert "return 1.000000 -> 1.000000 on 32 fresh starts\n" in out
    assert "- start: 'if idle -> lost' (1 rule, 1 condition; return 1.000000)\n" in out


def test_one_json_document_holds_all_of_it(cluttered, capsys):
    status, out, _ = run_command(capsys, "simplify", cluttered, "--json", "--episodes", 7)
    told = json.loads(out)
    assert status == 0
    assert told["text"] == CLEAN
    assert (told["episodes"], told["exact"]) == (7, False)
    assert told["size"]["after"] == {"modes": 1, "rules": 3, "conditions": 1, "tokens": 6}
    assert {"what", "saved", "mean"} == set(told["removals"][0])


def test_the_rest_is_written_to_a_new_file_or_over_the_machine(cluttered, capsys):
    new = cluttered.with_name("clean.machine")
    status, out, _ = run_command(capsys, "simplify", cluttered, "--out", new)
    assert (status, new.read_text()) == (0, CLEAN)
    assert out.endswith(f"written to {new}\n")
    assert cluttered.read_text() == CLUTTERED
    assert run_command(capsys, "simplify", cluttered, "--out", cluttered)[0] == 0
    assert cluttered.read_text() == CLEAN
    status, out, _ = run_command(capsys, "simplify", cluttered)
    assert status == 0
    assert out.startswith("StairClimber: nothing can go\n")


def test_an_interrupted_command_writes_nothing(cluttered, capsys, monkeypatch):
    def interrupt(*given, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr("pomp.analysis.simplification.shorten", interrupt)
    status, out, complaint = run_command(
        capsys, "simplify", cluttered, "--out", cluttered.with_name("clean.machine")
    )
    assert (status, out, complaint) == (130, "", "pomp: interrupted\n")
    assert [path.name for path in cluttered.parent.iterdir()] == ["cluttered.machine"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("no.machine",), "'no.machine' does not exist"),
        (
            ("zoo:Snake/network",),
            "only a machine with rules can be simplified",
        ),
        (("zoo:Sneak",), "unknown machine of the zoo 'Sneak'"),
        ((FARMER, "--tolerance", "-0.1"), "--tolerance must be a number from 0 on, got -0.1"),
        ((FARMER, "--tolerance", "nan"), "--tolerance must be a number from 0 on, got nan"),
        ((FARMER, "--episodes", "0"), "--episodes must be from 1 to 1,000,000, got 0"),
        ((FARMER, "--seed", "-1"), "--seed must not be negative, got -1"),
        ((FARMER, "--out", "new.txt"), "a machine's file ends in .machine, got 'new.txt'"),
        ((FARMER, "--out", "no/new.machine"), "there is no folder 'no'"),
        ((FARMER, "--out", FARMER.with_name("up_n_down.machine")), "exists; name a new file"),
    ],
)
def test_bad_input_is_refused_in_one_line(arguments, reason, capsys):
    status, out, complaint = run_command(capsys, "simplify", *arguments)
    assert (status, out) == (2, "")
    assert reason in complaint
    assert complaint.count("\n") == 1


def test_a_network_and_a_tolerance_that_is_none_are_refused():
    with pytest.raises(ConfigError, match="only a machine with rules can be simplified"):
        simplify(randomise(read_machine(FARMER)))
    with pytest.raises(ConfigError, match="tolerance must be a number from 0 on, got inf"):
        simplify(read_machine(FARMER), tolerance=float("inf"))
