"""Thousands of worlds on the CPU behind Gymnasium's vector API, without subprocesses."""

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from pomp.core.errors import ConfigError, EnvironmentMisuseError
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
        if num_envs < 1:
            raise ConfigError(f"num_envs must be at least 1, got {num_envs}")
        self.setting = configure(task, variant, options, size, scale)
        self.render_mode = check_render_mode(render_mode)
        self.num_envs = num_envs
        self.single_observation_space = world_space(self.setting, channels)
        self.single_action_space = gym.spaces.Discrete(len(Action))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        limit = max_episode_steps or self.setting.task.max_steps * self.setting.scale
        self._channels = channels
        self._episodes = Episodes(self.setting, num_envs, limit, threads)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Fresh worlds; `options={"reset_mask": ...}` renews only some."""
        chosen = (options or {}).get("reset_mask")
        if chosen is not None and np.shape(chosen) != (self.num_envs,):
            raise ConfigError(f"reset_mask must have shape ({self.num_envs},)")
        self._episodes.begin(self._streams(seed), None if chosen is None else np.asarray(chosen))
        return self._episodes.observe(self._channels), {}

    def _streams(self, seed: int | Sequence[int | None] | None) -> NDArray[np.uint64]:
        """Streams of the given seeds; where none is given, the running stream goes on."""
        if isinstance(seed, int | np.integer):
            seed = [int(seed) + place for place in range(self.num_envs)]
        seeds = [None] * self.num_envs if seed is None else list(seed)
        if len(seeds) != self.num_envs:
            raise ConfigError(f"{self.num_envs} worlds need as many seeds, got {len(seeds)}")
        worlds = self._episodes.worlds
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
        """One action per world; a world whose episode has ended starts anew and ignores it."""
        if self._episodes.worlds is None:
            raise EnvironmentMisuseError("call reset() before the first step()")
        chosen = check_actions(actions, self.num_envs, len(Action))
        rewards, terminated, truncated = self._episodes.play(chosen)
        return self._episodes.observe(self._channels), rewards, terminated, truncated, {}

    def render(self) -> tuple[Any, ...] | None:
        """Every world as text or picture, by `render_mode`."""
        worlds = self._episodes.worlds
        if worlds is None:
            raise EnvironmentMisuseError("call reset() before render()")
        if self.render_mode is None:
            return None
        return tuple(render(worlds, place, self.render_mode) for place in range(self.num_envs))
