"""What rules sense: perceptions, the compass, idleness; and lists of rules as such."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from pomp.core.errors import DataFileError, UnknownNameError
from pomp.engine.loading import kernels_of
from pomp.engine.starts import draw_starts, empty_worlds
from pomp.karel.sensor_set import SHIPPED
from pomp.karel.sensors import READING_TYPE, SENSORS
from pomp.karel.world import memory_of
from pomp.machine.config import EpisodeConfig
from pomp.machine.episodes import Episodes
from pomp.machine.sensors import SENSOR_NAMES, holds, print_condition, read_condition
from pomp.machine.transitions import DecisionList, Rule
from pomp.tasks.catalog import find_task
from pomp.tasks.random_world import RANDOM_WORLD

COUNT, WALL, ZERO = 15, 16, 32
STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))  # north, east, south, west
AHEAD, LEFT, RIGHT, BEHIND, NOWHERE = range(5)


def plain_compass(grid, row, col, facing):
    """Where the nearest marker is, as the definition says it."""
    markers = [
        (abs(r - row) + abs(c - col), r, c)
        for r, c in np.argwhere(grid & COUNT).tolist()
        if (r, c) != (row, col)
    ]
    if not markers:
        return NOWHERE
    _, r, c = min(markers)
    ahead, right = STEPS[facing], STEPS[(facing + 1) % 4]
    forward = (r - row) * ahead[0] + (c - col) * ahead[1]
    aside = (r - row) * right[0] + (c - col) * right[1]
    if abs(forward) >= abs(aside):
        return AHEAD if forward > 0 else BEHIND
    return RIGHT if aside > 0 else LEFT


@pytest.mark.parametrize("size", [(4, 4), (8, 8), (5, 13), (16, 16)], ids=str)
def test_the_compass_is_its_definition(size):
    setting = RANDOM_WORLD.configure(size=size)
    draw, count = np.random.default_rng(size), 400
    worlds = empty_worlds(setting, count)
    density = draw.choice([0.0, 0.02, 0.1, 0.5], count)[:, None]
    is_marked = draw.random(worlds.cells.shape) < density
    walls = np.where(draw.random(worlds.cells.shape) < 0.2, WALL, 0)
    flags = np.where(draw.random(worlds.cells.shape) < 0.5, ZERO, 0)
    cells, pose, *_ = memory_of(worlds)
    cells[:] = walls + flags + is_marked * draw.integers(1, 10, worlds.cells.shape)
    rows, cols = draw.integers(1, size[0] - 1, count), draw.integers(1, size[1] - 1, count)
    facing, idle = draw.integers(0, 4, count), draw.integers(0, 2, count).astype(np.uint8)
    pose[:] = (rows * size[1] + cols) * 4 + facing
    sense_worlds = kernels_of(setting.task).sense_worlds
    senses, bare = np.zeros((2, count), READING_TYPE)
    sense_worlds(setting.constants, memory_of(worlds), idle, True, senses)
    sense_worlds(setting.constants, memory_of(worlds), idle, False, bare)
    grids = worlds.cells.reshape(count, *size)
    expected = [plain_compass(*one) for one in zip(grids, rows, cols, facing, strict=True)]
    assert (senses >> 4 & 31 == 1 << np.array(expected)).all()
    assert (senses >> 9 == idle).all()
    assert (bare == senses & ~(31 << 4)).all()
    assert set(expected) == set(range(5))
    for bit, turn in ((0, 0), (1, 3), (2, 1)):
        steps = np.array(STEPS)[(facing + turn) % 4]
        beside = grids[np.arange(count), rows + steps[:, 0], cols + steps[:, 1]]
        assert ((senses >> bit & 1 == 1) == (beside & WALL == 0)).all()
    assert ((senses >> 3 & 1 == 1) == (grids[np.arange(count), rows, cols] & COUNT > 0)).all()


def plain_holds(condition, perceived, compass, idle):
    """A condition, given the perceptions that hold, the compass's reading and idleness."""
    words = {"marker ahead": 0, "marker left": 1, "marker right": 2, "marker behind": 3}
    sensor = condition.removeprefix("not ")
    if sensor == "idle":
        value = idle
    elif sensor in words or sensor == "no marker anywhere":
        value = words.get(sensor, 4) == compass
    else:
        value = sensor in perceived
    return value != condition.startswith("not ")


CONDITIONS = st.sampled_from([*SENSOR_NAMES, *(f"not {name}" for name in SENSOR_NAMES)])


