"""What the chains of a round begin with: fresh machines, or one of a population."""

import numpy as np
from numpy.typing import NDArray

from pomp.core.streams import branch
from pomp.dsl.mutation import propose_programs
from pomp.dsl.vocabulary import LEAPS
from pomp.evolution.config import EvolveConfig
from pomp.evolution.genome import (
    Machines,
    divide,
    first_machines,
    limits_of,
    mirror,
    sensors_of,
    walkers,
    with_images,
)
from pomp.evolution.population import Population
from pomp.evolution.rounds import NEW

ONE, PAIR, FOUR, WALKER = range(4)
"""How fresh machines begin: with one mode; with two or four, half of them mirror images of the
others; or as machines that walk to the nearest marker."""
MIRRORED = (PAIR, FOUR)
_GROWTH = 0.35  # probability that machines of a population get a mode more
_DEEPER = 4  # times fewer chains a round has that continues a population, each as much longer


def fresh_chains(kind: int, draws: NDArray[np.uint64], config: EvolveConfig) -> Machines:
    """Return the chains of a round that begins a population.

    Args:
        kind: how its machines begin.
        draws: `[1]` uint64, the stream of the round.
        config: of the search.
    """
    if kind == WALKER:
        return walkers(config)
    machines = first_machines(_programs(config.chains, draws, config))
    if kind == FOUR:
        machines = divide(machines, 0)
    return machines if kind == ONE else with_images(machines)


def later_chains(config: EvolveConfig) -> int:
    """Return how many chains a round has that continues a population."""
    return max(1, config.chains // _DEEPER)


def continued_chains(
    population: Population,
    uniforms: NDArray[np.float64],
    draws: NDArray[np.uint64],
    config: EvolveConfig,
) -> Machines:
    """Return chains that begin with a machine of a population, perhaps with a mode more.

    Args:
        population: the population; its better machines are chosen more often.
        uniforms: `[5]` float64, random numbers: which machine, whether it grows, (two of the
            caller's,) and which mode it grows from.
        draws: `[1]` uint64, the stream of the round.
        config: of the search.
    """
    rank = min(int(-np.log(1 - uniforms[0])), len(population.machines) - 1)
    chosen = population.machines[rank].repeat(later_chains(config))
    if chosen.modes == config.modes or uniforms[1] >= _GROWTH:
        return chosen
    return _grow(chosen, int(uniforms[4] * chosen.modes), draws, config)


def _grow(
    machines: Machines, source: int, draws: NDArray[np.uint64], config: EvolveConfig
) -> Machines:
    """Add a mode: for each fourth chain a random one, a twin, a mirror image, or a part.

    Args:
        machines: one for each chain, all alike.
        source: the mode that is doubled, mirrored or divided.
        draws: `[1]` uint64, the stream of the round.
        config: of the search.
    """
    grown = machines.grown(_programs(len(machines), draws, config))
    twins = machines.split(source)
    kind = np.arange(len(machines)) % 4
    grown.put(kind > 0, twins.take(kind > 0))
    mirror(grown, kind == 2, sensors_of(config))
    grown.put(kind == 3, divide(machines.take(kind == 3), source))
    return grown


def _programs(chains: int, draws: NDArray[np.uint64], config: EvolveConfig) -> NDArray[np.uint8]:
    """Draw a random program for each of so many chains: `[C, L]` uint8; `draws` is `[1]`."""
    streams = branch(branch(draws, NEW), np.arange(chains))
    blank = np.full((chains, config.tokens), LEAPS.pad, np.uint8)
    fresh = np.ones(chains, np.bool_)
    return propose_programs(blank, fresh, streams, "rich", limits_of(config))
