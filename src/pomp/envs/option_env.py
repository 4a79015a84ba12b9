"""Programs as actions: the macro decision process of the program machine.

An action is the number of one of K programs, which then runs to its end or its cap, or K, which
ends the episode. An observation has the world, `[C, H, W]` uint8 planes, and the mode, `[K + 1]`
int8: the program that ran last as one-hot.
"""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from pomp.core.errors import ConfigError, EnvironmentMisuseError
from pomp.dsl.bytecode import compile_programs
from pomp.dsl.syntax import Program
from pomp.engine.rollouts import advance
from pomp.engine.units import DEFAULT_CAP
from pomp.envs.batch import RENDER_MODES, check_actions, world_space
from pomp.envs.vector_env import KarelVectorEnv
from pomp.karel.interpreter import Cap
from pomp.karel.world import WorldBatch
from pomp.tasks.task import Setting, Task

MAX_MACRO_STEPS = 1_000
"""Programs per episode at scale 1; reaching it is a true end, not a truncation."""


def option_space(setting: Setting, channels: int, programs: int) -> gym.spaces.Dict:
    """Return the space of observations: world planes, and the program that ran last as one-hot.

    The one-hot vector is all zero before the first program.
    """
    mode = gym.spaces.MultiBinary(programs + 1)
    return gym.spaces.Dict({"world": world_space(setting, channels), "mode": mode})


class ProgramOptionVectorEnv(KarelVectorEnv):
    """Worlds in which programs are the actions, and the last action ends the episode.

    The task's done flag does not end an episode: choosing to end does, or `max_macro_steps`.
    """

    def __init__(
        self,
        task: str | Task | Setting,
        programs: Sequence[str | Program],
        num_envs: int = 1,
        cap: str = DEFAULT_CAP,
        max_macro_steps: int | None = None,
        threads: int | None = None,
        **settings: Any,
    ) -> None:
        if not isinstance(programs, Sequence) or isinstance(programs, str) or not programs:
            raise ConfigError("an option environment needs a list of at least one program")
        super().__init__(task, num_envs, threads=threads, **settings)
        self.single_observation_space = option_space(self.setting, self._channels, len(programs))
        self.single_action_space = gym.spaces.Discrete(len(programs) + 1)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.max_macro_steps = max_macro_steps or MAX_MACRO_STEPS * self.setting.scale
        self._code, self._cap, self._threads = compile_programs(programs), Cap.of(cap), threads
        self._mode = np.zeros((num_envs, len(programs) + 1), np.int8)
        self._taken = np.zeros(num_envs, np.int64)
        self._returns = np.zeros(num_envs)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Start episodes, all or some, as `KarelVectorEnv.reset` does.

        Args:
            seed: of the worlds; where None, the running stream goes on.
            options: `{"reset_mask": mask}`, `[B]` bool, starts only some of them;
                `{"evaluation_seed": s, "episode": n}` begins with evaluation starts,
                `{"start": map}` with a `pomp.Map`.

        Returns:
            Observations `[B, ...]` by name, and the information, as in `step`.
        """
        super().reset(seed=seed, options=options)
        chosen = (options or {}).get("reset_mask", np.ones(self.num_envs, np.bool_))
        self._forget(np.asarray(chosen))
        return self._observe(), self._info(np.zeros(self.num_envs, np.int32), self._taken.copy())

    def _info(
        self, durations: NDArray[np.int32], programs: NDArray[np.int64]
    ) -> dict[str, NDArray[Any]]:
        """Return the information about episodes.

        Args:
            durations: `[B]` int32, the actions of the latest programs.
            programs: `[B]` int64, how many ran so far.
        """
        return {**self._batch.info(), "programs": programs, "duration": durations}

    def _forget(self, chosen: NDArray[np.bool_]) -> None:
        """Clear what is known about the episodes of some worlds, `chosen` `[B]` bool."""
        self._mode[chosen] = 0
        self._taken[chosen] = 0
        self._returns[chosen] = 0.0

    def _observe(self) -> dict[str, NDArray[Any]]:
        """Return observations `[B, ...]` by name."""
        return {"world": self._batch.observe(self._channels), "mode": self._mode.copy()}

    def step(
        self, actions: Any
    ) -> tuple[Any, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Run the chosen programs; a world whose episode has ended starts anew instead.

        Args:
            actions: `[B]` integers, a program's number or the number of programs.

        Returns:
            Observations `[B, ...]` by name, rewards `[B]` float64, terminated `[B]` bool, truncated
            `[B]` bool (never), and the information, `[B]` each: that of `KarelEnv`, how many
            `programs` ran so far, and the `duration` of the latest, in actions.
        """
        worlds = self._batch.worlds
        if worlds is None:
            raise EnvironmentMisuseError("call reset() before the first step()")
        end = len(self._code)
        chosen = check_actions(actions, self.num_envs, end + 1)
        renewed = self._batch.is_over.copy()
        if renewed.any():
            self._batch.begin(worlds.stream.copy(), renewed)
            self._forget(renewed)
        ends = (chosen == end) & ~renewed
        runs = ~renewed & ~ends
        choice = np.where(runs, chosen, -1)
        result = advance(
            self.setting, self._code, worlds, choice, cap=self._cap, threads=self._threads
        )
        returns = result.returns[:, 0]
        rewards = np.where(runs, returns - self._returns, 0.0)
        self._returns = np.where(renewed, 0.0, returns)
        self._taken[~renewed] += 1
        self._mode[runs] = np.eye(end + 1, dtype=np.int8)[chosen[runs]]
        terminated = ends | (~renewed & (self._taken >= self.max_macro_steps))
        self._batch.is_over[:] = terminated
        truncated = np.zeros(self.num_envs, np.bool_)
        info = self._info(np.where(runs, result.actions[:, 0], 0), self._taken - ends)
        return self._observe(), rewards, terminated, truncated, info


