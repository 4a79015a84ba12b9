"""The kernels of `pomp.machine.fused`: the transition network on a GPU, forward.

Sums over many numbers are products of matrices, which the library multiplies; all between them is
written out: weights of all layers are normalised in one launch, the first convolution adds up the
filters of the few ones in the planes, and everything behind the grid's feature is one launch.

The axes are E members, B worlds or macro steps of each, R rows of all weight matrices, F filters, C
channels, P positions of a convolution, I inputs of the trunk, D hidden units and K + 1 choices.
"""

import math
from typing import Any, NamedTuple

from numba import cuda, float32, uint8

from pomp.core.compiling import scalar
from pomp.core.cuda import device_kernel, large_kernel
from pomp.machine.network import CHANNELS, FILTERS, KERNELS

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
WEIGHT, SCALE, BIAS, ROWS, COLUMNS, INNER, BASE, FIRST = range(8)  # columns of a layer table
ABSENT = -1  # a layer that a network does not have
# Sizes of memory that blocks share must be names.
LEVELS = (MOST_INPUTS + 2 * MOST_HIDDEN + MOST_CHOICES + 1) * STRIDE
SIDE = KERNELS[0]
"""Of the filters of the first convolution."""
_TAPS = SIDE * SIDE * CHANNELS  # inputs of a filter of the first convolution
_FIRST_FILTERS = _TAPS * FILTERS


class LayerTable(NamedTuple):
    """Where the numbers of each layer are.

    Effective weights are those that inputs are multiplied by: normalised, and their columns in the
    order in which kernels write what they are multiplied with. Those of a layer follow each other,
    `[E, rows, columns]`, from the place `BASE * E` on.

    Attributes:
        layers: `[layers, 8]` int64: the places of weights, scales (`ABSENT`: none) and biases among
            a member's parameters, rows, columns, INNER, BASE, and the number of the first row.
            Column c of the parameters is column (c % n) * INNER + c // n of the effective weights,
            where n is columns / INNER.
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
    rows, columns = layers[layer, ROWS], layers[layer, COLUMNS]
    return layers[layer, BASE] * members + (member * rows + row) * columns


@device_kernel
def normalise_rows(table, weights, lengths):
    """Normalise all weights: a block for each row of each member, `REDUCED` threads at most.

    Args:
        table: a `LayerTable`.
        weights: a `Weights`; `effective` is written.
        lengths: `[E, R]` float32, written: of each row, before it is normalised.
    """
    sums = cuda.shared.array(REDUCED, float32)
    number, member = cuda.blockIdx.x, cuda.blockIdx.y
    layer = table.row_layers[number]
    columns, scale = table.layers[layer, COLUMNS], table.layers[layer, SCALE]
    row = number - table.layers[layer, FIRST]
    start = table.layers[layer, WEIGHT] + row * columns
    total = float32(0.0)
    column = cuda.threadIdx.x
    while column < columns:
        weight = weights.parameters[member, start + column]
        total += weight * weight
        column += cuda.blockDim.x
    sums[cuda.threadIdx.x] = total
    add_up_block(sums)
    length, factor = float32(math.sqrt(sums[0])), float32(1.0)
    if scale != ABSENT:
        factor = weights.parameters[member, scale + row] / length
    inner = table.layers[layer, INNER]
    outer = columns // inner
    target = effective_row(table, layer, member, weights.parameters.shape[0], row)
    column = cuda.threadIdx.x
    while column < columns:
        place = target + column % outer * inner + column // outer
        weights.effective[place] = weights.parameters[member, start + column] * factor
        column += cuda.blockDim.x
    if cuda.threadIdx.x == 0:
        lengths[member, number] = length


@scalar
def load_masks(planes, member, step, masks):
    """Write which channels of each cell are on, as bits, with all threads of a block.

    Args:
        planes: `[E, N, C, H, W]` uint8, read.
        member: number of the member.
        step: number of the step among the N.
        masks: `[MOST_CELLS]` uint8, shared, written.
    """
    width = planes.shape[4]
    cell = cuda.threadIdx.x
    while cell < planes.shape[3] * width:
        bits = 0
        for channel in range(CHANNELS):
            is_on = planes[member, step, channel, cell // width, cell % width] != 0
            bits |= int(is_on) << channel
        masks[cell] = bits
        cell += cuda.blockDim.x


@device_kernel
def convolve_planes(planes, first, table, weights, hidden):
    """Compute the first convolution: a block for each step, a filter for each lane of a warp.

    Args:
        planes: `[E, N, C, H, W]` uint8.
        first: the place of the first of the B steps among the N.
        table: a `LayerTable`; its first layer is meant.
        weights: a `Weights`.
        hidden: `[E, B, P, F]` float32, written; nothing is below 0.
    """
    masks = cuda.shared.array(MOST_CELLS, uint8)
    filters = cuda.shared.array(_FIRST_FILTERS, float32)
    place, member = cuda.blockIdx.x, cuda.blockIdx.y
    load_masks(planes, member, first + place, masks)
    source = effective_row(table, 0, member, hidden.shape[0], 0)
    number = cuda.threadIdx.x
    while number < _FIRST_FILTERS:
        row, tap = number // _TAPS, number % _TAPS
        filters[tap * FILTERS + row] = weights.effective[source + number]
        number += cuda.blockDim.x
    cuda.syncthreads()
    lane, width = cuda.threadIdx.x % FILTERS, planes.shape[4]
    across = width - SIDE + 1
    bias = weights.parameters[member, table.layers[0, BIAS] + lane]
    position = cuda.threadIdx.x // FILTERS
    while position < hidden.shape[2]:
        corner = position // across * width + position % across
        total = bias
        for shift in range(SIDE * SIDE):
            bits = int(masks[corner + shift // SIDE * width + shift % SIDE])
            while bits != 0:
                tap = shift * CHANNELS + cuda.ffs(bits) - 1
                total += filters[tap * FILTERS + lane]
                bits &= bits - 1
        hidden[member, place, position, lane] = max(total, float32(0.0))
        position += cuda.blockDim.x // FILTERS


@device_kernel
def add_bias_and_cut(parameters, bias, hidden):
    """Add a layer's biases and cut what is below 0: a block for each step, a filter each lane.

    Args:
        parameters: `[E, S]` float32.
        bias: the place of the first bias among a member's parameters.
        hidden: `[E, B, P, F]` float32, written.
    """
    step, member, lane = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x % FILTERS
    own = parameters[member, bias + lane]
    position = cuda.threadIdx.x // FILTERS
    while position < hidden.shape[2]:
        value = hidden[member, step, position, lane] + own
        hidden[member, step, position, lane] = max(value, float32(0.0))
        position += cuda.blockDim.x // FILTERS


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
                number = levels[(source + column) * STRIDE + lane]
                total += weights.effective[start + column] * number
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
