"""Speed of the search for whole machines: machines and actions per second, on one core and all."""

import time
from dataclasses import dataclass

from pomp.bench.machine import on_one_core
from pomp.evolve.config import EvolveConfig
from pomp.evolve.search import Evolution
from pomp.tasks.task import Task

ROUNDS = 8
"""Rounds that are timed: six fresh starts, then two that go on."""
CONFIG = EvolveConfig(sensors="compass", length=2_000, actions=20_000_000, polish=8)
"""How long these are."""


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
    Evolution(setting, 0, EvolveConfig(chains=2, length=1, polish=1)).advance(lambda: False)

    def run() -> tuple[float, Evolution]:
        evolution = Evolution(setting, 0, CONFIG)
        began = time.perf_counter()
        for _ in range(ROUNDS):
            evolution.advance(lambda: False)
        return evolution.evaluated / (time.perf_counter() - began), evolution

    every, evolution = run()
    with on_one_core():
        one, _ = run()
    return EvolveSpeed(one, every, evolution.actions / evolution.evaluated)
