"""Kernels of `pomp.learning.fused` for the grid, the parameters and Adam's step.

The axes are those of `head_gradient_cuda`.
"""

import math

from numba import cuda, float32, uint8

from pomp.core.compiling import scalar
from pomp.core.cuda import device_kernel, large_kernel
from pomp.learning.adam import adam_step_of_parameter
from pomp.machine.network import CHANNELS, FILTERS, KERNELS
from pomp.machine.network_cuda import (
    ABSENT,
    BIAS,
    COLUMNS,
    FIRST,
    INNER,
    MOST_CELLS,
    MOST_POSITIONS,
    REDUCED,
    SCALE,
    WEIGHT,
    add_up_block,
    effective_row,
    load_masks,
)

GROUPS = 8
"""G, unless a mini-batch has fewer steps."""
_SIDE, _SECOND = KERNELS
SHIFTS = _SIDE * _SIDE
"""Places of a filter of the first convolution."""
GROUP_THREADS = SHIFTS * FILTERS
"""Threads of the block that adds up a group: a warp for each place of a filter."""
ADAM_THREADS, ADAM_SHARE = 128, 4
"""Threads of the blocks that move parameters, and how many each of them moves."""
_FIRST_SLOPES = MOST_POSITIONS * FILTERS


@device_kernel
def mask_cells(cells, slopes, biases):
    """Let gradients pass where the second convolution was above 0: a block for each step.

    Args:
        cells: `[E, M * P, F]` float32, behind the convolution.
        slopes: `[E, M * P, F]` float32, by these; written: by its sums.
        biases: `[E, M, F]` float32, written: the sums of these over the positions of a step.
    """
    sums = cuda.shared.array(REDUCED, float32)
    steps, thread = biases.shape[1], cuda.threadIdx.x
    step, member = cuda.blockIdx.x, cuda.blockIdx.y
    positions, lane = cells.shape[1] // steps, thread % FILTERS
    total = float32(0.0)
    position = thread // FILTERS
    while position < positions:
        row = step * positions + position
        value = slopes[member, row, lane] if cells[member, row, lane] > 0 else float32(0.0)
        slopes[member, row, lane] = value
        total += value
        position += cuda.blockDim.x // FILTERS
    sums[thread] = total
    cuda.syncthreads()
    if thread < FILTERS:
        other = thread + FILTERS
        while other < cuda.blockDim.x:
            total += sums[other]
            other += FILTERS
        biases[member, step, lane] = total


@scalar
def join_patch(patches, step, position, lane, across):
    """Return the gradient by one number behind the first convolution, from those by patches.

    Args:
        patches: `[E * M, P', 4 F]` float32.
        step: number of the step among the E * M.
        position: of the number.
        lane: its filter.
        across: positions in a row of the first convolution.
    """
    row, column = position // across, position % across
    last = across - _SECOND + 1
    total = float32(0.0)
    for shift in range(_SECOND * _SECOND):
        up, left = row - shift // _SECOND, column - shift % _SECOND
        place = up * last + left
        if up >= 0 and 0 <= left < last and place < patches.shape[1]:
            total += patches[step, place, shift * FILTERS + lane]
    return total


@large_kernel(GROUP_THREADS)
def learn_filters(planes, first, hidden, patches, filters, biases):
    """Add up the gradients by the first convolution: a block of `GROUP_THREADS` for each group.

    Each warp has a place of the filters, each lane a filter.

    Args:
        planes: `[E, N, C, H, W]` uint8.
        first: the place of the first of the M steps among the N.
        hidden: `[E, M, P, F]` float32, behind the convolution.
        patches: `[E * M, P', 4 F]` float32, gradients by the second one's patches.
        filters: `[E, G, taps, F]` float32, written.
        biases: `[E, G, F]` float32, written.
    """
    masks = cuda.shared.array(MOST_CELLS, uint8)
    slopes = cuda.shared.array(_FIRST_SLOPES, float32)
    steps, positions, groups = hidden.shape[1], hidden.shape[2], filters.shape[1]
    group, member = cuda.blockIdx.x, cuda.blockIdx.y
    shift, lane, width = cuda.threadIdx.x // FILTERS, cuda.threadIdx.x % FILTERS, planes.shape[4]
    across = width - _SIDE + 1
    zero = float32(0.0)
    every, t0, t1, t2, t3, t4, t5, t6, t7 = zero, zero, zero, zero, zero, zero, zero, zero, zero
    step = group
    while step < steps:
        cuda.syncthreads()
        load_masks(planes, member, first + step, masks)
        position = shift
        while position < positions:
            value = zero
            if hidden[member, step, position, lane] > 0:
                value = join_patch(patches, member * steps + step, position, lane, across)
            slopes[position * FILTERS + lane] = value
            position += SHIFTS
        cuda.syncthreads()
        place, cell, column = lane, shift // _SIDE * width + shift % _SIDE, 0
        for _ in range(positions):
            value, bits = slopes[place], masks[cell]
            every += value
            t0 += value if bits & 1 else zero
            t1 += value if bits & 2 else zero
            t2 += value if bits & 4 else zero
            t3 += value if bits & 8 else zero
            t4 += value if bits & 16 else zero
            t5 += value if bits & 32 else zero
            t6 += value if bits & 64 else zero
            t7 += value if bits & 128 else zero
            place, cell, column = place + FILTERS, cell + 1, column + 1
            if column == across:  # the next row of positions
                cell, column = cell + width - across, 0
        step += groups
    tap = shift * CHANNELS
    filters[member, group, tap, lane] = t0
    filters[member, group, tap + 1, lane] = t1
    filters[member, group, tap + 2, lane] = t2
    filters[member, group, tap + 3, lane] = t3
    filters[member, group, tap + 4, lane] = t4
    filters[member, group, tap + 5, lane] = t5
    filters[member, group, tap + 6, lane] = t6
    filters[member, group, tap + 7, lane] = t7
    if shift == 0:
        biases[member, group, lane] = every


