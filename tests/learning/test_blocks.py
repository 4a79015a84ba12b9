"""Epochs in which each member learns alone, beside those of tensor operations."""

import numpy as np
import pytest
import torch

from pomp.learning.block_epochs import BlockEpochs, fits_blocks
from pomp.learning.config import PpoConfig
from pomp.learning.ppo import Learner, RolloutBatch
from pomp.machine.config import NetworkConfig
from pomp.machine.layers import Shape, draw_weights
from pomp.machine.network import Ensemble

MODES = (4, 2, 3)
CASES = {
    "grid and mode": ({}, (8, 8), 16),
    "a large grid": ({}, (16, 16), 4),
    "a grid that is no square": ({"hidden": 3}, (5, 7), 6),
    "grid": ({"inputs": "grid", "hidden": 16}, (12, 12), 4),
    "perceptions": ({"inputs": "perceptions+mode", "hidden": 5}, (6, 6), 32),
    "without norm": ({"weight_norm": False}, (8, 8), 8),
}


def learners(name, members=MODES):
    """Two learners of the same members, of which the second learns in blocks, and a rollout."""
    network, size, minibatch = CASES[name]
    config = PpoConfig(actors=minibatch, steps=2, minibatch=minibatch, epochs=2, total=1 << 12)
    shape = Shape(NetworkConfig(**network), *size, max(MODES))
    assert fits_blocks(shape, minibatch)
    parameters, rollouts = [], []
    for count in members:
        draw = np.random.default_rng(count)
        weights = draw_weights(Shape(shape.config, *size, count), np.uint64(count))
        row = shape.pack(weights)
        parameters.append(row + draw.normal(scale=0.05, size=row.shape).astype(np.float32))
        rollouts.append(rollout_of(draw, shape, count, config.rollout))
    ensemble = Ensemble(shape, list(members), "cpu")
    rates = torch.tensor([1e-3 * count for count in members])
    given = config, ensemble, torch.from_numpy(np.stack(parameters)), rates
    plain, blocks = Learner(*given), Learner(*given)
    blocks._blocks = BlockEpochs(ensemble, rates, minibatch)
    parts = (torch.from_numpy(np.stack(part)) for part in zip(*rollouts, strict=True))
    draw = np.random.default_rng(0)
    order = np.stack([draw.permutation(config.rollout) for _ in range(config.epochs)])
    orders = torch.from_numpy(order)[:, None].expand(-1, len(members), -1).contiguous()
    return plain, blocks, RolloutBatch(*parts), orders


def rollout_of(draw, shape, count, steps):
    """What a member with so many modes saw and did."""
    planes = draw.random((steps, 8, shape.height, shape.width)) < 0.2
    seen = planes.astype(np.uint8)
    if not shape.sees_grid:
        seen = draw.integers(0, 1024, steps).astype(np.int16)
    log_probs = np.log(0.3) + 0.2 * draw.normal(size=steps)
    numbers = (log_probs, *draw.normal(size=(3, steps)))
    modes, choices = draw.integers(-1, count, steps), draw.integers(0, count + 1, steps)
    return (seen, modes, choices, *(one.astype(np.float32) for one in numbers))


@pytest.mark.parametrize("name", CASES)
def test_blocks_learn_what_tensor_operations_do(name):
    plain, blocks, batch, orders = learners(name)
    for update in range(2):
        told = [one.learn(batch, orders, update).clone() for one in (plain, blocks)]
        torch.testing.assert_close(*told, rtol=1e-4, atol=1e-5)
    first, second = ([*one.to_arrays().values()] for one in (plain, blocks))
    for ours, theirs in zip(first, second, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5)
    assert np.abs(first[0] - learners(name)[0].to_arrays()["parameters"]).max() > 1e-3


def test_a_member_learns_the_same_bytes_alone_and_in_company():
    _, together, batch, orders = learners("grid and mode")
    together.learn(batch, orders, 0)
    for number, count in enumerate(MODES):
        _, alone, own, _ = learners("grid and mode", (count,))
        alone.learn(own, orders[:, :1].contiguous(), 0)
        for name, rows in together.to_arrays().items():
            assert rows[number].tobytes() == alone.to_arrays()[name][0].tobytes()


def test_networks_that_do_not_fit_are_left_to_others():
    def fits(height, width, minibatch=32, **config):
        return fits_blocks(Shape(NetworkConfig(**config), height, width, 5), minibatch)

    assert fits(8, 8)
    assert fits(16, 16)
    assert not fits(14, 22)
    assert not fits(8, 8, minibatch=64)
    assert not fits(8, 8, hidden=48)
    assert not fits(8, 8, memory=8)
