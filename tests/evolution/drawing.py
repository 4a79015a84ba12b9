"""Random machines to play with, and settings of short searches."""

from dataclasses import replace

import numpy as np

from mutating import mutate_rules
from pomp.core.streams import Purpose, branch, open_streams
from pomp.dsl.mutation import propose_programs
from pomp.dsl.vocabulary import LEAPS
from pomp.evolution.config import EvolveConfig
from pomp.evolution.genome import Machines, askable, first_machines, limits_of

COMPASS = EvolveConfig(sensors="compass", chains=24, tokens=40)
PLAIN = replace(COMPASS, patience=0, penalty=0.0, lateness=0.0, fragility=0.0, clean=False)


def random_machines(count: int, modes: int, seed: int, config: EvolveConfig = COMPASS) -> Machines:
    streams = open_streams(Purpose.PROGRAMS, seed, worlds=count)
    blank = np.full((count, config.tokens), LEAPS.pad, np.uint8)
    draw = np.ones(count, np.bool_)

    def programs(k: int) -> np.ndarray:
        return propose_programs(blank, draw, branch(streams, k), "rich", limits_of(config))

    machines = first_machines(programs(0))
    for mode in range(1, modes):
        machines = machines.grown(programs(mode))
    rules = branch(streams, 99)
    mutate_rules(machines, 30 * list(range(count)), rules, askable(config))
    return machines


def config_of(**changes: object) -> EvolveConfig:
    return replace(EvolveConfig(chains=8, starts=4, validation_starts=8, steps=20), **changes)
