"""What a planner decides, recorded for networks to learn from."""

import json
from pathlib import Path

import numpy as np
import pytest

from pomp.analysis import bound
from pomp.analysis.showing import show_choices
from pomp.core.errors import ConfigError
from pomp.core.streams import Purpose
from pomp.engine.starts import draw_starts
from pomp.karel.observation import observe
from pomp.machine.config import EpisodeConfig
from pomp.tasks.catalog import find_task

DATA = Path(__file__).parents[1] / "data"
PRINTED = tuple(json.loads((DATA / "paper_programs.json").read_text())["Up-N-Down"])
STAIRS = find_task("UpNDown").configure()
END = len(PRINTED)


def shown(share=0.0, least=1, seed=0, discount=1.0, setting=STAIRS, most_steps=1000, **more):
    config = EpisodeConfig(most_steps=most_steps)
    return show_choices(
        setting, PRINTED, config, least, seed=seed, discount=discount, share=share, **more
    )


def test_shown_choices_are_those_of_whole_episodes_from_their_first_mode_to_their_end():
    found = shown()
    assert found.planes.shape == (len(found.modes), 8, 8, 8)
    assert found.planes.dtype == np.uint8
    assert (
        (found.modes == -1).sum() == (found.choices == END).sum() == found.episodes == 32
    )  # begin, and end
    assert found.choices.min() >= 0
    assert set(found.modes[found.modes >= 0]) <= set(found.choices)


def test_episodes_are_played_until_enough_choices_are_shown():
    some = shown()
    more = shown(least=len(some.modes) + 1)
    assert more.episodes == 64
    for one, all_of_it in zip(some, more, strict=True):
        assert (one == all_of_it[: len(one)]).all()


def test_what_is_to_come_of_shown_choices_adds_up_to_the_returns_of_the_episodes():
    found = shown()
    first, last = found.returns[found.modes == -1], found.returns[found.choices == END]
    most = bound(STAIRS, PRINTED).value
    assert (last == 0).all()
    assert (0.9 * most < first).all()
    assert (first < most + 0.02).all()


def test_what_is_to_come_is_discounted_step_by_step():
    plain, discounted = shown(), shown(discount=0.9)
    first = plain.modes == -1
    assert (discounted.returns[first] < plain.returns[first]).all()
    assert (discounted.returns[plain.choices == END] == 0).all()


def test_other_modes_run_than_are_shown_and_the_planner_goes_on_from_there():
    plain, mixed = shown(), shown(share=0.5)
    assert len(mixed.choices) > len(plain.choices)
    assert len(np.unique(mixed.planes, axis=0)) > len(np.unique(plain.planes, axis=0))
    assert (mixed.choices == END).sum() == 32


def test_who_leads_is_asked_what_runs_and_the_planner_says_what_it_would_choose():
    asked = []

    def lead(planes, last):
        asked.extend(planes)
        return np.full(len(last), 1)

    found = shown(share=1.0, lead=lead, most_steps=10)
    assert set(found.modes) == {-1, 1}
    assert (found.choices != 1).any()
    assert {one.tobytes() for one in asked} <= {one.tobytes() for one in found.planes}


def test_where_who_leads_would_end_the_plan_runs():
    led = shown(share=1.0, lead=lambda planes, last: np.full(len(last), END))
    assert all((one == two).all() for one, two in zip(led, shown(), strict=True))


def test_episodes_go_on_from_the_number_of_a_start():
    some, both = shown(), shown(least=len(shown().modes) + 1)
    later = shown(first=some.episodes)
    joined = zip(some, later, both, strict=True)
    assert all((np.concatenate([one, two]) == three).all() for one, two, three in joined)


def test_shown_choices_of_a_seed_are_the_same_twice_and_of_another_seed_others():
    first, again, other = shown(0.2), shown(0.2), shown(0.2, seed=1)
    assert all((one == two).all() for one, two in zip(first, again, strict=True))
    assert first.planes.shape != other.planes.shape or (first.planes != other.planes).any()


def first_planes(setting, purpose):
    return {planes.tobytes() for planes in observe(draw_starts(setting, 32, 3, purpose))}


def test_shown_episodes_begin_with_starts_of_trainings_and_of_nothing_else():
    setting = find_task("Maze").configure()
    found = shown(setting=setting, seed=3)
    begun = {planes.tobytes() for planes in found.planes[found.modes == -1]}
    assert begun == first_planes(setting, Purpose.TRAINING)
    assert begun != first_planes(setting, Purpose.EVALUATION)
    assert begun != first_planes(setting, Purpose.VALIDATION)


def test_a_task_whose_rewards_do_not_add_up_is_refused():
    with pytest.raises(ConfigError, match="its rewards do not add up to its return"):
        shown(setting=find_task("Maze").configure(variant="leaps"))
