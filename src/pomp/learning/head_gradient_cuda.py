"""Kernels of `pomp.learning.fused` behind the grid's feature: the loss, and its gradients there.

The axes are those of `pomp.machine.network_cuda`; M macro steps of a mini-batch are its B, and G
groups of them those in which the gradients by the convolutions' weights are added up.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import cuda, float32

from pomp.core.compiling import scalar
from pomp.core.cuda import large_kernel
from pomp.learning.clipped_loss import ppo_loss_of_step
from pomp.machine.network_cuda import (
    ABSENT,
    COLUMNS,
    FIRST,
    HEAD_THREADS,
    LEVELS,
    ROWS,
    STRIDE,
    TILE,
    decide_tile,
    effective_row,
    head_layer,
    level_row,
)


class Slopes(NamedTuple):
    """Gradients of the loss on the way to those by the parameters; written.

    Attributes:
        weights: `[E * W]` float32, by the effective weights; but for the first convolution.
        biases: `[E, R]` float32, by the biases; but for the convolutions.
        features: `[E, M, D]` float32, by the products of the grid's last layer.
        filters: `[E, G, taps, F]` float32, by the first convolution's effective weights; to be
            added up.
        filter_biases: `[E, M, F]` float32, by its biases.
        cell_biases: `[E, M, F]` float32, by the biases of the second convolution.
    """

    weights: Any
    biases: Any
    features: Any
    filters: Any
    filter_biases: Any
    cell_biases: Any


@scalar
def pull_back_layer(member, depth, table, head, weights, levels, back):
    """Compute the gradients by a level from those by the next one, with all threads of a block.

    Args:
        member: number of the member.
        depth: number of the level.
        table: a `LayerTable`.
        head: a `HeadLayers`.
        weights: a `Weights`.
        levels: `[LEVELS]` float32, shared, as `decide_tile` left it.
        back: `[LEVELS]` float32, shared, of which the level's rows are written; where a level was
            not above 0, no gradient passes.
    """
    lane, warp, warps = cuda.threadIdx.x % TILE, cuda.threadIdx.x // TILE, cuda.blockDim.x // TILE
    layer, is_last = head_layer(depth, head)
    members, columns = weights.parameters.shape[0], table.layers[layer, COLUMNS]
    rows, own, given = table.layers[layer, ROWS], level_row(depth), level_row(depth + 1)
    column = warp
    while column < columns:
        start = effective_row(table, layer, member, members, 0) + column
        total = float32(0.0)
        for row in range(rows):
            number = back[np.uint64((given + row) * STRIDE + lane)]
            total += weights.effective[np.uint64(start + row * columns)] * number
        if is_last:
            start = effective_row(table, layer + 1, member, members, 0) + column
            total += weights.effective[start] * back[(given + rows) * STRIDE + lane]
        place = (own + column) * STRIDE + lane
        back[place] = total if levels[place] > 0 else float32(0.0)
        column += warps


@scalar
def add_products(member, depth, tile, table, head, levels, back, slopes):
    """Add what a tile says about weights and biases of a layer, with all threads of a block.

    Args:
        member: number of the member.
        depth: number of the level that the layer sees.
        tile: the place of its first step among the M, and how many it has; that of the first tile
            is written, those of others are added.
        table: a `LayerTable`.
        head: a `HeadLayers`.
        levels: `[LEVELS]` float32, shared.
        back: `[LEVELS]` float32, shared, gradients.
        slopes: a `Slopes`, written.
    """
    layer, is_last = head_layer(depth, head)
    rows, columns = table.layers[layer, ROWS], table.layers[layer, COLUMNS]
    members, own, given = slopes.biases.shape[0], level_row(depth), level_row(depth + 1)
    row, column = cuda.threadIdx.x // TILE, cuda.threadIdx.x % TILE
    while row < rows + int(is_last):
        of, within = (layer, row) if row < rows else (layer + 1, 0)
        start = effective_row(table, of, member, members, within)
        while column < columns:
            total = float32(0.0) if tile[0] == 0 else slopes.weights[start + column]
            for step in range(tile[1]):
                number = levels[np.uint64((own + column) * STRIDE + step)]
                total += back[np.uint64((given + row) * STRIDE + step)] * number
            slopes.weights[start + column] = total
            column += TILE
        if cuda.threadIdx.x % TILE == 0:
            number = table.layers[of, FIRST] + within
            add_bias(member, number, given + row, tile, back, slopes)
        row, column = row + cuda.blockDim.x // TILE, cuda.threadIdx.x % TILE


@scalar
def add_bias(member, number, row, tile, back, slopes):
    """Add what a tile says about a bias.

    Args:
        member: number of the member.
        number: of the bias among all rows.
        row: its row of `back`.
        tile: as `add_products` takes it.
        back: `[LEVELS]` float32, shared, gradients.
        slopes: a `Slopes`, written.
    """
    total = float32(0.0) if tile[0] == 0 else slopes.biases[member, number]
    for step in range(tile[1]):
        total += back[row * STRIDE + step]
    slopes.biases[member, number] = total


@scalar
def pull_back_inputs(member, tile, table, head, seen, back, slopes):
    """Pass on the gradients by the head's inputs, with all threads of a block.

    Args:
        member: number of the member.
        tile: as `add_products` takes it.
        table: a `LayerTable`.
        head: a `HeadLayers`, which sees a feature of the grid.
        seen: a `Seen`.
        back: `[LEVELS]` float32, shared, gradients.
        slopes: a `Slopes`, written.
    """
    first, steps = tile
    units = slopes.features.shape[2]
    step, column = cuda.threadIdx.x // TILE, cuda.threadIdx.x % TILE
    while step < steps and column < units:
        slopes.features[member, first + step, column] = back[column * STRIDE + step]
        step += cuda.blockDim.x // TILE
    if cuda.threadIdx.x < units:
        place = table.layers[head.feature, FIRST] + cuda.threadIdx.x
        add_bias(member, place, cuda.threadIdx.x, tile, back, slopes)
    if head.mode == ABSENT:
        return
    row, column = cuda.threadIdx.x % TILE, cuda.threadIdx.x // TILE
    start = effective_row(table, head.mode, member, slopes.biases.shape[0], row)
    while row < units and column < table.layers[head.mode, COLUMNS]:
        total = float32(0.0) if first == 0 else slopes.weights[start + column]
        for step in range(steps):
            if seen.modes[member, seen.first + first + step] == column:
                total += back[(units + row) * STRIDE + step]
        slopes.weights[start + column] = total
        column += cuda.blockDim.x // TILE
    if cuda.threadIdx.x < units:
        place = table.layers[head.mode, FIRST] + cuda.threadIdx.x
        add_bias(member, place, units + cuda.threadIdx.x, tile, back, slopes)


@large_kernel(HEAD_THREADS)
def learn_heads(table, head, weights, seen, outputs, settings, collected, loss, slopes):
    """Compute loss and gradients behind the grid's feature: a block of warps for each member.

    Args:
        table: a `LayerTable`.
        head: a `HeadLayers`.
        weights: a `Weights`.
        seen: a `Seen`.
        outputs: a `NetworkOutputs`, written.
        settings: a `LossSettings`.
        collected: a `Collected`.
        loss: a `PpoLoss`, written.
        slopes: a `Slopes`, of which weights, biases and features are written.
    """
    levels = cuda.shared.array(LEVELS, float32)
    back = cuda.shared.array(LEVELS, float32)
    member, steps, choices = cuda.blockIdx.y, outputs.values.shape[1], outputs.logits.shape[2]
    lane, warp, warps = cuda.threadIdx.x % TILE, cuda.threadIdx.x // TILE, cuda.blockDim.x // TILE
    for number in range((steps + TILE - 1) // TILE):
        first = number * TILE
        decide_tile(member, first, table, head, weights, seen, levels, outputs)
        place, tile = first + lane, (first, min(TILE, steps - first))
        if warp == 0 and place < steps:
            ppo_loss_of_step(member, place, seen.first, settings, outputs, collected, loss)
        cuda.syncthreads()
        row = warp
        while row <= choices:
            value = float32(0.0)
            if place < steps and row == choices:
                value = loss.grad_values[member, place]
            elif place < steps:
                value = loss.grad_logits[member, place, row]
            back[(level_row(head.depth) + row) * STRIDE + lane] = value
            row += warps
        cuda.syncthreads()
        for height in range(head.depth):
            depth = head.depth - 1 - height
            pull_back_layer(member, depth, table, head, weights, levels, back)
            add_products(member, depth, tile, table, head, levels, back, slopes)
            cuda.syncthreads()
        if head.feature != ABSENT:
            pull_back_inputs(member, tile, table, head, seen, back, slopes)
        cuda.syncthreads()
