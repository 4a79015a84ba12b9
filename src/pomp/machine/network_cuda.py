"""The kernels of `pomp.machine.fused`: the transition network on a GPU, forward.

Sums over many numbers are products of matrices, which the library multiplies; all between them is
written out: weights of all layers are normalised in one launch, and everything behind the grid's
feature is another.

The axes are E members, B worlds or macro steps of each, R rows of all weight matrices, F filters, C
channels, P positions of a convolution, I inputs of the trunk, D hidden units and K + 1 choices.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import cuda, float32, uint8

from pomp.core.compiling import scalar
from pomp.core.cuda import device_kernel, large_kernel
from pomp.machine.layers import CHANNELS, FILTERS, KERNELS

TILE = 32
"""Macro steps that a block of threads looks at together, one in each lane of a warp."""
STRIDE = TILE + 1
"""Numbers between rows of a tile: a column has no two numbers in one bank of memory."""
MOST_INPUTS, MOST_HIDDEN, MOST_CHOICES = 64, 32, 32
"""The largest layers for which tiles fit into the memory that a block shares."""
MOST_CELLS, MOST_POSITIONS = 512, 224
"""The largest grid, and first convolution of it, likewise."""
HEAD_THREADS = 512
"""Threads of the block that computes what stands behind a member's features."""
REDUCED = 128
"""Threads, a power of two, that add up a row of weights."""
# Columns of a layer table.
WEIGHT, SCALE, BIAS, ROWS, COLUMNS, SHIFT, BASE, FIRST, ACROSS, ALONG = range(10)
ABSENT = -1  # a layer that a network does not have
# Sizes of memory that blocks share must be names.
FIRST_HIDDEN, CELLS_TILE = MOST_POSITIONS * FILTERS, MOST_POSITIONS * STRIDE
LEVELS = (MOST_INPUTS + 2 * MOST_HIDDEN + MOST_CHOICES + 1) * STRIDE
SIDE, SECOND_SIDE = KERNELS
"""Of the filters of the convolutions."""


class LayerTable(NamedTuple):
    """Where the numbers of each layer are.

    Effective weights are those that inputs are multiplied by: normalised, and their columns in the
    order in which kernels write what they are multiplied with. Those of a layer follow each other,
    members one after the other, from the place `BASE * E` on.

    Attributes:
        layers: `[layers, 10]` int64: the places of weights, scales (`ABSENT`: none) and biases
            among a member's parameters, rows, columns, SHIFT, BASE, the number of the first row,
            and how far apart effective rows (ACROSS) and columns (ALONG) are. Effective column c
            is column (c % n) * (columns / n) + c // n of the parameters, where n is 2 ** SHIFT.
        row_layers: `[R]` int64, the layer of each row.
    """

    layers: Any
    row_layers: Any


class HeadLayers(NamedTuple):
    """The numbers of the layers behind the grid's convolutions, `ABSENT` where there is none.

    Attributes:
        feature: of the grid.
        mode: of the last mode.
        trunk: the first of two, which follow each other.
        actor: of the logits; the next one is the critic.
        depth: how many layers follow each other, the critic not counted.
    """

    feature: int
    mode: int
    trunk: int
    actor: int
    depth: int


class Weights(NamedTuple):
    """The weights of all members, as kernels read them.

    Attributes:
        parameters: `[E, S]` float32.
        effective: `[E * W]` float32, normalised weights; see `LayerTable`.
        absent: `[E, 1, K + 1]` float32, added to the logits.
    """

    parameters: Any
    effective: Any
    absent: Any


class Seen(NamedTuple):
    """What the layers behind the convolutions see; read.

    Attributes:
        features: `[E, B, D]` float32, products of the grid's last layer; `[1, 1, 1]`: none.
        readings: `[E, N]` int16, of the perceptions; `[1, 1]`: none.
        modes: `[E, N]` int64, the last modes; -1 before the first.
        first: the place of the first of the B steps among the N.
    """

    features: Any
    readings: Any
    modes: Any
    first: int


