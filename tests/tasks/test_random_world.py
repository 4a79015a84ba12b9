"""Random worlds: the task that demonstrations are recorded in."""

import numpy as np
import pytest

from pomp.engine.starts import draw_starts
from pomp.karel.dynamics import COUNT, WALL
from pomp.tasks.catalog import find_task
from pomp.tasks.random_world import RANDOM_WORLD


def test_random_worlds_have_the_asked_for_walls_and_markers():
    setting = RANDOM_WORLD.configure(options={"walls": "0.25", "markers": "0.1"})
    worlds = draw_starts(setting, 4000, 0)
    inner = worlds.grid[:, 1:-1, 1:-1]
    is_wall = inner & WALL != 0
    assert is_wall.mean() == pytest.approx(0.25, abs=0.01)
    assert (inner & COUNT)[~is_wall].mean() == pytest.approx(0.1, abs=0.01)
    assert not (worlds.grid[np.arange(4000), worlds.row, worlds.col] & WALL).any()
    assert np.bincount(worlds.facing) == pytest.approx(1000, abs=150)


def test_a_world_of_walls_alone_still_has_a_place_for_the_agent():
    worlds = draw_starts(RANDOM_WORLD.configure(options={"walls": "1"}), 10, 0)
    assert ((worlds.grid[:, 1:-1, 1:-1] & WALL == 0).sum(axis=(1, 2)) == 1).all()


def test_tasks_of_ones_own_need_no_registration():
    assert find_task("pomp.tasks.random_world:RANDOM_WORLD") is RANDOM_WORLD
