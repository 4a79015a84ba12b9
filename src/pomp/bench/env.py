"""Steps per second of the environments, beside MiniGrid on the same machine."""

import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from pomp.envs import KarelVectorEnv

TASK = "Harvester"
CPU_WORLDS, PEER_WORLDS, CUDA_WORLDS = 1_024, 16, 65_536
SECONDS = 2.0
CUDA_STEPS = 2_000


@dataclass(frozen=True, kw_only=True)
class EnvSpeed:
    """Steps per second; None where it could not be measured."""

    vector_env_steps_per_second: float
    minigrid_steps_per_second: float | None
    ratio_to_minigrid: float | None
    torch_env_steps_per_second: float | None


def measure_env(*, cuda: bool) -> EnvSpeed:
    """Time the vector environment, MiniGrid if it is installed, and the GPU's if asked for."""
    ours = _rate(lambda: KarelVectorEnv(TASK, CPU_WORLDS), CPU_WORLDS, actions=5)
    peer = _rate_minigrid()
    return EnvSpeed(
        vector_env_steps_per_second=ours,
        minigrid_steps_per_second=peer,
        ratio_to_minigrid=ours / peer if peer else None,
        torch_env_steps_per_second=_rate_torch() if cuda else None,
    )


def _rate_minigrid() -> float | None:
    """Return MiniGrid's steps per second, or None if it is not installed."""
    try:
        importlib.import_module("minigrid").register_minigrid_envs()
    except ImportError:
        return None
    return _rate(
        lambda: gym.make_vec(
            "MiniGrid-Empty-8x8-v0", num_envs=PEER_WORLDS, vectorization_mode="sync"
        ),
        PEER_WORLDS,
        actions=7,
    )


def _rate(
    make: Callable[[], gym.vector.VectorEnv[Any, Any, Any]], worlds: int, actions: int
) -> float:
    """Return the steps per second of an environment under random actions.

    Args:
        make: makes the vector environment.
        worlds: how many environments are in it.
        actions: how many actions there are.
    """
    env = make()
    env.reset(seed=0)
    chosen = np.random.default_rng(0).integers(0, actions, (256, worlds))
    for row in chosen[:16]:
        env.step(row)
    steps, began = 0, time.perf_counter()
    while time.perf_counter() - began < SECONDS:
        env.step(chosen[steps % 256])
        steps += 1
    rate = steps * worlds / (time.perf_counter() - began)
    env.close()
    return rate


def _rate_torch() -> float:
    """Return the steps per second of the environment on the GPU."""
    import torch

    from pomp.envs import KarelTorchEnv

    env = KarelTorchEnv(TASK, CUDA_WORLDS)
    env.reset(seed=0)
    chosen = torch.randint(0, 5, (64, CUDA_WORLDS), device="cuda")
    for row in chosen:
        env.step(row)
    torch.cuda.synchronize()
    began = time.perf_counter()
    for step in range(CUDA_STEPS):
        env.step(chosen[step % 64])
    torch.cuda.synchronize()
    return CUDA_STEPS * CUDA_WORLDS / (time.perf_counter() - began)
