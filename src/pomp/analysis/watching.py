"""What episodes of a network meet: features, last modes and choices, to learn from."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pomp.core.streams import Purpose, draw_units, open_streams
from pomp.engine.starts import draw_starts
from pomp.machine.policy import ProgramMachine

if TYPE_CHECKING:
    from pomp.machine.bottleneck import OpenedNetwork

_RANDOM = 0.3  # of the choices in the random part of an episode
_DRAWS, _MIXING = 1, 2  # streams; the starts have another one


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

    Three of four are sampled, the fourth is greedy, which ends with the others at the latest; in
    every second one, some choices up to a random step are random modes.

    Args:
        machine: whose.
        network: its network.
        count: how many.
        length: about how many programs an episode has.
        seed: of starts and choices.
    """
    setting, modes = machine.configure(), len(machine.modes)
    worlds = draw_starts(setting, count, seed, Purpose.EXTRACTION)
    running = machine.episodes(setting, worlds)
    draws = open_streams(Purpose.EXTRACTION, seed, _DRAWS, worlds=count)
    mixing = open_streams(Purpose.EXTRACTION, seed, _MIXING, worlds=count)
    until = draw_units(mixing, 1)[0] * length * (np.arange(count) % 2)
    is_greedy = np.arange(count) % 4 == 3
    look, met, step = network.watch(running), list[Met](), 0
    while not (running.ending[~is_greedy] != 0).all():
        goes_on = np.flatnonzero(running.ending == 0)
        features, last = look(goes_on), running.mode[goes_on]
        probs = network.probabilities_after(features, last)
        met.append(Met(features, last, probs))
        mixed, which = draw_units(mixing, 2)[:, goes_on]
        drawn = (draw_units(draws, 1)[0, goes_on, None] >= probs.cumsum(axis=1)).sum(axis=1)
        chosen = np.where(is_greedy[goes_on], probs.argmax(axis=1), np.minimum(drawn, modes))
        is_mixed = (mixed < _RANDOM) & (step < until[goes_on])
        choices = np.zeros(count, np.int64)
        choices[goes_on] = np.where(is_mixed, (which * modes).astype(np.int64), chosen)
        running.step(choices)
        step += 1
    joined = zip(*((one.features, one.modes, one.probs) for one in met), strict=True)
    return Met(*(np.concatenate(parts) for parts in joined))
