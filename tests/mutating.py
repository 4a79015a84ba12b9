"""Rules of machines that are mutated, one after the other."""

from collections.abc import Iterable

import numpy as np

from pomp.engine.rule_mutation import mutate_rule
from pomp.evolution.genome import Machines


def mutate_rules(
    machines: Machines, rows: Iterable[int], streams: np.ndarray, sensors: np.ndarray
) -> None:
    """Mutate a rule of each of these machines, in place; a row may be named several times."""
    _, *rules, start = machines.arrays
    for row in rows:
        one = slice(row, row + 1)
        mutate_rule(streams[one], sensors, *(array[row] for array in rules), start[one])
