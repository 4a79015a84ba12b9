"""Settings of a search for whole machines."""

from dataclasses import dataclass, field
from typing import Literal, get_args

from pomp.core.configs import ADDED, MOST, check_choices, check_flags, check_ranges, parse_size
from pomp.core.errors import ConfigError
from pomp.machine.config import MAX_MODES

Sensors = Literal["perceptions", "compass"]
Without = Literal["pickMarker", "putMarker"]
"""What machines may be searched without; they must move and turn."""

BUDGETS = (216, 218, 221, 223)
"""Calls that one program may spend, with all remainders by 2, 3 and 4. A machine must earn the same
under all of these budgets, so that it cannot use a budget as a clock."""
INTERRUPTED = 60
"""Calls after which programs are cut short to measure how fragile their machine is."""
MERCIES = 24
"""Times at most that a machine begins anew in an episode of a round when it stopped too early."""
MOST_COST = 1e6
"""The most that it may cost to be stuck, late or hasty."""
WITHIN = 0.02
"""Greatest difference between returns under the budgets of a machine that counts as robust."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EvolveConfig:
    """Settings of a search for machines."""

    sensors: Sensors = "perceptions"
    """What rules may ask: perceptions and idleness, or also where the nearest marker is."""
    own_sensors: tuple[str, ...] = ()
    """What else they may ask: sensors of one's own, as module:NAME."""
    modes: int = 6
    """Most modes of a machine."""
    tokens: int = 45
    """Most tokens of a program."""
    without: tuple[str, ...] = field(default=(), metadata=ADDED)
    """Actions that no program may take, as putMarker."""
    chains: int = 32
    """Machines that are annealed side by side in a round; in later ones a quarter as many, with
    four times as many steps each."""
    teams: int = 2
    """Rounds that are computed at the same time, each on a core of its own if there is one. The
    result depends on this number, but not on the number of cores."""
    clean: bool = field(default=True, metadata=ADDED)
    """Whether machines are wanted that hold without a budget: a program that is cut short ends its
    episode with what it has earned, and the best machine of which no program was ever cut and that
    always ended by its own rule is handed over."""
    sizes: tuple[str, ...] = field(default=(), metadata=ADDED)
    """Other sizes of the grid, as 16x16, in which machines are judged as well, each in a quarter
    as many worlds. There, programs may be cut short."""
    scales: tuple[int, ...] = field(default=(), metadata=ADDED)
    """Horizons so many times as long in which machines are judged as well, likewise."""
    starts: int = 16
    """Worlds on which a mutated machine is played: fewer if the task has fewer, a quarter if all
    worlds start alike and only what happens later is random."""
    validation_starts: int = 100
    """Other worlds, on which the best machine of a round is played to compare it with others."""
    patience: int = 400
    """Actions without progress after which an episode is stuck and ends."""
    penalty: float = 0.1
    """What a stuck episode costs, in units of the return."""
    lateness: float = 0.1
    """What it costs if a machine does not stop though the task is done."""
    haste: float = field(default=0.001, metadata=ADDED)
    """What it costs if a machine that must be clean stops though the task is not done. In a round
    it begins anew then, 24 times at most and only after progress. Later rounds multiply these
    three costs by 3 and by 10, if machines must be clean."""
    fragility: float = 0.3
    """Share of what a machine loses when its programs are interrupted that is taken off its score.
    It counts only in tasks whose longer horizons make programs longer: there, modes that can be
    resumed do well."""
    optimism: float = 0.05
    """Share of what its parent leaves unearned in a world that a mutated machine is expected to
    gain there, as long as it has not played there. With 1, no machine is given up that could
    still be good enough."""
    initial_temperature: float = 0.03
    """Temperature at which annealing fresh machines begins, in units of the return."""
    final_temperature: float = 0.0003
    """Temperature at which every annealing ends."""
    steps: int = 20_000
    """Mutations of each chain in a round; a round multiplies them by 0.3 to 2."""
    actions: int = 400_000_000
    """Actions after which a round ends, however few its steps were; multiplied likewise."""

    def __post_init__(self) -> None:
        check_choices(self, sensors=Sensors)
        own = self.own_sensors
        if not isinstance(own, tuple | list) or not all(isinstance(one, str) for one in own):
            raise ConfigError(f"own_sensors are texts, module:NAME each, got {own!r}")
        object.__setattr__(self, "own_sensors", tuple(own))  # JSON has lists
        check_flags(self, "clean")
        for name, kind in (("sizes", str), ("scales", int), ("without", str)):
            several = getattr(self, name)
            if not isinstance(several, tuple | list) or not all(type(x) is kind for x in several):
                example = {"sizes": "16x16", "scales": "2", "without": "putMarker"}[name]
                raise ConfigError(f"{name} is a list as [{example}], got {several!r:.80}")
            object.__setattr__(self, name, tuple(several))
        for text in self.sizes:
            parse_size(text)
        if wrong := [one for one in self.without if one not in get_args(Without)]:
            expected = f"expected {' or '.join(get_args(Without))}"
            raise ConfigError(f"machines cannot be searched without {wrong[0]!r:.80}; {expected}")
        check_ranges(self, modes=(1, MAX_MODES), tokens=(5, 180), chains=(1, 65536), teams=(1, 64))
        check_ranges(self, starts=(1, 10_000), validation_starts=(1, 1_000_000), patience=(0, MOST))
        check_ranges(
            self,
            penalty=(0.0, MOST_COST),
            lateness=(0.0, MOST_COST),
            haste=(0.0, MOST_COST),
            fragility=(0.0, 1.0),
            optimism=(0.0, 1.0),
            initial_temperature=(1e-9, 1e3),
            final_temperature=(1e-9, 1e3),
            steps=(1, MOST),
        )
        check_ranges(self, actions=(1, 10**15))
