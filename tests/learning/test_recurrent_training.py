"""Trainings of networks that remember: whole sequences, the same bytes, what is kept of them."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from playing import task

from pomp.core.errors import ConfigError
from pomp.learning.baselines import ACTIONS, BASELINES
from pomp.learning.config import configure_learning
from pomp.learning.ppo import (
    Learner,
    RolloutBatch,
    estimate_advantages,
    normalise_advantages,
    order_sequences,
    select_log_probs,
)
from pomp.learning.training import Member, Training
from pomp.machine.evaluation import evaluate
from pomp.machine.layers import Shape, draw_weights
from pomp.machine.network import Ensemble, choose
from pomp.machine.policy import ProgramMachine

TINY = {
    **BASELINES["mmn"].changes,
    "ppo.total": 4 * 32,
    "ppo.actors": 4,
    "ppo.steps": 8,
    "ppo.minibatch": 16,
    "ppo.epochs": 2,
    "network.hidden": 8,
    "network.memory": 6,
    "episode.most_steps": 5,
    "validation.every": 2,
    "validation.episodes": 4,
    "validation.needs_end": False,
}


def begin(seeds=(0,), **changes):
    named = {name.replace("__", "."): value for name, value in changes.items()}
    members = [Member(MAZE, ACTIONS, seed, 1e-2) for seed in seeds]
    return Training(members, configure_learning("paper", {**TINY, **named}), "cpu")


MAZE = task("Maze")


def bytes_of(training):
    arrays, values = training.to_arrays()
    return {name: array.tobytes() for name, array in arrays.items()}, json.dumps(values)


def finish(training):
    while not training.is_finished:
        training.step()
    return training


def test_the_order_of_sequences_has_every_step_once_and_those_of_an_actor_together():
    order = order_sequences(torch.tensor([[2, 0, 3, 1]]), steps=3, together=2)
    assert order.tolist() == [[2, 0, 6, 4, 10, 8, 3, 1, 7, 5, 11, 9]]


def test_sequences_give_the_probabilities_that_the_rollout_had():
    """Also across rollouts, and where episodes end inside a sequence."""
    training = begin()
    training.rollouts.collect()
    batch, outcomes = training.rollouts.collect()
    assert outcomes.ending.any()
    assert bool((batch.states[:, :4].abs().sum(dim=-1) > 0).any())  # from the rollout before
    parameters = training.learner.parameters.detach()
    logits, values, _ = training.learner.network.recall(
        parameters, batch.observations, batch.modes, batch.states[:, :4], 8
    )
    log_probs = select_log_probs(torch.log_softmax(logits, dim=-1), batch.choices)
    torch.testing.assert_close(log_probs, batch.log_probs)
    torch.testing.assert_close(values, batch.values)


CUES = configure_learning(
    "paper",
    {
        **{"ppo.actors": 32, "ppo.steps": 4, "ppo.minibatch": 32, "ppo.total": 60 * 128},
        **{"ppo.learning_rate": 1e-2, "ppo.clip_ratio": 0.2, "ppo.entropy": 0.01},
        **{"network.inputs": "perceptions+mode", "network.hidden": 8},
    },
)


def learn_cues(memory, updates=60):
    """Learn to choose at the fourth step what was shown at the first; how often that is right."""
    config, draw = CUES.ppo, torch.Generator().manual_seed(0)
    shape = Shape(replace(CUES.network, memory=memory), 8, 8, 1)
    first = torch.from_numpy(shape.pack(draw_weights(shape, np.uint64(3))))[None]
    network = Ensemble(shape, [1], "cpu")
    learner = Learner(config, network, first, torch.tensor([config.learning_rate]))
    modes = torch.zeros(1, 4, 32, dtype=torch.int64)  # the same at every step but the first
    modes[:, 0] = -1
    right = torch.zeros(1)
    for update in range(updates):
        cues = torch.rand(32, generator=draw) < 0.5
        seen = torch.zeros(1, 4, 32, dtype=torch.int16)
        seen[:, 0] = cues.to(torch.int16)
        seen, last = seen.flatten(1), modes.flatten(1)
        states = torch.zeros(1, 32, memory)
        with torch.no_grad():
            given = (learner.parameters, seen, last)
            answer = network.recall(*given, states, 4) if memory else network(*given)
        choices = choose(answer[0], torch.rand(answer[1].shape, generator=draw).double())
        right = (choices[:, -32:] == cues).float()
        rewards = torch.zeros(1, 4, 32)
        rewards[:, -1] = right
        ended, values = torch.zeros(1, 4, 32, dtype=torch.bool), answer[1]
        ended[:, -1] = True
        advantages = estimate_advantages(
            rewards, values.view(1, 4, 32), ended, torch.zeros(1, 32), 0.99, 0.95
        ).flatten(1)
        log_probs = select_log_probs(torch.log_softmax(answer[0], dim=-1), choices)
        targets = advantages + values
        whole = (seen, last, choices, log_probs, values, normalise_advantages(advantages), targets)
        kept = (torch.zeros(1, 128, memory),) if memory else ()
        actors = torch.rand(config.epochs, 1, 32, generator=draw).argsort(dim=2)
        orders = order_sequences(actors, steps=4, together=8)
        learner.learn(RolloutBatch(*whole, *kept), orders, update)
    return float(right.mean())


def test_only_a_network_that_remembers_learns_what_must_be_remembered():
    assert learn_cues(memory=8) > 0.95
    assert learn_cues(memory=0, updates=20) < 0.85  # guessing


def test_a_resumed_training_ends_with_the_same_bytes():
    whole, halfway = finish(begin()), begin()
    halfway.step()
    arrays, values = halfway.to_arrays()
    kept = {name: array.copy() for name, array in arrays.items()}
    again = begin()
    again.restore(kept, json.loads(json.dumps(values)))
    assert bytes_of(finish(again)) == bytes_of(whole)


def test_members_do_not_meet():
    together, alone = finish(begin(seeds=(3, 5))), finish(begin(seeds=(5,)))
    ours, own = together.learner.parameters[1], alone.learner.parameters[0]
    torch.testing.assert_close(ours, own, rtol=1e-4, atol=1e-5)


def test_a_recurrent_machine_is_saved_and_earns_the_same(tmp_path):
    machine = finish(begin()).machine(0, {})
    machine.save(tmp_path / "machine")
    again = ProgramMachine.load(tmp_path / "machine")
    assert again.transition.remembers
    assert evaluate(again, episodes=4, seed=1).returns.tolist() == (
        evaluate(machine, episodes=4, seed=1).returns.tolist()
    )


def test_a_recurrent_machine_takes_no_single_step():
    machine = finish(begin(ppo__total=32)).machine(0, {})
    with pytest.raises(ConfigError, match=r"a single step needs transitions that .* remember more"):
        machine.act(None)


def test_mini_batches_that_cut_sequences_are_refused():
    with pytest.raises(ConfigError, match=r"whole sequences of 8 steps; ppo.minibatch must be a"):
        begin(ppo__minibatch=4)
