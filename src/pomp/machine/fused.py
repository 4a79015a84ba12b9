"""The transition network on a GPU, in a few kernels instead of some fifty tensor operations.

Sums over many numbers are products of matrices, which the library multiplies; the rest are the
kernels of `network_cuda`. The axes are those of that module.
"""

import numpy as np
import torch
from torch import Tensor

from pomp.core.graphs import launch_on_stream
from pomp.machine.layers import CHANNELS, FILTERS, KERNELS, Shape
from pomp.machine.network import Ensemble
from pomp.machine.network_cuda import (
    ABSENT,
    BASE,
    BIAS,
    COLUMNS,
    HEAD_THREADS,
    MOST_CELLS,
    MOST_CHOICES,
    MOST_HIDDEN,
    MOST_INPUTS,
    MOST_POSITIONS,
    ROWS,
    SIDE,
    TILE,
    HeadLayers,
    LayerTable,
    NetworkOutputs,
    Seen,
    Weights,
    decide,
    finish_cells,
    finish_hidden,
    normalise_rows,
    spread_planes,
)


def layer_table(shape: Shape) -> tuple[LayerTable, HeadLayers, int]:
    """Return where everything is, and W, the number of a member's weights."""
    rows, row_layers, place, base = [], list[int](), 0, 0
    inner = {"grid.0": CHANNELS, "grid.1": FILTERS}  # what patches have side by side
    for number, layer in enumerate(shape.layers):
        size = layer.outputs * layer.columns
        scale = place + size if layer.has_norm else ABSENT
        bias = place + size + (layer.outputs if layer.has_norm else 0)
        shift, first = inner.get(layer.name, 1).bit_length() - 1, len(row_layers)
        apart = (1, layer.outputs) if layer.name == "grid.0" else (layer.columns, 1)
        sizes = layer.outputs, layer.columns
        rows.append((place, scale, bias, *sizes, shift, base, first, *apart))
        row_layers += [number] * layer.outputs
        place, base = bias + layer.outputs, base + size
    names = [layer.name for layer in shape.layers]
    wanted = ("grid.2", "mode", "trunk.0", "actor")
    feature, mode, trunk, actor = (
        names.index(name) if name in names else ABSENT for name in wanted
    )
    head = HeadLayers(feature, mode, trunk, actor, depth=1 if trunk == ABSENT else 3)
    return LayerTable(np.array(rows, np.int64), np.array(row_layers, np.int64)), head, base


def fits(shape: Shape) -> bool:
    """Whether a network is small enough for these kernels."""
    positions = (shape.height - SIDE + 1) * (shape.width - SIDE + 1)
    grid = shape.height * shape.width <= MOST_CELLS and positions <= MOST_POSITIONS
    head = shape.config.hidden <= MOST_HIDDEN and shape.modes + 1 <= MOST_CHOICES
    head = head and shape.config.memory == 0
    return head and (grid or not shape.sees_grid) and _count_inputs(shape) <= MOST_INPUTS


def _count_inputs(shape: Shape) -> int:
    """Return I, the inputs of the trunk, or of actor and critic where there is no trunk."""
    trunk = [layer for layer in shape.layers if layer.name == "trunk.0"]
    return trunk[0].columns if trunk else shape.config.hidden


