"""Networks that remember, quantised: what they see and what they remember become codes.

A bottleneck stands before the GRU, so that it is given one of finitely many features, and another
one behind it, so that it is in one of finitely many states: a Moore machine.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pomp.core.configs import from_json, to_json
from pomp.core.extras import LEARN, require
from pomp.machine.config import NetworkConfig
from pomp.machine.episodes import Episodes
from pomp.machine.schemas import NETWORK, check_weights
from pomp.machine.transitions import Choose

SEEN, STATE = "seen.", "state."
"""What the names of weights of the bottlenecks begin with."""


def within(parts: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return those of named `parts`, `[...]` each, whose names begin so, by the rest of these."""
    return {
        name.removeprefix(prefix): part for name, part in parts.items() if name.startswith(prefix)
    }


@dataclass(frozen=True)
class QuantisedNetwork:
    """A network that remembers, between two bottlenecks.

    Attributes:
        config: the network's settings.
        size: rows and columns of the grid it sees.
        modes: K, how many it chooses from.
        arrays: weights by name, `[outputs, ...]`: those of the network, and of the bottlenecks,
            `seen.*` and `state.*`.
    """

    config: NetworkConfig
    size: tuple[int, int]
    modes: int
    arrays: dict[str, NDArray[np.float32]]
    kind: ClassVar[str] = "quantised network"
    remembers: ClassVar[bool] = True

    def fits(self, size: tuple[int, int]) -> bool:
        """Whether it can look at a world of this size."""
        return self.config.inputs == "perceptions+mode" or size == self.size

    def chooser(self, episodes: Episodes) -> Choose:
        """Return what chooses with the network, on the worlds' device."""
        import torch

        from pomp.machine.network import choose
        from pomp.machine.quantised_memory import open_quantised

        device, step = episodes.worlds.device, open_quantised(self, episodes)

        def choose_next(draws: NDArray[np.float64] | None) -> Any:
            logits = step().logits
            choices = choose(logits, None if draws is None else torch.from_numpy(draws).to(device))
            return choices.numpy() if device == "cpu" else choices

        return choose_next

    def to_json(self) -> dict[str, Any]:
        """Return its settings and sizes."""
        return {"config": to_json(self.config), "size": list(self.size), "modes": self.modes}

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return its weights by name, `[outputs, ...]` each."""
        return dict(self.arrays)

    @classmethod
    def from_parts(
        cls, values: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> "QuantisedNetwork":
        """Read what `to_json` and `to_arrays` wrote.

        Args:
            values: settings and sizes.
            arrays: weights by name, `[outputs, ...]` each.

        Raises:
            DataFileError: the weights do not fit, or are no numbers.
            MissingExtraError: torch is not installed.
        """
        require(LEARN, "a machine with a network")
        from pomp.machine.bottleneck import bottleneck_shapes
        from pomp.machine.layers import Shape

        NETWORK.check(values, "transition")
        config, (height, width) = from_json(NetworkConfig, values["config"]), values["size"]
        shape = Shape(config, height, width, values["modes"])
        shapes = dict(shape.parts)
        for prefix, inputs in ((SEEN, config.hidden), (STATE, config.memory)):
            units = len(arrays.get(f"{prefix}decoder.0.weight", np.empty((0, 0))).T)
            own = bottleneck_shapes(inputs, units, of_states=prefix == STATE)
            shapes |= {f"{prefix}{name}": part for name, part in own.items()}
        check_weights(arrays, shapes)
        return cls(config, (height, width), shape.modes, arrays)
