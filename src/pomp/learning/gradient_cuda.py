"""Kernels of `pomp.learning.fused` for the grid and the parameters.

The axes are those of `head_gradient_cuda`.
"""

import math

import numpy as np
from numba import cuda, float32

from pomp.core.compiling import scalar
from pomp.core.cuda import device_kernel
from pomp.machine.layers import CHANNELS, FILTERS
from pomp.machine.network_cuda import (
    ABSENT,
    ALONG,
    BIAS,
    CELLS_TILE,
    COLUMNS,
    FIRST,
    REDUCED,
    SCALE,
    SECOND_SIDE,
    SHIFT,
    STRIDE,
    WEIGHT,
    add_up_block,
    effective_row,
    parameter_column,
)

_SHARES = 1024  # the most threads of a block
_FIRST_SHIFT = CHANNELS.bit_length() - 1  # SHIFT of the first convolution


@device_kernel
def mask_cells(cells, given, sums, biases):
    """Let gradients pass where the second convolution was above 0, and put filters last again.

    A block for each step.

    Args:
        cells: `[E, M, F, P]` float32, behind the convolution.
        given: `[E, M, F, P]` float32, gradients by these.
        sums: `[E, M, P, F]` float32, written: by what the convolution adds up.
        biases: `[E, M, F]` float32, written: the sums of these over the positions.
    """
    kept = cuda.shared.array(CELLS_TILE, float32)
    step, member, lane = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x % FILTERS
    warp, warps, positions = cuda.threadIdx.x // FILTERS, cuda.blockDim.x // FILTERS, sums.shape[2]
    row = warp
    while row < FILTERS:
        position = lane
        while position < positions:
            is_on = cells[member, step, row, position] > 0
            value = given[member, step, row, position] if is_on else float32(0.0)
            kept[np.uint64(position * STRIDE + row)] = value
            position += FILTERS
        row += warps
    cuda.syncthreads()
    position, total = warp, float32(0.0)
    while position < positions:
        value = kept[np.uint64(position * STRIDE + lane)]
        sums[member, step, position, lane] = value
        position += warps
    if warp == 0:
        for position in range(positions):
            total += kept[np.uint64(position * STRIDE + lane)]
        biases[member, step, lane] = total


@scalar
def join_patch(patches, member, step, row, column, lane, last):
    """Return the gradient by one number behind the first convolution, from those by patches.

    Args:
        patches: `[E, M, P', 4 F]` float32.
        member: number of the member.
        step: number of the step among the M.
        row: of the number's position.
        column: likewise.
        lane: its filter.
        last: positions in a row of the second convolution.
    """
    total = float32(0.0)
    for shift in range(SECOND_SIDE * SECOND_SIDE):
        up, left = row - shift // SECOND_SIDE, column - shift % SECOND_SIDE
        place = up * last + left
        if up >= 0 and 0 <= left < last and place < patches.shape[2]:
            within = np.uint64(shift * FILTERS + lane)
            total += patches[member, step, np.uint64(place), within]
    return total


@device_kernel
def join_patches(across, hidden, patches, sums, biases):
    """Compute the gradients by what the first convolution adds up: a block for each step.

    Args:
        across: positions in a row.
        hidden: `[E, M, P, F]` float32, behind the convolution.
        patches: `[E, M, P', 4 F]` float32, gradients by the second one's patches.
        sums: `[E, M, P, F]` float32, written; where hidden was not above 0, no gradient passes.
        biases: `[E, M, F]` float32, written: the sums of these over the positions.
    """
    shares = cuda.shared.array(_SHARES, float32)
    step, member, lane = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x % FILTERS
    warp, warps = cuda.threadIdx.x // FILTERS, cuda.blockDim.x // FILTERS
    position, last, total = warp, across - SECOND_SIDE + 1, float32(0.0)
    row, column = 0, position
    while column >= across:
        row, column = row + 1, column - across
    while position < hidden.shape[2]:
        place, value = np.uint64(position), float32(0.0)
        if hidden[member, step, place, lane] > 0:
            value = join_patch(patches, member, step, row, column, lane, last)
        sums[member, step, place, lane] = value
        total += value
        position, column = position + warps, column + warps
        while column >= across:
            row, column = row + 1, column - across
    shares[cuda.threadIdx.x] = total
    cuda.syncthreads()
    if warp == 0:
        for other in range(1, warps):
            total += shares[other * FILTERS + lane]
        biases[member, step, lane] = total


