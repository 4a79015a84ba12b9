"""What machines earn: many of them on the same worlds, on the CPU or where the worlds are."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pomp.core.compiling import launch, parts_for
from pomp.core.cuda import THREADS, as_launchable, as_launchable_group, blocks_for, to_device
from pomp.dsl.bytecode import Code, compile_ids
from pomp.engine.lanes import Lane
from pomp.engine.loading import constants_on_device, cuda_kernels_of, kernels_of
from pomp.engine.rule_machine import (
    ACTED,
    PROGRAMS,
    STUCKS,
    Earnings,
    Expectations,
    FitnessTerms,
    RuleMachines,
)
from pomp.evolution.config import BUDGETS, INTERRUPTED, EvolveConfig
from pomp.evolution.genome import Machines
from pomp.karel.world import WorldBatch
from pomp.machine.config import EpisodeConfig
from pomp.tasks.task import Setting

MOST_STEPS = EpisodeConfig().most_steps


@dataclass(frozen=True)
class Parents:
    """What is known of the machines that others are changes of, to tell early what these earn.

    Attributes:
        thresholds: `[C]`, the least means that are of interest.
        earned: `[C, B]`, what the parents earned.
        hopes: `[C, B]`, what a world is taken to be worth until it is played.
        orders: `[C, B]` int64, the worlds as they are played.
        trust: a machine that earns as much as its parent in so many worlds does so in all.
    """

    thresholds: NDArray[np.float64]
    earned: NDArray[np.float64]
    hopes: NDArray[np.float64]
    orders: NDArray[np.int64]
    trust: int

    @classmethod
    def unknown(cls, machines: int, worlds: int) -> "Parents":
        """Nothing is known: all machines are played in all worlds."""
        shape = machines, worlds
        orders = np.tile(np.arange(worlds), (machines, 1))  # laid out as others: compiled once
        return cls(np.full(machines, -np.inf), np.zeros(shape), np.zeros(shape), orders, worlds)


@dataclass
class Scores:
    """What C machines earn in B worlds.

    Attributes:
        earned: `[C, B]`, in each world that was played.
        played: `[C]`, how many these are; less than B if a machine was given up.
        tallies: `[C, 3]`.
    """

    earned: NDArray[np.float64]
    played: NDArray[np.int32]
    tallies: NDArray[np.int64]

    @property
    def scores(self) -> NDArray[np.float64]:
        """The means; -inf if a machine was given up."""
        worlds = self.earned.shape[1]
        sums = np.cumsum(self.earned, axis=1)[:, -1]  # one by one, so the same on every device
        return np.where(self.played == worlds, sums / worlds, -np.inf)

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
    parents: Parents | None = None,
    *,
    budgets: Sequence[int] = BUDGETS,
    to_the_end: bool = False,
    threads: int | None = None,
) -> Scores:
    """Play machines on the same worlds, no longer than needed if their parents are known.

    An episode counts with the least of what it earns under several `budgets` of calls, minus the
    difference to the most, so that nothing that depends on one of them pays, and minus a share of
    what is lost if programs are interrupted much earlier.

    Args:
        setting: the task.
        machines: C of them.
        worlds: where they play; on the GPU if these are there.
        config: what counts, and when a machine is stuck.
        parents: of the machines; None: all are played in all worlds, as they are on the GPU.
        budgets: calls that a program may spend.
        to_the_end: a stuck machine goes on nevertheless, as it will when it is used.
        threads: None: one per core.
    """
    code = compile_ids(machines.programs.reshape(-1, machines.programs.shape[2]))
    limits = np.array([INTERRUPTED, *sorted(budgets)], np.int64)
    patience = np.full(len(limits), 0 if to_the_end else config.patience, np.int64)
    patience[0] = config.patience
    counts = config.fragility, config.penalty, config.lateness
    terms = FitnessTerms(MOST_STEPS * setting.scale, patience, limits, *counts)
    if worlds.device == "cuda":
        return _play_on_gpu(setting, code, machines, worlds, terms)
    known = parents or Parents.unknown(len(machines), len(worlds))
    needs = known.thresholds * len(worlds)
    expected = Expectations(needs, known.earned, known.hopes, known.orders, known.trust)
    return _play_on_cpu(setting, code, machines, worlds, terms, expected, threads)


def _play_on_cpu(
    setting: Setting, code: Code, machines: Machines, worlds: WorldBatch, terms: FitnessTerms,
    expected: Expectations, threads: int | None,
) -> Scores:  # fmt: skip
    count = len(machines)
    earned, tallies = np.zeros((count, len(worlds))), np.zeros((count, 3), np.int64)
    earnings = Earnings(earned, np.zeros(count, np.int32), tallies)
    played = RuleMachines(code.instructions, *machines.arrays[1:])
    run_machines = kernels_of(setting.task).run_machines
    parts = parts_for(count, threads, least=8)

    def run_part(part: int) -> None:
        scratch = Lane.empty(worlds.cells.shape[1], worlds.memory.shape[1], code.depth)
        run_machines(
            part, parts, played, terms, expected, setting.constants, worlds.arrays, earnings,
            scratch,
        )  # fmt: skip

    launch(parts, run_part)
    return Scores(*earnings)


def _play_on_gpu(
    setting: Setting, code: Code, machines: Machines, worlds: WorldBatch, terms: FitnessTerms
) -> Scores:
    """A thread for each machine and world; none is given up."""
    shape = len(machines), len(worlds)
    earned, tallies = to_device(np.zeros(shape)), to_device(np.zeros((*shape, 3), np.int64))
    played = RuleMachines(*map(to_device, (code.instructions, *machines.arrays[1:])))
    terms = terms._replace(patience=to_device(terms.patience), limits=to_device(terms.limits))
    cuda_kernels_of(setting, code.depth).run_machines[blocks_for(shape[0] * shape[1]), THREADS](
        as_launchable_group(played), as_launchable_group(terms), constants_on_device(setting),
        as_launchable_group(worlds.arrays), as_launchable(earned), as_launchable(tallies),
    )  # fmt: skip
    all_worlds = np.full(shape[0], shape[1], np.int32)
    return Scores(earned.copy_to_host(), all_worlds, tallies.copy_to_host().sum(axis=1))
