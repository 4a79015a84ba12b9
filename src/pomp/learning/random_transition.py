"""Random Transition: a machine's modes, the next one drawn uniformly from them and the end."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pomp.core.errors import ConfigError
from pomp.core.extras import LEARN, require
from pomp.machine.episodes import Episodes
from pomp.machine.policy import ProgramMachine
from pomp.machine.transitions import Choose


@dataclass(frozen=True)
class RandomTransition:
    """Chooses any mode, or the end, with equal probabilities.

    Attributes:
        modes: K, how many there are.
    """

    modes: int
    kind: ClassVar[str] = "random"

    def chooser(self, episodes: Episodes) -> Choose:
        """Return what chooses for these worlds, on their device."""

        def choose(draws: NDArray[np.float64] | None) -> Any:
            if draws is None:
                raise ConfigError("random transitions have no likeliest choice; leave out --greedy")
            choices = (draws * (self.modes + 1)).astype(np.int64)
            if episodes.worlds.device == "cpu":
                return choices
            require(LEARN, "a machine on a GPU")
            import torch

            return torch.from_numpy(choices).cuda()

        return choose

    def to_json(self) -> dict[str, Any]:
        """Return how many modes there are."""
        return {"modes": self.modes}

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return no weights, `[...]`: there are none."""
        return {}

    @classmethod
    def from_parts(
        cls, values: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> "RandomTransition":
        """Read what `to_json` returned; `arrays`, of any shapes `[...]`, are none of its own."""
        return cls(int(values["modes"]))


def randomise(machine: ProgramMachine) -> ProgramMachine:
    """Return a machine with the same modes and random transitions."""
    return replace(machine, transition=RandomTransition(len(machine.modes)))
