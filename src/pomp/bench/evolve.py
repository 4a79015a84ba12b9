"""Speed of the search for whole machines: machines and actions per second, on one core and all."""

import time
from dataclasses import dataclass

from pomp.core.compiling import thread_count
from pomp.core.hardware import on_one_core
from pomp.evolution.config import EvolveConfig
from pomp.evolution.search import Evolution
from pomp.tasks.task import Task

ROUNDS = 8
"""Rounds that are timed: six that begin populations, then two that continue them."""
CONFIG = EvolveConfig(sensors="compass", steps=2_000, actions=20_000_000, validation_starts=8)
"""Settings of these rounds: short ones."""


@dataclass(frozen=True)
class EvolveSpeed:
    """How fast machines of a task are tried, by one core and by all."""

    one_core_per_second: float
    all_cores_per_second: float
    actions_per_machine: float
    """Fewer where many machines are given up early."""


def measure_evolve(task: Task) -> EvolveSpeed:
    """Time the first rounds of a search with the compass; compiling is not counted."""
    setting = task.configure()
    workers = min(CONFIG.teams, thread_count())

    def run(config: EvolveConfig, workers: int) -> tuple[float, Evolution]:
        evolution = Evolution(setting, 0, config, workers=workers)
        began = time.perf_counter()
        for _ in range(ROUNDS):
            evolution.advance(lambda: False)
        seconds = time.perf_counter() - began
        evolution.close()
        return evolution.evaluated / seconds, evolution

    run(EvolveConfig(chains=2, steps=1, validation_starts=1), workers)
    every, evolution = run(CONFIG, workers)
    with on_one_core():
        one, _ = run(CONFIG, 1)
    return EvolveSpeed(one, every, evolution.actions / evolution.evaluated)
