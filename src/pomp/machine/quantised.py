"""Networks that remember, quantised: what they see and what they remember become codes.

A bottleneck stands before the GRU, so that it is given one of finitely many features, and another
one behind it, so that it is in one of finitely many states: a Moore machine.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pomp.core.extras import LEARN, require
from pomp.machine.episodes import Episodes
from pomp.machine.network_based import NetworkBased, read_seen
from pomp.machine.schemas import check_weights
from pomp.machine.transitions import Choose

SEEN, STATE = "seen.", "state."
"""What the names of weights of the bottlenecks begin with."""


def within(parts: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return those of named `parts`, `[...]` each, whose names begin so, by the rest of these."""
    return {
        name.removeprefix(prefix): part for name, part in parts.items() if name.startswith(prefix)
    }


@dataclass(frozen=True)
class QuantisedNetwork(NetworkBased):
    """A network that remembers, between two bottlenecks.

    Attributes:
        arrays: weights by name, `[outputs, ...]`: those of the network, and of the bottlenecks,
            `seen.*` and `state.*`.
    """

    arrays: dict[str, NDArray[np.float32]]
    kind: ClassVar[str] = "quantised network"
    remembers: ClassVar[bool] = True

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

        found = cls(*read_seen(values), arrays)
        config, shapes = found.config, dict(found.shape.parts)
        for prefix, inputs in ((SEEN, config.hidden), (STATE, config.memory)):
            units = len(arrays.get(f"{prefix}decoder.0.weight", np.empty((0, 0))).T)
            own = bottleneck_shapes(inputs, units, of_states=prefix == STATE)
            shapes |= {f"{prefix}{name}": part for name, part in own.items()}
        check_weights(arrays, shapes)
        return found
