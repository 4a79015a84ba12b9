"""Choices in episodes that teach: as a policy would choose, with some variety.

Three of four episodes are drawn, the fourth is greedy; in every second one, some choices up to a
random step are random modes.
"""

import numpy as np
from numpy.typing import NDArray

from pomp.core.streams import Purpose, draw_units, open_streams

_RANDOM = 0.3  # of the choices in the random part of an episode
_DRAWS, _MIXING = 1, 2  # streams of the episodes that teach


class MixedChoices:
    """What is chosen in B episodes that teach, step by step.

    Attributes:
        is_greedy: `[B]` bool, whether the likeliest choices are taken.
    """

    def __init__(self, episodes: int, modes: int, length: int, seed: int) -> None:
        """Begin.

        Args:
            episodes: B.
            modes: how many there are to choose from.
            length: about how many programs an episode has.
            seed: of everything drawn.
        """
        self._draws = open_streams(Purpose.EXTRACTION, seed, _DRAWS, worlds=episodes)
        self._mixing = open_streams(Purpose.EXTRACTION, seed, _MIXING, worlds=episodes)
        every = np.arange(episodes)
        self._until = draw_units(self._mixing, 1)[0] * length * (every % 2)
        self.is_greedy = every % 4 == 3
        self._modes, self._step = modes, 0

    def draw(self) -> NDArray[np.float64]:
        """Return random numbers from 0 to 1 for the choices of a step, `[B]` float64."""
        return draw_units(self._draws, 1)[0]

    def mix(self, greedy: NDArray[np.int64], drawn: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return what is chosen at the next step, `[B]` int64.

        Args:
            greedy: `[B]` int64, the likeliest choices.
            drawn: `[B]` int64, those drawn with the numbers of `draw`.
        """
        mixed, which = draw_units(self._mixing, 2)
        is_mixed = (mixed < _RANDOM) & (self._step < self._until)
        self._step += 1
        choices = np.where(self.is_greedy, greedy, drawn)
        return np.where(is_mixed, (which * self._modes).astype(np.int64), choices)

    def is_over(self, ending: NDArray[np.uint8]) -> bool:
        """Whether the drawn episodes have ended, given the `ending` of all, `[B]` uint8.

        A greedy one may never end.
        """
        return bool((ending[~self.is_greedy] != 0).all())