@scalar
def level_row(depth):
    """Return the first row of a level of the head in the memory that a block shares.

    Level 0 has the head's inputs, `MOST_INPUTS` rows, each further one what a layer makes of the
    one before; the last one the logits and then the value.

    Args:
        depth: number of the level.
    """
    return 0 if depth == 0 else MOST_INPUTS + (depth - 1) * MOST_HIDDEN


@scalar
def add_up_block(sums):
    """Add up numbers of a block, one of each thread; the sum is in the first place of all.

    Args:
        sums: `[REDUCED]` float32, shared; the threads of the block, a power of two, count.
    """
    cuda.syncthreads()
    half = cuda.blockDim.x // 2
    while half > 0:
        if cuda.threadIdx.x < half:
            sums[cuda.threadIdx.x] += sums[cuda.threadIdx.x + half]
        cuda.syncthreads()
        half //= 2


@scalar
def effective_row(table, layer, member, members, row):
    """Return where a row of a member's effective weights begins.

    Args:
        table: a `LayerTable`.
        layer: number of the layer.
        member: number of the member.
        members: E.
        row: number of the row within its layer.
    """
    layers = table.layers
    size = layers[layer, ROWS] * layers[layer, COLUMNS]
    return layers[layer, BASE] * members + member * size + row * layers[layer, ACROSS]


@scalar
def parameter_column(place, columns, shift):
    """Return the number among the parameters of an effective column; see `LayerTable`.

    Args:
        place: number of the effective column.
        columns: how many there are.
        shift: SHIFT of the layer.
    """
    return (place & ((1 << shift) - 1)) * (columns >> shift) + (place >> shift)


@device_kernel
def normalise_rows(table, weights, lengths):
    """Normalise all weights: a block for each row of each member, `REDUCED` threads at most.

    Args:
        table: a `LayerTable`.
        weights: a `Weights`; `effective` is written.
        lengths: `[E, R]` float32, written: of each row, before it is normalised.
    """
    sums = cuda.shared.array(REDUCED, float32)
    number, member, thread = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x
    layer = table.row_layers[number]
    columns, scale = table.layers[layer, COLUMNS], table.layers[layer, SCALE]
    row = number - table.layers[layer, FIRST]
    start = table.layers[layer, WEIGHT] + row * columns
    total = float32(0.0)
    column = thread
    while column < columns:
        weight = weights.parameters[member, np.uint64(start + column)]
        total += weight * weight
        column += cuda.blockDim.x
    sums[thread] = total
    add_up_block(sums)
    length, factor = float32(math.sqrt(sums[0])), float32(1.0)
    if scale != ABSENT:
        factor = weights.parameters[member, scale + row] / length
    shift, along = table.layers[layer, SHIFT], table.layers[layer, ALONG]
    target = effective_row(table, layer, member, weights.parameters.shape[0], row)
    place = thread
    while place < columns:
        column = start + parameter_column(place, columns, shift)
        weight = weights.parameters[member, np.uint64(column)] * factor
        weights.effective[np.uint64(target + place * along)] = weight
        place += cuda.blockDim.x
    if thread == 0:
        lengths[member, number] = length


@scalar
def load_masks(planes, member, step, masks):
    """Write which channels of each cell are on, as bits, with all threads of a block.

    Args:
        planes: `[E, N, C, H * W]` uint8, read.
        member: number of the member.
        step: number of the step among the N.
        masks: `[MOST_CELLS]` uint8, shared, written.
    """
    cell = cuda.threadIdx.x
    while cell < planes.shape[3]:
        bits = 0
        for channel in range(CHANNELS):
            bits |= int(planes[member, step, channel, cell] != 0) << channel
        masks[cell] = bits
        cell += cuda.blockDim.x


