"""What an extracted machine took for the same observation: how often, and worlds that were it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pomp.machine.code_table import CodeTable
from pomp.machine.episodes import Episodes

MOST_EXAMPLES = 3


@dataclass(frozen=True)
class ObservationExplained:
    """An observation of an extracted machine.

    Attributes:
        name: O1, O2, ...
        codes: how many codes are it.
        count: how often a choice was made at it.
        share: of all choices.
        examples: maps of different worlds that were it, as in `Map.to_text`, in lines.
    """

    name: str
    codes: int
    count: int
    share: float
    examples: tuple[tuple[str, ...], ...]


class Observed:
    """Counts observations while episodes are played, step by step."""

    def __init__(self, table: CodeTable, running: Episodes) -> None:
        self._table, self._running = table, running
        self._observe = table.observer(running)
        self._counts = np.zeros(len(table.observations), np.int64)
        self._examples: list[list[tuple[str, ...]]] = [[] for _ in table.observations]

    def look(self, choices: NDArray[np.int16]) -> None:
        """Take note of the worlds before a step.

        Args:
            choices: `[B]` int16, what is chosen there; -1 where the episode is over.
        """
        seen = self._observe().numpy()
        goes_on = np.flatnonzero(choices >= 0)
        np.add.at(self._counts, seen[goes_on], 1)
        for number, kept in enumerate(self._examples):
            here = goes_on[seen[goes_on] == number]
            for episode in here[: MOST_EXAMPLES * (len(kept) < MOST_EXAMPLES)].tolist():
                rows = tuple(self._running.worlds.to_text(episode).splitlines())
                if len(kept) < MOST_EXAMPLES and rows not in kept:
                    kept.append(rows)

    def tell(self) -> tuple[ObservationExplained, ...]:
        """Return what was seen, observation by observation."""
        total, codes = max(int(self._counts.sum()), 1), np.bincount(self._table.groups)
        return tuple(
            ObservationExplained(
                name, int(codes[number]), int(count), float(count) / total,
                tuple(self._examples[number]),
            )
            for number, (name, count) in enumerate(
                zip(self._table.observations, self._counts.tolist(), strict=True)
            )
        )  # fmt: skip
