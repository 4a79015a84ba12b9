"""What rules can count."""

import re
from pathlib import Path

import numpy as np
import pytest
from counting import plain_counts

from pomp.core.errors import ConfigError, UnknownNameError
from pomp.engine.rule_lists import choose_by_rules, count_worlds
from pomp.engine.starts import empty_worlds
from pomp.karel.counts import COUNTS
from pomp.karel.sensor_set import SHIPPED
from pomp.karel.world import memory_of
from pomp.machine.rule_arrays import pack_rules
from pomp.machine.sensors import COUNT_NAMES, SENSOR_NAMES, check_condition, describe_condition
from pomp.machine.transitions import DecisionList, Rule
from pomp.tasks.random_world import RANDOM_WORLD

WALL, ZERO = 16, 32


def random_worlds(size, count):
    """Worlds with walls, flags and markers anywhere, and a ring of walls."""
    setting, draw = RANDOM_WORLD.configure(size=size), np.random.default_rng(size)
    worlds = empty_worlds(setting, count)
    shape = (count, *size)
    marked = draw.random(shape) < draw.choice([0.0, 0.02, 0.5], count)[:, None, None]
    grid = np.where(draw.random(shape) < 0.2, WALL, 0) + np.where(draw.random(shape) < 0.5, ZERO, 0)
    grid = grid + marked * draw.integers(1, 10, shape)
    grid[:, [0, -1]] = grid[:, :, [0, -1]] = WALL
    memory_of(worlds).cells[:] = grid.reshape(count, -1)
    rows, cols = draw.integers(1, size[0] - 1, count), draw.integers(1, size[1] - 1, count)
    memory_of(worlds).pose[:] = (rows * size[1] + cols) * 4 + draw.integers(0, 4, count)
    return setting, worlds


@pytest.mark.parametrize("size", [(4, 4), (8, 8), (5, 13)], ids=str)
def test_counts_are_what_their_documentation_says(size):
    setting, worlds = random_worlds(size, 200)
    counts = count_worlds(setting, worlds)
    for number, (grid, pose) in enumerate(zip(worlds.grid, worlds.pose.tolist(), strict=True)):
        row, col = divmod(pose >> 2, size[1])
        expected = plain_counts(grid.astype(int), row, col, pose & 3)
        assert dict(zip(COUNT_NAMES, counts[number].tolist(), strict=True)) == expected
    assert (counts.max(axis=0) > 0).all()


def random_rules(draw, modes):
    """A list of rules with up to three conditions each, some of which contradict each other."""

    def condition():
        text = draw.choice(SENSOR_NAMES)
        if draw.random() < 0.6:
            text = f"{draw.choice(COUNT_NAMES)} {draw.choice(['at least', 'below'])} "
            text += str(draw.integers(0, 8))
        return "not " * int(draw.random() < 0.3) + str(text)

    def target():
        to = int(draw.integers(modes + 1))
        return None if to == modes else to

    rules = [
        Rule(target(), tuple(condition() for _ in range(draw.integers(1, 4))))
        for _ in range(draw.integers(0, 6))
    ]
    return (*rules, Rule(target()))


def test_compiled_rules_choose_what_plain_ones_do():
    setting, worlds = random_worlds((8, 8), 300)
    draw, counts = np.random.default_rng(3), count_worlds(setting, worlds)
    senses = draw.integers(0, 1 << 10, len(worlds)).astype(np.int16)
    mode = draw.integers(-1, 3, len(worlds))
    machines = [
        DecisionList(random_rules(draw, 3), tuple(random_rules(draw, 3) for _ in range(3)))
        for _ in range(20)
    ]
    chosen = set()
    for rules in machines:
        arrays = pack_rules([(rules.start, *rules.after)], SHIPPED)
        found = choose_by_rules(setting, worlds, arrays, mode, senses)
        expected = rules.choices(senses, counts)[mode + 1, np.arange(len(worlds))]
        assert (found == expected).all()
        chosen |= set(found.tolist())
    assert chosen == {0, 1, 2, 3}
    several = pack_rules([(one.start, *one.after) for one in machines[:3]], SHIPPED)
    found = choose_by_rules(setting, worlds, several, mode, senses).reshape(3, -1)
    for number, rules in enumerate(machines[:3]):
        part = slice(number * 100, (number + 1) * 100)
        expected = rules.choices(senses[part], counts[part])[mode[part] + 1, np.arange(100)]
        assert (found[number] == expected).all()


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("markers at least 5", "there are at least 5 markers in the world"),
        ("not markers at least 5", "there are fewer than 5 markers in the world"),
        ("not row below 3", "the row is at least 3"),
        ("free ahead below 2", "there are fewer than 2 free cells ahead, up to the wall"),
        ("way left at least 3", "the nearest marker is at least 3 cells to the left"),
    ],
)
def test_a_count_is_described_in_words(condition, words):
    check_condition(condition)
    assert describe_condition(condition) == words


@pytest.mark.parametrize(
    ("condition", "error", "says"),
    [
        ("makers at least 5", UnknownNameError, "unknown count 'makers'. Did you mean 'markers'?"),
        ("markers at least", ConfigError, "compared with a whole number up to 999999, got nothing"),
        ("markers at least five", ConfigError, "whole number up to 999999, got 'five'"),
        ("markers below -1", ConfigError, "whole number up to 999999, got '-1'"),
        ("not markers", ConfigError, "'markers' is a count; expected 'markers at least N'"),
        ("markers over 5", UnknownNameError, "unknown sensor 'markers over 5'"),
        ("at least 5", UnknownNameError, "unknown count ''"),
    ],
)
def test_a_condition_that_compares_nothing_is_refused(condition, error, says):
    with pytest.raises(error, match=re.escape(says)):
        check_condition(condition)


def test_the_documentation_lists_every_count():
    text = (Path(__file__).parents[2] / "docs" / "MACHINES.md").read_text()
    for count in COUNTS:
        assert f"| `{count.name}` | {count.meaning} |" in text