@device_kernel
def spread_planes(planes, width, first, columns):
    """Write what the filters of the first convolution see: a block for each step.

    Args:
        planes: `[E, N, C, H * W]` uint8.
        width: W.
        first: the place of the first of the B steps among the N.
        columns: `[E, B, P, taps]` float32, written: 1 where something is, else 0.
    """
    masks = cuda.shared.array(MOST_CELLS, uint8)
    place, member, lane = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x % TILE
    warps, across = cuda.blockDim.x // TILE, width - SIDE + 1
    load_masks(planes, member, first + place, masks)
    cuda.syncthreads()
    position = cuda.threadIdx.x // TILE
    corner, column = position + lane // CHANNELS, position
    while column >= across:  # the next row of positions
        corner, column = corner + width - across, column - across
    while position < columns.shape[2]:
        for down in range(SIDE):
            bits = int(masks[np.uint64(corner + down * width)])
            tap = np.uint64(down * SIDE * CHANNELS + lane)
            columns[member, place, np.uint64(position), tap] = (bits >> lane % CHANNELS) & 1
        position, corner, column = position + warps, corner + warps, column + warps
        while column >= across:
            corner, column = corner + width - across, column - across


@device_kernel
def finish_hidden(parameters, bias, across, hidden, patches):
    """Add the first convolution's biases, cut what is below 0, and lay out patches.

    A block for each step, a filter for each lane.

    Args:
        parameters: `[E, S]` float32.
        bias: the place of the first bias among a member's parameters.
        across: positions in a row.
        hidden: `[E, B, P, F]` float32, sums; written: nothing is below 0 then.
        patches: `[E, B, P', 4 F]` float32, written: what the second convolution is multiplied with.
    """
    kept = cuda.shared.array(FIRST_HIDDEN, float32)
    step, member, lane = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x % FILTERS
    warp, warps = cuda.threadIdx.x // FILTERS, cuda.blockDim.x // FILTERS
    own = parameters[member, bias + lane]
    position = warp
    while position < hidden.shape[2]:
        value = max(hidden[member, step, np.uint64(position), lane] + own, float32(0.0))
        kept[np.uint64(position * FILTERS + lane)] = value
        hidden[member, step, np.uint64(position), lane] = value
        position += warps
    cuda.syncthreads()
    place, last = warp, across - SECOND_SIDE + 1
    corner, column = place, place
    while column >= last:  # the next row of patches
        corner, column = corner + across - last, column - last
    while place < patches.shape[2]:
        for shift in range(SECOND_SIDE * SECOND_SIDE):
            cell = corner + shift // SECOND_SIDE * across + shift % SECOND_SIDE
            within = np.uint64(shift * FILTERS + lane)
            number = kept[np.uint64(cell * FILTERS + lane)]
            patches[member, step, np.uint64(place), within] = number
        place, corner, column = place + warps, corner + warps, column + warps
        while column >= last:
            corner, column = corner + across - last, column - last


@device_kernel
def finish_cells(parameters, bias, sums, cells):
    """Add the second convolution's biases, cut what is below 0, and put filters first.

    A block for each step.

    Args:
        parameters: `[E, S]` float32.
        bias: the place of the first bias among a member's parameters.
        sums: `[E, B, P, F]` float32.
        cells: `[E, B, F, P]` float32, written.
    """
    kept = cuda.shared.array(CELLS_TILE, float32)
    step, member, lane = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x % FILTERS
    warp, warps, positions = cuda.threadIdx.x // FILTERS, cuda.blockDim.x // FILTERS, sums.shape[2]
    own = parameters[member, bias + lane]
    position = warp
    while position < positions:
        value = max(sums[member, step, position, lane] + own, float32(0.0))
        kept[np.uint64(position * STRIDE + lane)] = value
        position += warps
    cuda.syncthreads()
    row = warp
    while row < FILTERS:
        position = lane
        while position < positions:
            cells[member, step, row, position] = kept[np.uint64(position * STRIDE + row)]
            position += FILTERS
        row += warps


