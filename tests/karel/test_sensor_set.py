"""Sets of sensors: one's own beside those of the package."""

import numpy as np
import pytest

from mutating import mutate_rules
from pomp.core import ConfigError
from pomp.engine.starts import draw_starts
from pomp.evolution.config import EvolveConfig
from pomp.evolution.genome import askable, first_machines, mirror
from pomp.karel import Sensor, SensorSet, scalar
from pomp.karel.sensor_set import MOST_OWN, SHIPPED
from pomp.karel.sensors import SENSORS
from pomp.machine import DecisionList, EpisodeConfig, Episodes, Rule
from pomp.tasks import RANDOM_WORLD
from seeing import NAMES, SIGHT

COUNT, WALL = 15, 16
STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))  # north, east, south, west


@scalar
def is_north(cells, constants, pose):
    return pose & 3 == 0


@scalar
def facing(cells, constants, pose):
    return pose & 3


@scalar
def with_turn(cells, constants, pose, turn):
    return False


@scalar
def unknown(cells, constants, pose):
    return cells.nothing


def sensor(name="north", read=is_north, **changes):
    return Sensor(name=name, holds="it looks north", fails="it does not", read=read, **changes)


def plain_sight(grid, row, col, facing, turn):
    """Whether a marker stands before the next wall, as the definition says it."""
    down, right = STEPS[(facing + turn) % 4]
    while True:
        row, col = row + down, col + right
        if grid[row, col] & WALL:
            return False
        if grid[row, col] & COUNT:
            return True


def test_readings_hold_what_own_sensors_say():
    setting = RANDOM_WORLD.configure()
    worlds = draw_starts(setting, 300, 3)
    episodes = Episodes(setting, [["DEF run m( move m)"]], worlds, EpisodeConfig(), restarts=False)
    readings = episodes.sense(own=SIGHT)
    assert (readings % 1024 == episodes.sense()).all()
    grids = worlds.cells.reshape(300, setting.height, setting.width)
    for world, (grid, pose) in enumerate(zip(grids, worlds.pose.tolist(), strict=True)):
        row, col = divmod(pose >> 2, setting.width)
        seen = [plain_sight(grid, row, col, pose & 3, turn) for turn in (0, 3, 1)]
        assert readings[world] >> 10 == sum(one << bit for bit, one in enumerate(seen))
    assert len(set((readings >> 10).tolist())) == 8


def test_rules_ask_for_them_by_name():
    rules = (Rule(0, ("marker in sight", "not marker in sight left")), Rule(None))
    chosen = DecisionList(rules, (rules,), SIGHT)
    readings = np.arange(8) << 10
    assert chosen.choices(readings)[0].tolist() == [1, 0, 1, 1, 1, 0, 1, 1]
    assert chosen.sensors == "with marker in sight and marker in sight left"
    assert chosen.table().shape == (2, 160 * 8)
    assert len(set(chosen.known.possible_readings().tolist())) == 160 * 8
    assert chosen.trimmed() == chosen  # right is the mirror image of left
    ahead = DecisionList((Rule(0, ("marker in sight",)), Rule(None)), (rules[1:],), SIGHT)
    assert ahead.trimmed().own == SIGHT[:1]


def test_mutations_draw_all_sensors_and_without_own_what_they_drew():
    own = EvolveConfig(own_sensors=NAMES)
    assert askable(EvolveConfig()).tolist() == [0, 1, 2, 3, 9]
    assert askable(EvolveConfig(sensors="compass")).tolist() == list(range(10))
    assert askable(own).tolist() == [0, 1, 2, 3, 9, 10, 11, 12]
    machines = first_machines(np.zeros((300, 8), np.uint8))
    streams, everyone = np.arange(300, dtype=np.uint64), np.ones(300, np.bool_)
    mutate_rules(machines, 8 * list(range(300)), streams, askable(own))
    asked = set((machines.literals[machines.literals >= 0] >> 1).tolist())
    assert asked == set(askable(own).tolist())
    turned = machines.copy()
    mirror(turned, everyone, SensorSet(SIGHT))
    left, right = (2 * number for number in (11, 12))
    assert ((machines.literals == left) == (turned.literals == right)).all()
    assert ((machines.literals == right + 1) == (turned.literals == left + 1)).all()
    assert ((machines.literals == 20) == (turned.literals == 20)).all()


def test_the_packages_sensors_keep_their_numbers():
    known = SensorSet(SIGHT)
    assert known.rows[: len(SENSORS)] == SENSORS == SHIPPED.rows
    assert (known.mirror_literals[:20] == SHIPPED.mirror_literals[:20]).all()


@pytest.mark.parametrize(
    ("own", "says"),
    [
        (
            [sensor(f"north{n}") for n in range(MOST_OWN + 1)],
            "at most 5 sensors of your own",
        ),
        ([sensor("frontIsClear")], "the sensor name 'frontIsClear' is taken"),
        ([sensor("noMarkersPresent")], "the sensor name 'noMarkersPresent' is taken"),
        ([sensor("compass")], "the sensor name 'compass' is taken"),
        ([sensor(), sensor()], "the sensor name 'north' is taken"),
        ([sensor(contrary="idle")], "the sensor name 'idle' is taken"),
        ([SIGHT[1]], "'marker in sight right', which is not among the sensors; name it too"),
        ([sensor(mirror="leftIsClear")], "'leftIsClear', which is not among the sensors"),
        ([sensor("a", mirror="b"), sensor("b")], "is 'b', but not the other way round"),
        ([sensor(read=facing)], "read of sensor 'north' must return a bool, got int64"),
        ([sensor(read=unknown)], "sensor 'north' cannot be compiled: Unknown attribute 'nothing'"),
        ([SENSORS[0]], "expected a Sensor of your own"),
        (["sight:AHEAD"], "expected a Sensor of your own"),
    ],
)
def test_sensors_that_do_not_go_together_are_refused(own, says):
    with pytest.raises(ConfigError) as caught:
        SensorSet(tuple(own))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": "wall and marker"}, "none of them 'and' or 'not', got 'wall and marker'"),
        ({"name": "not here"}, "none of them 'and' or 'not'"),
        ({"name": "two  blanks"}, "a sensor's name is words"),
        ({"name": "a->b"}, "a sensor's name is words"),
        ({"name": ""}, "a sensor's name is words"),
        ({"name": 3}, "a sensor's name is words"),
        ({"contrary": "#"}, "a sensor's name is words"),
        ({"read": None}, "sensor 'north' needs read(cells, constants, pose), got none"),
        ({"read": lambda cells, constants, pose: True}, "is not compiled: put @scalar on it"),
        ({"read": with_turn}, "got read(cells, constants, pose, turn)"),
    ],
)
def test_what_a_sensor_lacks_is_told(changes, says):
    with pytest.raises(ConfigError) as caught:
        sensor(**changes)
    assert says in str(caught.value)


def test_a_sensor_says_what_it_says_in_words():
    with pytest.raises(ConfigError, match="needs holds and fails"):
        Sensor(name="north", holds="", fails="it does not", read=is_north)
    assert sensor("northward notes").name == "northward notes"
