"""Tasks on grids of any size: those that can have it begin there, the others say what they take."""

import numpy as np
import pytest

from pomp.core.errors import ConfigError
from pomp.engine.starts import draw_starts
from pomp.karel.dynamics import WALL
from pomp.machine.config import EpisodeConfig
from pomp.machine.episodes import Episodes
from pomp.tasks.catalog import TASKS, find_task

FIXED = ("CleanHouse", "DoorKey", "Snake", "InfDoorKey")


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_a_task_begins_on_the_largest_grid_or_says_what_it_takes(task):
    if task.name in FIXED:
        with pytest.raises(ConfigError, match=rf"{task.name} takes a grid of \d+x\d+, its "):
            task.configure(size=(128, 128))
    else:
        worlds = draw_starts(task.configure(size=(128, 128)), 2, 0)
        assert (worlds.grid[:, [0, -1]] & WALL).all()
    with pytest.raises(ConfigError, match="takes a grid of"):
        task.configure(size=(129, 129))


def test_a_large_maze_is_one_tree_over_all_its_nodes():
    setting = find_task("Maze").configure(size=(100, 100))
    for grid in draw_starts(setting, 3, 0).grid & WALL:
        free = {(int(row), int(col)) for row, col in np.argwhere(grid == 0)}
        nodes = 49 * 49
        assert len(free) == 2 * nodes - 1  # a passage for each node but the first
        reached, pending = set(), [(98, 1)]
        while pending:
            row, col = pending.pop()
            if (row, col) in free - reached:
                reached.add((row, col))
                pending += [(row - 1, col), (row + 1, col), (row, col - 1), (row, col + 1)]
        assert reached == free


def test_a_maze_has_a_cell_for_its_marker():
    """A grid of 4x4 has one node; the marker was written outside of it."""
    maze = find_task("Maze")
    with pytest.raises(ConfigError, match="at least 4x5 or 5x4, got 4x4"):
        maze.configure(size=(4, 4))
    for size in ((4, 5), (5, 4)):
        assert len(maze.configure(size=size).list_starts()) == 2


def test_starts_of_a_large_maze_are_too_many_to_list():
    for size in ((20, 20), (100, 100)):
        with pytest.raises(ConfigError, match=r"Maze at \d+x\d+ has too many starts to list"):
            find_task("Maze").configure(size=size).list_starts()


@pytest.mark.parametrize(
    ("name", "size", "scale", "most"),
    [
        ("Maze", None, 1, 1000),
        ("Maze", (4, 5), 1, 1000),
        ("Maze", (9, 8), 1, 2000),
        ("Maze", (100, 100), 1, 157_000),
        ("Farmer", (16, 16), 2, 8000),
    ],
)
def test_an_episode_may_run_modes_in_proportion_to_cells_and_scale(name, size, scale, most):
    setting = find_task(name).configure(size=size, scale=scale)
    worlds, modes = draw_starts(setting, 1, 0), [["DEF run m( turnLeft m)"]]
    episodes = Episodes(setting, modes, worlds, EpisodeConfig(), restarts=False)
    episodes.taken[0] = most - 2
    for ending in (0, 2):  # it goes on; it is stopped
        episodes.step(np.zeros(1, np.int64))
        assert episodes.ending[0] == ending
