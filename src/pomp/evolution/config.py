"""Settings of a search for whole machines."""

from dataclasses import dataclass
from typing import Literal

from pomp.core.configs import MOST, check_choices, check_ranges
from pomp.machine.config import MAX_MODES

Sensors = Literal["perceptions", "compass"]

BUDGETS = (200, 220, 240)
"""Calls that a program may spend; a machine must earn the same under all of them."""
INTERRUPTED = 60
"""Calls after which programs are cut short to see whether their machine goes on all the same."""
WITHIN = 0.02
"""How much returns under the budgets may differ."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EvolveConfig:
    """How machines are searched."""

    sensors: Sensors = "perceptions"
    """What rules may ask: perceptions and idleness, or also where the nearest marker is."""
    modes: int = 6
    """Most modes of a machine."""
    tokens: int = 45
    """Longest program."""
    chains: int = 32
    """Machines that are changed side by side in a round."""
    teams: int = 2
    """Rounds that go on side by side, each on a core of its own if there is one; a result depends
    on it, but not on the cores."""
    starts: int = 16
    """Worlds on which a changed machine is played; fewer if the task has fewer, a quarter if all
    begin alike and only what happens later is random."""
    polish: int = 100
    """Worlds on which the best machine of a round is judged."""
    patience: int = 400
    """Actions without progress after which an episode is stuck."""
    penalty: float = 0.1
    """What a stuck episode costs."""
    lateness: float = 0.002
    """What it costs if a machine does not stop though the task is done."""
    fragility: float = 0.3
    """Share of what is lost if programs are interrupted that counts against a machine of a task
    whose longer horizons make programs longer: modes that can be taken up again do well there."""
    hope: float = 0.05
    """Share of what a machine leaves unearned that a changed one is taken to earn in worlds where
    it has not played yet; with 1 no change is given up that could still be good enough."""
    hot: float = 0.03
    """Temperature at the start of a fresh machine's annealing, in units of the return."""
    cold: float = 0.0003
    """Temperature at the end of every annealing."""
    length: int = 20_000
    """Changes in a round; rounds have from 0.3 to 2 times as many."""
    actions: int = 400_000_000
    """Actions after which a round is over, however few its changes were; by the same factor."""

    def __post_init__(self) -> None:
        check_choices(self, sensors=Sensors)
        check_ranges(self, modes=(1, MAX_MODES), tokens=(5, 180), chains=(1, 65536), teams=(1, 64))
        check_ranges(self, starts=(1, MOST), polish=(1, MOST), patience=(0, MOST))
        check_ranges(
            self,
            penalty=(0.0, 1e6),
            lateness=(0.0, 1e6),
            fragility=(0.0, 1.0),
            hope=(0.0, 1.0),
            hot=(1e-9, 1e3),
            cold=(1e-9, 1e3),
            length=(1, MOST),
        )
        check_ranges(self, actions=(1, 10**15))
