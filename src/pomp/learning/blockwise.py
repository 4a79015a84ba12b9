"""Epochs of PPO in one launch: a block of threads takes all gradient steps of a member.

What a member learns depends on no other one, so it learns the same bytes alone and in any company,
and machine code is fetched once for many steps. A step is a sequence of *phases*. In each of them
every thread does its share, and all of them meet before the next. So phases are functions of a
thread's number: a GPU runs them side by side, a test on a CPU one thread after the other.

Parameters are kept in *working order*: layer by layer the weights, a column of all rows after the
other, then scales and biases. So the 32 threads of a warp, the *lanes*, read a column at once; its
rows are filters, hidden units or choices. Columns of the convolutions are places of a filter, with
the channels of each side by side; those of the grid's last layer are positions, with filters.

The axes are E members, N macro steps of a rollout, M of those in a mini-batch, L layers, S
parameters, C channels, F filters, P positions of the first convolution, D hidden units and K + 1
choices. Of the second convolution there are as many positions, of which the last row and the last
column do not count.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import float32

from pomp.core.compiling import scalar
from pomp.machine.layers import FILTERS, KERNELS
from pomp.machine.network_cuda import LEVELS, STRIDE

LANES, WARPS = 32, 8
THREADS = LANES * WARPS
"""Threads of a block."""
MOST_STEPS = LANES
"""The largest mini-batch: one step for each lane."""
NUMBERS, MARKS = 364 * STRIDE, 1_024
"""Numbers and bytes of memory that a block shares."""
SIDE, SECOND_SIDE = KERNELS
SHIFTS, SECOND_SHIFTS = SIDE * SIDE, SECOND_SIDE * SECOND_SIDE
TURNED = SECOND_SHIFTS * FILTERS * FILTERS
"""Weights of the second convolution."""
FIRST, SECOND, LAST = range(3)
"""Layers of the grid."""
TILE = 4
"""Numbers in a row of a square tile of sums."""
APART = LANES // TILE
"""Between columns of a tile."""
BACK = LEVELS
"""Where gradients by levels begin in shared memory, behind the levels."""


class Layout(NamedTuple):
    """What a network is made of, in working order.

    Attributes:
        layers: `[L, 5]` int64: where weights, scales (`ABSENT`: none) and biases of a layer begin,
            its rows and its columns.
        feature: the grid's last layer; `ABSENT`: perceptions are seen instead.
        mode: the layer of the last mode, or `ABSENT`.
        trunk: the first of two, which follow each other, or `ABSENT`.
        actor: the layer of the logits; the next one is the critic.
        depth: how many layers follow each other behind the inputs, the critic not counted.
    """

    layers: Any
    feature: int
    mode: int
    trunk: int
    actor: int
    depth: int


class GridSizes(NamedTuple):
    """Sizes of the grid; all 0 where none is seen.

    Attributes:
        width: cells in a row.
        cells: of a grid.
        across: positions of the first convolution in a row.
        down: rows of these.
        together: macro steps whose convolutions fit into shared memory.
        slopes: where the gradients by the second one begin there.
    """

    width: int
    cells: int
    across: int
    down: int
    together: int
    slopes: int


class Epoch(NamedTuple):
    """The macro steps of a rollout in the order of an epoch; read.

    Attributes:
        planes: `[E, N, C, H * W]` uint8; `[1, 1, 1, 1]`: none.
        readings: `[E, N]` int16; `[1, 1]`: none.
        modes: `[E, N]` int64, the last modes; -1 before the first.
        collected: a `Collected`.
    """

    planes: Any
    readings: Any
    modes: Any
    collected: Any


class StepSettings(NamedTuple):
    """Numbers of gradient steps.

    Attributes:
        loss: the `LossSettings`.
        adam: the `AdamSettings`.
        corrections: `[steps, 2]` float32, Adam's, of each gradient step of the epoch.
        steps: M.
    """

    loss: Any
    adam: Any
    corrections: Any
    steps: int


class Memory(NamedTuple):
    """What gradient steps leave for each other, or for their own later phases; written.

    Attributes:
        state: the `AdamState`, in working order.
        gradients: the `Gradients`, in working order.
        absent: `[E, 1, K + 1]` float32, added to the logits; read.
        effective: `[E, S + LANES]` float32, normalised weights in working order.
        turned: `[E, TURNED]` float32, those of the second convolution, row by row.
        lengths: `[E, L * LANES]` float32, of the rows of weights.
        cells: `[E, places * F * LANES]` float32, behind the second convolution, where its positions
            count, a step each lane; then gradients by what it adds up.
        features: `[E, LANES * D]` float32, products of the grid's last layer.
        outputs: the `Outputs`.
        loss: the `PpoLoss`.
        told: `[E, 4]` float64, sums over gradient steps of what is reported.
    """

    state: Any
    gradients: Any
    absent: Any
    effective: Any
    turned: Any
    lengths: Any
    cells: Any
    features: Any
    outputs: Any
    loss: Any
    told: Any


class BlockWork(NamedTuple):
    """All that the phases of a member need; rows `[...]` are the member's of the `Memory`.

    Attributes:
        member: its number.
        epoch: the `Epoch`.
        settings: the `StepSettings`.
        layout: the `Layout`.
        grid: the `GridSizes`.
        memory: the `Memory`.
        weights: `[S]` float32, its parameters.
        effective: `[S + LANES]` float32.
        turned: `[TURNED]` float32.
        lengths: `[L * LANES]` float32.
        cells: `[places * F * LANES]` float32.
        features: `[LANES * D]` float32.
        slopes: `[S]` float32, its gradients.
        numbers: `[NUMBERS]` float32, which the threads of the block share.
        marks: `[MARKS]` uint8, which they share: what is on in cells, a bit for each channel.
    """

    member: int
    epoch: Any
    settings: Any
    layout: Any
    grid: Any
    memory: Any
    weights: Any
    effective: Any
    turned: Any
    lengths: Any
    cells: Any
    features: Any
    slopes: Any
    numbers: Any
    marks: Any


@scalar
def work_of(member, epoch, settings, layout, grid, memory, numbers, marks):
    """Return the `BlockWork` of a member; the arguments are its fields."""
    return BlockWork(
        member, epoch, settings, layout, grid, memory, memory.state.parameters[member],
        memory.effective[member], memory.turned[member], memory.lengths[member],
        memory.cells[member], memory.features[member], memory.gradients.gradients[member],
        numbers, marks,
    )  # fmt: skip


@scalar
def layer_of(layout, number):
    """Return where a layer's weights, scales and biases begin, its rows and its columns."""
    layers = layout.layers
    return (
        layers[number, 0], layers[number, 1], layers[number, 2], layers[number, 3],
        layers[number, 4],
    )  # fmt: skip


