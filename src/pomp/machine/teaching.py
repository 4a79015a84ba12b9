"""What teaches networks: choices that are shown, and episodes as a policy would play them.

In such episodes three of four choose in one way, every fourth in another; in every second one, some
choices up to a random step are random modes.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pomp.core.streams import Purpose, draw_units, open_streams

_RANDOM = 0.3  # of the choices in the random part of an episode
_DRAWS, _MIXING = 1, 2  # streams of the episodes that teach


class ShownChoices(NamedTuple):
    """Choices that a network is shown, one for each of N macro steps, in no order.

    Attributes:
        planes: `[N, 8, H, W]` uint8, what it sees.
        modes: `[N]` int64, the number of the mode that ran before; -1: none.
        choices: `[N]` int64, the number of the mode to choose; that of modes: to end.
        returns: `[N]` float32, what is earned from there on, discounted.
    """

    planes: NDArray[np.uint8]
    modes: NDArray[np.int64]
    choices: NDArray[np.int64]
    returns: NDArray[np.float32]

    @property
    def episodes(self) -> int:
        """How many episodes they are from."""
        return int((self.modes < 0).sum())

    @classmethod
    def join(cls, parts: "Sequence[ShownChoices]") -> "ShownChoices":
        """Return those of all parts, one after the other."""
        return cls(*(np.concatenate(column) for column in zip(*parts, strict=True)))


class MixedChoices:
    """What is chosen in B episodes that teach, step by step.

    Attributes:
        is_fourth: `[B]` bool, whether an episode is one of every four.
    """

    def __init__(
        self,
        episodes: int,
        modes: int,
        length: int,
        seed: int,
        *,
        first: int = 0,
        is_plain: bool = False,
    ) -> None:
        """Begin.

        Args:
            episodes: B.
            modes: how many there are to choose from.
            length: about how many programs an episode has.
            seed: of everything drawn.
            first: the number of the first episode.
            is_plain: whether no episode is one of every four, and nothing is random.
        """
        self._draws, self._mixing = (
            open_streams(Purpose.EXTRACTION, seed, what, worlds=episodes, first=first)
            for what in (_DRAWS, _MIXING)
        )
        every = np.arange(episodes)
        self._until = draw_units(self._mixing, 1)[0] * length * (every % 2) * (not is_plain)
        self.is_fourth = (every % 4 == 3) & (not is_plain)
        self._modes, self._step = modes, 0

    def draw(self) -> NDArray[np.float64]:
        """Return random numbers from 0 to 1 for the choices of a step, `[B]` float64."""
        return draw_units(self._draws, 1)[0]

    def mix(self, fourth: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return what is chosen at the next step, `[B]` int64.

        Args:
            fourth: `[B]` int64, what every fourth episode would choose, as the likeliest.
            others: `[B]` int64, what the others would, as what is drawn.
        """
        mixed, which = draw_units(self._mixing, 2)
        is_mixed = (mixed < _RANDOM) & (self._step < self._until)
        self._step += 1
        choices = np.where(self.is_fourth, fourth, others)
        return np.where(is_mixed, (which * self._modes).astype(np.int64), choices)

    def is_over(self, ending: NDArray[np.uint8]) -> bool:
        """Whether all but every fourth have ended, given the `ending` of all, `[B]` uint8.

        A greedy one may never end.
        """
        return bool((ending[~self.is_fourth] != 0).all())
