"""Any policy on our evaluation starts."""

import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import pomp
from pomp.core.errors import ConfigError
from pomp.engine.starts import draw_starts
from pomp.envs import ImageObservation, KarelEnv, ProgramOptionEnv
from pomp.machine.evaluation import Evaluation
from pomp.runs.published import published_rows

ROOT = Path(__file__).parents[2]
SWEEP = (ROOT / "examples" / "harvester.karel").read_text()


def turn(observation):
    return 1


class Agent:
    def get_action(self, observation):
        assert observation.shape == (8, 8, 8)
        return np.int64(3)


class Model:
    """As Stable-Baselines3's models: many observations at once, and a state that comes back."""

    def __init__(self):
        self.calls = []

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        self.calls.append((observation.shape, state, episode_start.all(), deterministic))
        return np.full(len(observation), 3), (state or 0) + 1


def test_a_function_plays_the_starts_of_evaluations():
    seen = []

    def look(observation):
        if len(seen) % 1000 == 0:
            env = KarelEnv("Maze")
            env._batch.worlds = starts.take([len(seen) // 1000])
            assert (observation == env._batch.observe(8)[0]).all()
        seen.append(observation)
        return 1

    starts = draw_starts(pomp.find_task("Maze").configure(), 3, 5)
    found = pomp.evaluate_policy("Maze", look, episodes=3, seed=5)
    assert isinstance(found, Evaluation)
    assert found.returns.tolist() == [0.0] * 3
    assert found.actions.tolist() == [1000] * 3
    assert not found.ended.any()


@pytest.mark.parametrize("policy", [turn, Model()], ids=["function", "model"])
def test_where_starts_can_be_listed_each_is_played_once(policy):
    found = pomp.evaluate_policy("OneStroke", policy)
    machine = pomp.evaluate(pomp.load_machine("zoo:OneStroke/text"))
    assert len(found.returns) == len(machine.returns) == 36
    assert found.weights.tolist() == machine.weights.tolist()
    assert "OneStroke: exact return" in str(found)
    assert "all 36 starts" in str(found)


def test_what_draws_plays_drawn_starts():
    assert len(pomp.evaluate_policy("Harvester", turn).returns) == 1
    found = pomp.evaluate_policy("Harvester", turn, deterministic=False)
    assert (len(found.returns), found.is_exact) == (32, False)
    assert "32 drawn starts" in str(found)
    setting = pomp.find_task("UpNDown").configure()
    assert not pomp.evaluate_policy(setting, turn, seed=1, episodes=2).is_exact


def test_all_starts_are_those_of_a_machine():
    text = "DEF run m( move turnLeft m)"
    found = pomp.evaluate_policy(
        lambda: ProgramOptionEnv("OneStroke", [text]),
        lambda observation: int(observation["mode"].sum()),
    )
    setting = pomp.find_task("OneStroke").configure()
    worlds, starts = pomp.enumerate_starts(setting)
    returns = pomp.rollout(setting, [text], worlds).returns[0]
    assert found.returns.tolist() == returns.tolist()
    assert found.weights.tolist() == [float(start.probability) for start in starts]


def test_agents_and_models_earn_what_functions_earn():
    alone = pomp.evaluate_policy("Harvester", Agent(), episodes=2)
    model = Model()
    many = pomp.evaluate_policy("Harvester", model, episodes=2)
    expected = 1 / 36  # it picks the marker below it, again and again
    assert alone.returns.tolist() == many.returns.tolist() == [expected] * 2
    assert model.calls[0] == ((2, 8, 8, 8), None, True, True)
    assert model.calls[1] == ((2, 8, 8, 8), 1, False, True)
    assert len(model.calls) == 1000


def test_programs_as_actions_earn_what_a_machine_earns():
    found = pomp.evaluate_policy(
        lambda: ProgramOptionEnv("Harvester", [SWEEP]),
        lambda observation: int(observation["mode"].sum()),  # the program, then the end
        episodes=2,
    )
    assert (found.mean, found.programs.tolist()) == (1.0, [1, 1])
    assert found.actions.tolist() == [90, 90]
    assert found.ended.all()


def test_rewards_that_a_wrapper_changes_do_not_change_what_is_earned():
    def make():
        return gym.wrappers.TransformReward(KarelEnv("Harvester"), lambda reward: -7.0)

    assert pomp.evaluate_policy(make, lambda _: 3, episodes=1).mean == 1 / 36


def test_as_text_it_stands_beside_every_published_row():
    text = str(pomp.evaluate_policy("Harvester", turn, episodes=1))
    rows = published_rows("Harvester")
    assert rows["POMP"] == {"mean": 1.0, "std": 0.0}
    assert all(f"  {name} " in text for name in ("this policy", *rows))
    assert text.count("over seeds (published)") == len(rows) == 6
    assert "±" not in text.split("this policy")[1].splitlines()[0], "one start has no spread"
    many = str(pomp.evaluate_policy("Maze", turn, episodes=2))
    assert "0.00 ± 0.00 over starts" in many
    other = pomp.find_task("Harvester").configure(size=(6, 6))
    assert "published" not in str(pomp.evaluate_policy(other, turn, episodes=1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pomp.evaluate_policy("Harvester", 3), "has predict or get_action; got 3"),
        (lambda: pomp.evaluate_policy("Harvester", Model), "or has predict"),
        (lambda: pomp.evaluate_policy("Harvester", turn, episodes=0), "at least 1 .*got 0"),
        (lambda: pomp.evaluate_policy("Harvester", turn, seed=-1), "not negative, got -1"),
        (lambda: pomp.evaluate_policy("Harvester", lambda _: 9, episodes=1), "from 0 to 4"),
        (lambda: pomp.evaluate_policy("Harvester", lambda _: 1.5), "number of an action, got 1.5"),
        (lambda: pomp.evaluate_policy("Harvester", lambda _: "move"), "an action, got 'move'"),
        (lambda: pomp.evaluate_policy("Harvester", lambda _: None), "an action, got None"),
        (lambda: pomp.evaluate_policy(KarelEnv("Maze"), turn), r"as lambda: KarelEnv\(...\)"),
        (lambda: pomp.evaluate_policy(3, turn), "a task is a name, .* got 3"),
        (
            lambda: pomp.evaluate_policy(lambda: gym.make("CartPole-v1"), turn),
            "KarelEnv and ProgramOptionEnv, got CartPoleEnv",
        ),
    ],
)
def test_what_is_no_policy_or_no_environment_of_ours_is_refused(call, message):
    with pytest.raises(ConfigError, match=message):
        call()


def test_the_example_with_pictures_trains_and_compares():
    pytest.importorskip("stable_baselines3")
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        import sb3_cnn

        env = sb3_cnn.make()
        assert isinstance(env, ImageObservation)
        text = sb3_cnn.main(256, 1)
    finally:
        sys.path.pop(0)
    assert text.startswith("Harvester: mean return 0.")
    assert "POMP" in text
