"""The settings of the searches, as published."""

from dataclasses import replace

import pytest

from pomp import TASKS
from pomp.modes import configure

LEAPS_TABLE = {
    "StairClimber": ("tiny_normal", 32, 0.05, 0.25, True),
    "FourCorner": ("tiny_normal", 64, 0.2, 0.5, False),
    "TopOff": ("tiny_normal", 64, 0.05, 0.25, False),
    "Maze": ("ones", 16, 0.1, 0.1, False),
    "CleanHouse": ("ones", 32, 0.05, 0.25, True),
    "Harvester": ("normal", 32, 0.1, 0.5, True),
    "DoorKey": (None, 32, 0.1, 0.25, False),
    "OneStroke": (None, 64, 0.05, 0.5, True),
    "Seeder": (None, 32, 0.1, 0.25, False),
    "Snake": (None, 32, 0.2, 0.25, False),
}


@pytest.mark.parametrize("name", LEAPS_TABLE)
def test_leaps_has_its_published_settings(name):
    config = configure("leaps", "paper", name)
    cem, score = config.proposer, config.score
    init, *others = LEAPS_TABLE[name]
    assert [cem.population, cem.elite_fraction, cem.sigma, cem.decay] == others
    assert init is None or cem.init == init
    assert (cem.reduce, cem.keep, cem.stop) == ("weighted_mean", "last", "solved")
    assert (cem.final_sigma, cem.solved_score) == (0.1, 1.1)
    assert (cem.iterations, score.invalid, score.redraw, score.bonus) == (1000, 0.01, 100, 0.1)
    assert (config.mode.modes, config.mode.runs, config.mode.lists) == (1, 1, False)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_the_method_of_the_paper_has_its_settings(task):
    config = configure("pomp", "paper", task.name)
    assert (
        replace(config.proposer, reduce="weighted_mean", stop="converged")
        == type(config.proposer)()
    )
    assert (config.proposer.reduce, config.proposer.stop) == ("mean", "never")
    assert (config.mode.runs, config.mode.lists, config.mode.diversity) == (10, True, "modes")
    assert config.mode.modes == (3 if task.name in ("Seesaw", "UpNDown", "InfHarvester") else 5)
    assert (config.mode.select, config.mode.least_list) == ("diversified", "ten")
    assert (config.score.bonus, config.score.invalid, config.score.discount) == (0.0, -1.0, 1.0)
    assert (config.mode.shared_draws, config.score.fresh_draws) == (False, False)
    assert config.embedding == "paper"
    assert (config.score.redraw, config.score.temperature) == (0, 1.0)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_the_published_code_has_its_own(task):
    config = configure("pomp", "code", task.name)
    assert config.proposer == type(config.proposer)()
    assert (config.mode.runs, config.mode.lists, config.mode.diversity) == (10, True, "modes+runs")
    assert config.mode.select == "undiversified"
    assert config.mode.least_list == ("square" if task.name == "Farmer" else "ten")
    assert (config.score.bonus, config.score.invalid, config.score.discount) == (0.1, -1.0, 1.0)
    assert config.mode.shared_draws
    assert config.score.fresh_draws
    assert config.embedding == "paper"