@settings(max_examples=40)
@given(st.lists(st.lists(CONDITIONS, min_size=1, max_size=4), max_size=4))
def test_a_table_holds_what_the_rules_say(conditions):
    rules = (*(Rule(to, tuple(when)) for to, when in enumerate(conditions)), Rule(None))
    count = max(len(conditions), 1)
    table = DecisionList(rules, (rules,) * count).table()
    readings = SHIPPED.possible_readings()
    assert table.shape == (count + 1, len(readings)) == (count + 1, 160)
    assert len(set(readings.tolist())) == 160
    assert (table == table[0]).all()
    names = ("frontIsClear", "leftIsClear", "rightIsClear", "markersPresent")
    for column, senses in enumerate(readings.tolist()):
        perceived = {name for bit, name in enumerate(names) if senses >> bit & 1}
        perceived |= set() if "markersPresent" in perceived else {"noMarkersPresent"}
        situation = perceived, (senses >> 4 & 31).bit_length() - 1, senses >> 9 == 1
        fires = [all(plain_holds(one, *situation) for one in when) for when in conditions]
        assert table[0, column] == (fires.index(True) if any(fires) else count)


def test_idle_is_a_mode_without_an_action():
    setting = find_task("Snake").configure()
    worlds = draw_starts(setting, 1, 0)
    programs = ["DEF run m( IF c( markersPresent c) i( turnLeft i) m)", "DEF run m( turnLeft m)"]
    episodes = Episodes(setting, [programs], worlds, EpisodeConfig(), restarts=True)
    told = []
    for choice in (0, 1, 0, 0, 2):
        told.append((int(episodes.idle[0]), int(episodes.sense()[0]) >> 9))
        episodes.step(np.array([choice]))
    told.append((int(episodes.idle[0]), int(episodes.sense()[0]) >> 9))
    assert told == [(0, 0), (1, 1), (0, 0), (1, 1), (1, 1), (0, 0)]  # the last one: a new start


def test_the_bite_of_a_snake_is_an_action():
    setting = find_task("Snake").configure()
    worlds = draw_starts(setting, 1, 0)
    episodes = Episodes(setting, [["DEF run m( move m)"]], worlds, EpisodeConfig(), restarts=False)
    for _ in range(200):  # to and fro: a blocked snake turns round and bites itself
        episodes.step(np.zeros(1, np.int64))
        assert not episodes.idle[0]
    assert worlds.done[0]


def test_the_sensors_a_machine_uses_are_named():
    always = ((Rule(None),),)
    for when, name in (
        ("frontIsClear", "perceptions only"),
        ("not idle", "perceptions only"),
        ("not marker left", "with compass"),
        ("no marker anywhere", "with compass"),
    ):
        assert DecisionList((Rule(0, (when,)), Rule(None)), always).sensors == name
        assert DecisionList(always[0], ((Rule(0, (when,)), Rule(None)),)).sensors == name


def test_unknown_sensors_and_dead_rules_are_refused():
    with pytest.raises(UnknownNameError, match="Did you mean 'marker ahead'"):
        DecisionList((Rule(0, ("not marker ahed",)), Rule(None)), ((Rule(None),),))
    with pytest.raises(DataFileError, match="no other can fire"):
        DecisionList((Rule(0), Rule(None)), ((Rule(None),),))


def test_the_documentation_lists_the_sensors_of_the_table():
    text = (Path(__file__).parents[2] / "docs" / "MACHINES.md").read_text()
    told = dict(
        re.findall(r"^\| `([^`]+)` \| (.*) \|$", text.partition("## Sensors")[2], re.MULTILINE)
    )
    expected = {sensor.name: sensor.meaning for sensor in SENSORS}
    assert {name: told[name] for name in expected} == expected
    assert set(SENSOR_NAMES) <= set(told)


def test_mirror_images_of_sensors_are_each_others():
    images = SHIPPED.mirror_literals
    assert (images[images[:-1]] == np.arange(2 * len(SENSORS))).all()
    assert images[-1] == -1
    for sensor in SENSORS:
        expected = sensor.name.replace("left", "*").replace("right", "left").replace("*", "right")
        assert SENSORS[images[SHIPPED.literal_of(sensor.name)] >> 1].name == expected


def test_a_condition_is_a_literal_and_back():
    for name in SENSOR_NAMES:
        for condition in (name, f"not {name}"):
            again = print_condition(read_condition(condition))
            for reading in SHIPPED.possible_readings():
                assert holds(condition, reading) == holds(again, reading)
    assert read_condition("noMarkersPresent") == read_condition("not markersPresent")
