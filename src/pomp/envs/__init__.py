"""Gymnasium environments; importing this package registers an id for each task.

The axes of arrays are B worlds, C planes of an observation, and H rows and W columns of the grid.
What a step of B worlds returns: observations, rewards `[B]`, terminated `[B]` bool, truncated `[B]`
bool, and further information.
"""

from typing import Any

from pomp.envs.karel_env import KarelEnv
from pomp.envs.option_env import ProgramOptionEnv, ProgramOptionVectorEnv
from pomp.envs.registration import register_envs
from pomp.envs.vector_env import KarelVectorEnv

__all__ = [
    "KarelEnv",
    "KarelTorchEnv",
    "KarelVectorEnv",
    "ProgramOptionEnv",
    "ProgramOptionVectorEnv",
    "register_envs",
]

register_envs()


def __getattr__(name: str) -> Any:
    if name == "KarelTorchEnv":  # brings torch with it
        from pomp.envs.torch_env import KarelTorchEnv

        return KarelTorchEnv
    raise AttributeError(f"module 'pomp.envs' has no attribute '{name}'")
