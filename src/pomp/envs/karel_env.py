"""One world behind the Gymnasium API."""

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from pomp.core.errors import EnvironmentMisuseError
from pomp.engine.units import ACTION_COUNT
from pomp.envs.batch import (
    RENDER_MODES,
    EnvBatch,
    check_actions,
    check_render_mode,
    render,
    resolve_setting,
    streams_of,
    world_space,
)
from pomp.tasks.task import Setting, Task


class KarelEnv(gym.Env[NDArray[np.uint8], int]):
    """A task whose actions are the primitive ones.

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
        self.setting = resolve_setting(task, variant, options, size, scale)
        self.render_mode = check_render_mode(render_mode)
        self.observation_space: gym.spaces.Space[Any] = world_space(self.setting, channels)
        self.action_space: gym.spaces.Space[Any] = gym.spaces.Discrete(ACTION_COUNT)
        self._channels = channels
        limit = self.setting.task.max_steps * self.setting.scale
        self._batch = EnvBatch(self.setting, 1, limit, threads=1)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Start an episode.

        Args:
            seed: its world is the seed's first; None: the next of the stream that is running.
            options: not used.

        Returns:
            The observation, `[C, H, W]` uint8, and no information.
        """
        super().reset(seed=seed)
        worlds = self._batch.worlds
        if seed is not None:
            streams = streams_of([seed])
        elif worlds is not None:
            streams = worlds.stream.copy()
        else:
            streams = streams_of([int(self.np_random.integers(2**31))])
        self._batch.begin(streams)
        return self._batch.observe(self._channels)[0], {}

    def step(self, action: int) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        """Take one action; a done episode may go on, and then pays what its task pays.

        Returns:
            The observation, `[C, H, W]` uint8, the reward, whether the task is done, whether the
            episode is truncated, and no information.
        """
        if self._batch.worlds is None:
            raise EnvironmentMisuseError("call reset() before the first step()")
        chosen = check_actions(np.asarray([action]), 1, ACTION_COUNT)
        self._batch.is_over[:] = False
        rewards, terminated, truncated = self._batch.step(chosen)
        planes = self._batch.observe(self._channels)[0]
        return planes, float(rewards[0]), bool(terminated[0]), bool(truncated[0]), {}

    def render(self) -> Any:
        """Return the world as text or picture, by `render_mode`."""
        if self._batch.worlds is None:
            raise EnvironmentMisuseError("call reset() before render()")
        return render(self._batch.worlds, 0, self.render_mode)
