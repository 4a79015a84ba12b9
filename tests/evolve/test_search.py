"""Searching whole machines: what a machine earns, how it is changed, and that a search is exact."""

import re
from dataclasses import replace

import numpy as np
import pytest

from pomp.dsl.bytecode import compile_ids
from pomp.dsl.mutation import propose_programs
from pomp.dsl.vocabulary import LEAPS
from pomp.evolve.anneal import Annealing
from pomp.evolve.config import BUDGETS, INTERRUPTED, EvolveConfig
from pomp.evolve.genome import (
    Machines,
    change_rules,
    divide,
    first_machines,
    limits_of,
    mirror,
    reflect,
    walkers,
    with_images,
)
from pomp.evolve.play import Parents, play_machines
from pomp.evolve.search import Evolution, Population, some_starts
from pomp.evolve.texts import to_program_machine
from pomp.karel.machines import IDLE, SENSORS
from pomp.machine.evaluate import play
from pomp.machine.text import parse_machine, print_machine
from pomp.streams import Purpose, branch, open_streams
from pomp.tasks.catalog import find_task
from pomp.tasks.engine import draw_starts

COMPASS = EvolveConfig(sensors="compass", chains=24, tokens=40)
PLAIN = replace(COMPASS, patience=0, penalty=0.0, lateness=0.0, fragility=0.0)


def random_machines(count: int, modes: int, seed: int, config: EvolveConfig = COMPASS) -> Machines:
    streams = open_streams(Purpose.PROGRAMS, seed, worlds=count)
    blank = np.full((count, config.tokens), LEAPS.pad, np.uint8)
    draw = np.ones(count, np.bool_)

    def programs(k: int) -> np.ndarray:
        return propose_programs(blank, draw, branch(streams, k), "rich", limits_of(config))

    machines = first_machines(programs(0))
    for mode in range(1, modes):
        machines = machines.grown(programs(mode))
    rules = branch(streams, 99)
    for _ in range(30):
        change_rules(
            draw, config.sensors == "compass", rules, machines.literals, machines.targets,
            machines.defaults, machines.start,
        )  # fmt: skip
    return machines


def config_of(**changes: object) -> EvolveConfig:
    return replace(EvolveConfig(chains=8, starts=4, polish=8, length=20), **changes)


# What a machine earns


@pytest.mark.parametrize("name", ["UpNDown", "Farmer", "Snake", "DoorKey"])
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
    assert (found.played == 5).all()
    ran = [one.programs.sum() for one in told]
    assert all(found.programs <= ran), "idle machines are cut short, others run to their end"
    ended = np.array([one.ended.all() for one in told])
    assert (found.programs[ended] == np.array(ran)[ended]).all()
    assert (found.actions == [one.actions.sum() for one in told]).all()
    assert np.ptp(found.scores) > 0  # else the comparison would say little


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


def parents_of(found, thresholds, **changes):
    """Of machines that earned as `found`; a world not played yet may be worth 1."""
    shape = found.earned.shape
    orders = np.broadcast_to(np.arange(shape[1]), shape)
    known = Parents(thresholds, found.earned - 5.0, np.ones(shape), orders, trust=shape[1])
    return replace(known, **changes)


def test_what_cannot_reach_its_threshold_is_given_up() -> None:
    setting = find_task("UpNDown").configure()
    machines, worlds = random_machines(32, 2, seed=2), draw_starts(setting, 8, 0)
    full = play_machines(setting, machines, worlds, COMPASS)
    least = full.scores + 0.9
    cut = play_machines(setting, machines, worlds, COMPASS, parents_of(full, least))
    assert (cut.scores < least).all()  # given up or not, it is never taken for better
    assert (cut.played < full.played).any()
    assert cut.actions.sum() < full.actions.sum()


@pytest.mark.parametrize("name", ["UpNDown", "InfHarvester"])
@pytest.mark.parametrize("fragility", [0.0, 0.3])
def test_nothing_good_enough_is_given_up(name: str, fragility: float) -> None:
    setting, config = find_task(name).configure(), replace(COMPASS, fragility=fragility)
    machines, worlds = random_machines(64, 2, seed=3), draw_starts(setting, 3, 0)
    full = play_machines(setting, machines, worlds, config)
    parents = parents_of(full, full.scores - 1e-9)
    enough = play_machines(setting, machines, worlds, config, parents)
    assert enough.scores.tobytes() == full.scores.tobytes()
    assert (enough.actions == full.actions).all()
    parents = parents_of(full, full.scores + 1e-9)
    missed = play_machines(setting, machines, worlds, config, parents)
    assert (missed.scores < full.scores + 1e-9).all()


