"""Play many machines on the same worlds, on the CPU or where the worlds are."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pomp.core.compiling import CALLS_AT_ONCE, launch, parts_for, pieces_for
from pomp.core.cuda import THREADS, as_launchable, as_launchable_group, blocks_for, to_device
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
    Earnings,
    Expectations,
    FitnessTerms,
    RuleMachines,
)
from pomp.evolution.config import BUDGETS, INTERRUPTED, EvolveConfig
from pomp.evolution.genome import Machines, sensors_of
from pomp.evolution.ground import Ground
from pomp.karel.sensors import Sensor
from pomp.karel.world import WorldBatch
from pomp.tasks.task import Setting


class StoppedError(Exception):
    """Playing was stopped before its end."""


@dataclass(frozen=True)
class Parents:
    """What is known of the parents of C mutated machines, to judge these early.

    Attributes:
        thresholds: `[C]` float64, the least means that would be accepted. A machine is given up
            as soon as it cannot reach its threshold by what is expected.
        earned: `[C, B]` float64, what the parents earned.
        optimistic: `[C, B]` float64, what a machine is expected to earn in worlds where it has not
            played yet.
        orders: `[C, B]` int64, the order in which each machine plays the worlds.
        trust: a machine that earns what its parent earned, to the bit, in the first so many worlds
            of its order is trusted to do so in all, and not played any more.
    """

    thresholds: NDArray[np.float64]
    earned: NDArray[np.float64]
    optimistic: NDArray[np.float64]
    orders: NDArray[np.int64]
    trust: int

    @classmethod
    def unknown(cls, machines: int, worlds: int) -> "Parents":
        """Return what makes `play_machines` play all machines in all worlds: nothing is known."""
        shape = machines, worlds
        orders = np.tile(np.arange(worlds), (machines, 1))  # contiguous: compiled once
        return cls(np.full(machines, -np.inf), np.zeros(shape), np.zeros(shape), orders, worlds)


@dataclass
class Scores:
    """What C machines earn in B worlds.

    Attributes:
        earned: `[C, B]` float64, in each world that was played.
        played: `[C]` int32, how many worlds these are; less than B if a machine was given up.
        tallies: `[C, TALLIES]` int64, what these took and how they ended, added up.
    """

    earned: NDArray[np.float64]
    played: NDArray[np.int32]
    tallies: NDArray[np.int64]

    @property
    def scores(self) -> NDArray[np.float64]:
        """The mean over the worlds, `[C]` float64; -inf if a machine was given up."""
        worlds = self.earned.shape[1]
        sums = np.cumsum(self.earned, axis=1)[:, -1]  # one by one, so the same on every device
        return np.where(self.played == worlds, sums / worlds, -np.inf)

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
    parents: Parents | None = None,
    *,
    budgets: Sequence[int] = BUDGETS,
    to_the_end: bool = False,
    threads: int | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Scores:
    """Play machines on the same worlds, no longer than needed if their parents are known.

    An episode counts with the least of what it earns under several `budgets` of calls, minus the
    difference to the most, so that nothing that depends on one of them pays, and minus a share of
    what is lost if programs are interrupted much earlier. Where machines must be clean, in worlds
    of the task's own size and horizon, an episode ends when the least budget cuts a program short.

    Args:
        setting: the task.
        machines: C machines.
        worlds: B worlds; machines are played on the GPU if these are there.
        config: what is taken off a score, and when a machine is stuck.
        parents: what is known of the machines' parents; None, and on the GPU: all machines are
            played in all worlds.
        budgets: calls that a program may spend.
        to_the_end: let a stuck machine go on, as it will when it is used.
        threads: at most so many; None: one per core.
        stop: asked now and then, if no parents are known, whether to stop.

    Raises:
        StoppedError: it said so.
    """
    ground = worlds if isinstance(worlds, Ground) else Ground.of([(setting, worlds)])
    own = sensors_of(config).own
    code = compile_ids(machines.programs.reshape(-1, machines.programs.shape[2]))
    terms = terms_of(ground, config, budgets, to_the_end=to_the_end)
    if ground.is_on_device:
        return _play_on_gpu(own, code, machines, ground, terms)
    if parents:
        return _play_on_cpu(own, code, machines, ground, terms, parents, threads)
    longest = int(ground.most.max()) * int(terms.limits.sum())  # calls of an episode
    scores = []
    for part in slices(len(ground), CALLS_AT_ONCE // longest):
        if stop():
            raise StoppedError
        some, unknown = ground.take(part), Parents.unknown(len(machines), part.stop - part.start)
        own_terms = terms._replace(most=some.most, is_strict=terms.is_strict[part])
        calls = len(machines) * len(some) * longest
        scores.append(_play_on_cpu(own, code, machines, some, own_terms, unknown, threads, calls))
    return _joined(scores)


def _joined(scores: list[Scores]) -> Scores:
    """Return what the same machines earn in some worlds and in others as what they earn in all."""
    if len(scores) == 1:
        return scores[0]
    earned = np.concatenate([one.earned for one in scores], axis=1)
    played = np.array([one.played for one in scores]).sum(axis=0, dtype=np.int32)
    return Scores(earned, played, np.array([one.tallies for one in scores]).sum(axis=0))


def terms_of(
    ground: Ground, config: EvolveConfig, budgets: Sequence[int] = BUDGETS, *, to_the_end: bool
) -> FitnessTerms:
    """Return what episodes in these worlds count with, and when they are given up."""
    limits = np.array([INTERRUPTED, *sorted(budgets)], np.int64)
    patience = np.full(len(limits), 0 if to_the_end else config.patience, np.int64)
    patience[0] = config.patience
    is_strict = ground.is_own & config.clean
    counts = config.fragility, config.penalty, config.lateness
    return FitnessTerms(ground.most, is_strict, patience, limits, *counts)


def _play_on_cpu(
    own: tuple[Sensor, ...], code: Code, machines: Machines, ground: Ground,
    terms: FitnessTerms, known: Parents, threads: int | None, calls: int = 0,
) -> Scores:  # fmt: skip
    """Play on the CPU, machines spread over threads; signals are heard between two pieces."""
    count, worlds = len(machines), ground.worlds
    needs = known.thresholds * len(ground)
    expected = Expectations(needs, known.earned, known.optimistic, known.orders, known.trust)
    earned, tallies = np.zeros((count, len(ground))), np.zeros((count, TALLIES), np.int64)
    earnings = Earnings(earned, np.zeros(count, np.int32), tallies)
    played = RuleMachines(code.instructions, *machines.arrays[1:])
    run_machines = kernels_of(ground.largest.task, own).run_machines
    parts = parts_for(count, threads, least=8)
    pieces = max(parts, min(count, pieces_for(parts, calls)))

    def run_piece(piece: int) -> None:
        scratch = Lane.empty(worlds.cells.shape[1], worlds.memory.shape[1], code.depth)
        run_machines(
            piece, pieces, played, terms, expected, ground.constants, worlds, earnings, scratch
        )  # fmt: skip

    launch(parts, run_piece, pieces)
    return Scores(*earnings)


def _play_on_gpu(
    own: tuple[Sensor, ...], code: Code, machines: Machines, ground: Ground, terms: FitnessTerms
) -> Scores:  # fmt: skip
    """Play on the GPU, a thread for each machine and world; no machine is given up."""
    shape = len(machines), len(ground)
    earned, tallies = to_device(np.zeros(shape)), to_device(np.zeros((*shape, TALLIES), np.int64))
    played = RuleMachines(*map(to_device, (code.instructions, *machines.arrays[1:])))
    terms = FitnessTerms(*(to_device(one) if np.ndim(one) else one for one in terms))
    run_machines = cuda_kernels_of(ground.largest, code.depth, own).run_machines
    run_machines[blocks_for(shape[0] * shape[1]), THREADS](
        as_launchable_group(played), as_launchable_group(terms), as_launchable(ground.constants),
        as_launchable_group(ground.worlds), as_launchable(earned), as_launchable(tallies),
    )  # fmt: skip
    all_worlds = np.full(shape[0], shape[1], np.int32)
    return Scores(earned.copy_to_host(), all_worlds, tallies.copy_to_host().sum(axis=1))
