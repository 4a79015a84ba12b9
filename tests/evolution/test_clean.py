"""Clean machines: no program is cut, and the machine ends by its own rule; at several sizes."""

from dataclasses import replace

import numpy as np
import pytest
from drawing import COMPASS, PLAIN, config_of, random_machines

from pomp.core.errors import ConfigError
from pomp.core.streams import Purpose, branch, open_streams
from pomp.dsl.mutation import propose_programs
from pomp.dsl.vocabulary import LEAPS
from pomp.engine.starts import draw_starts
from pomp.evolution.config import BUDGETS, MERCIES, EvolveConfig
from pomp.evolution.genome import Machines, limits_of
from pomp.evolution.ground import Ground, settings_of, some_ground
from pomp.evolution.play import play_machines
from pomp.evolution.search import Evolution
from pomp.evolution.texts import from_program_machine, to_program_machine
from pomp.machine.evaluation import play
from pomp.machine.text import parse_machine
from pomp.tasks.catalog import find_task

STRICT = replace(PLAIN, clean=True)
STAIRS = find_task("StairClimber").configure()


def machine_of(program: str, rules: str) -> Machines:
    text = f"machine StairClimber\nsensors perceptions only\nstart climb\n\nmode climb: {program}"
    return from_program_machine(parse_machine(f"{text}\n{rules}  else -> climb\n"), COMPASS)


RULE = "  if markersPresent -> stop\n"
STEP = "turnLeft move turnRight move"
CLIMB = machine_of(f"DEF run m( {STEP} m)", RULE)
NEVER_ENDS = machine_of(f"DEF run m( {STEP} m)", "")
LOOP = "WHILE c( not c( frontIsClear c) c) w( turnLeft turnRight w)"
ENDLESS = machine_of(f"DEF run m( {STEP} {LOOP} m)", RULE)
ENDS = "  if frontIsClear -> stop\n  if not frontIsClear -> stop\n"
SOMETIMES = LOOP.replace("front", "left")
BY_LUCK, AT_ONCE = (machine_of(f"DEF run m( {body} m)", ENDS) for body in (SOMETIMES, "move"))
GIVEN = {"tokens": COMPASS.tokens}
HARVEST = """machine InfHarvester
sensors perceptions only
start row

mode row: DEF run m( pickMarker move m)
  else -> stop
"""


def test_what_is_clean_is_told_from_what_is_cut_and_what_never_ends() -> None:
    worlds = draw_starts(STAIRS, 8, 0)
    climb, on, endless = (
        play_machines(STAIRS, machine, worlds, STRICT) for machine in (CLIMB, NEVER_ENDS, ENDLESS)
    )
    assert (climb.scores[0], climb.unclean[0]) == (1.0, 0)
    assert (on.scores[0], on.unclean[0]) == (1.0, 8)
    assert endless.unclean[0] > 0
    fined = play_machines(STAIRS, ENDLESS, worlds, replace(STRICT, penalty=0.25))
    assert fined.scores[0] == pytest.approx(endless.scores[0] - 0.25 * endless.stuck[0] / 8)


def test_a_machine_that_stops_too_early_begins_anew_some_times(monkeypatch) -> None:
    """One that always stops, so each program but the first is one of a new beginning."""
    setting, config = find_task("InfHarvester").configure(), replace(STRICT, haste=0.25)
    harvest = from_program_machine(parse_machine(HARVEST), COMPASS)
    worlds = draw_starts(setting, 1, 0)
    fined = play_machines(setting, harvest, worlds, config)
    free = play_machines(setting, harvest, worlds, replace(config, haste=0.0))
    ends = play_machines(setting, harvest, worlds, config, to_the_end=True)
    assert (ends.programs[0], ends.unclean[0]) == (1, 0)
    assert 10 < free.programs[0] <= 1 + MERCIES
    assert free.scores[0] > 10 * ends.scores[0]
    assert fined.scores[0] == pytest.approx(free.scores[0] - 0.25 * (free.programs[0] - 1))
    lost = play_machines(setting, harvest, worlds, PLAIN)  # where machines need not be clean
    assert (lost.programs[0], lost.scores[0]) == (1, ends.scores[0])
    monkeypatch.setattr("pomp.evolution.play.MERCIES", 3)
    assert play_machines(setting, harvest, worlds, config).programs[0] == 1 + 3


