"""One world behind the Gymnasium API."""

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from pomp.core.errors import EnvironmentMisuseError
from pomp.dsl.vocabulary import Action
from pomp.envs.episodes import (
    RENDER_MODES,
    Episodes,
    check_actions,
    check_render_mode,
    configure,
    render,
    streams_of,
    world_space,
)
from pomp.tasks.task import Setting, Task


class KarelEnv(gym.Env[NDArray[np.uint8], int]):
    """A task whose actions are the five of Karel.

    Observations are `[C, H, W]` uint8 planes (`pomp.karel.observation.observe`), `terminated` is
    the task's done flag, and an episode is truncated after the task's `max_steps` times the scale.
    """

    metadata = {"render_modes": list(RENDER_MODES), "render_fps": 10}  # noqa: RUF012 - Gymnasium's form

    def __init__(
        self,
        task: str | Task | Setting,
        variant: str | None = None,
        options: Mapping[str, object] | None = None,
        size: tuple[int, int] | None = None,
        scale: int = 1,
        channels: int = 8,
        render_mode: str | None = None,
    ) -> None:
        self.setting = configure(task, variant, options, size, scale)
        self.render_mode = check_render_mode(render_mode)
        self.observation_space: gym.spaces.Space[Any] = world_space(self.setting, channels)
        self.action_space: gym.spaces.Space[Any] = gym.spaces.Discrete(len(Action))
        self._channels = channels
        limit = self.setting.task.max_steps * self.setting.scale
        self._episodes = Episodes(self.setting, 1, limit, threads=1)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """A fresh world: the seed's first, or the next of the stream that is running."""
        super().reset(seed=seed)
        worlds = self._episodes.worlds
        if seed is not None:
            streams = streams_of([seed])
        elif worlds is not None:
            streams = worlds.stream.copy()
        else:
            streams = streams_of([int(self.np_random.integers(2**31))])
        self._episodes.begin(streams)
        return self._episodes.observe(self._channels)[0], {}

    def step(self, action: int) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        """Perform one action; a done episode may go on, and then pays what its task pays."""
        if self._episodes.worlds is None:
            raise EnvironmentMisuseError("call reset() before the first step()")
        chosen = check_actions(np.asarray([action]), 1, len(Action))
        self._episodes.is_over[:] = False
        rewards, terminated, truncated = self._episodes.play(chosen)
        planes = self._episodes.observe(self._channels)[0]
        return planes, float(rewards[0]), bool(terminated[0]), bool(truncated[0]), {}

    def render(self) -> Any:
        """The world as text or picture, by `render_mode`."""
        if self._episodes.worlds is None:
            raise EnvironmentMisuseError("call reset() before render()")
        return render(self._episodes.worlds, 0, self.render_mode)
