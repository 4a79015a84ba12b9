"""Recorded runs: every action, the loops' counters, error mode, branch coverage."""

import numpy as np
import pytest

from pomp.dsl.bytecode import compile_ids, compile_programs
from pomp.dsl.sampling import sample_programs
from pomp.engine.recording import record
from pomp.engine.rollouts import rollout
from pomp.engine.starts import begin, draw_starts
from pomp.karel.interpreter import Ending
from pomp.karel.world import Map
from pomp.tasks.catalog import TASKS
from pomp.tasks.random_world import RANDOM_WORLD

ROOM = "######\n#>...#\n#....#\n######"


def in_room(text=ROOM):
    start = Map.from_text(text)
    setting = RANDOM_WORLD.configure(size=start.grid.shape)
    return setting, begin(setting, [start], np.zeros(1, np.uint64))


# Each task's recording is compiled for it alone: five that differ most, and the rest if asked for.
QUICK = ("TopOff", "Snake", "DoorKey", "Seesaw", "InfHarvester")
RECORDED = [
    pytest.param(task, id=task.name, marks=[] if task.name in QUICK else [pytest.mark.slow])
    for task in TASKS
]


@pytest.mark.parametrize("task", RECORDED)
def test_a_recorded_run_is_the_same_run(task):
    setting = task.configure()
    code = compile_ids(sample_programs(60, 9))
    worlds = draw_starts(setting, 3, 0)
    plain = rollout(setting, code, worlds, keep_worlds=True)
    trace = record(setting, code, worlds, keep_cells=True)
    assert (trace.worlds.cells == plain.worlds.cells).all()
    assert (trace.worlds.memory == plain.worlds.memory).all()
    assert (trace.calls[:, 0] == plain.calls.ravel()).all()
    assert ((trace.ending[:, 0] == Ending.COMPLETED) == plain.completed.ravel()).all()
    counted = np.array(
        [trace.arrays.counted[lane, : trace.arrays.length[lane]].sum() for lane in range(180)]
    )
    assert (counted == plain.actions.ravel()).all()
    for lane in np.flatnonzero(trace.arrays.length):
        last = trace.arrays.length[lane] - 1
        assert (trace.arrays.cells[lane, last] == trace.worlds.cells[lane]).all()
        assert trace.arrays.pose[lane, last] == trace.worlds.pose[lane]
        rewards = trace.arrays.reward[lane, : last + 1].sum()
        assert rewards == pytest.approx(plain.returns.ravel()[lane], abs=1e-12)


def test_a_trace_tells_token_and_counters_of_every_action():
    program = "DEF run m( REPEAT R=2 r( move REPEAT R=3 r( turnLeft r) r) m)"
    setting, worlds = in_room()
    code = compile_programs([program], source=True)
    trace = record(setting, code, worlds).arrays
    tokens = [program.split()[code.source[0, pc]] for pc in trace.pc[0, : trace.length[0]]]
    assert tokens == ["move", "turnLeft", "turnLeft", "turnLeft"] * 2
    rounds = trace.counters[0, : trace.length[0], ::2].tolist()
    assert [row[0] for row in rounds] == [2] * 4 + [1] * 4
    assert [row[1] for row in rounds][1:4] == [3, 2, 1]


@pytest.mark.parametrize(
    ("program", "performed", "ending"),
    [
        ("DEF run m( move move move m)", 3, Ending.COMPLETED),
        ("DEF run m( move move move move move m)", 3, Ending.REFUSED),
        ("DEF run m( pickMarker m)", 0, Ending.REFUSED),
        ("DEF run m( putMarker pickMarker turnLeft m)", 3, Ending.COMPLETED),
        ("DEF run m( REPEAT R=12 r( putMarker r) m)", 9, Ending.REFUSED),
        ("DEF run m( WHILE c( frontIsClear c) w( turnLeft turnRight w) m)", 108, Ending.CAPPED),
    ],
)
def test_in_error_mode_an_impossible_action_ends_the_run(program, performed, ending):
    setting, worlds = in_room()
    trace = record(setting, [program], worlds, stop_on_error=True)
    assert trace.arrays.length[0] == performed
    assert trace.ending[0, 0] == ending


@pytest.mark.parametrize(
    ("program", "coverage"),
    [
        ("DEF run m( IF c( frontIsClear c) i( move i) m)", 0.5),
        ("DEF run m( WHILE c( frontIsClear c) w( move w) m)", 1.0),
        (
            "DEF run m( WHILE c( frontIsClear c) w( IF c( markersPresent c) i( move i) move w) m)",
            0.75,
        ),
        ("DEF run m( IF c( not c( frontIsClear c) c) i( move i) move m)", 0.5),
    ],
)
def test_coverage_counts_truth_values_of_conditions(program, coverage):
    setting, worlds = in_room()
    code = compile_programs([program])
    assert record(setting, code, worlds).coverage()[0] == coverage


def test_coverage_of_a_program_without_conditions_is_undefined():
    setting, worlds = in_room()
    code = compile_programs(["DEF run m( move m)"])
    assert np.isnan(record(setting, code, worlds).coverage()[0])


def test_actions_past_the_room_of_a_trace_are_performed_but_not_kept():
    setting, worlds = in_room()
    trace = record(setting, ["DEF run m( move move move m)"], worlds, most_actions=2)
    assert trace.arrays.length[0] == 3
    assert trace.arrays.action.shape == (1, 2)
    assert trace.worlds.col[0] == 4
