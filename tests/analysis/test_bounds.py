"""Bounds: numbers known from elsewhere, the engine itself, and modes whose worth is plain."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from pomp.analysis import bounds, outcomes
from pomp.analysis.bounds import bound
from pomp.analysis.outcomes import begin_points, run_points, settle_points
from pomp.cli.bound import BoundCommand
from pomp.core.errors import ConfigError
from pomp.dsl.bytecode import compile_ids, compile_programs
from pomp.dsl.sampling import sample_programs
from pomp.engine.rollouts import act_on, advance
from pomp.engine.starts import draw_starts, enumerate_starts
from pomp.karel.interpreter import Cap
from pomp.karel.world import memory_of
from pomp.machine.config import EpisodeConfig
from pomp.machine.evaluation import play
from pomp.machine.policy import ProgramMachine
from pomp.machine.transitions import DecisionList, Rule
from pomp.tasks.catalog import find_task
from pomp.tasks.task import Constants

EXAMPLES = Path(__file__).parents[2] / "examples"
STEP_PAIR = "turnLeft move turnRight move"
PRINTED = {  # the modes printed in the paper
    "Seesaw": (
        "DEF run m( move move pickMarker turnLeft WHILE c( frontIsClear c) w( move pickMarker w) "
        "WHILE c( frontIsClear c) w( move pickMarker w) m)",
        "DEF run m( WHILE c( markersPresent c) w( pickMarker turnRight w) "
        "WHILE c( markersPresent c) w( pickMarker w) "
        "WHILE c( markersPresent c) w( pickMarker w) m)",
        "DEF run m( IF c( frontIsClear c) i( turnLeft move move pickMarker turnLeft "
        "IF c( frontIsClear c) i( move pickMarker move pickMarker i) move i) "
        "IF c( frontIsClear c) i( pickMarker move pickMarker i) move pickMarker m)",
    ),
    "UpNDown": (
        "DEF run m( IF c( frontIsClear c) i( move move i) "
        "IF c( not c( leftIsClear c) c) i( move move i) m)",
        f"DEF run m( {STEP_PAIR} m)",
        f"DEF run m( {' '.join([STEP_PAIR] * 10)} m)",
    ),
    "Farmer": (
        "DEF run m( pickMarker REPEAT R=0 r( pickMarker move turnRight move move turnLeft move "
        "move turnRight move turnLeft move move pickMarker move turnLeft move move pickMarker move "
        "turnLeft move move pickMarker move r) m)",
        "DEF run m( turnRight move putMarker turnRight move pickMarker putMarker move pickMarker "
        "putMarker move pickMarker putMarker move pickMarker putMarker move pickMarker putMarker "
        "move m)",
        "DEF run m( turnRight move turnRight putMarker pickMarker move pickMarker putMarker move "
        "pickMarker putMarker move pickMarker putMarker move pickMarker putMarker move pickMarker "
        "putMarker move pickMarker m)",
        "DEF run m( REPEAT R=17 r( IF c( not c( rightIsClear c) c) i( putMarker move i) r) m)",
        "DEF run m( putMarker pickMarker turnRight move pickMarker turnRight move pickMarker "
        "putMarker move pickMarker putMarker move pickMarker putMarker move pickMarker putMarker "
        "move pickMarker putMarker move m)",
    ),
    "InfDoorKey": (
        "DEF run m( IFELSE c( noMarkersPresent c) i( move putMarker i) "
        "ELSE e( pickMarker putMarker e) m)",
        "DEF run m( IF c( noMarkersPresent c) i( move move move IF c( noMarkersPresent c) "
        "i( move REPEAT R=1 r( move turnLeft r) i) i) IF c( noMarkersPresent c) i( move "
        "REPEAT R=1 r( move REPEAT R=1 r( move r) r) i) m)",
        "DEF run m( putMarker pickMarker IF c( not c( markersPresent c) c) i( move i) "
        "WHILE c( noMarkersPresent c) w( IFELSE c( markersPresent c) i( turnLeft i) "
        "ELSE e( move turnRight e) w) m)",
        "DEF run m( putMarker turnLeft pickMarker move turnLeft IFELSE c( markersPresent c) "
        "i( move turnLeft i) ELSE e( move e) m)",
        "DEF run m( turnRight IF c( leftIsClear c) i( turnLeft i) putMarker IF c( leftIsClear c) "
        "i( turnLeft i) pickMarker move IF c( leftIsClear c) i( turnLeft i) putMarker move "
        "IF c( leftIsClear c) i( turnLeft i) pickMarker move m)",
    ),
}
COUNTED = ("Seesaw", "UpNDown", "InfDoorKey")
ACTIONS = tuple(
    f"DEF run m( {action} m)" for action in ("move", "turnLeft", "turnRight", "pickMarker")
)
WALK = "DEF run m( WHILE c( frontIsClear c) w( pickMarker move w) pickMarker turnLeft m)"

NESTED = (
    "DEF run m( REPEAT R=9 r( IF c( frontIsClear c) i( move i) "
    "REPEAT R=3 r( pickMarker putMarker turnLeft r) r) m)"
)


def starts_of(monkeypatch, task, places):
    """Let a task have these of its starts only."""
    worlds, starts = enumerate_starts(find_task(task).configure())
    some = worlds.take(places), [starts[place] for place in places]
    monkeypatch.setattr(bounds, "enumerate_starts", lambda setting: some)
    return sum(float(starts[place].probability) for place in places)


# ---------------------------------------------------------------- numbers known from elsewhere


@pytest.mark.parametrize(
    ("task", "value"), [("Seesaw", 0.7294), ("UpNDown", 0.7958), ("Farmer", 0.5824)]
)
def test_the_printed_modes_have_the_bounds_of_the_prototype(task, value):
    found = bound(find_task(task).configure(), PRINTED[task])
    assert found.exact
    assert found.value == pytest.approx(value, abs=1e-4)


@pytest.mark.slow
def test_the_printed_modes_of_inf_door_key():
    found = bound(find_task("InfDoorKey").configure(), PRINTED["InfDoorKey"])
    assert found.exact
    assert found.value == pytest.approx(0.8514, abs=1e-4)


@pytest.mark.parametrize(("task", "modes"), [("UpNDown", ACTIONS[:3]), ("Seesaw", ACTIONS)])
def test_modes_of_one_action_reach_the_ceiling_but_for_the_limit_of_steps(task, modes):
    setting = find_task(task).configure()
    found = bound(setting, modes)
    assert found.side == "upper"
    assert "an episode ends after 1,000" in found.how
    assert found.value == pytest.approx(setting.ceiling, abs=2e-3)


# ---------------------------------------------------------------- against the engine


def run_in_pieces(setting, code, cap, worlds, programs):
    """Run programs, left at every event and taken up again: what they earn, and the worlds."""
    points, earned = begin_points(code, cap, programs), np.zeros(len(worlds))
    lanes, final = np.arange(len(worlds)), worlds.copy()
    while len(lanes):
        rewards, actions, worlds = run_points(setting, code, cap, worlds, points)
        earned[lanes] += rewards
        for array, part in zip(memory_of(final), worlds.arrays, strict=True):
            array[lanes] = part
        met = np.flatnonzero(actions >= 0)
        worlds, points, lanes = worlds.take(met), settle_points(points[met]), lanes[met]
        act_on(setting, worlds, actions[met])
    return earned, final


@pytest.mark.parametrize("cap", ["calls220", "calls37", "actions60"])
@pytest.mark.parametrize("task", COUNTED)
def test_programs_that_are_left_at_events_and_taken_up_again_run_as_in_one_go(task, cap):
    setting = find_task(task).configure()
    printed = compile_programs([*PRINTED[task], WALK, NESTED])
    for code in (printed, compile_ids(sample_programs(300, seed=2))):
        worlds = draw_starts(setting, 600, seed=3)
        programs = np.arange(600) % len(code)
        before = advance(setting, printed, worlds, programs % len(printed)).returns[:, 0]
        earned, final = run_in_pieces(setting, code, Cap.parse(cap), worlds.copy(), programs)
        values = advance(setting, code, worlds, programs, cap=cap).returns[:, 0]
        np.testing.assert_allclose(earned, values - before, atol=1e-12)
        for array, expected in zip(final.arrays, worlds.arrays, strict=True):
            np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize("task", [*COUNTED, "Farmer"])
def test_what_is_forgotten_changes_nothing(task):
    setting = find_task(task).configure()
    code, draw = compile_programs([*PRINTED[task], WALK]), np.random.default_rng(1)
    worlds, none = draw_starts(setting, 300, seed=5), np.full(300, -1)
    for _ in range(6):
        advance(setting, code, worlds, draw.integers(len(code), size=300))
    plain = worlds.copy()
    setting.task.forget(plain)
    assert (plain.cells != worlds.cells).any()
    gap = advance(setting, code, worlds, none).returns - advance(setting, code, plain, none).returns
    for _ in range(12):
        choices = draw.integers(len(code), size=300)
        first = advance(setting, code, worlds, choices).returns
        second = advance(setting, code, plain, choices).returns
        np.testing.assert_allclose(first - second, gap, atol=1e-12)
        np.testing.assert_array_equal(worlds.pose, plain.pose)


@pytest.mark.parametrize(
    ("task", "variant", "cap"),
    [
        ("Seesaw", "hipo", "calls220"),
        ("Seesaw", "paper", "actions50"),
        ("UpNDown", "hipo", "calls90"),
    ],
)
def test_the_best_transitions_earn_the_bound(task, variant, cap):
    setting = find_task(task).configure(variant)
    modes = (*PRINTED[task], WALK)
    found = bound(setting, modes, cap, keep_transitions=True)
    assert found.transitions is not None
    machine = ProgramMachine(
        task, modes, found.transitions, variant=variant, episode=EpisodeConfig(cap=cap)
    )
    played = play(machine, setting, draw_starts(setting, 400, seed=1), None)
    assert played.ended.all()
    error = played.std / np.sqrt(len(played.returns))
    assert abs(played.mean - found.value) < 4 * error + 1e-12


@pytest.mark.parametrize("task", ["Seesaw", "UpNDown"])
def test_no_machine_earns_more(task):
    setting = find_task(task).configure()
    found = bound(setting, PRINTED[task])
    rules = (Rule(2, ("markersPresent",)), Rule(0, ("frontIsClear",)), Rule(1))
    machine = ProgramMachine(task, PRINTED[task], DecisionList(rules, (rules,) * 3))
    played = play(machine, setting, draw_starts(setting, 50, seed=1), None)
    assert played.mean < found.value


def test_dynamic_programming_and_search_forwards_agree_without_chance(monkeypatch):
    setting, modes = find_task("InfDoorKey").configure(), PRINTED["InfDoorKey"][:3]
    odds = starts_of(monkeypatch, "InfDoorKey", [17, 2652])
    found = bound(setting, modes)
    uncounted = replace(setting.task, event_count=lambda setting: None)
    searched = bound(replace(setting, task=uncounted), modes)
    assert found.exact
    assert searched.exact
    assert found.value > 0.1 * odds
    assert found.value == pytest.approx(searched.value, abs=1e-12)


# ---------------------------------------------------------------- modes whose worth is plain


@pytest.mark.parametrize("task", ["Seesaw", "UpNDown", "InfDoorKey", "Farmer", "Harvester"])
def test_modes_that_earn_nothing_are_worth_nothing(task):
    turn = "DEF run m( turnLeft m)"
    idle = "DEF run m( WHILE c( markersPresent c) w( turnLeft w) m)"
    found = bound(find_task(task).configure(), [turn, idle])
    assert found.exact or task == "Harvester"
    assert found.value == 0.0


def test_a_single_mode_is_worth_its_best_number_of_executions():
    setting = find_task("InfDoorKey").configure()
    mode = PRINTED["InfDoorKey"][2]
    worlds, _ = enumerate_starts(setting)
    best = np.zeros(len(worlds))
    for _ in range(300):
        best = np.maximum(best, advance(setting, [mode], worlds, [0] * len(worlds)).returns[:, 0])
    found = bound(setting, [mode])
    assert found.exact
    assert found.value == pytest.approx(best.mean(), abs=1e-12)


def test_a_mode_that_sweeps_the_field_solves_harvester():
    row = "WHILE c( frontIsClear c) w( pickMarker move w) pickMarker"
    there = f"DEF run m( {row} turnLeft move turnLeft m)"
    back = f"DEF run m( {row} turnRight move turnRight m)"
    found = bound(find_task("Harvester").configure(), [there, back])
    assert found.exact
    assert found.value == 1.0


def test_a_narrow_search_gives_a_lower_bound():
    setting = find_task("Farmer").configure()
    narrow = bound(setting, PRINTED["Farmer"], width=1)
    assert narrow.side == "lower"
    assert 0.0 < narrow.value <= 0.5825


# ---------------------------------------------------------------- what there is no bound for


@pytest.mark.parametrize(
    ("task", "variant", "message"),
    [
        ("InfHarvester", None, "There are bounds for Seesaw, UpNDown, InfDoorKey"),
        ("InfDoorKey", "paper", "draws among too many worlds"),
        ("Harvester", "leaps", "do not add up"),
        ("CleanHouse", None, "cannot list its starts"),
    ],
)
def test_other_tasks_are_refused(task, variant, message):
    with pytest.raises(ConfigError, match=message):
        bound(find_task(task).configure(variant), [*ACTIONS, "DEF run m( putMarker m)"])


def test_a_task_of_your_own_that_declares_nothing_is_searched(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    lawn = find_task("lawn:LAWN").configure()
    found = bound(lawn, [WALK])
    assert found.exact
    assert found.value == 1.0
    rich = replace(lawn.task, ceiling=2.0, constants=lambda setting: Constants(pay=Fraction(2)))
    assert bound(rich.configure(), [WALK]).value == 2.0
    fickle = replace(lawn, task=replace(lawn.task, draws=lambda setting: True))
    with pytest.raises(ConfigError, match=r"no bound for Lawn .*tasks that declare an event_count"):
        bound(fickle, [WALK])


def test_too_many_states_are_refused(monkeypatch):
    monkeypatch.setattr(outcomes, "MOST_STATES", 1000)
    with pytest.raises(ConfigError, match="over 1,000 states"):
        bound(find_task("Seesaw").configure(), PRINTED["Seesaw"])


# ---------------------------------------------------------------- the command


def test_the_command_reads_a_file_of_programs(tmp_path, capsys):
    path = tmp_path / "modes.txt"
    path.write_text("\n".join(PRINTED["UpNDown"]) + "\n")
    assert BoundCommand(modes=str(path), task="UpNDown", json=True).run() == 0
    told = json.loads(capsys.readouterr().out)
    assert told["exact"] is True
    assert told["bound"] == pytest.approx(0.7958, abs=1e-4)
    assert told["ceiling"] == 0.91
    with pytest.raises(ConfigError, match="--task"):
        BoundCommand(modes=str(path)).run()


def test_the_command_shows_what_a_machine_earns_beside_it(tmp_path, capsys):
    rules = (Rule(0),)
    machine = ProgramMachine("UpNDown", PRINTED["UpNDown"][:1], DecisionList(rules, (rules,)))
    machine.save(tmp_path)
    assert BoundCommand(modes=str(tmp_path)).run() == 0
    out = capsys.readouterr().out
    assert "the best transitions earn" in out
    assert "(exact;" in out
    assert "the machine's transitions earn" in out


def test_the_command_reads_the_modes_of_a_search(tmp_path, capsys):
    modes = [{"program": program} for program in PRINTED["UpNDown"]]
    found = {"task": "UpNDown", "method": "pomp", "seed": 0, "modes": modes}
    (tmp_path / "modes.json").write_text(json.dumps(found))
    assert BoundCommand(modes=str(tmp_path), json=True).run() == 0
    assert json.loads(capsys.readouterr().out)["variant"] == "hipo"


def test_a_cost_of_macro_steps_is_taken_off_and_makes_long_modes_worth_more():
    setting = find_task("UpNDown").configure()
    short, long = f"DEF run m( {STEP_PAIR} m)", f"DEF run m( REPEAT R=9 r( {STEP_PAIR} r) m)"
    plain = [bound(setting, [mode]).value for mode in (short, long)]
    dear = [bound(setting, [mode], step_cost=1e-3).value for mode in (short, long)]
    assert 0 < plain[0] - dear[0] > plain[1] - dear[1] > 0
    assert bound(setting, [short, long], step_cost=1.0).value == 0
