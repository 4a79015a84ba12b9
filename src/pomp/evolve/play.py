"""What machines earn: many of them on the same worlds, on the CPU or where the worlds are."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp._cuda import THREADS, as_launchable, blocks_for, to_device
from pomp._numba import launch, parts_for
from pomp.dsl.bytecode import Code, compile_ids
from pomp.evolve.config import BUDGETS, INTERRUPTED, EvolveConfig
from pomp.evolve.genome import Machines
from pomp.karel.machines import ACTED, PROGRAMS, STUCKS
from pomp.karel.world import WorldBatch
from pomp.machine.config import EpisodeConfig
from pomp.tasks.engine import cuda_kernels_of, kernels_of
from pomp.tasks.task import Setting

MOST_STEPS = EpisodeConfig().most_steps


@dataclass
class Scores:
    """What machines earn: `[C]` each, and a tally `[C, 3]`."""

    scores: NDArray[np.float64]
    played: NDArray[np.int32]
    tallies: NDArray[np.int64]

    @property
    def stuck(self) -> NDArray[np.int64]:
        """Worlds in which they were stuck."""
        return self.tallies[:, STUCKS]

    @property
    def programs(self) -> NDArray[np.int64]:
        """Programs they ran."""
        return self.tallies[:, PROGRAMS]

    @property
    def actions(self) -> NDArray[np.int64]:
        """Actions these took."""
        return self.tallies[:, ACTED]


def play_machines(
    setting: Setting,
    machines: Machines,
    worlds: WorldBatch,
    config: EvolveConfig,
    thresholds: NDArray[np.float64] | None = None,
    *,
    budgets: Sequence[int] = BUDGETS,
    to_the_end: bool = False,
    threads: int | None = None,
) -> Scores:
    """Play machines on the same worlds; those that cannot reach their threshold may be given up.

    An episode counts with the least of what it earns under several `budgets` of calls, minus the
    difference to the most, so that nothing that depends on one of them pays, and minus a share of
    what is lost if programs are interrupted much earlier.

    Args:
        setting: the task.
        machines: C of them.
        worlds: where they play; on the GPU if these are there.
        config: what counts, and when a machine is stuck.
        thresholds: `[C]`; None: all are played to the last world.
        budgets: calls that a program may spend.
        to_the_end: a stuck machine goes on nevertheless, as it will when it is used.
        threads: None: one per core.
    """
    code = compile_ids(machines.programs.reshape(-1, machines.programs.shape[2]))
    limits = np.array([INTERRUPTED, *sorted(budgets)], np.int64)
    patience = np.full(len(limits), 0 if to_the_end else config.patience, np.int64)
    patience[0] = config.patience
    counts = config.fragility, config.penalty, config.lateness
    told = MOST_STEPS * setting.scale, patience, limits, *counts
    if worlds.device == "cuda":
        return _play_on_gpu(setting, code, machines, worlds, told)
    least = np.full(len(machines), -np.inf) if thresholds is None else thresholds
    return _play_on_cpu(setting, code, machines, worlds, told, least, threads)


def _play_on_cpu(
    setting: Setting, code: Code, machines: Machines, worlds: WorldBatch, told: tuple[Any, ...],
    least: NDArray[np.float64], threads: int | None,
) -> Scores:  # fmt: skip
    count = len(machines)
    found = Scores(np.zeros(count), np.zeros(count, np.int32), np.zeros((count, 3), np.int64))
    run_machines = kernels_of(setting.task).run_machines
    parts = parts_for(count, threads, least=8)

    def run_part(part: int) -> None:
        run_machines(
            part, parts, code.instructions, *machines.arrays[1:], *told,
            float(setting.task.ceiling), least, setting.rules, *worlds.arrays,
            found.scores, found.played, found.tallies,
            np.empty(worlds.cells.shape[1], np.uint8), np.empty(worlds.memory.shape[1], np.int32),
            np.empty(1, np.uint64), np.empty(max(code.depth, 1), np.int32), np.empty(2, np.int32),
        )  # fmt: skip

    launch(parts, run_part)
    return found


def _play_on_gpu(
    setting: Setting, code: Code, machines: Machines, worlds: WorldBatch, told: tuple[Any, ...]
) -> Scores:
    """A thread for each machine and world; none is given up."""
    from pomp.tasks.rollout_cuda import rules_on_device

    most, patience, limits, *counts = told
    shape = len(machines), len(worlds)
    earned, tallies = to_device(np.zeros(shape)), to_device(np.zeros((*shape, 3), np.int64))
    tables = (code.instructions, *machines.arrays[1:])
    inputs = [as_launchable(to_device(table)) for table in tables]
    limited = [as_launchable(to_device(array)) for array in (patience, limits)]
    cuda_kernels_of(setting, code.depth).run_machines[blocks_for(shape[0] * shape[1]), THREADS](
        *inputs, most, *limited, *counts, rules_on_device(setting),
        *map(as_launchable, (*worlds.arrays, earned, tallies)),
    )  # fmt: skip
    # Summed one after the other, as on the CPU, so that both agree to the bit.
    totals = np.cumsum(earned.copy_to_host(), axis=1)[:, -1]
    played = np.full(shape[0], shape[1], np.int32)
    return Scores(totals / shape[1], played, tallies.copy_to_host().sum(axis=1))
