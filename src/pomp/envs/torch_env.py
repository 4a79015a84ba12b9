"""Thousands of worlds on a GPU, torch tensors in and out."""

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor

from pomp.core.cuda import (
    THREADS,
    as_launchable,
    as_launchable_group,
    blocks_for,
    check_device,
    load_cuda,
)
from pomp.core.errors import ConfigError, CudaError, EnvironmentMisuseError
from pomp.core.graphs import numba_stream
from pomp.engine.lanes import StepResults
from pomp.engine.loading import cuda_kernels_of
from pomp.engine.starts import empty_worlds, reset
from pomp.engine.units import ACTION_COUNT
from pomp.envs.batch import EnvBatch, resolve_setting, streams_of, world_space
from pomp.karel.observation import observe
from pomp.karel.world import WorldBatch, memory_of
from pomp.tasks.task import Setting, Task

CHECK_EVERY = 64  # steps between looks at whether some action was out of range


class KarelTorchEnv:
    """A batch of worlds whose states never leave the device.

    `step` takes a `[B]` int64 tensor on the device and returns planes `[B, C, H, W]` uint8, rewards
    `[B]` float32, terminated and truncated `[B]` bool. The tensors it returns are its own and are
    overwritten by the next step: clone what must live longer. A world whose episode has ended
    starts anew at its next step, which ignores the action and pays nothing (Gymnasium's next-step
    mode). On a GPU one CUDA graph holds the whole step.

    An action out of range is taken as the nearest one, and the error is raised within `CHECK_EVERY`
    steps: looking at once would wait for the device at every step.
    """

    def __init__(
        self,
        task: str | Task | Setting,
        num_envs: int,
        device: str = "cuda",
        variant: str | None = None,
        options: Mapping[str, object] | None = None,
        size: tuple[int, int] | None = None,
        scale: int = 1,
        channels: int = 8,
        max_episode_steps: int | None = None,
    ) -> None:
        if num_envs < 1:
            raise ConfigError(f"num_envs must be at least 1, got {num_envs}")
        self.setting = resolve_setting(task, variant, options, size, scale)
        self.num_envs, self.device = num_envs, torch.device(check_device(device))
        self.single_observation_space = world_space(self.setting, channels)
        self.single_action_space = gym.spaces.Discrete(ACTION_COUNT)
        self.limit = max_episode_steps or self.setting.task.max_steps * self.setting.scale
        self._channels = channels
        self._steps = -1
        shape = (num_envs, channels, self.setting.height, self.setting.width)
        self._planes = torch.zeros(shape, dtype=torch.uint8, device=self.device)
        self._actions = torch.zeros(num_envs, dtype=torch.int64, device=self.device)
        self._rewards = torch.zeros(num_envs, device=self.device)
        self._ended = torch.zeros((2, num_envs), dtype=torch.bool, device=self.device)
        self._had_bad_action = torch.zeros(1, dtype=torch.bool, device=self.device)
        self._graph: Any = None
        self._launch = self._prepare_cuda() if device == "cuda" else self._prepare_cpu()

    def reset(self, seed: int = 0) -> Tensor:
        """Start all episodes; world i is that of `KarelEnv` with seed `seed + i`.

        Returns:
            The observations, `[B, C, H, W]` uint8; overwritten by the next step.
        """
        streams = streams_of(range(seed, seed + self.num_envs))
        self._steps = 0
        self._had_bad_action.zero_()
        if self.device.type == "cpu":
            self._batch.begin(streams)
            self._planes[:] = torch.from_numpy(self._batch.observe(self._channels))
            return self._planes
        fresh = reset(self.setting, streams, "cuda")
        for mine, theirs in zip(self._state, memory_of(fresh), strict=True):
            mine.copy_(torch.as_tensor(theirs, device=self.device))
        self._is_over.zero_()
        observe(self._worlds, self._channels, self._planes)
        return self._planes

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Take one action in every world.

        Args:
            actions: `[B]` int64, on the device.

        Returns:
            Observations `[B, C, H, W]` uint8, rewards `[B]` float32, terminated `[B]` bool and
            truncated `[B]` bool; overwritten by the next step.

        Raises:
            EnvironmentMisuseError: `reset` was never called.
            CudaError: the actions have another shape, type or device, or are out of range.
        """
        if self._steps < 0:
            raise EnvironmentMisuseError("call reset() before the first step()")
        wanted = f"actions must be int64 of shape ({self.num_envs},) on {self.device.type}"
        if not isinstance(actions, Tensor):
            raise CudaError(f"{wanted}, got a {type(actions).__name__}")
        fits = actions.dtype == torch.int64 and actions.shape == (self.num_envs,)
        if not fits or actions.device.type != self.device.type:
            got = f"{actions.dtype} of shape {tuple(actions.shape)} on {actions.device.type}"
            raise CudaError(f"{wanted}, got {got}")
        self._actions.copy_(actions)
        self._launch()
        self._steps += 1
        if self._steps % CHECK_EVERY == 0:
            self.check()
        return self._planes, self._rewards, self._ended[0], self._ended[1]

    def check(self) -> None:
        """Wait for the device and raise if an action since the last reset was out of range."""
        if bool(self._had_bad_action):
            raise CudaError(f"an action was not in 0..{ACTION_COUNT - 1}")

    def _prepare_cpu(self) -> Callable[[], None]:
        self._batch = EnvBatch(self.setting, self.num_envs, self.limit, None)

        def launch() -> None:
            is_bad = (self._actions < 0) | (self._actions >= ACTION_COUNT)
            self._had_bad_action.logical_or_(is_bad.any())
            self._actions.clamp_(0, ACTION_COUNT - 1)
            rewards, *ended = self._batch.step(self._actions.numpy())
            self._rewards.copy_(torch.from_numpy(rewards))
            for mine, theirs in zip(self._ended, ended, strict=True):
                mine.copy_(torch.from_numpy(theirs))
            self._planes[:] = torch.from_numpy(self._batch.observe(self._channels))

        return launch

    def _prepare_cuda(self) -> Callable[[], None]:
        """Capture one step as a CUDA graph; return what replays it."""
        from pomp.karel.observation_cuda import observer

        load_cuda()
        count = self.num_envs
        empty = empty_worlds(self.setting, count)
        tensors = map(torch.from_numpy, memory_of(empty))
        self._state: list[Any] = [one.to(self.device) for one in tensors]
        kind = (empty.task, empty.height, empty.width)
        self._worlds = WorldBatch.holding(*kind, self._state, checked_for=self.setting.task)
        self._is_over = torch.ones(count, dtype=torch.bool, device=self.device)
        constants = torch.tensor(self.setting.constants, device=self.device)
        play_worlds = cuda_kernels_of(self.setting).play_worlds
        results = StepResults(self._is_over, self._rewards, *self._ended)
        groups = [as_launchable_group(group) for group in (memory_of(self._worlds), results)]
        arrays = [as_launchable(constants), *groups]
        actions = [as_launchable(array) for array in (self._actions, self._had_bad_action)]
        show, shown = observer(self._worlds, self._planes)
        # A graph knows addresses only: what stands there must live as long as it does.
        self._held = (arrays, actions, shown)

        def launch() -> None:
            stream = numba_stream()
            play_worlds[blocks_for(count), THREADS, stream](*actions, self.limit, *arrays)
            show(stream)

        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # compiles; every world is over, so this draws starts only
            launch()
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            launch()
        replay: Callable[[], None] = self._graph.replay
        return replay
