"""What episodes of a network meet: features, last modes and choices, to learn from."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pomp.core.streams import Purpose
from pomp.engine.starts import draw_starts
from pomp.machine.policy import ProgramMachine
from pomp.machine.teaching import MixedChoices

if TYPE_CHECKING:
    from pomp.machine.bottleneck import OpenedNetwork


@dataclass(frozen=True)
class Met:
    """What episodes of a network met, in N macro steps.

    Attributes:
        features: `[N, D]` float32, what it made of what it saw.
        modes: `[N]` int64, the last modes; -1 before the first.
        probs: `[N, K + 1]` float64, how likely what was chosen.
    """

    features: NDArray[np.float32]
    modes: NDArray[np.int64]
    probs: NDArray[np.float64]


def watch(
    machine: ProgramMachine, network: "OpenedNetwork", count: int, length: int, seed: int
) -> Met:
    """Play episodes that teach.

    They end with the last one in which choices are drawn (`MixedChoices`).

    Args:
        machine: whose.
        network: its network.
        count: how many.
        length: about how many programs an episode has.
        seed: of starts and choices.
    """
    setting = machine.configure()
    worlds = draw_starts(setting, count, seed, Purpose.EXTRACTION)
    running = machine.episodes(setting, worlds)
    mixed = MixedChoices(count, len(machine.modes), length, seed)
    look, met = network.watch(running), list[Met]()
    greedy, drawn = np.zeros((2, count), np.int64)
    while not mixed.is_over(running.ending):
        goes_on = np.flatnonzero(running.ending == 0)
        features, last = look(goes_on), running.mode[goes_on]
        probs = network.probabilities_after(features, last)
        met.append(Met(features, last, probs))
        edges = probs[:, :-1].cumsum(axis=1)
        greedy[goes_on] = probs.argmax(axis=1)
        drawn[goes_on] = (mixed.draw()[goes_on, None] >= edges).sum(axis=1)
        running.step(mixed.mix(greedy, drawn))
    joined = zip(*((one.features, one.modes, one.probs) for one in met), strict=True)
    return Met(*(np.concatenate(parts) for parts in joined))
