"""What the five long tasks share: every action costs, and the horizon can be stretched."""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pomp.karel.dynamics import NO_ZERO
from pomp.karel.world import WorldBatch, memory_of
from pomp.tasks.task import Constants, Setting

ACTION_COST = Fraction(1, 10_000)
MAX_STEPS = 50_000


def long_rules(setting: Setting, events: int, *own: int, fine: Fraction = Fraction(0)) -> Constants:
    """Rules of a task that pays 1 in all for `events` events; all money shrinks with the scale.

    Args:
        setting: the task's setting.
        events: how many events pay at scale 1.
        own: the task's further integers.
        fine: what one unit of the tally costs at scale 1.
    """
    return Constants(
        pay=Fraction(1, events * setting.scale),
        cost=ACTION_COST / setting.scale,
        fine=fine / setting.scale,
        own=own,
    )


def forget_zero_flags(worlds: WorldBatch, *kept: NDArray[np.integer] | int) -> None:
    """Clear all zero flags but those of cells where the task will show a marker over them.

    Args:
        worlds: B worlds, written.
        kept: cells that keep their flags: one for all worlds, or `[B]`, one for each.
    """
    cells, lanes = worlds.cells & NO_ZERO, np.arange(len(worlds))
    for cell in kept:
        cells[lanes, cell] = worlds.cells[lanes, cell]
    memory_of(worlds).cells[:] = cells
