"""Observations for networks that take pictures."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from pomp.core.errors import ConfigError

LEAST_PIXELS = 36
"""The smallest side of a picture that DQN's convolutions take (8, 4, 3 wide; strides 4, 2, 1)."""


class ImageObservation(
    gym.ObservationWrapper[NDArray[np.uint8], Any, NDArray[np.uint8]], RecordConstructorArgs
):
    """Planes as a picture: every cell so many pixels wide and high, 255 where a plane has a 1.

    Observations are `[C, H * n, W * n]` uint8 from 0 to 255, with the least n that makes both sides
    long enough. Stable-Baselines3's `CnnPolicy` takes them as they are, channels first.
    """

    def __init__(self, env: gym.Env[Any, Any], least: int = LEAST_PIXELS) -> None:
        """Wrap an environment.

        Args:
            env: `KarelEnv`, or a wrapped one with the same observations.
            least: pixels that each side must have.

        Raises:
            ConfigError: its observations are no planes.
        """
        RecordConstructorArgs.__init__(self, least=least)
        gym.ObservationWrapper.__init__(self, env)
        space = env.observation_space
        if not isinstance(space, gym.spaces.Box) or len(space.shape) != 3:
            raise ConfigError(f"a picture is made of planes [C, H, W], got observations of {space}")
        channels, *sides = space.shape
        self._pixels = max(1, -(-least // min(sides)))
        shape = (channels, *(side * self._pixels for side in sides))
        self.observation_space = gym.spaces.Box(0, 255, shape, np.uint8)

    def observation(self, observation: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return a picture, `[C, H * n, W * n]` uint8, of an `observation` `[C, H, W]` uint8."""
        planes = observation * np.uint8(255)
        return planes.repeat(self._pixels, axis=1).repeat(self._pixels, axis=2)
