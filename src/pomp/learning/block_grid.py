"""Phases of `pomp.learning.blockwise` for the grid: convolutions, a layer, and their gradients.

In shared memory a position of the first convolution is a row of `STRIDE` numbers, of which F count,
so that neither neighbours in a row nor in a column lie in one bank. Gradients by the second one lie
behind it in rows of the same places; those of its last row and column, and some before the first,
are 0. So what passes back to a position through a place of a filter is always a row so many before.
"""

import numpy as np
from numba import float32

from pomp.core.compiling import routine, scalar
from pomp.learning.blockwise import (
    APART,
    BACK,
    FIRST,
    LANES,
    LAST,
    SECOND,
    SECOND_SHIFTS,
    SECOND_SIDE,
    SHIFTS,
    SIDE,
    THREADS,
    TILE,
    WARPS,
    add_four,
    add_outer,
    add_to,
    four,
    keep_four,
    layer_of,
    no_sums,
    pass_four,
)
from pomp.machine.layers import CHANNELS, FILTERS
from pomp.machine.network_cuda import STRIDE


@routine
def mark_cells(thread, step, count, work):
    """Write what is on in the cells of some steps.

    Args:
        thread: number of the thread.
        step: the first of the steps among the N.
        count: how many.
        work: the `BlockWork`, whose marks are written.
    """
    planes, cells, target = work.epoch.planes, work.grid.cells, 0
    for number in range(count):
        cell = thread
        while cell < cells:
            bits = 0
            for channel in range(CHANNELS):
                is_on = planes[work.member, step + number, channel, np.uint64(cell)] != 0
                bits |= int(is_on) << channel
            work.marks[np.uint64(target + cell)] = bits
            cell += THREADS
        target += cells


@scalar
def add_filters(lowest, corner, start, work):
    """Return the sum of a filter's weights that are on at a position of the first convolution.

    Args:
        lowest: returns the number of the lowest bit that is on.
        corner: the position's first cell.
        start: the place of the filter's first weight.
        work: the `BlockWork`.
    """
    total, marks, effective = float32(0.0), work.marks, work.effective
    for _ in range(SIDE):
        place = np.uint64(corner)
        bits = np.uint32(marks[place]) | np.uint32(marks[place + np.uint64(1)]) << np.uint32(8)
        bits |= np.uint32(marks[place + np.uint64(2)]) << np.uint32(16)
        bits |= np.uint32(marks[place + np.uint64(3)]) << np.uint32(24)
        while bits != 0:
            total += effective[np.uint64(start + lowest(bits) * FILTERS)]
            bits &= bits - np.uint32(1)
        corner += work.grid.width
        start += SIDE * CHANNELS * FILTERS
    return total


@scalar
def next_row(number, row, rows):
    """Return the number of a step and of a row in it, when rows go on into the next steps.

    A division would take a hundred instructions.

    Args:
        number: of the step, if the row is one of its own.
        row: number of the row, perhaps too large.
        rows: how many a step has.
    """
    while row >= rows:
        row -= rows
        number += 1
    return number, row


