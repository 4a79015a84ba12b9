"""One round of the search: anneal machines that were chosen before, until a budget is spent."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.core.configs import MOST
from pomp.core.streams import Purpose, branch, open_streams
from pomp.evolution.anneal import Annealing
from pomp.evolution.config import MOST_COST, EvolveConfig
from pomp.evolution.genome import Machines
from pomp.evolution.ground import Ground
from pomp.tasks.task import Setting

NEW, CHOICES, CHAINS = range(3)  # what a round draws from: one branch of its stream for each


@dataclass(frozen=True, eq=False)
class Round:
    """What a round is to do. It is decided before the round begins and can run anywhere.

    Attributes:
        machines: C machines, one for each chain to begin with.
        number: the round's number in the search, from 0; everything it draws depends on it.
        population: the number of the round that began this population.
        starts: worlds on which mutated machines are played.
        temperature_factor: times the configured initial temperature.
        length_factor: times the configured steps and actions.
        action_factor: times the actions once more, for machines whose episodes are long.
        is_mirrored: whether the second half of the modes are kept mirror images of the first.
        strictness: times what it costs to be stuck or late.
    """

    machines: Machines
    number: int
    population: int
    starts: int
    temperature_factor: float
    length_factor: float
    action_factor: float = 1.0
    is_mirrored: bool = False
    strictness: float = 1.0

    def values(self) -> dict[str, Any]:
        """Return everything but the machines, for a checkpoint."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self)[1:]}


@dataclass(frozen=True)
class RoundResult:
    """What a round found, and what it cost.

    Attributes:
        machine: the best machine, alone.
        score: its mean score on the starts of the round.
        evaluated: machines that were played.
        programs: programs that these ran.
        actions: actions that these took.
    """

    machine: Machines
    score: float
    evaluated: int
    programs: int
    actions: int


def stricter(config: EvolveConfig, factor: float) -> EvolveConfig:
    """Return settings by which it costs so many times as much to be stuck, late or hasty."""
    penalty, lateness, haste = (
        min(factor * cost, MOST_COST) for cost in (config.penalty, config.lateness, config.haste)
    )
    return replace(config, penalty=penalty, lateness=lateness, haste=haste)


def draws_of(seed: int, number: int) -> NDArray[np.uint64]:
    """Return the random stream of a round: `[1]` uint64."""
    return open_streams(Purpose.PROGRAMS, seed, number, worlds=1)


def run_round(
    setting: Setting, ground: Ground, seed: int, config: EvolveConfig, one: Round,
    stop: Callable[[int], bool], threads: int | None = None,
) -> RoundResult | None:  # fmt: skip
    """Anneal until the round's budget is spent, or until it is stopped.

    Args:
        setting: the task.
        ground: B worlds on which machines are played.
        seed: of the search.
        config: of the search.
        one: the round.
        stop: called before some steps with the number of machines played so far; True stops.
        threads: at most so many; None: one per core.

    Returns:
        What was found, or None if the round was stopped before its end.
    """
    stream = branch(draws_of(seed, one.number), CHAINS)[0]
    steps = config.steps * config.chains // len(one.machines)  # fewer chains take more each
    own = replace(stricter(config, one.strictness), steps=min(max(1, steps), MOST))
    annealing = Annealing(
        setting, ground, one.machines.copy(), stream, own,
        temperature_factor=one.temperature_factor, length_factor=one.length_factor,
        action_factor=one.action_factor, is_mirrored=one.is_mirrored, threads=threads,
    )  # fmt: skip
    while not annealing.is_finished:
        if stop(annealing.evaluated):
            return None
        annealing.advance()
    return RoundResult(
        annealing.best,
        annealing.best_score,
        annealing.evaluated,
        annealing.programs,
        annealing.actions,
    )
