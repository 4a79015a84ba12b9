"""How machines are changed: rules stay rules, images stay images, and annealing forgets nothing."""

import re
from dataclasses import replace

import numpy as np
import pytest
from drawing import COMPASS, PLAIN, config_of, random_machines

from pomp.core.streams import Purpose
from pomp.dsl.bytecode import compile_ids
from pomp.dsl.vocabulary import LEAPS
from pomp.engine.starts import draw_starts
from pomp.evolution.anneal import Annealing, moves_of
from pomp.evolution.config import EvolveConfig
from pomp.evolution.genome import (
    divide,
    mirror,
    reflect,
    walkers,
    with_images,
)
from pomp.evolution.ground import Ground, some_starts
from pomp.evolution.play import play_machines
from pomp.evolution.search import Evolution
from pomp.evolution.texts import to_program_machine
from pomp.karel.sensor_set import SHIPPED
from pomp.karel.sensors import IDLE, SENSORS
from pomp.tasks.catalog import find_task


@pytest.mark.parametrize("sensors", ["perceptions", "compass"])
def test_changed_rules_stay_rules(sensors: str) -> None:
    config = replace(COMPASS, sensors=sensors)
    machines = random_machines(200, 3, seed=7, config=config)
    there = machines.targets >= 0
    assert (np.sort(there, axis=-1)[..., ::-1] == there).all(), "no gap between rules"
    assert machines.targets.max() == 3
    assert machines.defaults.min() >= 0
    assert machines.defaults.max() == 3
    assert (machines.literals[there][:, 0] >= 0).all(), "a rule has a condition"
    assert machines.literals.max() < 2 * len(SENSORS)
    asked = set((machines.literals[there] >> 1).ravel().tolist()) - {-1}
    expected = {0, 1, 2, 3, IDLE} if sensors == "perceptions" else set(range(len(SENSORS)))
    assert asked == expected


def test_a_new_mode_changes_nothing_until_a_rule_leads_to_it() -> None:
    setting = find_task("UpNDown").configure()
    machines, worlds = random_machines(30, 2, seed=8), draw_starts(setting, 4, 0)
    grown = machines.grown(machines.programs[:, 1].copy())
    before, after = (play_machines(setting, one, worlds, COMPASS) for one in (machines, grown))
    assert grown.modes == 3
    assert (before.scores == after.scores).all()


def test_twins_take_turns_and_do_what_the_one_did() -> None:
    setting = find_task("UpNDown").configure()
    machines, worlds = random_machines(60, 2, seed=11), draw_starts(setting, 4, 0)
    twins = machines.split(1)
    before, after = (play_machines(setting, one, worlds, PLAIN) for one in (machines, twins))
    np.testing.assert_allclose(before.scores, after.scores)
    assert (before.actions == after.actions).all()
    repeats = (machines.defaults[:, 1] == 1) & (machines.start == 1)
    assert repeats.any()
    assert (twins.defaults[repeats, 1] == 2).all()
    assert (twins.defaults[repeats, 2] == 1).all()


def test_mirrored_modes_exchange_left_and_right() -> None:
    setting = find_task("UpNDown").configure()
    machines = random_machines(80, 2, seed=12)
    turned, chosen = machines.copy(), np.arange(80) % 2 == 0
    mirror(turned, chosen, SHIPPED)
    exchanged = {"left": "right", "right": "left", "Left": "Right", "Right": "Left"}
    for row in range(80):
        before, after = (to_program_machine(setting, one, row) for one in (machines, turned))
        texts = [
            f"{one.modes[1]} {[rule.when for rule in one.transition.after[1]]}"
            for one in (before, after)
        ]
        if chosen[row]:
            texts[0] = re.sub("left|right|Left|Right", lambda m: exchanged[m[0]], texts[0])
        assert texts[0] == texts[1]
        assert before.modes[0] == after.modes[0]
    mirror(turned, chosen, SHIPPED)
    assert all((a == b).all() for a, b in zip(turned.arrays, machines.arrays, strict=True))


@pytest.mark.parametrize("half", [1, 2])
def test_mirror_images_stay_images(half: int) -> None:
    setting = find_task("Farmer").configure()
    ground = Ground.of([(setting, some_starts(setting, 4, 0, Purpose.SEARCH))])
    config = config_of()
    machines = with_images(random_machines(8, half, seed=13, config=config))
    run = Annealing(
        setting, ground, machines.copy(), np.uint64(3), config,
        temperature_factor=1.0, length_factor=1.0, is_mirrored=True,
    )  # fmt: skip
    while not run.is_finished:
        run.advance()
    assert (run.machines.programs != machines.programs).any()
    again = run.machines.copy()
    reflect(again, SHIPPED)
    assert all((a == b).all() for a, b in zip(again.arrays, run.machines.arrays, strict=True))
    everyone = np.ones(8, np.bool_)
    mirror(again, everyone, SHIPPED)  # the image of an image is the thing itself
    assert (again.programs[:, -1] == again.programs[:, half - 1]).all()
    assert (again.literals[:, -1] == again.literals[:, half - 1]).all()
    turned = np.array([*range(half, 2 * half), *range(half), 2 * half, -1])
    assert (turned[again.targets[:, half:]] == again.targets[:, :half]).all()
    assert (turned[again.defaults[:, half:]] == again.defaults[:, :half]).all()


