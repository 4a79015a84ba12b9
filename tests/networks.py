"""Machines with networks that nothing was learned by."""

import numpy as np

from pomp.core.streams import Purpose, open_streams
from pomp.machine.config import EpisodeConfig, NetworkConfig
from pomp.machine.layers import Shape, draw_weights
from pomp.machine.policy import ProgramMachine
from pomp.machine.transitions import NetworkTransition

STEP, TURN = "DEF run m( move m)", "DEF run m( turnLeft m)"


def of_network(modes, bias=(), **config):
    """Return a machine for UpNDown whose network has first weights, with choices preferred."""
    settings = NetworkConfig(hidden=8, **config)
    shape = Shape(settings, 8, 8, len(modes))
    arrays = draw_weights(shape, open_streams(Purpose.TRAINING, 0, worlds=1)[0])
    arrays["actor.bias"] = np.array(bias or [0.0] * (len(modes) + 1), np.float32)
    transition = NetworkTransition(settings, (8, 8), len(modes), arrays)
    return ProgramMachine("UpNDown", tuple(modes), transition, episode=EpisodeConfig(most_steps=20))
