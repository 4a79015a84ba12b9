"""The door to compiled code: what the engine makes passes, what others made is checked."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest

from pomp.core.errors import ConfigError, WorldError
from pomp.dsl.bytecode import compile_programs
from pomp.dsl.sampling import sample_programs
from pomp.engine.checks import check_states, check_worlds
from pomp.engine.recording import record
from pomp.engine.rollouts import act_on, advance, rollout
from pomp.engine.starts import draw_starts
from pomp.karel.dynamics import WALL
from pomp.karel.interpreter import Cap
from pomp.karel.world import join_worlds
from pomp.tasks.catalog import TASKS, find_task

MOVE = ["DEF run m( move m)"]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_steps_keep_worlds_sound(task):
    setting, programs = task.configure(), sample_programs(40, 0)
    worlds = draw_starts(setting, 40, 0)
    for turn in range(5):
        advance(setting, programs, worlds, np.roll(np.arange(40), turn), cap="actions60")
        check_states(setting, worlds)
    actions = np.random.default_rng(0).integers(0, 5, (400, 40))
    for row in actions:
        act_on(setting, worlds, row)
    check_states(setting, worlds)


def test_worlds_of_the_engine_are_checked_already_and_stay_so():
    setting = find_task("Snake").configure()
    worlds = draw_starts(setting, 3, 0)
    kept = rollout(setting, MOVE, worlds, keep_worlds=True).worlds
    made = [worlds, worlds.copy(), worlds[1], join_worlds([worlds, worlds]), kept]
    made.append(record(setting, MOVE, worlds).worlds)
    assert all(one.checked_for is setting.task for one in made)


@pytest.mark.parametrize(
    "change", [replace, lambda one: pickle.loads(pickle.dumps(one)), copy.deepcopy]
)
def test_worlds_that_come_from_elsewhere_are_checked_once(change):
    setting = find_task("Snake").configure()
    worlds = change(draw_starts(setting, 3, 0))
    assert worlds.checked_for is None
    check_worlds(setting, worlds)
    assert worlds.checked_for is setting.task


def test_worlds_do_not_share_memory_with_what_they_were_made_of():
    worlds = draw_starts(find_task("Snake").configure(), 3, 0)
    pose = np.array(worlds.pose)
    other = replace(worlds, pose=pose)
    pose[:] = 2**31 - 1
    np.testing.assert_array_equal(other.pose, worlds.pose)


def test_a_kind_of_worlds_is_checked_for_each_task():
    snake, other = find_task("Snake").configure(), replace(find_task("Snake")).configure()
    worlds = draw_starts(snake, 3, 0)
    check_worlds(other, worlds)
    assert worlds.checked_for is other.task


@pytest.mark.parametrize(
    ("field", "change", "message"),
    [
        ("pose", lambda pose: pose * 0 + 4, "world 0 cannot be used: the agent stands outside"),
        ("cells", lambda cells: cells & ~np.uint8(WALL), "the outer ring"),
        ("memory", lambda memory: memory * 0, "units above zero"),
        ("memory", lambda memory: memory + 99, "no state of Snake"),
        ("memory", lambda memory: memory[:, :-1], "33 integers of memory, got 32"),
    ],
)
def test_worlds_that_no_kernel_could_run_are_refused(field, change, message):
    setting = find_task("Snake").configure()
    worlds = draw_starts(setting, 3, 0)
    wrong = replace(worlds, **{field: change(getattr(worlds, field))})
    with pytest.raises(WorldError, match=message):
        rollout(setting, MOVE, wrong)


def test_code_is_made_by_the_compiler_alone():
    code = compile_programs(MOVE)
    with pytest.raises(ConfigError, match="compile_programs and compile_ids alone"):
        replace(code, depth=0)


def test_a_setting_is_checked_however_it_is_made():
    with pytest.raises(ConfigError, match="8x8, its food list, got 9x8"):
        replace(find_task("Snake").configure(), height=9)


def test_a_cap_has_an_upper_limit():
    setting = find_task("Snake").configure()
    with pytest.raises(ConfigError, match="at most 1000000, a whole number, got 4611"):
        rollout(setting, MOVE, draw_starts(setting, 1, 0), cap=Cap(True, 2**62))