def test_images_take_turns() -> None:
    machines = random_machines(1, 1, seed=0)
    machines.targets[:], machines.defaults[:] = -1, 0
    doubled = with_images(machines)
    assert doubled.modes == 2
    assert doubled.defaults.tolist() == [[1, 0]]


def test_a_divided_mode_does_what_it_did() -> None:
    setting = find_task("UpNDown").configure()
    machines, worlds = random_machines(300, 2, seed=14), draw_starts(setting, 4, 0)
    asks = (machines.literals >> 1 == IDLE).any(axis=(1, 2, 3))  # a part may be idle
    loops = (machines.programs == LEAPS.encode(["WHILE"])[0]).any(axis=(1, 2))  # or cut short
    machines = machines.take(~asks & ~loops)
    parts = divide(machines, 0)
    lengths = [(one != LEAPS.pad).sum(axis=1) for one in parts.programs.transpose(1, 0, 2)]
    whole = (machines.programs[:, 0] != LEAPS.pad).sum(axis=1)
    is_divided = lengths[0] + lengths[2] - 4 == whole  # DEF run m( m)
    is_twin = (parts.programs[:, 0] == parts.programs[:, 2]).all(axis=1) & (lengths[0] == whole)
    assert (is_divided ^ is_twin).all()
    assert is_divided.sum() > 10
    assert (parts.defaults[is_divided, 0] == 2).all()
    assert (parts.targets[is_divided, 0] == -1).all()
    most = {"budgets": (100_000,)}
    before, after = (
        play_machines(setting, one, worlds, PLAIN, **most) for one in (machines, parts)
    )
    ended = before.programs < 1000  # others meet the limit of programs earlier
    assert ended.sum() > 10
    np.testing.assert_allclose(before.scores[ended], after.scores[ended])
    assert (before.actions[ended] == after.actions[ended]).all()


def test_annealing_visits_programs_within_the_limits_and_never_forgets_the_best() -> None:
    setting = find_task("StairClimber").configure()
    ground = Ground.of([(setting, some_starts(setting, 4, 0, Purpose.SEARCH))])
    config = config_of(tokens=20)
    machines = random_machines(8, 2, seed=9, config=config)
    run = Annealing(
        setting, ground, machines, np.uint64(5), config, temperature_factor=1.0, length_factor=1.0
    )
    best = run.best_score
    while not run.is_finished:
        run.advance(1)
        assert run.best_score >= max(best, run.chains.scores.max())
        best = run.best_score
        assert compile_ids(run.machines.programs.reshape(-1, 20)).valid.all()
    assert run.evaluated == 8 * (1 + config.steps)
    assert play_machines(setting, run.best, ground, config).scores[0] == run.best_score


def test_what_annealing_takes_on_trust_is_verified() -> None:
    setting, config = find_task("UpNDown").configure(), config_of(steps=10**6)
    ground = Ground.of([(setting, draw_starts(setting, 16, 0, Purpose.SEARCH))])
    machines = random_machines(8, 2, seed=9, config=config)
    run = Annealing(
        setting, ground, machines, np.uint64(5), config, temperature_factor=1.0, length_factor=1.0
    )
    for _ in range(6):
        run.advance()
        found = play_machines(setting, run.machines, ground, config)
        assert found.scores.tobytes() == run.chains.scores.tobytes()
        assert found.earned.tobytes() == run.chains.earned.tobytes()


def test_interruptions_count_only_where_longer_horizons_bring_them() -> None:
    found = {
        name: Evolution(find_task(name).configure(), 0, config_of()).config.fragility
        for name in ("InfHarvester", "Farmer", "Maze")
    }
    assert found == {"InfHarvester": EvolveConfig().fragility, "Farmer": 0.0, "Maze": 0.0}


def test_loops_are_bounded_where_a_longer_horizon_does_not_make_programs_longer():
    assert moves_of(config_of(fragility=0.0)) == "bounding"
    assert moves_of(config_of(fragility=0.3)) == "rich"


def test_walkers_walk_to_the_marker() -> None:
    setting = find_task("UpNDown").configure()
    machine = to_program_machine(setting, walkers(COMPASS))
    assert machine.sensors == "with compass"
    assert machine.modes == tuple(
        f"DEF run m( {action} m)" for action in ("move", "turnLeft", "turnRight")
    )