def test_less_hope_gives_up_earlier() -> None:
    setting = find_task("UpNDown").configure()
    machines, worlds = random_machines(32, 2, seed=2), draw_starts(setting, 8, 0)
    full = play_machines(setting, machines, worlds, COMPASS)
    least = full.scores + 0.2
    found = [
        play_machines(setting, machines, worlds, COMPASS, parents_of(full, least, hopes=hopes))
        for hopes in (np.ones_like(full.earned), full.earned + 0.3)
    ]
    assert found[1].played.sum() < found[0].played.sum()


def test_a_change_that_changes_nothing_in_the_first_worlds_is_trusted() -> None:
    setting = find_task("UpNDown").configure()
    machines, worlds = random_machines(32, 2, seed=2), draw_starts(setting, 8, 0)
    full = play_machines(setting, machines, worlds, COMPASS)
    orders = np.broadcast_to(np.arange(8)[::-1], full.earned.shape)
    least = np.full(32, -np.inf)
    known = full.earned.copy()
    known[:16, 0] += 7.0  # the last in order: nobody looks
    known[16:, 7] += 7.0  # the first
    parents = parents_of(full, least, earned=known, orders=orders, trust=2)
    found = play_machines(setting, machines, worlds, COMPASS, parents)
    assert found.earned[:16].tobytes() == known[:16].tobytes()
    assert found.earned[16:].tobytes() == full.earned[16:].tobytes()
    assert found.actions[:16].sum() < full.actions[:16].sum()
    assert (found.actions[16:] == full.actions[16:]).all()


def test_threads_make_no_difference() -> None:
    setting = find_task("DoorKey").configure()
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


# How machines are changed


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
    assert machines.literals.max() < 2 * SENSORS
    asked = set((machines.literals[there] >> 1).ravel().tolist()) - {-1}
    expected = {0, 1, 2, 3, IDLE} if sensors == "perceptions" else set(range(SENSORS))
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
    mirror(turned, chosen)
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
    mirror(turned, chosen)
    assert all((a == b).all() for a, b in zip(turned.arrays, machines.arrays, strict=True))


@pytest.mark.parametrize("half", [1, 2])
def test_mirror_images_stay_images(half: int) -> None:
    setting = find_task("Farmer").configure()
    worlds, config = some_starts(setting, 4, 0, Purpose.SEARCH), config_of()
    machines = with_images(random_machines(8, half, seed=13, config=config))
    run = Annealing(
        setting, worlds, machines.copy(), np.uint64(3), config, heat=1.0, length=1.0,
        is_mirrored=True,
    )  # fmt: skip
    while not run.is_finished:
        run.step()
    assert (run.machines.programs != machines.programs).any()
    again = run.machines.copy()
    reflect(again)
    assert all((a == b).all() for a, b in zip(again.arrays, run.machines.arrays, strict=True))
    everyone = np.ones(8, np.bool_)
    mirror(again, everyone)  # the image of an image is the thing itself
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
    setting = find_task("FourCorner").configure()
    worlds = some_starts(setting, 4, 0, Purpose.SEARCH)
    config = config_of(tokens=20)
    machines = random_machines(8, 2, seed=9, config=config)
    run = Annealing(setting, worlds, machines, np.uint64(5), config, heat=1.0, length=1.0)
    best = run.best_score
    while not run.is_finished:
        run.step()
        assert run.best_score >= max(best, run.scores.max())
        best = run.best_score
        assert compile_ids(run.machines.programs.reshape(-1, 20)).valid.all()
    assert run.evaluated == 8 * (1 + config.length)
    assert play_machines(setting, run.best, worlds, config).scores[0] == run.best_score


