"""A Moore machine that was extracted from a network that remembers: the next state by input.

The layers are those before the network's memory. Codes that lead to the same states are one input;
each state stands for a choice.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pomp.core.errors import DataFileError
from pomp.machine.coded import CodedTransition
from pomp.machine.episodes import Episodes
from pomp.machine.quantised import SEEN
from pomp.machine.transitions import Choose

_LAYERS = ("grid.", "mode.", "trunk.")  # what the names of layers before the memory begin with
_TABLE = {"codes": "int8", "groups": "int64", "following": "int64", "labels": "int64"}


@dataclass(frozen=True)
class MooreTable(CodedTransition):
    """States and what follows them; O inputs, S states, K modes.

    Attributes:
        following: `[S, O]` int64, the next state; the first state is the one at the start.
        labels: `[S]` int64, what is chosen in each state; K is the end.
    """

    following: NDArray[np.int64]
    labels: NDArray[np.int64]
    kind: ClassVar[str] = "Moore machine"
    remembers: ClassVar[bool] = True
    layers = _LAYERS
    encoder = SEEN
    table = tuple(_TABLE)

    def chooser(self, episodes: Episodes) -> Choose:
        """Return what chooses by the states, on the worlds' device; nothing is drawn."""
        import torch

        device = episodes.worlds.device
        network, layers, views = self.open_layers(episodes)
        number = self.open_codes(device)
        following, labels = (
            torch.from_numpy(array).to(device) for array in (self.following, self.labels)
        )
        states = torch.zeros(len(episodes), dtype=torch.int64, device=device)

        @torch.no_grad()
        def choose_next(draws: NDArray[np.float64] | None) -> Any:
            modes = views.mode()
            features = network.think(layers, network.look(layers, views.look()), modes)[0]
            states.copy_(following[states * (modes[0] >= 0), number(features)])
            choices = labels[states]
            return choices.numpy() if device == "cpu" else choices

        return choose_next

    def check(self) -> None:
        """Refuse arrays that do not fit each other.

        Raises:
            DataFileError: says which.
        """
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
        self.check_weights(self.config.hidden)


def layers_before_memory(
    arrays: dict[str, NDArray[np.float32]],
) -> dict[str, NDArray[np.float32]]:
    """Return those of a quantised network's `arrays`, `[outputs, ...]`, that make codes."""
    names = (*_LAYERS, f"{SEEN}encoder")
    return {name: array for name, array in arrays.items() if name.startswith(names)}