def test_a_machine_that_stops_without_progress_has_ended() -> None:
    spin = machine_of("DEF run m( turnLeft m)", "  if leftIsClear -> stop\n")
    found = play_machines(STAIRS, spin, draw_starts(STAIRS, 8, 0), replace(STRICT, haste=0.25))
    assert found.programs[0] < 8 * 4
    assert found.scores[0] == 0


def test_a_cut_ends_the_episode_with_what_was_earned() -> None:
    """As the text does up to the first program that is cut."""
    setting = find_task("UpNDown").configure()
    machines, worlds = random_machines(40, 2, seed=3), draw_starts(setting, 1, 1)
    strict = play_machines(setting, machines, worlds, STRICT, to_the_end=True)
    free = play_machines(setting, machines, worlds, PLAIN, budgets=BUDGETS[:1])
    is_same = strict.programs == free.programs
    assert 0 < is_same.sum() < 40
    assert (strict.scores[is_same] == free.scores[is_same]).all()
    for row in np.flatnonzero(~is_same):
        machine = to_program_machine(setting, machines, row)
        episode = replace(machine.episode, cap="calls216", most_steps=int(strict.programs[row]))
        told = play(replace(machine, episode=episode), setting, worlds.copy(), None)
        assert strict.scores[row] == pytest.approx(told.mean, abs=1e-12)
        assert strict.unclean[row] == 1


def test_a_clean_machine_earns_the_same_under_every_budget() -> None:
    setting = find_task("UpNDown").configure()
    machines, worlds = random_machines(200, 2, seed=4), draw_starts(setting, 4, 1)
    strict = play_machines(setting, machines, worlds, STRICT, to_the_end=True)
    is_clean = strict.unclean == 0
    assert 5 < is_clean.sum() < 200
    clean = machines.take(is_clean)
    for budget in (217, 220, 223, 500, 10_000):
        found = play_machines(setting, clean, worlds, PLAIN, budgets=(budget,))
        assert found.scores.tobytes() == strict.scores[is_clean].tobytes()


def test_worlds_of_several_sizes_and_horizons_pay_what_they_pay_apart() -> None:
    setting = find_task("UpNDown").configure()
    config = replace(STRICT, sizes=("8x8", "12x12"), scales=(2,))
    settings = settings_of(setting, config)
    assert [(one.height, one.scale) for one in settings] == [(8, 1), (12, 1), (8, 2)]
    ground = some_ground(setting, config, 8, 0, Purpose.SEARCH, "cpu")
    assert (len(ground), ground.is_own.sum()) == (8 + 2 + 2, 8)
    assert ground.most.tolist() == [1000] * 8 + [3000] * 2 + [2000] * 2
    machines = random_machines(24, 2, seed=3)
    found = play_machines(setting, machines, ground, config, to_the_end=True)
    for one, count, part, rules in zip(
        settings, (8, 2, 2), (slice(0, 8), slice(8, 10), slice(10, 12)), (STRICT, PLAIN, PLAIN),
        strict=True,
    ):  # fmt: skip
        alone = draw_starts(one, count, 0, Purpose.SEARCH)
        told = play_machines(one, machines, Ground.of([(one, alone)]), rules, to_the_end=True)
        assert told.earned.tobytes() == np.ascontiguousarray(found.earned[:, part]).tobytes()


