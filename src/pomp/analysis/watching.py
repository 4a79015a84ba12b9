"""Watch a machine with a network play episodes that teach, which nothing else begins with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pomp.core.streams import Purpose, draw_units, open_streams
from pomp.engine.starts import reset
from pomp.machine.episodes import Episodes
from pomp.machine.policy import ProgramMachine
from pomp.machine.transitions import Transition

if TYPE_CHECKING:
    from pomp.machine.bottleneck import OpenedNetwork

_RANDOM = 0.3  # of the choices in the random part of an episode
_DRAWS, _MIXING = 1, 2  # streams beside those of the starts

See = Callable[[Episodes], NDArray[np.int32]]
"""Returns what rules could ask in the worlds of episodes, `[B, S]` int32."""


@dataclass(frozen=True)
class Met:
    """What episodes met, in N macro steps.

    Attributes:
        features: `[N, D]` float32, what the network made of what it saw.
        modes: `[N]` int64, the last modes; -1 before the first.
        probs: `[N, K + 1]` float64, how likely the network would choose what.
        seen: `[N, S]` int32, what rules could ask.
    """

    features: NDArray[np.float32]
    modes: NDArray[np.int64]
    probs: NDArray[np.float64]
    seen: NDArray[np.int32]


def watch(
    machine: ProgramMachine,
    network: "OpenedNetwork",
    episodes: int,
    length: int,
    seed: int,
    *,
    first: int = 0,
    see: See = lambda running: np.zeros((len(running), 0), np.int32),
    leader: Transition | None = None,
    most: int | None = None,
    is_plain: bool = False,
) -> Met:
    """Play episodes that teach, of about so many programs.

    Three of four are sampled, the fourth is greedy, which ends with the others at the latest; in
    every second one, some choices up to a random step are random modes. With a leader, three of
    four follow it, and the fourth is sampled.

    Args:
        machine: which; its transitions are the network's.
        network: the same, opened.
        episodes: how many.
        length: of an episode of the network.
        seed: of starts and choices.
        first: the number of the first episode; others have other starts.
        see: what to note beside what the network makes of it.
        leader: other transitions between the same modes.
        most: macro steps after which all are left; None: the machine's.
        is_plain: whether all are sampled, and nothing is random besides.
    """
    setting, modes = machine.configure(), len(machine.modes)

    def open_for(*keys: int) -> NDArray[np.uint64]:
        return open_streams(Purpose.EXTRACTION, seed, *keys, worlds=episodes, first=first)

    running = machine.episodes(setting, reset(setting, open_for()))
    draws, mixing = open_for(_DRAWS), open_for(_MIXING)
    until = draw_units(mixing, 1)[0] * length * (np.arange(episodes) % 2) * (not is_plain)
    is_fourth = (np.arange(episodes) % 4 == 3) & (not is_plain)
    choose, look = network.transition.chooser(running), network.watch(running)
    lead = None if leader is None else leader.chooser(running)
    features, last, seen = list[NDArray[np.float32]](), list[NDArray[np.int64]](), []
    step = 0
    while not (running.ending[~is_fourth] != 0).all() and (most is None or step < most):
        goes_on = running.ending == 0
        features.append(look()[goes_on])
        last.append(running.mode[goes_on])
        seen.append(see(running)[goes_on])
        mixed, which = draw_units(mixing, 2)
        drawn = choose(draw_units(draws, 1)[0])
        others, fourth = (drawn, choose(None)) if lead is None else (lead(None), drawn)
        is_mixed = (mixed < _RANDOM) & (step < until)
        random = (which * modes).astype(np.int64)
        running.step(np.where(is_mixed, random, np.where(is_fourth, fourth, others)))
        step += 1
    met, before = np.concatenate(features), np.concatenate(last)
    probs = network.probabilities(met)[np.arange(len(met)), before + 1]
    return Met(met, before, probs, np.concatenate(seen))
