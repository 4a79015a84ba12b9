"""What `pomp play` tells is exact, and keys do what they say."""

import pytest
from stories import acting, machine, plain, random_network, watching

from pomp.cli.frames import draw_screen
from pomp.core.errors import ConfigError
from pomp.machine.config import EpisodeConfig
from pomp.machine.evaluation import evaluate
from pomp.machine.transitions import DecisionList, Rule
from pomp.play.story import FASTEST, SLOWEST, Story, Watching, numbered_lines

# What is told.

FEW = EpisodeConfig(most_steps=12)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="by rules"),
        pytest.param({"episode": EpisodeConfig(most_steps=40, last_words=True)}, id="last words"),
        pytest.param({"episode": EpisodeConfig(most_steps=5, cap="actions7")}, id="limits"),
        pytest.param({"transition": random_network(), "episode": FEW}, id="by a network"),
        pytest.param({"task": "TopOff", "variant": "leaps", "episode": FEW}, id="last reward"),
        pytest.param({"task": "Snake", "episode": FEW}, id="bites"),
    ],
)
@pytest.mark.parametrize("greedy", [False, True])
def test_a_story_ends_as_the_evaluation_of_the_same_episode(settings, greedy):
    acting = machine(**settings)
    for seed in range(3):
        *_, last = Story(acting, acting.configure(), seed=seed, greedy=greedy)
        found = evaluate(acting, episodes=1, seed=seed, greedy=greedy)
        assert last.worth == found.returns[0]
        assert last.actions == found.actions[0]
        assert last.step - (last.ending == "the machine chose to end") == found.programs[0]


def test_every_action_is_told_with_its_line_its_reward_and_the_return():
    start, *moments = Story(machine(), machine().configure())
    assert (start.action, start.mode, start.worth) == (None, None, 0.0)
    programs = [numbered_lines(mode)[0] for mode in machine().modes]
    acted = [moment for moment in moments if moment.action]
    assert [moment.actions for moment in acted] == list(range(1, len(acted) + 1))
    for before, moment in zip([start, *acted], acted, strict=False):
        assert programs[moment.mode][moment.line].strip() == moment.action
        assert moment.reward == moment.worth - before.worth
    assert acted[-1].worth > 0


def test_a_mode_that_does_not_act_has_a_moment():
    idle = [moment for moment in Story(machine(), machine().configure()) if moment.mode == 2]
    assert idle
    assert {(moment.action, moment.reward, moment.is_last) for moment in idle} == {(None, 0, True)}


def test_recent_modes_are_counted_in_rows():
    always = DecisionList((Rule(0),), ((Rule(0),), (Rule(0),), (Rule(0),)))
    *_, last = Story(machine(transition=always, episode=FEW), machine().configure())
    assert last.recent == ((0, 12),)
    assert last.ending == "stopped at the limit of 12 modes"


# What keys do.


def test_time_performs_actions_at_the_speed_asked_for():
    player = watching()
    player.pass_time(100.0)
    assert player.moment.actions == 0
    player.pass_time(100.125)
    assert player.moment.actions == 1
    player.pass_time(100.375)
    assert player.moment.actions == 3


def test_after_a_long_absence_little_is_made_up_for():
    player = watching()
    player.pass_time(100.0)
    player.pass_time(9000.0)
    assert player.moment.actions <= 3


def test_a_pause_stops_time_and_lets_single_actions_through():
    player = watching()
    player.press(".")
    assert player.moment.actions == 0
    player.press(" ")
    player.pass_time(1.0)
    player.pass_time(5.0)
    assert player.moment.actions == 0
    player.press(".")
    player.press("right")
    assert player.moment.actions == 2
    player.press(" ")
    player.pass_time(6.0)
    player.pass_time(6.125)
    assert player.moment.actions == 3


def test_n_runs_to_the_end_of_the_mode():
    player = watching()
    player.press("n")
    assert player.moment.is_last
    assert player.moment.step == 1
    player.press("n")
    assert player.moment.step == 2


def test_the_speed_stays_within_its_bounds():
    player = watching()
    for _ in range(20):
        player.press("+")
    assert player.speed == FASTEST
    for _ in range(20):
        player.press("-")
    assert player.speed == SLOWEST


def test_r_tells_the_same_story_again_and_s_the_next():
    player = watching()
    start = player.moment
    player.press("n")
    player.press("r")
    assert player.moment == start
    player.press("s")
    assert player.seed == 1


def test_the_end_stays_until_a_key():
    player = watching()
    while not player.moment.ending:
        player.press("n")
    last = player.moment
    player.pass_time(1.0)
    player.pass_time(9.0)
    player.press("n")
    assert player.moment == last
    shown = plain(draw_screen(player.view(), 79, 24))
    assert any(f"return {last.worth:.6f}" in line for line in shown)
    assert "over: the machine chose to end" in shown
    player.press("r")
    assert not player.moment.ending


@pytest.mark.parametrize("speed", [0.0, float("nan"), 1e9])
def test_a_speed_out_of_bounds_is_refused(speed):
    with pytest.raises(ConfigError, match="the speed is"):
        Watching(machine(), machine().configure(), 0, speed, greedy=False)


def test_a_person_acts_and_takes_it_back():
    player = acting()
    for key in ("p", "w", "left", "d", "o"):
        player.press(key)
    told = [moment.action for moment in player.sandbox.moments[1:]]
    assert told == ["pickMarker", "move", "turnLeft", "turnRight", "putMarker"]
    before = player.sandbox.moments[:]
    player.press("w")
    player.press("u")
    assert player.sandbox.moments == before
    assert player.sandbox.look().world == before[-1].world
    for _ in range(9):
        player.press("u")
    assert player.moment == before[0]
