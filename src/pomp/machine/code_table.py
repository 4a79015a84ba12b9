"""A state machine that was extracted from a network: the next mode by last mode and code.

The network's layers for the grid and the encoder of a bottleneck turn what is seen into a code of
few units. Codes that lead to the same choices are one observation, O1, O2, ...; a table has what is
chosen at each of them after each mode. A code that nobody met is taken for the nearest known one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pomp.core.configs import from_json, to_json
from pomp.core.errors import DataFileError
from pomp.core.extras import LEARN, require
from pomp.core.schemas import Array
from pomp.machine.config import NetworkConfig
from pomp.machine.episodes import Episodes
from pomp.machine.schemas import NETWORK, check_weights
from pomp.machine.transitions import Choose

_LAYERS = "grid."  # what the names of the network's layers for the grid begin with


@dataclass(frozen=True)
class CodeTable:
    """Choices by last mode and observation; K modes, N codes of H units, O observations.

    Attributes:
        config: the network's settings.
        size: rows and columns of the grid it sees.
        modes: K, how many there are to choose from.
        weights: of the network's layers for the grid and of the encoder, by name, `[outputs, ...]`.
        codes: `[N, H]` int8, the known codes, of -1, 0 and 1.
        groups: `[N]` int64, the observation that each code is.
        probs: `[K + 1, O, K + 1]` float64, how likely what is chosen: a row for each last mode,
            the first for the start; the last choice is the end.
    """

    config: NetworkConfig
    size: tuple[int, int]
    modes: int
    weights: dict[str, NDArray[np.float32]]
    codes: NDArray[np.int8]
    groups: NDArray[np.int64]
    probs: NDArray[np.float64]
    kind: ClassVar[str] = "table of codes"

    @property
    def observations(self) -> tuple[str, ...]:
        """What the observations are called."""
        return tuple(f"O{number + 1}" for number in range(self.probs.shape[1]))

    @cached_property
    def choices(self) -> NDArray[np.int64]:
        """The likeliest choices, `[K + 1, O]` int64; the first of those that are equally likely."""
        return self.probs.argmax(axis=-1)

    @cached_property
    def is_sure(self) -> bool:
        """Whether the choices are certain, so that nothing is drawn."""
        return bool((self.probs.max(axis=-1) == 1.0).all())

    def fits(self, size: tuple[int, int]) -> bool:
        """Whether it can look at a world of this size."""
        return self.config.inputs == "perceptions+mode" or size == self.size

    def chooser(self, episodes: Episodes) -> Choose:
        """Return what chooses by the table, on the worlds' device."""
        import torch

        from pomp.machine.network import choose
        from pomp.machine.views import as_tensor

        device = episodes.worlds.device
        observe, mode = self.observer(episodes), as_tensor(episodes.mode)
        logits = torch.from_numpy(self.probs).log().to(device)

        @torch.no_grad()
        def choose_next(draws: NDArray[np.float64] | None) -> Any:
            last = (mode + 1).clamp(max=self.modes)
            numbers = None if draws is None else torch.from_numpy(draws).to(device)
            choices = choose(logits[last, observe()], numbers)
            return choices.numpy() if device == "cpu" else choices

        return choose_next

    def observer(self, episodes: Episodes) -> Callable[[], Any]:
        """Return what looks at the worlds.

        Returns:
            Gives a tensor, `[B]` int64 on the worlds' device: the number of the observation that
            each world is now; 0 where the episode is over.
        """
        import torch

        from pomp.machine.bottleneck import encode, find_nearest
        from pomp.machine.layers import Shape
        from pomp.machine.network import Ensemble
        from pomp.machine.views import Views

        device = episodes.worlds.device
        network = Ensemble(Shape(self.config, *self.size, self.modes), [self.modes], device)
        weights = {name: torch.from_numpy(one).to(device) for name, one in self.weights.items()}
        layers = {name: one[None] for name, one in weights.items() if name.startswith(_LAYERS)}
        views = Views([episodes], self.config.inputs, members=1)
        codes = torch.from_numpy(self.codes).to(device, torch.float32)
        groups = torch.from_numpy(self.groups).to(device)

        @torch.no_grad()
        def observe() -> Any:
            seen, goes_on = views.look(), torch.arange(len(episodes), device=device)
            if device == "cpu":  # looking costs most; on a GPU a whole batch is as quick
                goes_on = torch.from_numpy(np.flatnonzero(episodes.ending == 0))
                seen = seen[:, goes_on]
            code = encode(weights, network.look(layers, seen)[0])
            found = groups.new_zeros(len(episodes))
            found[goes_on] = groups[find_nearest(code, codes)]
            return found

        return observe

    def to_json(self) -> dict[str, Any]:
        """Return its settings and sizes."""
        return {"config": to_json(self.config), "size": list(self.size), "modes": self.modes}

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return its weights by name, `[outputs, ...]` each, and the table's arrays, `[...]`."""
        return {**self.weights, "codes": self.codes, "groups": self.groups, "probs": self.probs}

    @classmethod
    def from_parts(cls, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> "CodeTable":
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
        table = [weights.pop(name, np.empty(0)) for name in ("codes", "groups", "probs")]
        found = cls(config, (height, width), values["modes"], weights, *table)
        found._check()
        return found

    def _check(self) -> None:
        """Refuse arrays that do not fit each other.

        Raises:
            DataFileError: says which.
        """
        from pomp.machine.bottleneck import encoder_shapes
        from pomp.machine.layers import PERCEPTIONS, Shape

        rows = self.modes + 1
        Array("float64", (rows, None, rows), 0.0, 1.0).check(self.probs, "the table of choices")
        if not self.probs.shape[1] or not np.allclose(self.probs.sum(axis=-1), 1.0):
            raise DataFileError("its table has rows that are no probabilities")
        Array("int8", (None, None), -1, 1).check(self.codes, "the table of codes")
        if not self.codes.size:
            raise DataFileError("its table has no codes")
        observations = Array("int64", (len(self.codes),), 0, self.probs.shape[1] - 1)
        observations.check(self.groups, "the table of observations")
        shape = Shape(self.config, *self.size, self.modes)
        features = self.config.hidden if shape.sees_grid else PERCEPTIONS
        wanted = {name: part for name, part in shape.parts if name.startswith(_LAYERS)}
        wanted |= encoder_shapes(features, self.codes.shape[1])
        check_weights(self.weights, wanted)


def layers_of(arrays: dict[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
    """Return those of a network's `arrays`, `[outputs, ...]` each, that look at the grid."""
    return {name: array for name, array in arrays.items() if name.startswith(_LAYERS)}