@scalar
def weight_slope(member, row, place, source, along, slopes):
    """Return the gradient by an effective weight.

    Args:
        member: number of the member.
        row: number of the row within its layer.
        place: number of the column.
        source: where the layer's row begins.
        along: how far apart its columns are; not 1: the first convolution.
        slopes: a `Slopes`.
    """
    if along == 1:
        return slopes.weights[np.uint64(source + place)]
    total = float32(0.0)
    for group in range(slopes.filters.shape[1]):
        total += slopes.filters[member, group, np.uint64(place), row]
    return total


@scalar
def bias_slope(member, row, number, kind, slopes):
    """Return the gradient by a bias.

    Args:
        member: number of the member.
        row: number of the row within its layer.
        number: the same among all rows.
        kind: SHIFT of the layer, which convolutions have.
        slopes: a `Slopes`.
    """
    total = float32(0.0)
    if kind == 0:
        total = slopes.biases[member, number]
    elif kind == _FIRST_SHIFT:
        for step in range(slopes.filter_biases.shape[1]):
            total += slopes.filter_biases[member, step, row]
    else:
        for step in range(slopes.cell_biases.shape[1]):
            total += slopes.cell_biases[member, step, row]
    return total


@device_kernel
def write_gradients(table, weights, lengths, slopes, gradients, squares):
    """Write the gradients by the parameters: a block for each row, `REDUCED` threads at most.

    Args:
        table: a `LayerTable`.
        weights: a `Weights`.
        lengths: `[E, R]` float32, of the rows of weights.
        slopes: a `Slopes`.
        gradients: `[E, S]` float32, written.
        squares: `[E, R]` float32, written: each row's share of the squared norm.
    """
    sums = cuda.shared.array(REDUCED, float32)
    number, member, thread = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x
    layer, layers, parameters = table.row_layers[number], table.layers, weights.parameters
    columns, scale, shift = layers[layer, COLUMNS], layers[layer, SCALE], layers[layer, SHIFT]
    row = number - layers[layer, FIRST]
    start = layers[layer, WEIGHT] + row * columns
    source = effective_row(table, layer, member, parameters.shape[0], row)
    along, square = float32(0.0), float32(0.0)  # along: the gradient's share along the weights
    factor, length = float32(1.0), lengths[member, number]
    place = thread
    while place < columns:
        column = np.uint64(start + parameter_column(place, columns, shift))
        slope = weight_slope(member, row, place, source, layers[layer, ALONG], slopes)
        gradients[member, column] = slope
        along += slope * parameters[member, column]
        place += cuda.blockDim.x
    if scale != ABSENT:
        sums[thread] = along
        add_up_block(sums)
        along = sums[0] / length
        factor = parameters[member, scale + row] / length
    cuda.syncthreads()
    across, column = along / length, thread
    while column < columns:
        place = np.uint64(start + column)
        slope = gradients[member, place]
        if scale != ABSENT:
            slope = factor * (slope - parameters[member, place] * across)
            gradients[member, place] = slope
        square += slope * slope
        column += cuda.blockDim.x
    if thread == 0:
        bias = bias_slope(member, row, number, shift, slopes)
        gradients[member, layers[layer, BIAS] + row] = bias
        square += bias * bias
        if scale != ABSENT:
            gradients[member, scale + row] = along
            square += along * along
    sums[thread] = square
    add_up_block(sums)
    if thread == 0:
        squares[member, number] = sums[0]


@device_kernel
def measure_gradients(squares, norms):
    """Add up the norms of the gradients: a block for each member, `REDUCED` threads at most.

    Args:
        squares: `[E, R]` float32, shares of the squared norms.
        norms: `[E]` float32, written.
    """
    sums = cuda.shared.array(REDUCED, float32)
    member, row, total = cuda.blockIdx.x, cuda.threadIdx.x, float32(0.0)
    while row < squares.shape[1]:
        total += squares[member, row]
        row += cuda.blockDim.x
    sums[cuda.threadIdx.x] = total
    add_up_block(sums)
    if cuda.threadIdx.x == 0:
        norms[member] = math.sqrt(sums[0])
