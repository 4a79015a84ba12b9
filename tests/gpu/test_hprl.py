"""HPRL on a GPU: `pytest -m cuda`."""

import numpy as np
import pytest
import torch

from pomp.embedding.config import HPRL_MODEL
from pomp.embedding.model import EmbeddingModel, initialise
from pomp.embedding.space import Embedding
from pomp.hprl.config import configure_hprl
from pomp.hprl.training import MetaTraining, meta_member
from pomp.tasks.catalog import find_task

pytestmark = pytest.mark.cuda

SMALL = {"ppo.total": 4096, "validation.every": 2, "validation.episodes": 8}


def train(device, updates=4, **changes):
    model = EmbeddingModel(HPRL_MODEL)
    initialise(model, 0)
    config = configure_hprl("paper", {**SMALL, **changes})
    settings = [find_task(name).configure() for name in ("DoorKey", "Seeder")]
    members = [meta_member(one, seed, config) for one in settings for seed in (0, 1)]
    training = MetaTraining(members, config, device, Embedding(model, device))
    for _ in range(updates):
        training.step()
    return training


@pytest.mark.parametrize("observation", ["env_state", "step_counter"])
def test_training_on_a_gpu_gives_the_same_bytes_twice(observation):
    changes = {"policy.observation": observation}
    first, second = (train("cuda", **changes).to_arrays()[0] for _ in range(2))
    for name, array in first.items():
        assert array.tobytes() == second[name].tobytes(), name


def test_a_checkpoint_goes_on_to_the_same_bytes():
    whole, cut = train("cuda"), train("cuda", updates=2)
    again = train("cuda", updates=0)
    again.restore(*cut.to_arrays())
    for _ in range(2):
        again.step()
    for name, array in whole.to_arrays()[0].items():
        assert array.tobytes() == again.to_arrays()[0][name].tobytes(), name


def test_the_first_rollout_is_the_cpus():
    """But for rounding, which may change a program now and then."""
    pairs = [train(device, updates=0).rollouts.collect() for device in ("cpu", "cuda")]
    (one, ours), (other, theirs) = pairs
    assert torch.allclose(one.latents, other.latents.cpu(), atol=1e-2)
    assert torch.allclose(one.values, other.values.cpu(), atol=1e-2)
    assert np.isclose(ours.returns, theirs.returns).mean() > 0.95


def test_an_update_is_the_cpus():
    """But for rounding: networks multiply in TF32 on a GPU."""
    here, there = train("cpu", updates=0), train("cuda", updates=0)
    batch, _ = here.rollouts.collect()
    moved = type(batch)(*(part.cuda() for part in vars(batch).values()))
    orders = torch.arange(32).expand(4, 4, 32)
    ours = here.learner.learn(batch, orders, 0)
    theirs = there.learner.learn(moved, orders.cuda(), 0)
    assert torch.allclose(ours, theirs.cpu(), rtol=0.05, atol=1e-3)


def test_a_policy_is_evaluated_on_a_gpu():
    training = train("cuda", updates=1)
    policy = training.policy(0, {})
    found = policy.evaluate(episodes=64, device="cuda", embedding=training.embedding)
    assert found.returns.shape == (64,)
    assert (found.programs >= 1).all()
