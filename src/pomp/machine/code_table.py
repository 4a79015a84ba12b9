"""A state machine that was extracted from a network: the next mode by last mode and code.

The layers are those for the grid. Codes that lead to the same choices are one observation, O1, O2,
...; a table has what is chosen at each of them after each mode.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pomp.core.errors import DataFileError
from pomp.core.schemas import Array
from pomp.machine.coded import CodedTransition
from pomp.machine.episodes import Episodes
from pomp.machine.transitions import Choose

_LAYERS = ("grid.",)  # what the names of the network's layers for the grid begin with


@dataclass(frozen=True)
class CodeTable(CodedTransition):
    """Choices by last mode and observation; K modes, O observations.

    Attributes:
        probs: `[K + 1, O, K + 1]` float64, how likely what is chosen: a row for each last mode,
            the first for the start; the last choice is the end.
    """

    probs: NDArray[np.float64]
    kind: ClassVar[str] = "table of codes"
    layers = _LAYERS
    encoder = ""
    table = ("codes", "groups", "probs")

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

        device = episodes.worlds.device
        network, layers, views = self.open_layers(episodes)
        number = self.open_codes(device)

        @torch.no_grad()
        def observe() -> Any:
            seen, goes_on = views.look(), torch.arange(len(episodes), device=device)
            if device == "cpu":  # looking costs most; on a GPU a whole batch is as quick
                goes_on = torch.from_numpy(np.flatnonzero(episodes.ending == 0))
                seen = seen[:, goes_on]
            found = torch.zeros(len(episodes), dtype=torch.int64, device=device)
            found[goes_on] = number(network.look(layers, seen)[0])
            return found

        return observe

    def check(self) -> None:
        """Refuse arrays that do not fit each other.

        Raises:
            DataFileError: says which.
        """
        from pomp.machine.layers import PERCEPTIONS

        rows = self.modes + 1
        Array("float64", (rows, None, rows), 0.0, 1.0).check(self.probs, "the table of choices")
        if not self.probs.shape[1] or not np.allclose(self.probs.sum(axis=-1), 1.0):
            raise DataFileError("its table has rows that are no probabilities")
        Array("int8", (None, None), -1, 1).check(self.codes, "the table of codes")
        if not self.codes.size:
            raise DataFileError("its table has no codes")
        observations = Array("int64", (len(self.codes),), 0, self.probs.shape[1] - 1)
        observations.check(self.groups, "the table of observations")
        self.check_weights(self.config.hidden if self.shape.sees_grid else PERCEPTIONS)


def layers_of(arrays: dict[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
    """Return those of a network's `arrays`, `[outputs, ...]` each, that look at the grid."""
    return {name: array for name, array in arrays.items() if name.startswith(_LAYERS)}
