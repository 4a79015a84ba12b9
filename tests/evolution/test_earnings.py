"""What a machine earns in a search: as its text does."""

from dataclasses import replace

import numpy as np
import pytest
from drawing import COMPASS, PLAIN, random_machines

from pomp.dsl.vocabulary import LEAPS
from pomp.engine.starts import draw_starts
from pomp.evolution.config import BUDGETS, INTERRUPTED
from pomp.evolution.genome import (
    first_machines,
)
from pomp.evolution.play import play_machines
from pomp.evolution.texts import to_program_machine
from pomp.karel.sensor_set import SensorSet
from pomp.machine.evaluation import play
from pomp.machine.text import parse_machine, print_machine
from pomp.tasks.catalog import find_task
from seeing import NAMES, SIGHT


@pytest.mark.parametrize("name", ["UpNDown", "Farmer", "InfHarvester"])
def test_machines_earn_what_their_texts_earn(name: str) -> None:
    setting = find_task(name).configure()
    machines = random_machines(12, 3, seed=3)
    worlds = draw_starts(setting, 5, 1)
    found = play_machines(setting, machines, worlds, PLAIN, budgets=(220,))
    told = [
        play(to_program_machine(setting, machines, row), setting, worlds.copy(), None)
        for row in range(len(machines))
    ]
    np.testing.assert_allclose(found.scores, [one.returns.mean() for one in told], atol=1e-12)
    ran = [one.programs.sum() for one in told]
    assert all(found.programs <= ran), "idle machines are cut short, others run to their end"
    ended = np.array([one.ended.all() for one in told])
    assert (found.programs[ended] == np.array(ran)[ended]).all()
    assert (found.actions == [one.actions.sum() for one in told]).all()
    assert np.ptp(found.scores) > 0  # else the comparison would say little


def test_rules_that_ask_for_own_sensors_earn_what_their_texts_earn() -> None:
    setting, config = find_task("UpNDown").configure(), replace(PLAIN, own_sensors=NAMES)
    machines, worlds = random_machines(24, 3, seed=3, config=config), draw_starts(setting, 5, 1)
    assert (machines.literals >= 2 * 10).any()
    found = play_machines(setting, machines, worlds, config, budgets=(220,))
    told = [
        play(
            to_program_machine(setting, machines, row, SensorSet(SIGHT)),
            *(setting, worlds.copy(), None),
        )
        for row in range(len(machines))
    ]
    np.testing.assert_allclose(found.scores, [one.returns.mean() for one in told], atol=1e-12)
    blind = machines.copy()
    blind.literals[machines.literals >= 2 * 10] = 2 * 9  # idle instead
    assert (
        play_machines(setting, blind, worlds, PLAIN, budgets=(220,)).scores != found.scores
    ).any()


def test_a_lucky_episode_counts_in_full() -> None:
    """Inf-Harvester's may be worth more than its ceiling, which is that of the expectation."""
    setting = find_task("UpNDown").configure()
    machines, worlds = random_machines(12, 3, seed=3), draw_starts(setting, 5, 1)
    low = replace(setting, task=replace(setting.task, ceiling=-20.0))
    usual, lucky = (play_machines(one, machines, worlds, COMPASS).scores for one in (setting, low))
    assert (usual == lucky).all()


def test_texts_of_machines_can_be_read_again() -> None:
    setting = find_task("UpNDown").configure()
    machines = random_machines(12, 3, seed=5)
    for row in range(len(machines)):
        machine = to_program_machine(setting, machines, row)
        again = parse_machine(print_machine(machine))
        assert (again.modes, again.transition) == (machine.modes, machine.transition)


def test_an_episode_counts_with_the_least_of_the_budgets_less_the_difference() -> None:
    setting = find_task("Farmer").configure()
    machines, worlds = random_machines(64, 2, seed=1), draw_starts(setting, 3, 0)
    single = {
        budget: [
            play_machines(setting, machines, worlds.take([world]), PLAIN, budgets=(budget,)).scores
            for world in range(3)
        ]
        for budget in BUDGETS
    }
    earned = np.array([single[budget] for budget in BUDGETS])
    expected = (2 * earned.min(axis=0) - earned.max(axis=0)).mean(axis=0)
    found = play_machines(setting, machines, worlds, PLAIN)
    np.testing.assert_allclose(found.scores, expected, atol=1e-12)
    spread = np.ptp([np.mean(single[budget], axis=0) for budget in BUDGETS], axis=0)
    assert (spread > 0).any()  # some of them do depend on it


def test_what_is_lost_by_interruptions_counts_a_little() -> None:
    setting = find_task("Farmer").configure()
    machines, worlds = random_machines(64, 2, seed=1), draw_starts(setting, 1, 0)
    usual, brief = (
        play_machines(setting, machines, worlds, PLAIN, budgets=(budget,)).scores
        for budget in (220, INTERRUPTED)
    )
    fragile = replace(PLAIN, fragility=0.25)
    found = play_machines(setting, machines, worlds, fragile, budgets=(220,)).scores
    np.testing.assert_allclose(found, usual - 0.25 * np.maximum(usual - brief, 0), atol=1e-12)
    assert (found < usual).any()


def test_a_machine_that_runs_forever_pays_the_penalty_once_a_world() -> None:
    setting = find_task("UpNDown").configure()
    spin = np.full((1, 40), LEAPS.pad, np.uint8)
    tokens = LEAPS.encode(("DEF", "run", "m(", "turnLeft", "m)"))
    spin[0, : len(tokens)] = tokens
    machines, worlds = first_machines(spin), draw_starts(setting, 4, 0)
    free = play_machines(setting, machines, worlds, replace(COMPASS, penalty=0.0))
    fined = play_machines(setting, machines, worlds, COMPASS)
    assert fined.stuck[0] == free.stuck[0] == 4
    assert fined.scores[0] == pytest.approx(free.scores[0] - COMPASS.penalty)
    assert free.actions[0] == 4 * COMPASS.patience


def test_a_machine_that_goes_on_when_all_is_done_pays_a_little() -> None:
    setting = find_task("StairClimber").configure()
    worlds = draw_starts(setting, 4, 0)
    climb = np.full((1, 40), LEAPS.pad, np.uint8)
    tokens = LEAPS.encode(["DEF", "run", "m(", "turnLeft", "move", "turnRight", "move", "m)"])
    climb[0, : len(tokens)] = tokens
    on, off = first_machines(climb), first_machines(climb)
    off.literals[0, 0, 0, 0] = 2 * 3  # markersPresent
    scores = [play_machines(setting, one, worlds, COMPASS).scores[0] for one in (on, off)]
    assert scores == pytest.approx([1.0 - COMPASS.lateness, 1.0])


def test_threads_make_no_difference() -> None:
    setting = find_task("UpNDown").configure()
    machines, worlds = random_machines(40, 3, seed=4), draw_starts(setting, 3, 0)
    one, all_ = (
        play_machines(setting, machines, worlds, COMPASS, threads=threads) for threads in (1, None)
    )
    assert one.scores.tobytes() == all_.scores.tobytes()


def test_a_text_names_what_is_unusual_about_its_task() -> None:
    machines = random_machines(1, 2, seed=6)
    for given in ({}, {"psi": "1/3000"}):
        setting = find_task("UpNDown").configure(None, given)
        machine = to_program_machine(setting, machines)
        assert ("option psi 1/3000" in print_machine(machine)) == bool(given)
        assert "variant" not in print_machine(machine)
        again = machine.configure()
        assert (again.variant, again.options) == (setting.variant, setting.options)
