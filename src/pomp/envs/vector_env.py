"""Thousands of worlds on the CPU behind Gymnasium's vector API, without subprocesses."""

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from pomp.core.configs import check_count
from pomp.core.errors import ConfigError, EnvironmentMisuseError
from pomp.core.resources import check_memory
from pomp.engine.units import ACTION_COUNT
from pomp.envs.batch import (
    RENDER_MODES,
    EnvBatch,
    check_actions,
    check_render_mode,
    evaluation_streams,
    render,
    resolve_setting,
    start_of,
    streams_of,
    world_space,
)
from pomp.tasks.task import Setting, Task


class KarelVectorEnv(gym.vector.VectorEnv[Any, Any, Any]):
    """A native batch of worlds. World i of seed s is the world of `KarelEnv` with seed s + i."""

    metadata = {  # noqa: RUF012 - Gymnasium's form
        "render_modes": list(RENDER_MODES),
        "render_fps": 10,
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        task: str | Task | Setting,
        num_envs: int = 1,
        variant: str | None = None,
        options: Mapping[str, object] | None = None,
        size: tuple[int, int] | None = None,
        scale: int = 1,
        channels: int = 8,
        max_episode_steps: int | None = None,
        render_mode: str | None = None,
        threads: int | None = None,
    ) -> None:
        check_count("num_envs", num_envs)
        self.setting = resolve_setting(task, variant, options, size, scale)
        seen = channels * self.setting.height * self.setting.width
        check_memory(f"{num_envs} environments", num_envs, 3 * seen)  # also low and high of a space
        self.render_mode = check_render_mode(render_mode)
        self.num_envs = num_envs
        self.single_observation_space = world_space(self.setting, channels)
        self.single_action_space = gym.spaces.Discrete(ACTION_COUNT)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        limit = max_episode_steps or self.setting.task.max_steps * self.setting.scale
        self._channels = channels
        self._batch = EnvBatch(self.setting, num_envs, limit, threads)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Start episodes.

        Args:
            seed: world i is that of `KarelEnv` with seed `seed + i`, or with the i-th seed of a
                sequence; where None, the running stream goes on.
            options: `{"reset_mask": mask}`, `[B]` bool, starts only some of them;
                `{"evaluation_seed": s, "episode": n}` begins world i with start n + i of the
                evaluations of seed s; `{"start": map}` begins with a `pomp.Map`.

        Returns:
            The observations, `[B, C, H, W]` uint8, and the information, as in `step`.
        """
        chosen = (options or {}).get("reset_mask")
        if chosen is not None and np.shape(chosen) != (self.num_envs,):
            raise ConfigError(f"reset_mask must have shape ({self.num_envs},)")
        streams = evaluation_streams(options, self.num_envs)
        streams = self._streams(seed) if streams is None else streams
        renewed = None if chosen is None else np.asarray(chosen)
        self._batch.begin(streams, renewed, start_of(options))
        return self._batch.observe(self._channels), self._batch.info()

    def _streams(self, seed: int | Sequence[int | None] | None) -> NDArray[np.uint64]:
        """Return streams, `[B]` uint64: of the given seeds, else those that are running."""
        if isinstance(seed, int | np.integer):
            seed = [int(seed) + place for place in range(self.num_envs)]
        seeds = [None] * self.num_envs if seed is None else list(seed)
        if len(seeds) != self.num_envs:
            raise ConfigError(f"{self.num_envs} worlds need as many seeds, got {len(seeds)}")
        worlds = self._batch.worlds
        fresh = self.np_random.integers(2**31, size=self.num_envs) if worlds is None else None
        given = [
            own if own is not None else (0 if fresh is None else int(fresh[place]))
            for place, own in enumerate(seeds)
        ]
        streams = streams_of(given)
        if worlds is not None:
            runs_on = np.array([own is None for own in seeds])
            streams[runs_on] = worlds.stream[runs_on]
        return streams

    def step(
        self, actions: Any
    ) -> tuple[Any, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Take one action in every world; one whose episode has ended starts anew instead.

        Args:
            actions: `[B]` integers.

        Returns:
            Observations `[B, C, H, W]` uint8, rewards `[B]` float64, terminated `[B]` bool,
            truncated `[B]` bool, and the information: `return` so far, `progress` and `actions`,
            `[B]` each, as `KarelEnv` has them.
        """
        if self._batch.worlds is None:
            raise EnvironmentMisuseError("call reset() before the first step()")
        chosen = check_actions(actions, self.num_envs, ACTION_COUNT)
        rewards, terminated, truncated = self._batch.step(chosen)
        info = self._batch.info()
        return self._batch.observe(self._channels), rewards, terminated, truncated, info

    def render(self) -> tuple[Any, ...] | None:
        """Return every world as text or picture, by `render_mode`."""
        worlds = self._batch.worlds
        if worlds is None:
            raise EnvironmentMisuseError("call reset() before render()")
        if self.render_mode is None:
            return None
        return tuple(render(worlds, place, self.render_mode) for place in range(self.num_envs))