def test_a_machine_that_holds_is_chosen_and_nothing_pushes_it_out() -> None:
    evolution = Evolution(STAIRS, 0, config_of(**GIVEN), given=[ENDLESS, NEVER_ENDS, CLIMB])
    assert not evolution.advance(lambda: True)  # stopped in its first round
    for score in (2.0, 3.0, 4.0, 5.0):
        evolution.hall.add(NEVER_ENDS, score)
    assert len(evolution.holding.machines) == 1
    assert evolution.choose() == (CLIMB, evolution.holding.best)
    loose = Evolution(STAIRS, 0, config_of(clean=False, **GIVEN), given=[ENDLESS, CLIMB])
    assert not loose.advance(lambda: True)
    assert not loose.holding.machines
    assert loose.choose() == (loose.hall.machines[0], loose.hall.best)


def test_what_is_clean_in_validation_by_luck_does_not_hold() -> None:
    """It is cut where a wall is on the left at first; here, validation has a single start."""
    keys, config = find_task("InfDoorKey").configure(), config_of(validation_starts=1, **GIVEN)
    searches = (Evolution(keys, seed, config, given=[BY_LUCK, AT_ONCE]) for seed in range(99))
    lucky = next(one for one in searches if not one.validate(BY_LUCK).unclean.any())
    assert lucky.prove(BY_LUCK) is None
    assert not lucky.advance(lambda: True)
    lucky.hall.add(BY_LUCK, 2.0)
    assert lucky.holding.machines == [AT_ONCE]
    assert lucky.choose()[0] is AT_ONCE


def test_in_the_hall_of_fame_what_is_not_clean_costs_much() -> None:
    evolution = Evolution(STAIRS, 0, config_of())
    scores = [evolution.validate(one).scores[0] for one in (CLIMB, NEVER_ENDS)]
    assert scores == [1.0, 0.0]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"clean": 1}, "clean must be true or false, got 1"),
        ({"sizes": "12x12"}, "sizes is a list as [16x16], got '12x12'"),
        ({"sizes": ("12",)}, "a size is HEIGHTxWIDTH, as in 12x12, got '12'"),
        ({"scales": (2.0,)}, "scales is a list as [2], got (2.0,)"),
        (
            {"without": ("move",)},
            "machines cannot be searched without 'move'; expected pickMarker or putMarker",
        ),
    ],
)
def test_settings_that_are_none_are_refused(changes: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        EvolveConfig(**changes)  # type: ignore[arg-type]
    assert str(caught.value) == told


def test_sizes_and_horizons_that_a_task_lacks_are_refused() -> None:
    with pytest.raises(ConfigError, match="has scale 1, got 2"):
        settings_of(STAIRS, EvolveConfig(scales=(2,)))
    with pytest.raises(ConfigError, match="takes a grid of"):
        settings_of(find_task("DoorKey").configure(), EvolveConfig(sizes=("9x9",)))


def test_a_search_without_an_action_never_takes_it() -> None:
    put, streams = LEAPS.id_of["putMarker"], open_streams(Purpose.PROGRAMS, 1, worlds=500)

    def takes_it(config: EvolveConfig) -> bool:
        programs, fresh = random_machines(500, 1, 0, config).programs[:, 0], np.zeros(500, np.bool_)
        for step in range(20):
            of_step = branch(streams, step)
            programs = propose_programs(programs, fresh, of_step, "rich", limits_of(config))
        return bool((programs == put).any())

    assert takes_it(COMPASS)
    assert not takes_it(replace(COMPASS, without=("putMarker",)))


def test_machines_that_take_what_a_search_does_without_are_refused() -> None:
    text = (
        "machine Seeder\nsensors perceptions only\nstart put\n\nmode put: DEF run m( putMarker m)"
    )
    machine = parse_machine(f"{text}\n  else -> stop\n")
    with pytest.raises(ConfigError, match="its programs take putMarker; those of this search must"):
        from_program_machine(machine, config_of(without=("putMarker",)))
    assert from_program_machine(machine, config_of(without=("pickMarker",))).modes == 1