@scalar
def weight_slope(table, layer, member, row, place, slopes):
    """Return the gradient by an effective weight.

    Args:
        table: a `LayerTable`.
        layer: number of the layer.
        member: number of the member.
        row: number of the row within its layer.
        place: number of the column among the effective ones.
        slopes: a `Slopes`.
    """
    if table.layers[layer, INNER] != CHANNELS:  # not the first convolution
        return slopes.weights[
            effective_row(table, layer, member, slopes.biases.shape[0], row) + place
        ]
    total = float32(0.0)
    for group in range(slopes.filters.shape[1]):
        total += slopes.filters[member, group, place, row]
    return total


@scalar
def bias_slope(table, layer, member, row, number, slopes):
    """Return the gradient by a bias.

    Args:
        table: a `LayerTable`.
        layer: number of the layer.
        member: number of the member.
        row: number of the row within its layer.
        number: the same among all rows.
        slopes: a `Slopes`.
    """
    inner, total = table.layers[layer, INNER], float32(0.0)
    if inner == CHANNELS:
        for group in range(slopes.filter_biases.shape[1]):
            total += slopes.filter_biases[member, group, row]
    elif inner == FILTERS and layer == 1:  # the second convolution
        for step in range(slopes.cell_biases.shape[1]):
            total += slopes.cell_biases[member, step, row]
    else:
        total = slopes.biases[member, number]
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
    layer = table.row_layers[number]
    layers, parameters = table.layers, weights.parameters
    columns, scale = layers[layer, COLUMNS], layers[layer, SCALE]
    row, inner = number - layers[layer, FIRST], layers[layer, INNER]
    outer, start = columns // inner, layers[layer, WEIGHT] + row * columns
    along, square = float32(0.0), float32(0.0)  # along: the gradient's share along the weights
    factor, length = float32(1.0), lengths[member, number]
    column = thread
    while column < columns:
        place = column % outer * inner + column // outer
        slope = weight_slope(table, layer, member, row, place, slopes)
        gradients[member, start + column] = slope
        along += slope * parameters[member, start + column]
        column += cuda.blockDim.x
    if scale != ABSENT:
        sums[thread] = along
        add_up_block(sums)
        along = sums[0] / length
        factor = parameters[member, scale + row] / length
        cuda.syncthreads()
    column = thread
    while column < columns:
        slope = gradients[member, start + column]
        if scale != ABSENT:
            slope = factor * (slope - parameters[member, start + column] / length * along)
            gradients[member, start + column] = slope
        square += slope * slope
        column += cuda.blockDim.x
    if thread == 0:
        bias = bias_slope(table, layer, member, row, number, slopes)
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
def move_parameters(squares, corrections, settings, state, given):
    """Take a step of Adam: blocks of `ADAM_THREADS`, `ADAM_SHARE` parameters for each thread.

    Args:
        squares: `[E, R]` float32, shares of the squared norms.
        corrections: `[2]` float32, the factor of the learning rate, and eps.
        settings: an `AdamSettings`.
        state: an `AdamState`, written.
        given: a `Gradients`; the norms are written.
    """
    sums = cuda.shared.array(ADAM_THREADS, float32)
    size, thread = state.parameters.shape[1], cuda.threadIdx.x
    share, member = cuda.blockDim.x * ADAM_SHARE, cuda.blockIdx.y
    total = float32(0.0)
    row = thread
    while row < squares.shape[1]:
        total += squares[member, row]
        row += cuda.blockDim.x
    sums[thread] = total
    add_up_block(sums)
    if thread == 0:  # every block of the member writes the same number
        given.norms[member] = math.sqrt(sums[0])
    cuda.syncthreads()
    for number in range(ADAM_SHARE):
        place = cuda.blockIdx.x * share + number * cuda.blockDim.x + thread
        if place < size:
            adam_step_of_parameter(member, place, corrections, settings, state, given)
