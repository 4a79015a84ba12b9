"""What a training is paid for, and that it is judged where it has not learned."""

import numpy as np
import pytest

from pomp.core.streams import Purpose
from pomp.learning.config import configure_learning
from pomp.learning.members import Member
from pomp.learning.training import Training
from pomp.machine.evaluation import evaluate, validate
from pomp.tasks.catalog import find_task
from starting import Starts

MODES = ("DEF run m( move m)", "DEF run m( turnLeft m)", "DEF run m( putMarker m)")
TINY = {
    "ppo.total": 4 * 32,
    "ppo.actors": 4,
    "ppo.steps": 8,
    "ppo.minibatch": 16,
    "network.hidden": 8,
    "episode.most_steps": 5,
    "validation.every": 2,
    "validation.episodes": 6,
}


def training_of(name="Maze", seed=0, **changes):
    named = {f"ppo.{setting}": value for setting, value in changes.items()}
    member = Member(find_task(name).configure(), MODES, seed, 1e-3)
    return Training([member], configure_learning("paper", {**TINY, **named}), "cpu")


@pytest.mark.parametrize("seed", [0, 3])
def test_training_validation_and_evaluation_begin_apart(monkeypatch, seed):
    seen = Starts(monkeypatch)
    training = training_of(seed=seed)
    learned = seen.take()
    assert set(learned) == {Purpose.TRAINING}
    assert len(learned[Purpose.TRAINING]) == 4  # one for each actor
    while not training.is_finished:
        training.step()
    validated = seen.take()
    assert set(validated) == {Purpose.VALIDATION}
    assert len(validated[Purpose.VALIDATION]) == 2 * 6  # others each time
    machine = training.machine(0, {})
    validate(machine)
    chosen = seen.take()
    assert set(chosen) == {Purpose.VALIDATION}
    evaluate(machine, episodes=300, seed=seed)
    judged = seen.take()
    assert set(judged) == {Purpose.EVALUATION}
    known = set().union(*learned.values(), *validated.values(), *chosen.values())
    assert len(known) == 4 + 12 + 200
    assert not known & judged[Purpose.EVALUATION]


def test_another_attempt_begins_elsewhere_and_is_validated_on_the_same_starts():
    setting = find_task("Maze").configure()
    members = [Member(setting, MODES, 0, 1e-3, attempt) for attempt in (0, 1, 2)]
    opened = [one.streams(Purpose.TRAINING, 0, worlds=2) for one in members]
    assert len(np.unique(np.concatenate(opened))) == 6
    judged = [one.streams(Purpose.VALIDATION, 1, 7, worlds=2) for one in members]
    assert (judged[0] == judged[1]).all()
    assert (judged[0] == judged[2]).all()


def test_every_macro_step_costs_its_price_in_training_alone():
    """Without traces, a step's target is its reward and the value behind it."""
    free, paid = (training_of("Harvester", gae_lambda=0.0, step_cost=cost) for cost in (0.0, 0.25))
    (batch, (returns, ending)), (costly, (same_returns, same_ending)) = (
        one.rollouts.collect() for one in (free, paid)
    )
    assert (batch.choices == costly.choices).all()
    np.testing.assert_allclose(costly.returns, batch.returns - 0.25, rtol=0, atol=1e-6)
    assert (ending == same_ending).all()
    assert ending.any()
    assert not ending.all()
    assert (returns == same_returns).all()  # what episodes are said to return is what they earn


def test_rewards_are_multiplied_in_training_alone():
    """Without traces, a step's target is its reward and the value behind it."""
    plain, scaled = (
        training_of("Harvester", gae_lambda=0.0, discount=1e-9, step_cost=0.25, reward_scale=scale)
        for scale in (1.0, 30.0)
    )
    (batch, outcomes), (large, same) = (one.rollouts.collect() for one in (plain, scaled))
    assert (batch.choices == large.choices).all()
    np.testing.assert_allclose(large.returns, 30 * batch.returns, rtol=1e-5, atol=1e-5)
    assert batch.returns.abs().max() > 0.1
    np.testing.assert_array_equal(outcomes.returns, same.returns)


def test_what_a_machine_is_worth_has_no_step_cost():
    free, paid = (training_of("Harvester", step_cost=cost) for cost in (0.0, 0.25))
    scores = [
        one._validate(np.zeros((1, 4), np.float32), one.rollouts.collect()[1])[0]["return"]
        for one in (free, paid)
    ]
    assert scores[0] == scores[1]
