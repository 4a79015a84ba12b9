"""Watch a machine with a network play episodes that teach, which nothing else begins with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pomp.core.streams import Purpose, open_streams
from pomp.engine.starts import reset
from pomp.machine.episodes import Episodes
from pomp.machine.policy import ProgramMachine
from pomp.machine.teaching import MixedChoices
from pomp.machine.transitions import Transition

if TYPE_CHECKING:
    from pomp.machine.bottleneck import OpenedNetwork

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
    """Play episodes that teach (`MixedChoices`), until the last one that matters has ended.

    Every fourth is greedy and the others are drawn; with a leader, the fourth is drawn and the
    others follow it.

    Args:
        machine: which; its transitions are the network's.
        network: the same, opened.
        episodes: how many.
        length: about how many programs an episode of the network has.
        seed: of starts and choices.
        first: the number of the first episode; others have other starts.
        see: what to note beside what the network makes of it.
        leader: other transitions between the same modes.
        most: macro steps after which all are left; None: the machine's.
        is_plain: whether all are drawn, and nothing is random besides.
    """
    setting = machine.configure()
    streams = open_streams(Purpose.EXTRACTION, seed, worlds=episodes, first=first)
    running = machine.episodes(setting, reset(setting, streams))
    modes = len(machine.modes)
    mixed = MixedChoices(episodes, modes, length, seed, first=first, is_plain=is_plain)
    look, met, step = network.watch(running), list[Met](), 0
    lead = None if leader is None else leader.chooser(running)
    greedy, drawn = np.zeros((2, episodes), np.int64)
    while not mixed.is_over(running.ending) and (most is None or step < most):
        goes_on = np.flatnonzero(running.ending == 0)
        features, last = look(goes_on), running.mode[goes_on]
        probs = network.probabilities_after(features, last)
        met.append(Met(features, last, probs, see(running)[goes_on]))
        edges = probs[:, :-1].cumsum(axis=1)
        greedy[goes_on] = probs.argmax(axis=1)
        drawn[goes_on] = (mixed.draw()[goes_on, None] >= edges).sum(axis=1)
        running.step(mixed.mix(greedy, drawn) if lead is None else mixed.mix(drawn, lead(None)))
        step += 1
    columns = zip(*((one.features, one.modes, one.probs, one.seen) for one in met), strict=True)
    return Met(*(np.concatenate(parts) for parts in columns))
