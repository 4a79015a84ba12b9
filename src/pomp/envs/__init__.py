"""Gymnasium environments; importing this package registers an id for each task.

The axes of arrays are B worlds, C planes of an observation, and H rows and W columns of the grid.
What a step of B worlds returns: observations, rewards `[B]`, terminated `[B]` bool, truncated `[B]`
bool, and further information.
"""

from pomp.core.doors import open_door
from pomp.envs.registration import register_envs

__getattr__, __dir__, __all__ = open_door(__name__)

register_envs()