@scalar
def convolve_planes(thread, lowest, count, work):
    """Compute the first convolution of some steps: rows of it for each warp, filters for its lanes.

    Args:
        thread: number of the thread.
        lowest: returns the number of the lowest bit that is on.
        count: how many steps.
        work: the `BlockWork`, whose numbers are written; nothing is below 0.
    """
    grid, lane = work.grid, thread % LANES
    base, _, biases, _, _ = layer_of(work.layout, FIRST)
    bias = work.weights[biases + lane]
    number, down = next_row(0, thread // LANES, grid.down)
    while number < count:
        corner = number * grid.cells + down * grid.width
        place = (number * grid.down + down) * grid.across * STRIDE + lane
        for _ in range(grid.across):
            total = bias + add_filters(lowest, corner, base + lane, work)
            work.numbers[np.uint64(place)] = max(total, float32(0.0))
            corner, place = corner + 1, place + STRIDE
        number, down = next_row(number, down + WARPS, grid.down)


@scalar
def above(sums, bias):
    """Return four sums and biases added up, or 0 where that is below."""
    zero = float32(0.0)
    return (
        max(sums[0] + bias[0], zero), max(sums[1] + bias[1], zero), max(sums[2] + bias[2], zero),
        max(sums[3] + bias[3], zero),
    )  # fmt: skip


@scalar
def whole_tiles(finals):
    """Return the positions of a row in whole tiles."""
    return (finals + TILE - 1) & -TILE


@routine
def convolve_again(thread, step, count, work):
    """Compute the second convolution of some steps, in tiles of neighbours in a row and filters.

    Args:
        thread: number of the thread.
        step: the first of the steps in the mini-batch.
        count: how many.
        work: the `BlockWork`, whose cells are written.
    """
    grid, numbers, effective = work.grid, work.numbers, work.effective
    base, _, biases, _, _ = layer_of(work.layout, SECOND)
    rows, finals, column = grid.down - 1, grid.across - 1, thread % APART
    down, left = next_row(0, thread // APART * TILE, whole_tiles(finals))
    number, down = next_row(0, down, rows)
    while number < count:
        source = ((number * grid.down + down) * grid.across + left) * STRIDE
        sums = no_sums()
        for shift in range(SECOND_SHIFTS):
            place = source + (shift // SECOND_SIDE * grid.across + shift % SECOND_SIDE) * STRIDE
            start = base + shift * FILTERS * FILTERS + column
            for _ in range(FILTERS):
                seen, weights = four(numbers, place, STRIDE), four(effective, start, APART)
                sums = add_outer(sums, seen, weights)
                place, start = place + 1, start + FILTERS
        bias = four(work.weights, biases + column, APART)
        cell = ((down * finals + left) * FILTERS + column) * LANES + step + number
        room, next_cell, apart = finals - left, FILTERS * LANES, APART * LANES
        if room > 0:
            keep_four(work.cells, cell, apart, TILE, above(sums[0:4], bias))
        if room > 1:
            keep_four(work.cells, cell + next_cell, apart, TILE, above(sums[4:8], bias))
        if room > 2:
            keep_four(work.cells, cell + 2 * next_cell, apart, TILE, above(sums[8:12], bias))
        if room > 3:
            keep_four(work.cells, cell + 3 * next_cell, apart, TILE, above(sums[12:16], bias))
        down, left = next_row(down, left + THREADS // APART * TILE, whole_tiles(finals))
        number, down = next_row(number, down, rows)


@scalar
def count_cells(grid):
    """Return how many numbers the second convolution gives for a step."""
    return (grid.down - 1) * (grid.across - 1) * FILTERS


@routine
def share_features(thread, work):
    """Multiply cells by the grid's last layer: for each warp its share of the cells.

    Args:
        thread: number of the thread.
        work: the `BlockWork`, whose numbers are written: `[WARPS, LANES, LANES]`, steps and units.
    """
    lane, warp = thread % LANES, thread // LANES
    base, _, _, units, _ = layer_of(work.layout, LAST)
    step, unit = lane % APART, lane // APART
    left, right, cell = no_sums(), no_sums(), warp
    while cell < count_cells(work.grid):
        seen, start = four(work.cells, cell * LANES + step, APART), base + cell * units + unit
        left = add_outer(left, seen, four(work.effective, start, TILE))
        right = add_outer(right, seen, four(work.effective, start + TILE * TILE, TILE))
        cell += WARPS
    place, apart, half = (warp * LANES + step) * LANES + unit, APART * LANES, TILE * TILE
    numbers = work.numbers
    keep_four(numbers, place, TILE, TILE, left[0:4])
    keep_four(numbers, place + apart, TILE, TILE, left[4:8])
    keep_four(numbers, place + 2 * apart, TILE, TILE, left[8:12])
    keep_four(numbers, place + 3 * apart, TILE, TILE, left[12:16])
    keep_four(numbers, place + half, TILE, TILE, right[0:4])
    keep_four(numbers, place + apart + half, TILE, TILE, right[4:8])
    keep_four(numbers, place + 2 * apart + half, TILE, TILE, right[8:12])
    keep_four(numbers, place + 3 * apart + half, TILE, TILE, right[12:16])


@routine
def join_features(thread, work):
    """Add up the warps' shares of the features.

    Args:
        thread: number of the thread.
        work: the `BlockWork`, whose features are written.
    """
    _, _, _, units, _ = layer_of(work.layout, LAST)
    unit, step = thread % LANES, thread // LANES
    while step < LANES and unit < units:
        total, place = float32(0.0), step * LANES + unit
        for _ in range(WARPS):
            total += work.numbers[np.uint64(place)]
            place += LANES * LANES
        work.features[step * units + unit] = total
        step += WARPS


@routine
def multiply_cells(thread, work):
    """Write the gradients by the grid's last layer, in tiles of cells and units.

    Args:
        thread: number of the thread.
        work: the `BlockWork`, whose numbers are gradients by levels; its slopes are written.
    """
    base, _, _, units, _ = layer_of(work.layout, LAST)
    item, slopes = thread, work.slopes
    while item < count_cells(work.grid) // TILE * APART:
        unit, cell = item % APART, item // APART * TILE
        seen, back, sums = cell * LANES, BACK + unit * STRIDE, no_sums()
        for _ in range(work.settings.steps):
            given = four(work.cells, seen, LANES), four(work.numbers, back, APART * STRIDE)
            sums = add_outer(sums, given[0], given[1])
            seen, back = seen + 1, back + 1
        place, count = base + cell * units + unit, (units - unit + APART - 1) // APART
        keep_four(slopes, place, APART, count, sums[0:4])
        keep_four(slopes, place + units, APART, count, sums[4:8])
        keep_four(slopes, place + 2 * units, APART, count, sums[8:12])
        keep_four(slopes, place + 3 * units, APART, count, sums[12:16])
        item += THREADS


@routine
def pull_back_cells(thread, work):
    """Replace cells by the gradients by what the second convolution adds up, in tiles.

    Args:
        thread: number of the thread.
        work: the `BlockWork`, whose numbers are gradients by levels; its cells are written.
    """
    base, _, _, units, _ = layer_of(work.layout, LAST)
    item, cells = thread, work.cells
    while item < count_cells(work.grid) // TILE * APART:
        step, cell = item % APART, item // APART * TILE
        start, back, sums = base + cell * units, BACK + step, no_sums()
        for _ in range(units):
            given = four(work.effective, start, units), four(work.numbers, back, APART)
            sums = add_outer(sums, given[0], given[1])
            start, back = start + 1, back + STRIDE
        place = cell * LANES + step
        pass_four(cells, place, APART, TILE, sums[0:4])
        pass_four(cells, place + LANES, APART, TILE, sums[4:8])
        pass_four(cells, place + 2 * LANES, APART, TILE, sums[8:12])
        pass_four(cells, place + 3 * LANES, APART, TILE, sums[12:16])
        item += THREADS


@routine
def load_cells(thread, step, count, work):
    """Put the gradients by the second convolution of some steps into shared memory.

    Args:
        thread: number of the thread.
        step: the first of the steps in the mini-batch.
        count: how many.
        work: the `BlockWork`, whose numbers are written.
    """
    grid, numbers, lane, row = work.grid, work.numbers, thread % LANES, thread // LANES
    before, finals = grid.slopes - (grid.across + 1) * STRIDE, grid.across - 1
    while row < grid.across + 1:
        numbers[before + row * STRIDE + lane] = float32(0.0)
        row += WARPS
    number, down = next_row(0, thread // LANES, grid.down)
    while number < count:
        place = grid.slopes + (number * grid.down + down) * grid.across * STRIDE + lane
        source, left = (down * finals * FILTERS + lane) * LANES + step + number, 0
        if down < grid.down - 1:
            while left < finals:
                numbers[np.uint64(place)] = work.cells[np.uint64(source)]
                place, source, left = place + STRIDE, source + FILTERS * LANES, left + 1
        while left < grid.across:
            numbers[np.uint64(place)] = float32(0.0)
            place, left = place + STRIDE, left + 1
        number, down = next_row(number, down + WARPS, grid.down)


@scalar
def add_four_numbers(a, b):
    """Return the sums of four numbers each."""
    return a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]


@routine
def multiply_patches(thread, is_first, count, work):
    """Add up the gradients by the second convolution: for each thread a tile of all positions.

    Args:
        thread: number of the thread.
        is_first: whether these are the first steps of the mini-batch.
        count: how many steps.
        work: the `BlockWork`, whose slopes are written.
    """
    grid, numbers, slopes, zero = work.grid, work.numbers, work.slopes, float32(0.0)
    base, _, biases, _, _ = layer_of(work.layout, SECOND)
    column, group = thread % APART, thread // APART
    shift, channel = group // APART, group % APART * TILE
    away = shift // SECOND_SIDE * grid.across + shift % SECOND_SIDE
    seen, row, sums = away * STRIDE + channel, grid.slopes + column, no_sums()
    total = zero, zero, zero, zero
    for _ in range(count):
        for _ in range(grid.down - 1):
            for _ in range(grid.across - 1):
                back = four(numbers, row, APART)
                sums = add_outer(sums, four(numbers, seen, 1), back)
                total = add_four_numbers(total, back)
                seen, row = seen + STRIDE, row + STRIDE
            seen, row = seen + STRIDE, row + STRIDE
        seen, row = seen + grid.across * STRIDE, row + grid.across * STRIDE
    place = base + (shift * FILTERS + channel) * FILTERS + column
    add_four(slopes, place, APART, is_first, sums[0:4])
    add_four(slopes, place + FILTERS, APART, is_first, sums[4:8])
    add_four(slopes, place + 2 * FILTERS, APART, is_first, sums[8:12])
    add_four(slopes, place + 3 * FILTERS, APART, is_first, sums[12:16])
    if group == 0:
        add_four(slopes, biases + column, APART, is_first, total)


@routine
def pull_back_patches(thread, count, work):
    """Replace the first convolution by the gradients by what it adds up, in tiles.

    Args:
        thread: number of the thread.
        count: how many steps.
        work: the `BlockWork`, whose numbers are written.
    """
    grid, numbers, item = work.grid, work.numbers, thread
    rows = count * grid.down * grid.across
    while item < (rows + TILE - 1) // TILE * APART:
        column, row = item % APART, item // APART * TILE
        source, sums = grid.slopes + row * STRIDE, no_sums()
        for shift in range(SECOND_SHIFTS):
            place = source - (shift // SECOND_SIDE * grid.across + shift % SECOND_SIDE) * STRIDE
            start = shift * FILTERS + column
            for _ in range(FILTERS):
                weights = four(work.turned, start, APART)
                sums = add_outer(sums, four(numbers, place, STRIDE), weights)
                place, start = place + 1, start + SECOND_SHIFTS * FILTERS
        place, room = row * STRIDE + column, rows - row
        if room > 0:
            pass_four(numbers, place, APART, TILE, sums[0:4])
        if room > 1:
            pass_four(numbers, place + STRIDE, APART, TILE, sums[4:8])
        if room > 2:
            pass_four(numbers, place + 2 * STRIDE, APART, TILE, sums[8:12])
        if room > 3:
            pass_four(numbers, place + 3 * STRIDE, APART, TILE, sums[12:16])
        item += THREADS


@scalar
def when_on(bits, channel, value):
    """Return a value if a channel is on, else 0."""
    return value if bits & (1 << channel) else float32(0.0)


@routine
def gather_planes(thread, is_first, count, work):
    """Add up the gradients by the first convolution: places of a filter for each warp.

    Args:
        thread: number of the thread.
        is_first: whether these are the first steps of the mini-batch.
        count: how many steps.
        work: the `BlockWork`, whose slopes are written.
    """
    grid, numbers, slopes = work.grid, work.numbers, work.slopes
    base, _, biases, _, _ = layer_of(work.layout, FIRST)
    lane, place = thread % LANES, thread // LANES
    while place < SHIFTS:
        a = b = c = d = e = f = g = h = bias = float32(0.0)
        away, row = place // SIDE * grid.width + place % SIDE, lane
        for _ in range(count):
            cell = away
            for _ in range(grid.down):
                for _ in range(grid.across):
                    bits, value = int(work.marks[np.uint64(cell)]), numbers[np.uint64(row)]
                    a, b = a + when_on(bits, 0, value), b + when_on(bits, 1, value)
                    c, d = c + when_on(bits, 2, value), d + when_on(bits, 3, value)
                    e, f = e + when_on(bits, 4, value), f + when_on(bits, 5, value)
                    g, h = g + when_on(bits, 6, value), h + when_on(bits, 7, value)
                    bias += value
                    cell, row = cell + 1, row + STRIDE
                cell += grid.width - grid.across
            away += grid.cells
        start = base + place * CHANNELS * FILTERS + lane
        add_four(slopes, start, FILTERS, is_first, (a, b, c, d))
        add_four(slopes, start + TILE * FILTERS, FILTERS, is_first, (e, f, g, h))
        if place == 0:
            add_to(slopes, np.uint64(biases + lane), is_first, bias)
        place += WARPS
