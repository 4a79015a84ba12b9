"""Gymnasium ids from the catalog of tasks."""

import gymnasium as gym

from pomp.tasks.catalog import TASKS

VERSION = 0
"""Rises when a change to rules, layouts or rewards can move a published number."""


def register_envs() -> None:
    """Register every task of the catalog; importing `pomp.envs` does it.

    The limit in the spec is where the environment truncates by itself. It is that of scale 1: who
    asks `gymnasium.make` for another scale says `max_episode_steps=` as well.
    """
    for task in TASKS:
        name = f"{task.suite}/{task.name}-v{VERSION}"
        if name not in gym.registry:
            gym.register(
                id=name,
                entry_point="pomp.envs.karel_env:KarelEnv",
                vector_entry_point="pomp.envs.vector_env:KarelVectorEnv",
                kwargs={"task": task.name},
                max_episode_steps=task.max_steps,
            )
