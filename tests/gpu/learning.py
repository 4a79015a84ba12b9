"""The gradient steps' GPU kernels without a GPU: run as a script it writes what they compute."""

import pickle
import sys

import numpy as np

from pomp.learning.adam import AdamSettings, AdamState, Gradients
from pomp.learning.clipped_loss import Collected, LossSettings, Outputs, PpoLoss
from pomp.learning.gaussian_loss import DrawnVectors, GaussianLoss, GaussianOutputs

LOSS = LossSettings(clip_ratio=0.05, clips_value=True, value_weight=0.5, entropy_weight=0.01)
ADAM = AdamSettings.of(0.5, np.float32)
FIRST = 4


def inputs():
    """A mini-batch of 6 steps within a rollout of 12, of two members with 4 choices."""
    draw = np.random.default_rng(5)

    def normal(*shape):
        return draw.normal(size=shape).astype(np.float32)

    choices = draw.integers(0, 4, (2, 12))
    log_probs = np.float32(np.log(0.25)) + 0.1 * normal(2, 12)
    values = normal(2, 12)
    now = values[:, FIRST : FIRST + 6] + 0.1 * normal(2, 6)
    collected = Collected(choices, log_probs, values, normal(2, 12), normal(2, 12))
    empty = (np.zeros((2, 6, 4)), np.zeros((2, 6)), np.zeros((3, 2, 6)))
    loss = PpoLoss(*(one.astype(np.float32) for one in empty))
    outputs = Outputs(0.3 * normal(2, 6, 4), now)
    corrections = np.array([0.5, 1e-5], np.float32)
    state = AdamState(normal(2, 9), normal(2, 9), np.abs(normal(2, 9)))
    norms = np.array([0.2, 3.0], np.float32)
    learning_rates = np.array([0.1, 0.01], np.float32)
    return (
        (outputs, collected, loss),
        (corrections, ADAM, state, Gradients(normal(2, 9), norms, learning_rates)),
        (draw.random((3, 2, 6, 5)) < 0.5, normal(3, 5, 4, 2)),
    )


def vectors():
    """The same mini-batch with choices that are vectors of three numbers."""
    draw = np.random.default_rng(6)

    def normal(*shape):
        return draw.normal(size=shape).astype(np.float32)

    means, log_stds = normal(2, 6, 3), 0.2 * normal(2, 3)
    drawn = normal(2, 12, 3)
    drawn[:, FIRST : FIRST + 6] = means + np.exp(log_stds)[:, None] * normal(2, 6, 3)
    log_probs = np.full((2, 12), -4, np.float32) + 0.5 * normal(2, 12)
    collected = DrawnVectors(drawn, log_probs, normal(2, 12), normal(2, 12), normal(2, 12))
    empty = (np.zeros((2, 6, 3)), np.zeros((2, 6, 3)), np.zeros((2, 6)), np.zeros((3, 2, 6)))
    loss = GaussianLoss(*(one.astype(np.float32) for one in empty))
    return GaussianOutputs(means, log_stds, normal(2, 6)), collected, loss


def convert(value, to):
    """Arrays as `to` makes them, those in tuples, too."""
    if isinstance(value, tuple):
        return type(value)(*(convert(one, to) for one in value))
    return to(value) if isinstance(value, np.ndarray) else value


def launch(kernel, shape, *arguments):
    """On the simulator, whose arrays are copies; `shape`: blocks and threads of each.

    Returns:
        The arguments after the launch.
    """
    from numba import cuda

    given = [convert(one, cuda.to_device) for one in arguments]
    kernel[shape](*given)
    return [fetch(one) for one in given]


def fetch(value):
    """Copies of the simulator's arrays."""
    if isinstance(value, tuple):
        return type(value)(*map(fetch, value))
    return value.copy_to_host() if hasattr(value, "copy_to_host") else value


def main(target):
    """Write everything the kernels have written."""
    from pomp.learning.adam_cuda import adam_step_cuda
    from pomp.learning.clipped_loss_cuda import ppo_loss_cuda
    from pomp.learning.gaussian_loss_cuda import gaussian_loss_cuda
    from pomp.machine.patches_cuda import cut_patches, join_patches

    steps, moves, (planes, channels_last) = inputs()
    found = {
        "loss": tuple(launch(ppo_loss_cuda, (1, 16), FIRST, LOSS, *steps)[-1]),
        "vectors": tuple(launch(gaussian_loss_cuda, (1, 16), FIRST, LOSS, *vectors())[-1]),
        "adam": tuple(launch(adam_step_cuda, (1, 32), *moves)[2]),
    }
    for name, source, is_last in (("first", planes.astype(np.uint8), False),
                                  ("last", channels_last, True)):  # fmt: skip
        height, width = source.shape[1:3] if is_last else source.shape[2:]
        depth = 4 * (source.shape[3] if is_last else source.shape[1])
        patches = np.zeros((len(source), height - 1, width - 1, depth), np.float32)
        blocks = patches.shape[0] * patches.shape[1]
        found[name] = launch(cut_patches, (blocks, 5), source, is_last, 2, patches)[-1]
    joined = np.zeros_like(channels_last)
    blocks = joined.shape[0] * joined.shape[1]
    found["joined"] = launch(join_patches, (blocks, 5), found["last"], 2, joined)[-1]
    with open(target, "wb") as file:
        pickle.dump(found, file)


if __name__ == "__main__":
    main(sys.argv[1])
