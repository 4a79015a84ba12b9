"""A round of the search: annealing that begins with machines chosen before."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.core.streams import Purpose, branch, open_streams
from pomp.engine.starts import begin, draw_starts
from pomp.evolution.anneal import Annealing
from pomp.evolution.config import EvolveConfig
from pomp.evolution.genome import Machines
from pomp.karel.world import WorldBatch
from pomp.tasks.task import Setting

NEW, CHOICES, CHAINS = range(3)  # what a round draws


@dataclass(frozen=True, eq=False)
class Round:
    """What a round is to do.

    Attributes:
        machines: with which its chains begin.
        number: from 0; all it draws depends on it.
        population: the number of the round that began this population.
        starts: worlds on which changed machines are played.
        heat: of the annealing, as `length`, `stretch` and `is_mirrored`.
    """

    machines: Machines
    number: int
    population: int
    starts: int
    heat: float
    length: float
    stretch: float = 1.0
    is_mirrored: bool = False

    def values(self) -> dict[str, Any]:
        """All but the machines, for a checkpoint."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self)[1:]}


@dataclass(frozen=True)
class Found:
    """What a round found: its best machine; machines it tried, programs they ran, actions taken."""

    machine: Machines
    score: float
    evaluated: int
    programs: int
    actions: int


def draws_of(seed: int, number: int) -> NDArray[np.uint64]:
    """The stream of a round."""
    return open_streams(Purpose.PROGRAMS, seed, number, worlds=1)


def run_round(
    setting: Setting, worlds: WorldBatch, seed: int, config: EvolveConfig, one: Round,
    stop: Callable[[int], bool], threads: int | None = None,
) -> Found | None:  # fmt: skip
    """Anneal to the end; None if it was stopped.

    Args:
        setting: the task.
        worlds: where machines are played.
        seed: of the search.
        config: of the search.
        one: the round.
        stop: asked after every change, with the number of machines tried.
        threads: at most; None: one per core.
    """
    annealing = Annealing(
        setting, worlds, one.machines.copy(), branch(draws_of(seed, one.number), CHAINS)[0], config,
        heat=one.heat, length=one.length, stretch=one.stretch, is_mirrored=one.is_mirrored,
        threads=threads,
    )  # fmt: skip
    while not annealing.is_finished:
        if stop(annealing.evaluated):
            return None
        annealing.step()
    return Found(
        annealing.best,
        annealing.best_score,
        annealing.evaluated,
        annealing.programs,
        annealing.actions,
    )


def some_starts(setting: Setting, count: int, seed: int, purpose: Purpose) -> WorldBatch:
    """All starts of a task that has few and draws nothing later, else some at random."""
    starts = setting.list_starts() if setting.task.starts is not None else ()
    if not setting.task.draws(setting) and 0 < len(starts) <= count:
        return begin(setting, [start.map for start in starts])
    return draw_starts(setting, count, seed, purpose)
