"""A Moore machine that was extracted from a network that remembers: the next state by input.

The network's layers before its memory and the encoder of a bottleneck turn what is seen into a
code. Codes that lead to the same states are one input; each state stands for a choice.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pomp.core.configs import from_json, to_json
from pomp.core.errors import DataFileError
from pomp.core.extras import LEARN, require
from pomp.machine.config import NetworkConfig
from pomp.machine.episodes import Episodes
from pomp.machine.quantised import SEEN, within
from pomp.machine.schemas import NETWORK, check_weights
from pomp.machine.transitions import Choose

_LAYERS = ("grid.", "mode.", "trunk.")  # what the names of layers before the memory begin with
_TABLE = {"codes": "int8", "groups": "int64", "following": "int64", "labels": "int64"}


@dataclass(frozen=True)
class MooreTable:
    """States and what follows them; N codes of H units, O inputs, S states, K modes.

    Attributes:
        config: the network's settings.
        size: rows and columns of the grid it sees.
        modes: K, how many there are to choose from.
        weights: of the network's layers before its memory and of the encoder, by name,
            `[outputs, ...]`.
        codes: `[N, H]` int8, the known codes, of -1, 0 and 1.
        groups: `[N]` int64, the input that each code is.
        following: `[S, O]` int64, the next state; the first state is the one at the start.
        labels: `[S]` int64, what is chosen in each state; K is the end.
    """

    config: NetworkConfig
    size: tuple[int, int]
    modes: int
    weights: dict[str, NDArray[np.float32]]
    codes: NDArray[np.int8]
    groups: NDArray[np.int64]
    following: NDArray[np.int64]
    labels: NDArray[np.int64]
    kind: ClassVar[str] = "Moore machine"
    remembers: ClassVar[bool] = True

    def fits(self, size: tuple[int, int]) -> bool:
        """Whether it can look at a world of this size."""
        return self.config.inputs == "perceptions+mode" or size == self.size

    def chooser(self, episodes: Episodes) -> Choose:
        """Return what chooses by the states, on the worlds' device; nothing is drawn."""
        import torch

        from pomp.machine.bottleneck import encode, find_nearest
        from pomp.machine.layers import Shape
        from pomp.machine.network import Ensemble
        from pomp.machine.views import Views

        device = episodes.worlds.device
        network = Ensemble(Shape(self.config, *self.size, self.modes), [self.modes], device)
        weights = {name: torch.from_numpy(one).to(device) for name, one in self.weights.items()}
        layers = {name: one[None] for name, one in weights.items() if name.startswith(_LAYERS)}
        encoder = within(weights, SEEN)
        views = Views([episodes], self.config.inputs, members=1)
        codes = torch.from_numpy(self.codes).to(device, torch.float32)
        groups, following, labels = (
            torch.from_numpy(array).to(device)
            for array in (self.groups, self.following, self.labels)
        )
        states = torch.zeros(len(episodes), dtype=torch.int64, device=device)

        @torch.no_grad()
        def choose_next(draws: NDArray[np.float64] | None) -> Any:
            modes = views.mode()
            features = network.think(layers, network.look(layers, views.look()), modes)[0]
            inputs = groups[find_nearest(encode(encoder, features), codes)]
            states.copy_(following[states * (modes[0] >= 0), inputs])
            choices = labels[states]
            return choices.numpy() if device == "cpu" else choices

        return choose_next

    def to_json(self) -> dict[str, Any]:
        """Return its settings and sizes."""
        return {"config": to_json(self.config), "size": list(self.size), "modes": self.modes}

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return its weights by name, `[outputs, ...]` each, and the table's arrays, `[...]`."""
        return {**self.weights, **{name: getattr(self, name) for name in _TABLE}}

    @classmethod
    def from_parts(cls, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> "MooreTable":
        """Read what `to_json` and `to_arrays` wrote.

        Args:
            values: settings and sizes.
            arrays: weights by name, `[outputs, ...]` each, and the table's, `[...]`.

        Raises:
            DataFileError: the arrays do not fit each other.
            MissingExtraError: torch is not installed.
        """
        require(LEARN, "a machine that was extracted from a network")
        NETWORK.check(values, "transition")
        config, (height, width) = from_json(NetworkConfig, values["config"]), values["size"]
        weights = dict(arrays)
        table = [weights.pop(name, np.empty(0)) for name in _TABLE]
        found = cls(config, (height, width), values["modes"], weights, *table)
        found._check()
        return found

    def _check(self) -> None:
        """Refuse arrays that do not fit each other.

        Raises:
            DataFileError: says which.
        """
        from pomp.machine.bottleneck import encoder_shapes
        from pomp.machine.layers import Shape

        arrays = {name: getattr(self, name) for name in _TABLE}
        if {name: array.dtype.name for name, array in arrays.items()} != _TABLE:
            raise DataFileError("its table has arrays of other types, or none")
        states, inputs = self.following.shape if self.following.ndim == 2 else (0, 0)
        count = len(self.groups)
        shapes = [(count, self.codes.shape[-1]), (count,), (states, inputs), (states,)]
        if [array.shape for array in arrays.values()] != shapes or not states or not count:
            raise DataFileError("its table has arrays of other shapes")
        ends = {"groups": inputs, "following": states, "labels": self.modes + 1}
        for name, end in ends.items():
            if arrays[name].min() < 0 or arrays[name].max() >= end:
                raise DataFileError(f"its table has {name} that do not exist")
        wanted = {
            name: part
            for name, part in Shape(self.config, *self.size, self.modes).parts
            if name.startswith(_LAYERS)
        }
        encoder = encoder_shapes(self.config.hidden, self.codes.shape[1])
        wanted |= {f"{SEEN}{name}": part for name, part in encoder.items()}
        check_weights(self.weights, wanted)


def layers_before_memory(
    arrays: dict[str, NDArray[np.float32]],
) -> dict[str, NDArray[np.float32]]:
    """Return those of a quantised network's `arrays`, `[outputs, ...]`, that make codes."""
    names = (*_LAYERS, f"{SEEN}encoder")
    return {name: array for name, array in arrays.items() if name.startswith(names)}
