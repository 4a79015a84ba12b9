"""A gradient step of PPO on a GPU in some twenty kernels; as tensor operations it had 150.

Forward it is `pomp.machine.fused`. Backward, one launch computes the loss and everything up to the
grid's feature, the library multiplies the large matrices, and four more launches finish the
convolutions, the normalised weights and Adam's step. The axes are those of `gradient_cuda`.
"""

import math

import torch
from torch import Tensor

from pomp.core.graphs import launch_on_stream
from pomp.learning.adam import AdamSettings, AdamState, Gradients, adam_step
from pomp.learning.clipped_loss import Collected, LossSettings, PpoLoss
from pomp.learning.gradient_cuda import (
    join_patches,
    mask_cells,
    measure_gradients,
    write_gradients,
)
from pomp.learning.head_gradient_cuda import Slopes, learn_heads
from pomp.machine.fused import FusedNetwork
from pomp.machine.layers import CHANNELS, FILTERS
from pomp.machine.network_cuda import HEAD_THREADS, SIDE, NetworkOutputs

TAPS = SIDE * SIDE * CHANNELS
"""Weights of a filter of the first convolution."""
_GROUPS = 8  # of steps, unless a mini-batch has fewer


class FusedStep:
    """Gradient steps on fixed memory of a GPU."""

    def __init__(self, network: FusedNetwork, parameters: Tensor, rates: Tensor) -> None:
        """Allocate memory.

        Args:
            network: for batches of the size of a mini-batch.
            parameters: `[E, S]` float32, which steps move.
            rates: `[E]` float32, learning rates.
        """
        self._network, members, batch = network, network.members, network.batch
        shape, rows = network.shape, network.lengths.shape[1]

        def empty(*size: int) -> Tensor:
            return torch.empty(size, dtype=torch.float32, device=parameters.device)

        self._groups = math.gcd(_GROUPS, batch)
        self._slopes = Slopes(
            torch.empty_like(network.effective),
            empty(members, rows),
            empty(*((members, batch, shape.config.hidden) if shape.sees_grid else (1, 1, 1))),
            empty(members, self._groups, TAPS, FILTERS),
            empty(members, batch, FILTERS),
            empty(members, batch, FILTERS),
        )
        self._squares = empty(members, rows)
        self._gradients = torch.empty_like(parameters)
        self._rates = rates
        logits = empty(members, batch, shape.modes + 1)
        self._outputs = NetworkOutputs(logits, empty(members, batch))
        self._loss = PpoLoss(torch.empty_like(logits), empty(members, batch), empty(0))
        if shape.sees_grid:
            self._cells, self._patches = map(torch.empty_like, (network.cells, network.patches))
            self._sums = empty(members, network.patches.shape[1], FILTERS)
            self._hidden = empty(members, network.columns.shape[1], FILTERS)
            self._shares = empty(members, self._groups, FILTERS, network.patches.shape[2])

    def step(
        self,
        observations: Tensor,
        modes: Tensor,
        first: int,
        collected: Collected,
        loss: LossSettings,
        state: AdamState,
        adam: tuple[Tensor, AdamSettings],
    ) -> tuple[Tensor, Tensor]:
        """Take one gradient step.

        Args:
            observations: `[E, N, ...]`, those of an epoch.
            modes: `[E, N]` int64, likewise.
            first: the place of the mini-batch's first step among the N.
            collected: what was done and expected then, of the epoch.
            loss: the numbers of the loss.
            state: parameters and moments, written.
            adam: corrections of this step, `[2]` float32, and Adam's numbers.

        Returns:
            The terms of the loss, `[3, E, M]`, and the norms of the gradients, `[E]`.
        """
        network, slopes, parameters = self._network, self._slopes, state.parameters
        network.look(parameters, observations, first)
        weights = network.weights(parameters)
        terms = parameters.new_empty(3, network.members, network.batch)
        found = self._loss._replace(terms=terms)
        seen = network.seen(observations, modes, first)
        launch_on_stream(
            learn_heads, (1, network.members), network.table, network.head, weights, seen,
            self._outputs, loss, collected, found, slopes, threads=HEAD_THREADS,
        )  # fmt: skip
        if network.shape.sees_grid:
            self._learn_grid()
        rows = network.lengths.shape[1], network.members
        launch_on_stream(
            write_gradients, rows, network.table, weights, network.lengths, slopes,
            self._gradients, self._squares,
        )  # fmt: skip
        norms = parameters.new_empty(network.members)
        launch_on_stream(measure_gradients, network.members, self._squares, norms)
        adam_step(*adam, state, Gradients(self._gradients, norms, self._rates))
        return terms, norms

    def _learn_grid(self) -> None:
        """Compute gradients by the convolutions and the grid's last layer."""
        network, slopes = self._network, self._slopes
        features, cells = slopes.features, network.cells.flatten(2)
        torch.bmm(features.transpose(1, 2), cells, out=network.matrix(2, slopes.weights))
        torch.bmm(features, network.matrix(2), out=self._cells.flatten(2))
        steps, sums = (network.batch, network.members), network.by_step(self._sums)
        launch_on_stream(mask_cells, steps, network.cells, self._cells, sums, slopes.cell_biases)
        shares = self._shares
        torch.bmm(self._turn(self._sums), self._group(network.patches), out=shares.flatten(0, 1))
        torch.sum(shares, dim=1, out=network.matrix(1, slopes.weights))
        torch.bmm(self._sums, network.matrix(1), out=self._patches)
        patches, sums = network.by_step(self._patches), network.by_step(self._hidden)
        given = network.hidden, patches, sums, slopes.filter_biases
        launch_on_stream(join_patches, steps, network.shape.width - SIDE + 1, *given)
        filters = slopes.filters.flatten(0, 1)
        torch.bmm(self._turn(network.columns), self._group(self._hidden), out=filters)

    def _group(self, numbers: Tensor) -> Tensor:
        """Return `[E, M * n, m]` as `[E * G, M / G * n, m]`; a view.

        The library gives a sum of products to one block of threads, however long it is: so long
        ones are divided into groups of steps.
        """
        return numbers.view(numbers.shape[0] * self._groups, -1, numbers.shape[2])

    def _turn(self, numbers: Tensor) -> Tensor:
        """Return `[E, M * n, m]` as `[E * G, m, M / G * n]`; a view."""
        return self._group(numbers).transpose(1, 2)
