"""What transitions by codes have in common: layers of a network, an encoder, and known codes.

The layers and the encoder of a bottleneck turn what is seen into a code of few units. Codes that
lead to the same are one input, by its number. A code that nobody met is taken for the nearest known
one.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from pomp.core.extras import LEARN, require
from pomp.machine.episodes import Episodes
from pomp.machine.network_based import NetworkBased, read_seen
from pomp.machine.quantised import within
from pomp.machine.schemas import check_weights


@dataclass(frozen=True)
class CodedTransition(NetworkBased, ABC):
    """Transitions by codes of what is seen; N codes of H units.

    Attributes:
        weights: of the network's first layers and of the encoder, by name, `[outputs, ...]`.
        codes: `[N, H]` int8, the known codes, of -1, 0 and 1.
        groups: `[N]` int64, the input that each code is.
        layers: what the names of the network's layers begin with.
        encoder: what the names of the encoder's weights begin with.
        table: the names of all arrays beside the weights.
    """

    weights: dict[str, NDArray[np.float32]]
    codes: NDArray[np.int8]
    groups: NDArray[np.int64]
    layers: ClassVar[tuple[str, ...]]
    encoder: ClassVar[str]
    table: ClassVar[tuple[str, ...]]

    def open_layers(self, episodes: Episodes) -> tuple[Any, dict[str, Any], Any]:
        """Return the `Ensemble`, the weights of its layers by name, and `Views` of the worlds."""
        import torch

        from pomp.machine.network import Ensemble
        from pomp.machine.views import Views

        device = episodes.worlds.device
        weights = {
            name: torch.from_numpy(one).to(device)[None]
            for name, one in self.weights.items()
            if name.startswith(self.layers)
        }
        network = Ensemble(self.shape, [self.modes], device)
        return network, weights, Views([episodes], self.config.inputs, members=1)

    def open_codes(self, device: str) -> Callable[[Any], Any]:
        """Return what turns features, `[B, D]` float32 on a device, into inputs, `[B]` int64."""
        import torch

        from pomp.machine.bottleneck import encode, find_nearest

        encoder = {
            name: torch.from_numpy(one).to(device)
            for name, one in within(self.weights, self.encoder).items()
        }
        codes = torch.from_numpy(self.codes).to(device, torch.float32)
        groups = torch.from_numpy(self.groups).to(device)
        return lambda features: groups[find_nearest(encode(encoder, features), codes)]

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return its weights by name, `[outputs, ...]` each, and the table's arrays, `[...]`."""
        return {**self.weights, **{name: getattr(self, name) for name in self.table}}

    @classmethod
    def from_parts(cls, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        """Read what `to_json` and `to_arrays` wrote.

        Args:
            values: settings and sizes.
            arrays: weights by name, `[outputs, ...]` each, and the table's, `[...]`.

        Raises:
            DataFileError: the arrays do not fit each other.
            MissingExtraError: torch is not installed.
        """
        require(LEARN, "a machine that was extracted from a network")
        seen, weights = read_seen(values), dict(arrays)
        found = cls(*seen, weights, *(weights.pop(name, np.empty(0)) for name in cls.table))
        found.check()
        return found

    @abstractmethod
    def check(self) -> None:
        """Refuse arrays that do not fit each other.

        Raises:
            DataFileError: says which.
        """

    def check_weights(self, features: int) -> None:
        """Refuse weights that are not those of the layers, and of an encoder of `features`.

        Raises:
            DataFileError: says which.
        """
        from pomp.machine.bottleneck import encoder_shapes

        wanted = {name: part for name, part in self.shape.parts if name.startswith(self.layers)}
        encoder = encoder_shapes(features, self.codes.shape[1])
        wanted |= {f"{self.encoder}{name}": part for name, part in encoder.items()}
        check_weights(self.weights, wanted)