def test_what_annealing_takes_on_trust_is_verified() -> None:
    setting, config = find_task("DoorKey").configure(), config_of(length=10**6)
    worlds = draw_starts(setting, 16, 0, Purpose.SEARCH)
    machines = random_machines(8, 2, seed=9, config=config)
    run = Annealing(setting, worlds, machines, np.uint64(5), config, heat=1.0, length=1.0)
    differences = []
    for _ in range(192):
        run.step()
        found = play_machines(setting, run.machines, worlds, config)
        if run.iteration % 32 == 0:
            assert found.scores.tobytes() == run.scores.tobytes()
            assert found.earned.tobytes() == run.earned.tobytes()
        differences.append(np.abs(found.scores - run.scores).max())
    assert max(differences) > 0  # else there was nothing to verify


def test_interruptions_count_only_where_longer_horizons_bring_them() -> None:
    found = {
        name: Evolution(find_task(name).configure(), 0, config_of()).config.fragility
        for name in ("InfHarvester", "Farmer", "Maze")
    }
    assert found == {"InfHarvester": EvolveConfig().fragility, "Farmer": 0.0, "Maze": 0.0}


def test_walkers_walk_to_the_marker() -> None:
    setting = find_task("UpNDown").configure()
    machine = to_program_machine(setting, walkers(COMPASS))
    assert machine.sensors == "with compass"
    assert machine.modes == tuple(
        f"DEF run m( {action} m)" for action in ("move", "turnLeft", "turnRight")
    )


# The search


def test_few_starts_are_all_taken_and_many_are_drawn() -> None:
    four = some_starts(find_task("FourCorner").configure(), 16, 0, Purpose.SEARCH)
    assert len(four) == 8
    assert len(some_starts(find_task("Farmer").configure(), 16, 0, Purpose.SEARCH)) == 1
    assert len(some_starts(find_task("UpNDown").configure(), 16, 0, Purpose.SEARCH)) == 16
    assert len(some_starts(find_task("TopOff").configure(), 16, 0, Purpose.SEARCH)) == 16
    mine, yours = (
        some_starts(find_task("CleanHouse").configure(), 4, 0, purpose)
        for purpose in (Purpose.SEARCH, Purpose.VALIDATION)
    )
    assert (mine.cells != yours.cells).any()


def test_a_population_keeps_its_best() -> None:
    population = Population()
    for score in (0.1, 0.5, 0.3, 0.2, 0.4, 0.0):
        population.add(random_machines(1, 1, seed=0), score)
    assert population.scores == [0.5, 0.4, 0.3, 0.2]
    assert len(population.machines) == 4


def test_the_same_search_twice_and_after_a_restore() -> None:
    setting = find_task("UpNDown").configure()
    config = config_of(sensors="compass", modes=4)

    def state(evolution: Evolution) -> tuple[object, ...]:
        arrays, values = evolution.to_arrays()
        return values, {name: array.tobytes() for name, array in arrays.items()}

    whole = Evolution(setting, 3, config)
    half = Evolution(setting, 3, config)
    for _ in range(5):
        whole.advance(lambda: False)
        half.advance(lambda: False)
    assert not half.advance(lambda: True), "a stopped round leaves nothing behind"
    rest = Evolution(setting, 3, config)
    rest.restore(*half.to_arrays())
    for _ in range(5):
        whole.advance(lambda: False)
        rest.advance(lambda: False)
    assert state(whole) == state(rest)
    other = Evolution(setting, 4, config)
    for _ in range(10):
        other.advance(lambda: False)
    assert state(other) != state(whole)


def test_an_epoch_that_gains_nothing_ends_and_its_best_machine_stays() -> None:
    evolution = Evolution(find_task("Farmer").configure(), 0, config_of(length=2, chains=2))
    best = list[float]()
    while evolution.epoch == 0 and evolution.round < 120:
        evolution.advance(lambda: False)
        best.append(evolution.hall.best)
    assert evolution.epoch == evolution.round, "no epoch ended in 120 rounds"
    assert best == sorted(best)
    assert len(set(evolution.hall.scores)) == len(evolution.hall.scores) == 4
    assert evolution.populations == []
    evolution.advance(lambda: False)
    assert len(evolution.populations) == 1


def test_an_easy_task_is_solved() -> None:
    evolution = Evolution(find_task("FourCorner").configure(), 0, EvolveConfig())
    while not evolution.is_solved and evolution.round < 20:
        evolution.advance(lambda: False)
    assert evolution.is_solved