# Tiles: 4 x 4 sums of products, which stay in a thread's registers.


@scalar
def no_sums():
    """Return a tile of zeros."""
    zero = float32(0.0)
    return (
        zero, zero, zero, zero, zero, zero, zero, zero,
        zero, zero, zero, zero, zero, zero, zero, zero,
    )  # fmt: skip


@scalar
def add_outer(sums, a, b):
    """Return a tile with the products of four numbers `a`, its rows, and four `b` added."""
    return (
        sums[0] + a[0] * b[0], sums[1] + a[0] * b[1], sums[2] + a[0] * b[2], sums[3] + a[0] * b[3],
        sums[4] + a[1] * b[0], sums[5] + a[1] * b[1], sums[6] + a[1] * b[2], sums[7] + a[1] * b[3],
        sums[8] + a[2] * b[0], sums[9] + a[2] * b[1], sums[10] + a[2] * b[2],
        sums[11] + a[2] * b[3], sums[12] + a[3] * b[0], sums[13] + a[3] * b[1],
        sums[14] + a[3] * b[2], sums[15] + a[3] * b[3],
    )  # fmt: skip


@scalar
def four(values, start, apart):
    """Return four of the `values`, `[...]`, so far apart."""
    first, apart = np.uint64(start), np.uint64(apart)
    second = first + apart
    third = second + apart
    return values[first], values[second], values[third], values[third + apart]


@scalar
def keep_four(values, start, apart, count, sums):
    """Write four sums to `values`, `[...]`, so far apart; only the first `count` of them."""
    place, apart = np.uint64(start), np.uint64(apart)
    if count > 0:
        values[place] = sums[0]
    if count > 1:
        values[place + apart] = sums[1]
    if count > 2:
        values[place + apart + apart] = sums[2]
    if count > 3:
        values[place + apart + apart + apart] = sums[3]


@scalar
def pass_back(values, place, value):
    """Replace one of the `values`, `[...]`: by a gradient, or by 0 if it is not above 0."""
    values[place] = value if values[place] > 0 else float32(0.0)


@scalar
def pass_four(values, start, apart, count, sums):
    """Replace four of the `values`, `[...]`, as `pass_back` does; the first `count` of them."""
    place, apart = np.uint64(start), np.uint64(apart)
    if count > 0:
        pass_back(values, place, sums[0])
    if count > 1:
        pass_back(values, place + apart, sums[1])
    if count > 2:
        pass_back(values, place + apart + apart, sums[2])
    if count > 3:
        pass_back(values, place + apart + apart + apart, sums[3])


@scalar
def add_to(values, place, is_first, value):
    """Write one of the `values`, `[...]`, or add to it if it is not the first."""
    values[place] = value if is_first else values[place] + value


@scalar
def add_four(values, start, apart, is_first, sums):
    """Write four of the `values`, `[...]`, so far apart, as `add_to` does."""
    first, apart = np.uint64(start), np.uint64(apart)
    second = first + apart
    third = second + apart
    add_to(values, first, is_first, sums[0])
    add_to(values, second, is_first, sums[1])
    add_to(values, third, is_first, sums[2])
    add_to(values, third + apart, is_first, sums[3])