class ProgramOptionEnv(gym.Env[dict[str, NDArray[Any]], int]):
    """One world of `ProgramOptionVectorEnv`, behind the single-world API."""

    metadata = {"render_modes": list(RENDER_MODES), "render_fps": 10}  # noqa: RUF012 - Gymnasium's form

    def __init__(
        self,
        task: str | Task | Setting,
        programs: Sequence[str | Program],
        **settings: Any,
    ) -> None:
        self._worlds = ProgramOptionVectorEnv(task, programs, num_envs=1, threads=1, **settings)
        self.setting = self._worlds.setting
        self.render_mode = self._worlds.render_mode
        self.observation_space = self._worlds.single_observation_space
        self.action_space = self._worlds.single_action_space

    @property
    def worlds(self) -> WorldBatch | None:
        """The world, a batch of one; None before the first `reset`."""
        return self._worlds._batch.worlds

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Start an episode, as `KarelEnv.reset` does.

        Returns:
            The observation, `[...]` by name, and the information.
        """
        super().reset(seed=seed)
        observation, info = self._worlds.reset(seed=seed, options=options)
        return _first(observation), {name: array[0].item() for name, array in info.items()}

    def step(
        self, action: int
    ) -> tuple[dict[str, NDArray[Any]], float, bool, bool, dict[str, Any]]:
        """Run one program, or end the episode.

        Returns:
            The observation, `[...]` by name, the reward, whether the episode has ended, whether it
            is truncated (never), and the information of `ProgramOptionVectorEnv`.
        """
        observation, rewards, terminated, truncated, info = self._worlds.step(np.asarray([action]))
        own_info = {name: array[0].item() for name, array in info.items()}
        ended = bool(terminated[0]), bool(truncated[0])
        return _first(observation), float(rewards[0]), *ended, own_info

    def render(self) -> Any:
        """Return the world as text or picture, by `render_mode`."""
        pictures = self._worlds.render()
        return pictures[0] if pictures else None


def _first(observation: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the first world's part of an `observation`, `[B, ...]` by name."""
    return {name: planes[0] for name, planes in observation.items()}