class FusedNetwork:
    """An ensemble's networks for batches of one size, on fixed memory of a GPU.

    Attributes:
        table, head: where the numbers of layers are.
        lengths: `[E, R]` float32, of the rows of weights when they were last normalised.
        effective: `[E * W]` float32, the weights that inputs are multiplied by.
        columns: `[E, B * P, taps]` float32, what the first convolution is multiplied with.
        hidden: `[E, B, P, F]` float32, behind it.
        patches: `[E, B * P', 4 F]` float32, what the second one is multiplied with.
        cells: `[E, B, F, P']` float32, behind the second one.
        features: `[E, B, D]` float32, products of the grid's last layer.
    """

    def __init__(self, network: Ensemble, batch: int) -> None:
        """Allocate memory for an ensemble that looks at so many worlds of each member."""
        shape, self._absent = network.shape, network.absent
        self.shape, self.members, self.batch = shape, len(self._absent), batch
        device = self._absent.device
        table, self.head, weights = layer_table(shape)
        self.table = LayerTable(*(torch.from_numpy(part).to(device) for part in table))
        self.layers = [[int(number) for number in row] for row in table.layers]

        def empty(*size: int) -> Tensor:
            return torch.empty(size, dtype=torch.float32, device=device)

        self.effective = empty(self.members * weights)
        self.lengths = empty(self.members, len(table.row_layers))
        self._no_readings = torch.zeros(1, 1, dtype=torch.int16, device=device)
        self.features = empty(1, 1, 1)
        if shape.sees_grid:
            (one, two), height, width = KERNELS, shape.height, shape.width
            first = (height - one + 1) * (width - one + 1)
            second = (height - one - two + 2) * (width - one - two + 2)
            self.columns = empty(self.members, batch * first, one * one * CHANNELS)
            self.hidden = empty(self.members, batch, first, FILTERS)
            self.patches = empty(self.members, batch * second, two * two * FILTERS)
            self._sums = empty(self.members, batch * second, FILTERS)
            self.cells = empty(self.members, batch, FILTERS, second)
            self.features = empty(self.members, batch, shape.config.hidden)

    def matrix(self, layer: int, numbers: Tensor | None = None) -> Tensor:
        """Return a layer's effective weights, `[E, rows, columns]`; a view.

        Args:
            layer: its number.
            numbers: `[E * W]`, from which they are taken; None: the weights themselves.
        """
        rows, columns, base = (self.layers[layer][which] for which in (ROWS, COLUMNS, BASE))
        first, size = base * self.members, self.members * rows * columns
        flat = self.effective if numbers is None else numbers
        return flat[first : first + size].view(self.members, rows, columns)

    def filters(self) -> Tensor:
        """Return the first convolution's effective weights, `[E, taps, F]`; a view."""
        size = self.members * SIDE * SIDE * CHANNELS * FILTERS  # it is the first layer
        return self.effective[:size].view(self.members, -1, FILTERS)

    def by_step(self, numbers: Tensor) -> Tensor:
        """Return `[E, B * n, m]` as `[E, B, n, m]`; a view."""
        return numbers.view(self.members, self.batch, -1, numbers.shape[2])

    def weights(self, parameters: Tensor) -> Weights:
        """Return the weights as kernels take them, given `parameters`, `[E, S]`."""
        return Weights(parameters.detach(), self.effective, self._absent)

    def look(self, parameters: Tensor, observations: Tensor, first: int) -> None:
        """Normalise the weights, and compute the features of the grid where it is seen.

        Args:
            parameters: `[E, S]` float32.
            observations: `[E, N, C, H, W]` uint8 planes, or `[E, N]` int16 readings.
            first: the place of the first of the B steps among the N.
        """
        weights = self.weights(parameters)
        rows = self.lengths.shape[1], self.members
        launch_on_stream(normalise_rows, rows, self.table, weights, self.lengths)
        if not self.shape.sees_grid:
            return
        steps = self.batch, self.members
        width, parameters = self.shape.width, weights.parameters
        columns, patches = (self.by_step(one) for one in (self.columns, self.patches))
        launch_on_stream(spread_planes, steps, observations.flatten(3), width, first, columns)
        torch.bmm(self.columns, self.filters(), out=self.hidden.flatten(1, 2))
        places = self.layers[0][BIAS], width - SIDE + 1
        launch_on_stream(finish_hidden, steps, parameters, *places, self.hidden, patches)
        torch.bmm(self.patches, self.matrix(1).transpose(1, 2), out=self._sums)
        sums, bias = self.by_step(self._sums), self.layers[1][BIAS]
        launch_on_stream(finish_cells, steps, parameters, bias, sums, self.cells)
        torch.bmm(self.cells.flatten(2), self.matrix(2).transpose(1, 2), out=self.features)

    def seen(self, observations: Tensor, modes: Tensor, first: int) -> Seen:
        """Return what the layers behind the convolutions see, as kernels take it.

        Args:
            observations: `[E, N, ...]`, as `look` takes them.
            modes: `[E, N]` int64.
            first: the place of the first of the B steps among the N.
        """
        readings = self._no_readings if self.shape.sees_grid else observations
        return Seen(self.features, readings, modes, first)

    def __call__(
        self, parameters: Tensor, observations: Tensor, modes: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Compute logits `[E, B, K + 1]` and values `[E, B]`; arguments are those of `Ensemble`."""
        modes = modes.contiguous()
        self.look(parameters, observations, 0)
        logits = self._absent.new_empty(self.members, self.batch, self.shape.modes + 1)
        outputs = NetworkOutputs(logits, logits.new_empty(self.members, self.batch))
        seen, weights = self.seen(observations, modes, 0), self.weights(parameters)
        blocks = (self.batch + TILE - 1) // TILE, self.members
        given = self.table, self.head, weights, seen, outputs
        launch_on_stream(decide, blocks, *given, threads=HEAD_THREADS)
        return outputs.logits, outputs.values
