"""Fused gradient steps without a GPU: run as a script it writes what the kernels compute."""

import pickle
import sys
from contextlib import ExitStack, contextmanager

import numpy as np
import torch

from pomp.core.cuda import THREADS
from pomp.learning.adam import AdamSettings, AdamState, Gradients, adam_step, correct_bias
from pomp.learning.config import PpoConfig
from pomp.learning.ppo import RolloutBatch, loss_settings, ppo_loss
from pomp.machine.config import NetworkConfig
from pomp.machine.layers import Shape, draw_weights
from pomp.machine.network import Ensemble

SHAPES = {
    "grid and mode": (NetworkConfig(hidden=3), (5, 6), (3, 2)),
    "perceptions": (NetworkConfig(hidden=5, inputs="perceptions+mode"), (6, 6), (2, 3)),
}
CONFIG = PpoConfig(actors=2, steps=2, minibatch=2, epochs=1)
FIRST = 2  # the second mini-batch of the rollout
RATES = (0.1, 0.01)


def network_of(name):
    """An ensemble of two members, and their parameters."""
    config, size, modes = SHAPES[name]
    shape = Shape(config, *size, max(modes))
    rows = [
        shape.pack(draw_weights(Shape(config, *size, count), np.uint64(seed)))
        for seed, count in enumerate(modes)
    ]
    draw = np.random.default_rng(3)
    parameters = np.stack(rows)
    parameters += draw.normal(scale=0.05, size=parameters.shape).astype(np.float32)
    return Ensemble(shape, list(modes), "cpu"), torch.from_numpy(parameters)


def rollout_of(name):
    """A rollout of four steps."""
    config, size, modes = SHAPES[name]
    draw, count = np.random.default_rng(7), CONFIG.rollout
    grid = draw.random((2, count, 8, *size)) < 0.3
    seen = grid.astype(np.uint8) if config.inputs != "perceptions+mode" else None
    if seen is None:
        seen = draw.integers(0, 1024, (2, count)).astype(np.int16)
    last = np.stack([draw.integers(-1, most, count) for most in modes])
    choices = np.stack([draw.integers(0, most + 1, count) for most in modes])
    numbers = (draw.normal(size=(2, count)).astype(np.float32) for _ in range(3))
    log_probs = (np.log(0.3) + 0.2 * draw.normal(size=(2, count))).astype(np.float32)
    return RolloutBatch(*map(torch.from_numpy, (seen, last, choices, log_probs, *numbers)))


def adam_of(parameters):
    """State and corrections of a first step."""
    zeros = torch.zeros_like(parameters)
    corrections = torch.tensor(correct_bias(1, 1e-5, 1.0), dtype=torch.float32)
    return AdamState(parameters, zeros, zeros.clone()), (
        corrections,
        AdamSettings.of(0.5, np.float32),
    )


def expected(name):
    """What tensor operations compute: logits, values, terms, norms, parameters after a step."""
    network, parameters = network_of(name)
    batch, first = rollout_of(name), parameters.clone().requires_grad_()
    outputs = network(parameters, batch.observations, batch.modes)
    part = slice(FIRST, FIRST + CONFIG.minibatch)
    told = network(first, batch.observations[:, part], batch.modes[:, part])
    loss = ppo_loss(*told, batch, FIRST, CONFIG)
    (gradients,) = torch.autograd.grad(told, first, (loss.grad_logits, loss.grad_values))
    norms = gradients.norm(dim=1)
    state, adam = adam_of(parameters)
    adam_step(*adam, state, Gradients(gradients, norms, torch.tensor(RATES)))
    return [one.numpy() for one in (*outputs, loss.terms, norms, parameters)]


def launch(kernel, blocks, *arguments, threads=THREADS):
    """Launch on the simulator, on the tensors' own memory, with fewer threads."""
    kernel[blocks, min(threads, 64)](*map(_plain, arguments))


def simulate_in(*modules):
    """Let functions of other modules than a kernel's see the simulator while it runs."""
    from numba.cuda.simulator import kernel

    swap = kernel.swapped_cuda_module

    @contextmanager
    def swapped(function, simulator):
        with ExitStack() as stack:
            stack.enter_context(swap(function, simulator))
            for module in modules:
                stack.enter_context(swap(module.level_row, simulator))
            yield

    kernel.swapped_cuda_module = swapped


def _plain(value):
    if isinstance(value, tuple):
        return type(value)(*map(_plain, value))
    return value.numpy() if isinstance(value, torch.Tensor) else value


def main(target, name):
    """Write logits, values, terms, norms and parameters after a step."""
    from pomp.learning import fused as learning
    from pomp.machine import fused as machine, network_cuda

    simulate_in(network_cuda)
    for module in (learning, machine):
        module.launch_on_stream = launch
    network, parameters = network_of(name)
    batch = rollout_of(name)
    assert machine.fits(network.shape)
    fused = machine.FusedNetwork(network, CONFIG.rollout)
    outputs = fused(parameters, batch.observations, batch.modes)
    step = learning.FusedStep(
        machine.FusedNetwork(network, CONFIG.minibatch), parameters, torch.tensor(RATES)
    )
    state, adam = adam_of(parameters)
    settings = loss_settings(CONFIG)
    seen = batch.observations, batch.modes, FIRST
    told = step.step(*seen, batch.collected, settings, state, adam)
    with open(target, "wb") as file:
        pickle.dump([one.numpy() for one in (*outputs, *told, parameters)], file)


if __name__ == "__main__":
    main(*sys.argv[1:])
