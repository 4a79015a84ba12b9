"""The members of an ensemble: what each learns, and the best that it learned so far."""

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pomp.core.streams import Purpose, open_streams
from pomp.tasks.task import Setting

WEIGHTS, STARTS, CHOICES, ORDER, LESSONS = range(5)
"""What a member draws."""


@dataclass(frozen=True)
class Member:
    """One machine to be learned.

    Attributes:
        setting: its task.
        modes: its programs, as text.
        seed: of everything it draws.
        learning_rate: of Adam, at the beginning.
        attempt: which of several at the same machine this is. Others draw other first weights and
            training starts, and are validated on the same ones.
    """

    setting: Setting
    modes: tuple[str, ...]
    seed: int
    learning_rate: float
    attempt: int = 0

    def streams(
        self, purpose: Purpose, what: int, *indices: int, worlds: int
    ) -> NDArray[np.uint64]:
        """Open random streams of its own, which differ from those of other tasks and seeds.

        Args:
            purpose: what they are for.
            what: which of the things that a member draws.
            indices: further numbers that tell streams apart.
            worlds: how many.

        Returns:
            `[worlds]` uint64.
        """
        task = zlib.crc32(self.setting.task.name.encode())
        if self.attempt and purpose is Purpose.TRAINING:
            indices = (*indices, self.attempt)
        return open_streams(purpose, self.seed, task, what, *indices, worlds=worlds)


@dataclass
class Kept:
    """The best transitions of a member so far, by validation.

    Attributes:
        score: their mean return; None: none were good enough yet.
        update: how many updates had been made when they were found.
        parameters: `[S]` float32, those of the network; None: none yet.
    """

    score: float | None = None
    update: int = 0
    parameters: NDArray[np.float32] | None = None

    @property
    def worth(self) -> tuple[bool, float]:
        """What tells which of several members is the best."""
        return self.score is not None, self.score or 0.0
