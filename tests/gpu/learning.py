"""The gradient steps' GPU kernels without a GPU: run as a script it writes what they compute."""

import pickle
import sys

import numpy as np

CONFIG = (0.05, True, 0.5, 0.01)
FIRST = 4


def inputs():
    """A mini-batch of 6 steps within a rollout of 12, of two members with 4 choices."""
    draw = np.random.default_rng(5)

    def normal(*shape):
        return draw.normal(size=shape).astype(np.float32)

    choices = draw.integers(0, 4, (2, 12))
    chances = np.float32(np.log(0.25)) + 0.1 * normal(2, 12)
    values = normal(2, 12)
    now = values[:, FIRST : FIRST + 6] + 0.1 * normal(2, 6)
    rollout = (choices, chances, values, normal(2, 12), normal(2, 12))
    places = (np.zeros((2, 6, 4)), np.zeros((2, 6)), np.zeros((3, 2, 6)))
    steps = (0.3 * normal(2, 6, 4), now, *rollout, *(one.astype(np.float32) for one in places))
    pace = np.array([0.5, 1e-5, 0.1, 0.999, 0.001, 0.5, 1e-6], np.float32)
    state = (normal(2, 9), normal(2, 9), np.abs(normal(2, 9)), normal(2, 9))
    lengths = np.array([0.2, 3.0], np.float32)
    rates = np.array([0.1, 0.01], np.float32)
    return (
        steps,
        (lengths, rates, pace, *state),
        (draw.random((3, 2, 6, 5)) < 0.5, normal(3, 5, 4, 2)),
    )


def launch(kernel, shape, *arguments):
    """On the simulator, whose arrays are copies; `shape`: blocks and threads of each."""
    from numba import cuda

    given = [cuda.to_device(one) if isinstance(one, np.ndarray) else one for one in arguments]
    kernel[shape](*given)
    return [one.copy_to_host() for one in given if hasattr(one, "copy_to_host")]


def main(target):
    """Write everything the kernels have written."""
    from pomp.learning.descent_cuda import move_parameters, weigh_steps
    from pomp.machine.patches_cuda import cut_patches, join_patches

    steps, moves, (planes, channels_last) = inputs()
    found = {
        "weighed": launch(weigh_steps, (1, 16), FIRST, *CONFIG, *steps)[-3:],
        "moved": launch(move_parameters, (1, 32), *moves)[3:6],
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
