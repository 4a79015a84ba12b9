"""One world behind the Gymnasium API."""

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from pomp.core.configs import MOST_SEED, check_count
from pomp.core.errors import EnvironmentMisuseError
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
from pomp.karel.world import WorldBatch
from pomp.tasks.task import Setting, Task


class KarelEnv(gym.Env[NDArray[np.uint8], int]):
    """A task whose actions are the primitive ones.

    Observations are `[C, H, W]` uint8 planes (`pomp.karel.observation.observe`), `terminated` is
    the task's done flag, and an episode is truncated after the task's `max_steps` times the scale.
    `info` has the `return` so far, the `progress` (the share of all there is to earn that was
    earned, whatever it cost) and the `actions` taken.
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

    @property
    def worlds(self) -> WorldBatch | None:
        """The world, a batch of one; None before the first `reset`."""
        return self._batch.worlds

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Start an episode.

        Args:
            seed: its world is the seed's first; None: the next of the stream that is running.
            options: `{"evaluation_seed": s, "episode": n}` begins with start n of the evaluations
                of seed s, those that `pomp.evaluate` draws; `{"start": map}` with a `pomp.Map`.

        Returns:
            The observation, `[C, H, W]` uint8, and the information.
        """
        if seed is not None:
            check_count("a seed", seed, least=0, most=MOST_SEED)
        super().reset(seed=seed)
        self._batch.begin(self._streams(seed, options), start=start_of(options))
        return self._batch.observe(self._channels)[0], self._info()

    def _streams(self, seed: int | None, options: dict[str, Any] | None) -> NDArray[np.uint64]:
        """Return the stream of the next episode, `[1]` uint64."""
        chosen, worlds = evaluation_streams(options, 1), self._batch.worlds
        if chosen is not None:
            return chosen
        if seed is None and worlds is not None:
            return worlds.stream.copy()
        return streams_of([int(self.np_random.integers(2**31)) if seed is None else seed])

    def _info(self) -> dict[str, Any]:
        """Return the information about the episode."""
        return {name: array[0].item() for name, array in self._batch.info().items()}

    def step(self, action: int) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        """Take one action; a done episode may go on, and then pays what its task pays.

        Returns:
            The observation, `[C, H, W]` uint8, the reward, whether the task is done, whether the
            episode is truncated, and the information.
        """
        if self._batch.worlds is None:
            raise EnvironmentMisuseError("call reset() before the first step()")
        chosen = check_actions(np.asarray([action]), 1, ACTION_COUNT)
        self._batch.is_over[:] = False
        rewards, terminated, truncated = self._batch.step(chosen)
        planes = self._batch.observe(self._channels)[0]
        return planes, float(rewards[0]), bool(terminated[0]), bool(truncated[0]), self._info()

    def render(self) -> Any:
        """Return the world as text or picture, by `render_mode`."""
        if self._batch.worlds is None:
            raise EnvironmentMisuseError("call reset() before render()")
        return render(self._batch.worlds, 0, self.render_mode)
