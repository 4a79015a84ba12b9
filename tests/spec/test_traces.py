"""Recorded runs: branch coverage and the error mode of the program dataset."""

import math

import pytest
from playing import agent, bare_world

from pomp.dsl import compile_programs
from pomp.engine import record

CORRIDOR = "#####\n#>..#\n#####"


def traced(body, text=CORRIDOR, **settings):
    setting, worlds = bare_world(text)
    code = compile_programs([f"DEF run m( {body} m)"], source=True)
    return record(setting, code, worlds, **settings), code


@pytest.mark.parametrize(
    ("body", "share"),
    [
        ("IF c( frontIsClear c) i( move i)", 1 / 2),
        ("IF c( not c( frontIsClear c) c) i( move i)", 1 / 2),
        ("WHILE c( frontIsClear c) w( move w)", 1),
        ("WHILE c( markersPresent c) w( move w)", 1 / 2),
        ("WHILE c( noMarkersPresent c) w( putMarker w)", 1),
        ("IFELSE c( frontIsClear c) i( move i) ELSE e( turnLeft e)", 1 / 2),
        ("REPEAT R=3 r( IF c( frontIsClear c) i( move i) r)", 1),
        ("IF c( markersPresent c) i( IF c( frontIsClear c) i( move i) i)", 1 / 4),
        ("IF c( frontIsClear c) i( move i) WHILE c( frontIsClear c) w( move w)", 3 / 4),
        ("REPEAT R=0 r( IF c( frontIsClear c) i( move i) r) move", 0),
    ],
)
def test_coverage_is_the_share_of_conditions_and_answers_seen(body, share):
    trace, _ = traced(body)
    assert trace.coverage()[0] == pytest.approx(share)


def test_coverage_is_undefined_without_a_condition():
    trace, _ = traced("move")
    assert math.isnan(trace.coverage()[0])


@pytest.mark.parametrize("body", ["move move move turnLeft", "pickMarker turnLeft"])
def test_in_error_mode_a_failed_action_ends_the_run(body):
    assert traced(body)[0].ending[0, 0] == 0  # completed
    trace, _ = traced(body, stop_on_error=True)
    assert trace.ending[0, 0] != 0


def test_in_error_mode_a_put_at_the_limit_ends_the_run():
    nine = " ".join(["putMarker"] * 9)
    assert traced(nine, stop_on_error=True)[0].ending[0, 0] == 0
    assert traced(f"{nine} putMarker", stop_on_error=True)[0].ending[0, 0] != 0


def test_in_error_mode_the_actions_before_the_failure_stand():
    trace, _ = traced("move move move turnLeft", stop_on_error=True)
    assert agent(trace.worlds)[:2] == (1, 3)
    assert trace.arrays.action[0, :2].tolist() == [0, 0]


def test_a_trace_shows_pose_and_cells_after_every_action():
    trace, _ = traced("move putMarker turnLeft", keep_cells=True)
    poses = trace.arrays.pose[0, :3]
    assert [(pose >> 2, pose & 3) for pose in poses.tolist()] == [(7, 1), (7, 1), (7, 0)]
    assert (trace.arrays.cells[0, :3, 7] & 15).tolist() == [0, 1, 1]


def test_a_recorded_list_runs_all_its_programs():
    setting, worlds = bare_world(CORRIDOR)
    parts = ["DEF run m( move m)", "DEF run m( putMarker turnLeft m)"]
    trace = record(setting, parts, worlds, lists=[[0, 1, 0]])
    assert trace.arrays.length[0] == 4
    assert trace.arrays.action[0, :4].tolist() == [0, 4, 1, 0]
    assert trace.arrays.program[0, :4].tolist() == [0, 1, 1, 2]
    assert trace.calls[0].tolist() == [2, 5, 2]


def test_in_error_mode_a_failed_action_ends_the_whole_list():
    setting, worlds = bare_world(CORRIDOR)
    parts = ["DEF run m( pickMarker m)", "DEF run m( move m)"]
    trace = record(setting, parts, worlds, lists=[[0, 1]], stop_on_error=True)
    assert agent(trace.worlds)[:2] == (1, 1)
    assert trace.ending[0, 1] == -1
