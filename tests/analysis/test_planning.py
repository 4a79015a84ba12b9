"""Estimates of what modes allow: below the bound, close where modes pay at once, alike twice."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.commands import call

from pomp.analysis import bound, choose_modes, estimate, selection
from pomp.core.errors import ConfigError
from pomp.tasks.catalog import find_task

DATA = Path(__file__).parents[1] / "data"
PRINTED = {
    name.replace("-", ""): tuple(texts)
    for name, texts in json.loads((DATA / "paper_programs.json").read_text()).items()
}
IDLE = "DEF run m( turnLeft m)"
STAIRS = "DEF run m( turnLeft move turnRight move m)"
BACK = "DEF run m( turnLeft turnLeft m)"


@pytest.mark.parametrize(
    "name", ["Seesaw", "UpNDown", pytest.param("InfDoorKey", marks=pytest.mark.slow)]
)
def test_an_estimate_of_the_printed_modes_is_below_their_bound_and_not_far(name):
    setting = find_task(name).configure()
    found, most = estimate(setting, PRINTED[name]), bound(setting, PRINTED[name])
    assert found.side == "lower"
    assert 0.8 * most.value < found.value < most.value + 0.02  # an estimate is a mean of episodes


def test_the_planner_reaches_what_one_mode_can_reach_by_itself():
    setting = find_task("UpNDown").configure()
    alone = "DEF run m( REPEAT R=19 r( turnLeft move turnRight move r) m)"
    assert estimate(setting, [IDLE]).value == 0.0  # it ends at once, and pays for no action
    assert estimate(setting, [alone]).value > 0.0


def test_estimates_of_a_seed_are_the_same_twice_and_of_another_seed_others():
    setting, modes = find_task("InfHarvester").configure(), PRINTED["InfHarvester"]
    first = estimate(setting, modes, episodes=8)
    assert estimate(setting, modes, episodes=8) == first
    assert estimate(setting, modes, episodes=8, seed=1).value != first.value


def test_an_episode_ends_after_its_macro_steps():
    setting = find_task("InfHarvester").configure()
    few = estimate(setting, PRINTED["InfHarvester"], episodes=8, most_steps=2)
    many = estimate(setting, PRINTED["InfHarvester"], episodes=8)
    assert 0 < few.value < many.value / 2


def test_tasks_whose_rewards_do_not_add_up_are_refused():
    with pytest.raises(ConfigError, match="its rewards do not add up"):
        estimate(find_task("Harvester").configure("leaps"), [IDLE])
    with pytest.raises(ConfigError, match="takes 1 to"):
        estimate(find_task("Farmer").configure(), [])


# ---------------------------------------------------------------- sets


def test_a_useless_mode_is_exchanged_and_a_good_set_stays():
    setting = find_task("UpNDown").configure()
    pool = [IDLE, BACK, *PRINTED["UpNDown"], IDLE, "DEF run m( no program"]
    chosen = choose_modes(setting, pool, [0, 1, 5])
    assert sorted(chosen) != [0, 1, 5]
    assert set(chosen) <= {0, 1, 2, 3, 4}  # the double and what is no program are never chosen
    value, printed = selection.estimate_sets(setting, pool, [chosen, [2, 3, 4]], "calls220")
    assert value >= printed
    assert choose_modes(setting, pool, chosen) == chosen


def test_what_is_no_program_is_replaced():
    setting = find_task("UpNDown").configure()
    assert choose_modes(setting, ["DEF run m( m)", STAIRS], [0]) == [1]
    assert choose_modes(setting, ["DEF run m( m)"], [0]) == [0]  # there is nothing else


def test_a_choice_is_left_when_a_stop_is_asked_for():
    setting, asked = find_task("UpNDown").configure(), []
    found = choose_modes(
        setting, [IDLE, STAIRS, BACK], [0, 2], is_stopped=lambda: asked.append(0) or len(asked) == 2
    )
    assert found is None
    assert len(asked) == 2


def test_a_reward_that_takes_more_than_eight_modes_does_not_count():
    setting = find_task("Seesaw").configure()
    single = [f"DEF run m( {action} m)" for action in ("move", "turnLeft", "pickMarker")]
    [value] = selection.estimate_sets(setting, single, [[0, 1, 2]], "calls220")
    assert value < estimate(setting, single, episodes=16).value


def test_sets_are_played_together_as_they_are_alone():
    setting, pool = find_task("InfHarvester").configure(), [IDLE, *PRINTED["InfHarvester"]]
    sets = [[1, 2, 3], [0, 1, 2], [3, 3, 0]]
    together = selection.estimate_sets(setting, pool, sets, "calls220")
    assert together == [
        selection.estimate_sets(setting, pool, [one], "calls220")[0] for one in sets
    ]


# ---------------------------------------------------------------- the command


def test_the_command_estimates_where_there_is_no_bound(capsys, tmp_path):
    modes = tmp_path / "modes.txt"
    modes.write_text("\n".join(PRINTED["InfHarvester"]) + "\n")
    given = ("bound", str(modes), "--task", "Inf-Harvester")
    status, _, errors = call(capsys, *given)
    assert (status, errors.count("\n")) == (2, 1)
    assert "--estimate" in errors
    status, out, _ = call(capsys, *given, "--estimate", "--json")
    told = json.loads(out)
    assert (status, told["side"]) == (0, "lower")
    assert np.isclose(
        told["bound"],
        estimate(find_task("InfHarvester").configure(), PRINTED["InfHarvester"]).value,
    )
    status, out, _ = call(capsys, *given, "--estimate")
    assert "64 episodes" in out
    status, _, errors = call(capsys, *given, "--estimate", "--width", "5")
    assert (status, "--width goes with a bound" in errors) == (2, True)