@scalar
def read_input(column, place, member, table, head, weights, seen):
    """Return an input of the trunk (or of actor and critic where there is none) for one step.

    Args:
        column: number of the input.
        place: of the step among the B.
        member: number of the member.
        table: a `LayerTable`.
        head: a `HeadLayers`.
        weights: a `Weights`.
        seen: a `Seen`.
    """
    mode = seen.modes[member, seen.first + place]
    if head.feature == ABSENT:  # perceptions, the contrary of the last one, the last mode
        reading = seen.readings[member, seen.first + place]
        if column < 4:
            return float32((reading >> column) & 1)
        if column == 4:
            return float32(1 - ((reading >> 3) & 1))
        return float32(1.0) if column - 5 == mode else float32(0.0)
    hidden = seen.features.shape[2]
    if column < hidden:
        bias = weights.parameters[member, table.layers[head.feature, BIAS] + column]
        return max(seen.features[member, place, column] + bias, float32(0.0))
    row = column - hidden
    total = weights.parameters[member, table.layers[head.mode, BIAS] + row]
    if mode >= 0:
        source = effective_row(table, head.mode, member, weights.parameters.shape[0], row)
        total += weights.effective[source + mode]
    return max(total, float32(0.0))


@scalar
def head_layer(depth, head):
    """Return the layer between a level of the head and the next, and whether it is the last one.

    Args:
        depth: number of the level.
        head: a `HeadLayers`.
    """
    is_last = depth + 1 == head.depth
    return head.actor if is_last else head.trunk + depth, is_last


@scalar
def decide_tile(member, first, table, head, weights, seen, levels, outputs):
    """Compute logits and values of the steps of a tile, with all threads of a block.

    Args:
        member: number of the member.
        first: the place of the tile's first step among the B.
        table: a `LayerTable`.
        head: a `HeadLayers`.
        weights: a `Weights`.
        seen: a `Seen`.
        levels: `[LEVELS]` float32, shared, written: rows of `STRIDE` numbers, of which `TILE`
            count; see `level_row`. Columns of inputs without a step are 0.
        outputs: a `NetworkOutputs`, written.
    """
    lane, warp, warps = cuda.threadIdx.x % TILE, cuda.threadIdx.x // TILE, cuda.blockDim.x // TILE
    place, zero, layers = first + lane, float32(0.0), table.layers
    is_there = place < outputs.values.shape[1]
    column = warp
    while column < layers[head_layer(0, head)[0], COLUMNS]:
        value = zero
        if is_there:
            value = read_input(column, place, member, table, head, weights, seen)
        levels[column * STRIDE + lane] = value
        column += warps
    cuda.syncthreads()
    for depth in range(head.depth):
        layer, is_last = head_layer(depth, head)
        rows, source, target = layers[layer, ROWS], level_row(depth), level_row(depth + 1)
        row = warp
        while row < rows + int(is_last):
            own, within = (layer, row) if row < rows else (layer + 1, 0)  # the critic
            start = effective_row(table, own, member, weights.parameters.shape[0], within)
            total = weights.parameters[member, layers[own, BIAS] + within]
            for column in range(layers[layer, COLUMNS]):
                number = levels[np.uint64((source + column) * STRIDE + lane)]
                total += weights.effective[np.uint64(start + column)] * number
            if not is_last:
                total = max(total, zero)
            elif is_there and own == layer:
                outputs.logits[member, place, row] = total + weights.absent[member, 0, row]
            elif is_there:
                outputs.values[member, place] = total
            levels[(target + row) * STRIDE + lane] = total
            row += warps
        cuda.syncthreads()


class NetworkOutputs(NamedTuple):
    """What networks say.

    Attributes:
        logits: `[E, B, K + 1]` float32.
        values: `[E, B]` float32.
    """

    logits: Any
    values: Any


@large_kernel(HEAD_THREADS)
def decide(table, head, weights, seen, outputs):
    """Compute logits and values: a block of whole warps for each tile of each member.

    Args:
        table: a `LayerTable`.
        head: a `HeadLayers`.
        weights: a `Weights`.
        seen: a `Seen`.
        outputs: a `NetworkOutputs`, written.
    """
    levels = cuda.shared.array(LEVELS, float32)
    first = cuda.blockIdx.x * TILE
    decide_tile(cuda.blockIdx.y, first, table, head, weights, seen, levels, outputs)
