"""The memory of a quantised network: from features to states and choices, by codes.

The axes are B worlds, D numbers of a feature, U of a state, H units of a code, and K modes.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pomp.machine.bottleneck import decode, encode
from pomp.machine.episodes import Episodes
from pomp.machine.layers import RECURRENT
from pomp.machine.network import Ensemble, linear, remember
from pomp.machine.quantised import SEEN, STATE, QuantisedNetwork, within
from pomp.machine.transitions import NetworkTransition
from pomp.machine.views import Views

_RECURRENT = f"{RECURRENT}.weight"


class QuantisedMemory:
    """A GRU and the layer behind it, with a bottleneck before and one behind the GRU.

    Attributes:
        parts: weights by name: `memory.*` and `actor.*` of a network, `[1, outputs, ...]`, and
            those of the bottlenecks, `seen.*` and `state.*`, `[outputs, ...]`.
    """

    def __init__(self, parts: Mapping[str, Tensor]) -> None:
        """Take weights by name, `parts`, `[...]` each."""
        self.parts = dict(parts)
        self._seen, self._state = within(parts, SEEN), within(parts, STATE)

    def encode_features(self, features: Tensor) -> Tensor:
        """Return the codes, `[..., H]`, of `features`, `[..., D]`."""
        return encode(self._seen, features)

    def decode_features(self, codes: Tensor) -> Tensor:
        """Return the features, `[..., D]`, of `codes`, `[..., H]`."""
        return decode(self._seen, codes)

    def encode_states(self, states: Tensor) -> Tensor:
        """Return the codes, `[..., H]`, of `states`, `[..., U]`."""
        return encode(self._state, states)

    def decode_states(self, codes: Tensor) -> Tensor:
        """Return the states, `[..., U]`, of `codes`, `[..., H]`."""
        return decode(self._state, codes, of_states=True)

    def begin(self, count: int) -> Tensor:
        """Return the codes of the states before the first step, `[B, H]`: nothing to remember."""
        weight = self.parts[_RECURRENT]
        return self.encode_states(weight.new_zeros(count, weight.shape[-1]))

    def follow(self, features: Tensor, states: Tensor) -> Tensor:
        """Return the codes, `[B, H]`, of the states after a step.

        Args:
            features: `[B, D]`, decoded.
            states: `[B, U]`, those before it, decoded.
        """
        goes_on = torch.ones(1, 1, len(states), dtype=torch.bool, device=states.device)
        after = remember(self.parts, features.unsqueeze(0), states.unsqueeze(0), goes_on)
        return self.encode_states(after[0, 0])

    def answer(self, states: Tensor) -> Tensor:
        """Return the logits, `[B, K + 1]`, in `states`, `[B, U]`, decoded."""
        return linear(self.parts, "actor", states.unsqueeze(0))[0]

    @torch.no_grad()
    def start_code(self) -> NDArray[np.int8]:
        """Return the code of the state before the first step, `[H]` int8."""
        return _as_codes(self.begin(1))[0]

    @torch.no_grad()
    def codes_after(self, state: NDArray[np.int8], seen: NDArray[np.int8]) -> NDArray[np.int8]:
        """Return the codes, `[N, H]` int8, that follow a state at each code of what is seen.

        Args:
            state: `[H]` int8.
            seen: `[N, G]` int8.
        """
        features = self.decode_features(_as_numbers(seen))
        before = self.decode_states(_as_numbers(state))
        return _as_codes(self.follow(features, before.expand(len(seen), -1)))

    @torch.no_grad()
    def choices_at(self, states: NDArray[np.int8]) -> NDArray[np.int64]:
        """Return the likeliest choices, `[S]` int64, in `states`, `[S, H]` int8."""
        return self.answer(self.decode_states(_as_numbers(states))).argmax(dim=-1).numpy()


def _as_numbers(codes: NDArray[np.int8]) -> Tensor:
    """Return `codes`, `[..., H]` int8, as float32 of that shape."""
    return torch.from_numpy(codes.astype(np.float32))


def _as_codes(numbers: Tensor) -> NDArray[np.int8]:
    """Return `numbers`, `[..., H]` of -1, 0 and 1, as int8 of that shape."""
    return numbers.to(torch.int8).numpy()


class MemoryStep(NamedTuple):
    """A step of networks that remember, in B episodes.

    Attributes:
        features: `[B, D]` float32, what the memory was given.
        states: `[B, U]` float32, what is remembered then.
        logits: `[B, K + 1]` float32, of the choices.
    """

    features: Tensor
    states: Tensor
    logits: Tensor


def open_quantised(transition: QuantisedNetwork, episodes: Episodes) -> Callable[[], MemoryStep]:
    """Return what steps through episodes with a quantised network, on their device."""
    device = episodes.worlds.device
    look, parts = _open_layers(transition, episodes)
    parts |= {
        name: torch.from_numpy(array).to(device)
        for name, array in transition.arrays.items()
        if name.startswith((SEEN, STATE))
    }
    memory = QuantisedMemory(parts)
    with torch.no_grad():
        first = memory.decode_states(memory.begin(len(episodes)))
    states = first.clone()

    @torch.no_grad()
    def step() -> MemoryStep:
        features, goes_on = look()
        seen = memory.decode_features(memory.encode_features(features))
        before = torch.where(goes_on.unsqueeze(1), states, first)
        states.copy_(memory.decode_states(memory.follow(seen, before)))
        return MemoryStep(features, states, memory.answer(states))

    return step


def open_recurrent(transition: NetworkTransition, episodes: Episodes) -> Callable[[], MemoryStep]:
    """Return what steps through episodes with a network that remembers, on their device."""
    look, parts = _open_layers(transition, episodes)
    states = parts[_RECURRENT].new_zeros(1, len(episodes), transition.config.memory)

    @torch.no_grad()
    def step() -> MemoryStep:
        features, goes_on = look()
        states.copy_(remember(parts, features.unsqueeze(0), states, goes_on[None, None])[0])
        return MemoryStep(features, states[0], linear(parts, "actor", states)[0])

    return step


def _open_layers(
    transition: NetworkTransition | QuantisedNetwork, episodes: Episodes
) -> tuple[Callable[[], tuple[Tensor, Tensor]], dict[str, Tensor]]:
    """Open the layers before a memory.

    Returns:
        What looks at the episodes: features, `[B, D]`, and whether these go on, `[B]` bool; and the
        network's weights by name, `[1, outputs, ...]`.
    """
    device = episodes.worlds.device
    shape = transition.shape
    network = Ensemble(shape, [transition.modes], device)
    parts = shape.split(torch.from_numpy(shape.pack(transition.arrays))[None].to(device))
    views = Views([episodes], transition.config.inputs, members=1)

    def look() -> tuple[Tensor, Tensor]:
        modes = views.mode()
        features = network.think(parts, network.look(parts, views.look()), modes)
        return features[0], modes[0] >= 0

    return look, dict(parts)
