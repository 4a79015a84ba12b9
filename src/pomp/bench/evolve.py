"""Speed of the search for whole machines: machines and actions per second, on cores or a GPU."""

import time
from dataclasses import dataclass, replace

import numpy as np

from pomp.core.compiling import thread_count
from pomp.core.hardware import on_one_core
from pomp.core.streams import Purpose
from pomp.evolution.anneal import Annealing
from pomp.evolution.config import EvolveConfig
from pomp.evolution.genome import walkers
from pomp.evolution.ground import some_ground
from pomp.evolution.search import Evolution
from pomp.tasks.task import Task

ROUNDS = 8
"""Rounds that are timed: six that begin populations, then two that continue them."""
CONFIG = EvolveConfig(sensors="compass", steps=2_000, actions=20_000_000, validation_starts=8)
"""Settings of these rounds: short ones."""
CUDA_STARTS = 32
"""Worlds of a chain on a GPU, as many as a warp has threads."""
CUDA_SECONDS = 3.0
"""How long chains are timed on a GPU, after as many launches as warm them up."""
_WARM_LAUNCHES = 10


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


@dataclass(frozen=True, kw_only=True)
class CudaEvolveSpeed:
    """How fast machines of a task are tried on a GPU, by so many chains at once.

    Rates are 0 where a chain solves the task before they can be measured.
    """

    chains_1024_per_second: float
    chains_8192_per_second: float
    chains_65536_per_second: float
    actions_per_second: float
    """Of the most chains."""
    actions_per_machine: float
    """Of these; more than on the CPU, since a warp plays in worlds that a thread leaves out."""
    registers: int
    local_bytes: int


def measure_evolve_cuda(task: Task) -> CudaEvolveSpeed:
    """Time chains that begin with machines which walk to the nearest marker."""
    rates = {}
    for chains in (1_024, 8_192, 65_536):
        run = _begin_on_cuda(task, chains)
        for _ in range(_WARM_LAUNCHES):
            run.advance()
        before, actions, began = run.evaluated, run.actions, time.perf_counter()
        seconds = 0.0
        while seconds < CUDA_SECONDS and not run.is_finished:
            run.advance()
            seconds = time.perf_counter() - began
        played, acted = run.evaluated - before, run.actions - actions
        rates[f"chains_{chains}_per_second"] = played / max(seconds, 1e-9)
    registers, local_bytes = run.usage
    return CudaEvolveSpeed(
        **rates,
        actions_per_second=acted / max(seconds, 1e-9),
        actions_per_machine=acted / max(played, 1),
        registers=registers,
        local_bytes=local_bytes,
    )


def _begin_on_cuda(task: Task, chains: int) -> Annealing:
    """Return chains on the GPU that have not taken a step and will not end in time."""
    setting, fragility = task.configure(), CONFIG.fragility if task.is_restless else 0.0
    config = replace(CONFIG, chains=chains, starts=CUDA_STARTS, fragility=fragility)
    ground = some_ground(setting, config, CUDA_STARTS, 0, Purpose.SEARCH, "cuda")
    return Annealing(
        setting, ground, walkers(config), np.uint64(0), config,
        temperature_factor=1.0, length_factor=1e9,
    )  # fmt: skip
