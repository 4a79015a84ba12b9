"""The best machines of a search so far, and which of them hold under any budget."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from pomp.evolution.config import WITHIN
from pomp.evolution.genome import Machines

KEPT = 4
"""Machines of a population, and of the hall of fame."""


@dataclass
class Population:
    """The best machines of rounds that continue one another, the best first.

    Attributes:
        number: the round that began this population.
        machines: at most `KEPT` of them, each alone.
        scores: their scores.
    """

    number: int = 0
    machines: list[Machines] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)

    @property
    def best(self) -> float:
        """The best score; minus infinity if there is no machine yet."""
        return self.scores[0] if self.scores else -np.inf

    def add(self, machine: Machines, score: float) -> None:
        """Insert a machine by its score and drop what then exceeds the size."""
        place = sum(other >= score for other in self.scores)
        self.machines.insert(place, machine)
        self.scores.insert(place, score)
        del self.machines[KEPT:], self.scores[KEPT:]


def is_robust(by_budget: Mapping[int, float]) -> bool:
    """Whether returns under several budgets differ little enough."""
    return max(by_budget.values()) - min(by_budget.values()) <= WITHIN
