"""Play many machines on the same worlds, on the CPU or where the worlds are."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pomp.core.compiling import CALLS_AT_ONCE, launch, parts_for, pieces_for
from pomp.core.cuda import (
    THREADS,
    as_launchable,
    as_launchable_group,
    blocks_for,
    map_arrays,
    to_device,
)
from pomp.core.resources import slices
from pomp.dsl.bytecode import Code, compile_ids
from pomp.engine.lanes import Lane
from pomp.engine.loading import cuda_kernels_of, kernels_of
from pomp.engine.rule_machine import (
    ACTED,
    PROGRAMS,
    STUCKS,
    TALLIES,
    UNCLEAN,
    FitnessTerms,
    RuleMachines,
)
from pomp.evolution.config import BUDGETS, INTERRUPTED, MERCIES, EvolveConfig
from pomp.evolution.genome import Machines, sensors_of
from pomp.evolution.ground import Ground
from pomp.karel.sensors import Sensor
from pomp.karel.world import WorldBatch
from pomp.tasks.task import Setting


class StoppedError(Exception):
    """Playing was stopped before its end."""


@dataclass
class Scores:
    """What C machines earn in B worlds.

    Attributes:
        earned: `[C, B]` float64, in each world.
        tallies: `[C, TALLIES]` int64, what these took and how they ended, added up.
    """

    earned: NDArray[np.float64]
    tallies: NDArray[np.int64]

    @property
    def scores(self) -> NDArray[np.float64]:
        """The mean over the worlds, `[C]` float64."""
        sums = np.cumsum(self.earned, axis=1)[:, -1]  # one by one, so the same on every device
        return sums / self.earned.shape[1]

    @property
    def stuck(self) -> NDArray[np.int64]:
        """In how many worlds each machine was stuck, `[C]` int64."""
        return self.tallies[:, STUCKS]

    @property
    def unclean(self) -> NDArray[np.int64]:
        """In how many worlds a program was cut or a machine did not end by its rule, `[C]`."""
        return self.tallies[:, UNCLEAN]

    @property
    def programs(self) -> NDArray[np.int64]:
        """How many programs each machine ran, `[C]` int64."""
        return self.tallies[:, PROGRAMS]

    @property
    def actions(self) -> NDArray[np.int64]:
        """How many actions these took, `[C]` int64."""
        return self.tallies[:, ACTED]


def play_machines(
    setting: Setting,
    machines: Machines,
    worlds: WorldBatch | Ground,
    config: EvolveConfig,
    *,
    budgets: Sequence[int] = BUDGETS,
    to_the_end: bool = False,
    threads: int | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Scores:
    """Play machines on the same worlds.

    An episode counts with the least of what it earns under several `budgets` of calls, minus the
    difference to the most, so that nothing that depends on one of them pays, and minus a share of
    what is lost if programs are interrupted much earlier. Where machines must be clean, in worlds
    of the task's own size and horizon, an episode ends when the least budget cuts a program short.

    Args:
        setting: the task.
        machines: C machines.
        worlds: B worlds; machines are played on the GPU if these are there.
        config: what is taken off a score, and when a machine is stuck.
        budgets: calls that a program may spend.
        to_the_end: let a stuck machine go on, as it will when it is used.
        threads: at most so many; None: one per core.
        stop: asked now and then on the CPU whether to stop.

    Raises:
        StoppedError: it said so.
    """
    ground = worlds if isinstance(worlds, Ground) else Ground.of([(setting, worlds)])
    own = sensors_of(config).own
    code = compile_ids(machines.programs.reshape(-1, machines.programs.shape[2]))
    terms = terms_of(ground, config, budgets, to_the_end=to_the_end)
    if ground.is_on_device:
        return _play_on_gpu(own, code, machines, ground, terms)
    longest = int(ground.most.max()) * int(terms.limits.sum())  # calls of an episode
    scores = []
    for part in slices(len(ground), CALLS_AT_ONCE // longest):
        if stop():
            raise StoppedError
        some = ground.take(part)
        own_terms = terms._replace(most=some.most, is_strict=terms.is_strict[part])
        calls = len(machines) * len(some) * longest
        scores.append(_play_on_cpu(own, code, machines, some, own_terms, threads, calls))
    return _joined(scores)


def _joined(scores: list[Scores]) -> Scores:
    """Return what the same machines earn in some worlds and in others as what they earn in all."""
    if len(scores) == 1:
        return scores[0]
    earned = np.concatenate([one.earned for one in scores], axis=1)
    return Scores(earned, np.array([one.tallies for one in scores]).sum(axis=0))


def terms_of(
    ground: Ground, config: EvolveConfig, budgets: Sequence[int] = BUDGETS, *, to_the_end: bool
) -> FitnessTerms:
    """Return what episodes in these worlds count with, and when they are given up."""
    limits = np.array([INTERRUPTED, *sorted(budgets)], np.int64)
    patience = np.full(len(limits), 0 if to_the_end else config.patience, np.int64)
    patience[0] = config.patience
    is_strict = ground.is_own & config.clean
    mercies = MERCIES if config.clean and not to_the_end else 0
    counts = config.fragility, config.penalty, config.lateness, mercies, config.haste
    return FitnessTerms(ground.most, is_strict, patience, limits, *counts)


def _play_on_cpu(
    own: tuple[Sensor, ...], code: Code, machines: Machines, ground: Ground,
    terms: FitnessTerms, threads: int | None, calls: int,
) -> Scores:  # fmt: skip
    """Play on the CPU, machines spread over threads; signals are heard between two pieces."""
    count, worlds = len(machines), ground.worlds
    earned, tallies = np.zeros((count, len(ground))), np.zeros((count, TALLIES), np.int64)
    played = RuleMachines(code.instructions, *machines.arrays[1:])
    run_machines = kernels_of(ground.largest.task, own).run_machines
    parts = parts_for(count, threads, least=8)
    pieces = max(parts, min(count, pieces_for(parts, calls)))

    def run_piece(piece: int) -> None:
        scratch = Lane.empty(worlds.cells.shape[1], worlds.memory.shape[1], code.depth)
        run_machines(
            piece, pieces, played, terms, ground.constants, worlds, earned, tallies, scratch
        )

    launch(parts, run_piece, pieces)
    return Scores(earned, tallies)


def _play_on_gpu(
    own: tuple[Sensor, ...], code: Code, machines: Machines, ground: Ground, terms: FitnessTerms
) -> Scores:  # fmt: skip
    """Play on the GPU, a thread for each machine and world."""
    shape = len(machines), len(ground)
    earned, tallies = to_device(np.zeros(shape)), to_device(np.zeros((*shape, TALLIES), np.int64))
    played = map_arrays(to_device, RuleMachines(code.instructions, *machines.arrays[1:]))
    terms = map_arrays(to_device, terms)
    run_machines = cuda_kernels_of(ground.largest, code.depth, own).run_machines
    run_machines[blocks_for(shape[0] * shape[1]), THREADS](
        as_launchable_group(played), as_launchable_group(terms), as_launchable(ground.constants),
        as_launchable_group(ground.worlds), as_launchable(earned), as_launchable(tallies),
    )  # fmt: skip
    return Scores(earned.copy_to_host(), tallies.copy_to_host().sum(axis=1))
