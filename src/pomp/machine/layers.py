"""The layers of the transition network, and where their parameters stand.

An ensemble is E networks of one shape whose parameters are the rows of one tensor, `[E, S]`. A
member with fewer modes than the shape's K is padded with zeros.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pomp.core.errors import DataFileError
from pomp.core.streams import branch, draw_normal
from pomp.machine.config import NetworkConfig

CHANNELS = 8
PERCEPTIONS = 5
KERNELS = (4, 2)  # of the two convolutions
FILTERS = 32
RELU_GAIN = math.sqrt(2)
"""What first weights of a layer before a ReLU are multiplied by."""
GATES, RECURRENT = "memory.gates", "memory.recurrent"
"""The layers of the GRU: what it makes of the inputs, and of what it remembers."""

Arrays = dict[str, NDArray[np.float32]]
"""Parameters of one member by name."""


@dataclass(frozen=True)
class Layer:
    """A linear layer or a convolution: a weight matrix and a bias.

    Attributes:
        name: of the layer; its parameters are `name.weight`, `name.scale` and `name.bias`.
        outputs: rows of the matrix.
        fan: the shape of one row: the inputs, or channels, rows and columns of a filter.
        gain: what first weights are multiplied by.
        has_norm: whether length and direction of the rows are learned apart.
    """

    name: str
    outputs: int
    fan: tuple[int, ...]
    gain: float
    has_norm: bool

    @property
    def columns(self) -> int:
        """The inputs of one output."""
        return math.prod(self.fan)

    @property
    def parts(self) -> list[tuple[str, tuple[int, ...]]]:
        """The names and shapes of its parameters."""
        norm = [(f"{self.name}.scale", (self.outputs,))] if self.has_norm else []
        weight = (f"{self.name}.weight", (self.outputs, *self.fan))
        return [weight, *norm, (f"{self.name}.bias", (self.outputs,))]


class ParameterLayout(ABC):
    """Where the parameters of a network stand in a row of S numbers, layer behind layer."""

    @property
    @abstractmethod
    def layers(self) -> list[Layer]:
        """The layers, in the order of their parameters."""

    @property
    def parts(self) -> list[tuple[str, tuple[int, ...]]]:
        """The names and shapes of all parameters, in order."""
        return [part for layer in self.layers for part in layer.parts]

    @property
    def size(self) -> int:
        """S, the number of parameters."""
        return sum(math.prod(shape) for _, shape in self.parts)

    def split(self, parameters: Tensor) -> dict[str, Tensor]:
        """Return `parameters`, `[E, S]`, as named parts, `[E, *shape]` each; views."""
        sizes = [math.prod(shape) for _, shape in self.parts]
        pieces = torch.split(parameters, sizes, dim=1)
        return {
            name: piece.view(len(parameters), *shape)
            for (name, shape), piece in zip(self.parts, pieces, strict=True)
        }

    def unpack(self, parameters: NDArray[np.float32]) -> Arrays:
        """Return the named arrays of a member, given its `parameters`, `[S]` float32."""
        arrays, first = {}, 0
        for name, shape in self.parts:
            last = first + math.prod(shape)
            arrays[name] = np.array(parameters[first:last]).reshape(shape)
            first = last
        return arrays


def grid_layers(height: int, width: int, hidden: int, *, has_norm: bool) -> list[Layer]:
    """Return the layers that turn a grid into `hidden` numbers: two convolutions, and a linear."""
    (first, second), cells = KERNELS, (height - 4) * (width - 4)
    return [
        Layer("grid.0", FILTERS, (CHANNELS, first, first), RELU_GAIN, has_norm),
        Layer("grid.1", FILTERS, (FILTERS, second, second), RELU_GAIN, has_norm),
        Layer("grid.2", hidden, (FILTERS * cells,), RELU_GAIN, has_norm),
    ]


@dataclass(frozen=True)
class Shape(ParameterLayout):
    """What a network is made of: a function of its settings, the grid and the number of modes."""

    config: NetworkConfig
    height: int
    width: int
    modes: int

    @cached_property
    def layers(self) -> list[Layer]:
        """The layers, in the order of their parameters."""
        hidden, norm = self.config.hidden, self.config.weight_norm
        layers = []
        if self.sees_grid:
            layers += grid_layers(self.height, self.width, hidden, has_norm=norm)
        if self.config.inputs == "grid+mode":
            layers.append(Layer("mode", hidden, (self.modes + 1,), RELU_GAIN, norm))
        if self.sees_mode:
            sizes = {"grid+mode": 2 * hidden, "perceptions+mode": PERCEPTIONS + self.modes + 1}
            layers.append(Layer("trunk.0", hidden, (sizes[self.config.inputs],), RELU_GAIN, norm))
            layers.append(Layer("trunk.1", hidden, (hidden,), RELU_GAIN, norm))
        if units := self.config.memory:
            layers += [
                Layer(GATES, 3 * units, (hidden,), 1.0, False),
                Layer(RECURRENT, 3 * units, (units,), 1.0, False),
            ]
        heads, width = [("actor", self.modes + 1, 0.01), ("critic", 1, 1.0)], units or hidden
        layers += [Layer(name, outputs, (width,), gain, False) for name, outputs, gain in heads]
        return layers

    @property
    def sees_grid(self) -> bool:
        """Whether the grid is an input; else the perceptions are."""
        return self.config.inputs != "perceptions+mode"

    @property
    def sees_mode(self) -> bool:
        """Whether the last mode is an input."""
        return self.config.inputs != "grid"

    def pack(self, arrays: Arrays) -> NDArray[np.float32]:
        """Join the named arrays of a member; those of one with fewer modes are padded with zeros.

        Returns:
            `[S]` float32.

        Raises:
            DataFileError: an array is missing or does not fit.
        """
        bias = arrays.get("actor.bias", np.empty(0))
        modes = max(1, min(bias.size - 1, self.modes))
        own = dict(Shape(self.config, self.height, self.width, modes).parts)
        row = []
        for name, shape in self.parts:
            got = arrays[name].shape if name in arrays else "nothing"
            if got != own[name]:
                raise DataFileError(f"its network should have {name} of {own[name]}, got {got}")
            whole = np.zeros(shape, np.float32)
            whole[tuple(slice(length) for length in own[name])] = arrays[name]
            row.append(whole.ravel())
        return np.concatenate(row)

    def cut(self, parameters: NDArray[np.float32], modes: int) -> Arrays:
        """Return the named arrays of a member that may have fewer modes than this shape.

        Args:
            parameters: `[S]` float32, padded.
            modes: how many the member has.
        """
        small = dict(Shape(self.config, self.height, self.width, modes).parts)
        whole = self.unpack(parameters)
        return {
            name: np.ascontiguousarray(array[tuple(slice(length) for length in small[name])])
            for name, array in whole.items()
        }


def draw_weights(shape: ParameterLayout, stream: np.uint64) -> Arrays:
    """Draw first weights of a member from a stream: orthogonal matrices, zero biases."""
    arrays: Arrays = {}
    for number, layer in enumerate(shape.layers):
        rows, columns = layer.outputs, layer.columns
        streams = branch(np.full(rows, stream), np.arange(rows) + (number << 32))
        normal = draw_normal(streams, columns).astype(np.float64)
        matrix = normal if rows >= columns else normal.T
        q, r = np.linalg.qr(matrix)
        q *= np.sign(np.diag(r))
        weight = layer.gain * (q if rows >= columns else q.T)
        arrays[f"{layer.name}.weight"] = weight.reshape(rows, *layer.fan).astype(np.float32)
        if layer.has_norm:
            lengths = np.linalg.norm(weight, axis=1)
            arrays[f"{layer.name}.scale"] = lengths.astype(np.float32)
        arrays[f"{layer.name}.bias"] = np.zeros(rows, np.float32)
    return arrays
