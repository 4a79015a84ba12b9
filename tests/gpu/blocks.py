"""Epochs in blocks of threads without a GPU: run as a script it writes what the kernel learns."""

import pickle
import sys

import numpy as np
import torch

from pomp.learning.block_epochs import BlockEpochs, share_all
from pomp.learning.blockwise import THREADS, StepSettings
from pomp.learning.config import PpoConfig
from pomp.learning.ppo import Learner, RolloutBatch, loss_settings
from pomp.machine.config import NetworkConfig
from pomp.machine.layers import Shape, draw_weights
from pomp.machine.network import Ensemble

CONFIG = PpoConfig(actors=6, steps=1, minibatch=3, epochs=1, total=600)
SHAPE = Shape(NetworkConfig(hidden=3), 5, 6, 3)
MODES, RATES = (3, 2), torch.tensor([0.1, 0.01])


def learner_and_batch():
    """A learner of two members, a rollout of six steps, and their order."""
    rows = [
        SHAPE.pack(draw_weights(Shape(SHAPE.config, 5, 6, count), np.uint64(count)))
        for count in MODES
    ]
    draw, steps = np.random.default_rng(7), CONFIG.rollout
    planes = (draw.random((2, steps, 8, 5, 6)) < 0.3).astype(np.uint8)
    last = np.stack([draw.integers(-1, count, steps) for count in MODES])
    choices = np.stack([draw.integers(0, count + 1, steps) for count in MODES])
    numbers = draw.normal(size=(4, 2, steps)).astype(np.float32) * [[[0.2]], [[1]], [[1]], [[1]]]
    parts = planes, last, choices, *numbers.astype(np.float32)
    learner = Learner(
        CONFIG, Ensemble(SHAPE, list(MODES), "cpu"), torch.from_numpy(np.stack(rows)), RATES
    )
    orders = torch.arange(steps).flip(0).expand(1, 2, -1)
    return learner, RolloutBatch(*map(torch.from_numpy, parts)), orders


def main(target):
    """Write parameters and moments after the two gradient steps of an epoch."""
    from pomp.learning.blockwise_cuda import learn_epoch_cuda

    learner, batch, orders = learner_and_batch()
    blocks = BlockEpochs(learner.network, RATES, CONFIG.minibatch)
    corrections = learner._correct_steps(0).to(torch.float32)
    settings = StepSettings(loss_settings(CONFIG), learner._adam, corrections, CONFIG.minibatch)
    blocks.begin(learner._state)
    given = blocks.arguments(batch.select(orders[0]), settings)
    learn_epoch_cuda[len(MODES), THREADS](*map(share_all, given))
    blocks.end(learner._state)
    with open(target, "wb") as file:
        pickle.dump(learner.to_arrays(), file)


if __name__ == "__main__":
    main(*sys.argv[1:])
