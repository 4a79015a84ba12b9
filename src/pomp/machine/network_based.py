"""What transitions that are networks, or were made out of one, have in common: what they see."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pomp.core.configs import from_json, to_json
from pomp.machine.config import NetworkConfig
from pomp.machine.schemas import NETWORK

if TYPE_CHECKING:
    from pomp.machine.layers import Shape


@dataclass(frozen=True)
class NetworkBased:
    """Transitions that see what a network sees.

    Attributes:
        config: the network's settings.
        size: rows and columns of the grid it sees.
        modes: K, how many there are to choose from.
    """

    config: NetworkConfig
    size: tuple[int, int]
    modes: int

    @property
    def shape(self) -> "Shape":
        """What the network is made of."""
        from pomp.machine.layers import Shape

        return Shape(self.config, *self.size, self.modes)

    def fits(self, size: tuple[int, int]) -> bool:
        """Whether it can look at a world of this size."""
        return self.config.inputs == "perceptions+mode" or size == self.size

    def to_json(self) -> dict[str, Any]:
        """Return its settings and sizes."""
        return {"config": to_json(self.config), "size": list(self.size), "modes": self.modes}


def read_seen(values: dict[str, Any]) -> tuple[NetworkConfig, tuple[int, int], int]:
    """Read the settings, the size of the grid and the number of modes that `to_json` returned.

    Raises:
        DataFileError: they are something else.
    """
    NETWORK.check(values, "transition")
    height, width = values["size"]
    return from_json(NetworkConfig, values["config"]), (height, width), values["modes"]
