"""Phases of `pomp.learning.blockwise` behind the grid's feature, the loss, and weights.

In shared memory a *level* is what a layer makes of the one before, level 0 the inputs: a row of
`STRIDE` numbers for each unit, a macro step each lane (see `level_row`). Behind the levels lie the
gradients by them, in rows of the same places.
"""

import math

import numpy as np
from numba import float32

from pomp.core.compiling import routine, scalar
from pomp.learning.adam import adam_step_of_parameter
from pomp.learning.blockwise import (
    BACK,
    LANES,
    SECOND,
    THREADS,
    WARPS,
    layer_of,
)
from pomp.learning.clipped_loss import ppo_loss_of_step
from pomp.machine.network_cuda import ABSENT, STRIDE, head_layer, level_row

_SQUARES = 8192  # where shares of the squared norm are in shared memory
_SENSES = 4  # bits of a reading that are perceptions


@scalar
def read_input(column, step, place, work):
    """Return an input of the trunk (or of actor and critic where there is none) for one step.

    Args:
        column: number of the input.
        step: number of the step in the mini-batch.
        place: the same among the N.
        work: the `BlockWork`.
    """
    mode, layout = work.epoch.modes[work.member, place], work.layout
    if layout.feature == ABSENT:  # perceptions, the contrary of the last one, the last mode
        reading = work.epoch.readings[work.member, place]
        if column < _SENSES:
            return float32((reading >> column) & 1)
        if column == _SENSES:
            return float32(1 - ((reading >> (_SENSES - 1)) & 1))
        return float32(1.0) if column - _SENSES - 1 == mode else float32(0.0)
    _, _, biases, units, _ = layer_of(layout, layout.feature)
    if column < units:
        total = work.features[step * units + column] + work.weights[biases + column]
        return max(total, float32(0.0))
    base, _, biases, rows, _ = layer_of(layout, layout.mode)
    total = work.weights[biases + column - units]
    if mode >= 0:
        total += work.effective[base + mode * rows + column - units]
    return max(total, float32(0.0))


@routine
def read_inputs(thread, first, work):
    """Write the inputs, level 0; those of steps that are not there are 0.

    Args:
        thread: number of the thread.
        first: the place of the mini-batch's first step among the N.
        work: the `BlockWork`, whose numbers are written.
    """
    lane, column = thread % LANES, thread // LANES
    _, _, _, _, inputs = layer_of(work.layout, head_layer(0, work.layout)[0])
    while column < inputs:
        value = float32(0.0)
        if lane < work.settings.steps:
            value = read_input(column, lane, first + lane, work)
        work.numbers[column * STRIDE + lane] = value
        column += WARPS


@routine
def climb(thread, depth, work):
    """Compute a level from the one before; the last one is logits and values.

    Args:
        thread: number of the thread.
        depth: number of the level before.
        work: the `BlockWork`, whose numbers are written, and at the last level the outputs.
    """
    layer, is_last = head_layer(depth, work.layout)
    lane, row, outputs = thread % LANES, thread // LANES, work.memory.outputs
    base, _, biases, rows, columns = layer_of(work.layout, layer)
    critic, _, bias, _, _ = layer_of(work.layout, layer + int(is_last))
    while row < rows + int(is_last):
        is_value = row == rows
        start, apart = (critic, 1) if is_value else (base + row, rows)
        place, total = level_row(depth) * STRIDE + lane, work.weights[biases + row]
        if is_value:
            total = work.weights[bias]
        for _ in range(columns):
            total += work.effective[np.uint64(start)] * work.numbers[np.uint64(place)]
            start, place = start + apart, place + STRIDE
        if not is_last:
            total = max(total, float32(0.0))
        elif lane < work.settings.steps and is_value:
            outputs.values[work.member, lane] = total
        elif lane < work.settings.steps:
            absent = work.memory.absent[work.member, 0, row]
            outputs.logits[work.member, lane, row] = total + absent
        work.numbers[(level_row(depth + 1) + row) * STRIDE + lane] = total
        row += WARPS


@routine
def lose(thread, first, work):
    """Compute the loss, a step each thread.

    Args:
        thread: number of the thread.
        first: the place of the mini-batch's first step among the N.
        work: the `BlockWork`, whose loss is written.
    """
    if thread < work.settings.steps:
        memory = work.memory
        ppo_loss_of_step(
            work.member, thread, first, work.settings.loss, memory.outputs, work.epoch.collected,
            memory.loss,
        )  # fmt: skip


@routine
def begin_back(thread, work):
    """Write the gradients by logits and values; those of steps that are not there are 0.

    Args:
        thread: number of the thread.
        work: the `BlockWork`, whose numbers are written.
    """
    lane, row, loss = thread % LANES, thread // LANES, work.memory.loss
    _, _, _, choices, _ = layer_of(work.layout, work.layout.actor)
    start = BACK + level_row(work.layout.depth) * STRIDE + lane
    while row < choices + 1:
        value = float32(0.0)
        if lane < work.settings.steps and row == choices:
            value = loss.grad_values[work.member, lane]
        elif lane < work.settings.steps:
            value = loss.grad_logits[work.member, lane, row]
        work.numbers[start + row * STRIDE] = value
        row += WARPS


@scalar
def multiply_rows(one, other, work):
    """Return the sum over steps of the products of two rows of shared numbers."""
    total = float32(0.0)
    for _ in range(work.settings.steps):
        total += work.numbers[np.uint64(one)] * work.numbers[np.uint64(other)]
        one, other = one + 1, other + 1
    return total


@scalar
def add_row(start, work):
    """Return the sum over steps of a row of shared numbers."""
    total = float32(0.0)
    for step in range(work.settings.steps):
        total += work.numbers[np.uint64(start + step)]
    return total


@routine
def descend(thread, depth, work):
    """Compute the gradients by a level, from those by the next one.

    Args:
        thread: number of the thread.
        depth: number of the level.
        work: the `BlockWork`, whose numbers are written; where the level was not above 0, no
            gradient passes.
    """
    layer, is_last = head_layer(depth, work.layout)
    lane, column, numbers = thread % LANES, thread // LANES, work.numbers
    base, _, _, rows, columns = layer_of(work.layout, layer)
    critic, _, _, _, _ = layer_of(work.layout, layer + int(is_last))
    while column < columns:
        start, total = base + column * rows, float32(0.0)
        place = BACK + level_row(depth + 1) * STRIDE + lane
        for _ in range(rows):
            total += work.effective[np.uint64(start)] * numbers[np.uint64(place)]
            start, place = start + 1, place + STRIDE
        if is_last:
            total += work.effective[critic + column] * numbers[place]
        place = (level_row(depth) + column) * STRIDE + lane
        numbers[BACK + place] = total if numbers[place] > 0 else float32(0.0)
        column += WARPS


@routine
def multiply_levels(thread, depth, work):
    """Write the gradients by the layer behind a level; with all of them, those by the next one.

    Args:
        thread: number of the thread.
        depth: number of the level.
        work: the `BlockWork`, whose slopes are written.
    """
    layer, is_last = head_layer(depth, work.layout)
    lane, column = thread % LANES, thread // LANES
    base, _, biases, rows, columns = layer_of(work.layout, layer)
    start, apart, count = base + lane, rows, rows
    if is_last and lane == rows:  # the critic
        start, _, biases, count, _ = layer_of(work.layout, layer + 1)
        apart, biases, count = 1, biases - lane, lane + 1
    given = BACK + (level_row(depth + 1) + lane) * STRIDE
    if column == 0 and lane < count:
        work.slopes[biases + lane] = add_row(given, work)
    while column < columns and lane < count:
        total = multiply_rows((level_row(depth) + column) * STRIDE, given, work)
        work.slopes[np.uint64(start + column * apart)] = total
        column += WARPS


@routine
def pull_back_inputs(thread, first, work):
    """Write the gradients by the layer of the last mode, and by the biases of the features.

    Args:
        thread: number of the thread.
        first: the place of the mini-batch's first step among the N.
        work: the `BlockWork`, which sees a grid; its slopes are written.
    """
    layout, lane, warp = work.layout, thread % LANES, thread // LANES
    _, _, biases, units, _ = layer_of(layout, layout.feature)
    if lane < units and warp == 0:
        work.slopes[biases + lane] = add_row(BACK + lane * STRIDE, work)
    if layout.mode != ABSENT and lane < units:
        base, _, biases, _, columns = layer_of(layout, layout.mode)
        own, column = BACK + (units + lane) * STRIDE, warp
        while column < columns:
            total = float32(0.0)
            for step in range(work.settings.steps):
                if work.epoch.modes[work.member, first + step] == column:
                    total += work.numbers[np.uint64(own + step)]
            work.slopes[base + column * units + lane] = total
            column += WARPS
        if warp == 1:
            work.slopes[biases + lane] = add_row(own, work)


# Weights: a row of a matrix is a direction, and its length a parameter of its own.


@scalar
def sum_of_row(layer, lane, work):
    """Return the sum over all warps of what they left for a row in the `BlockWork`'s numbers."""
    total, place = float32(0.0), layer * THREADS + lane
    for _ in range(WARPS):
        total += work.numbers[np.uint64(place)]
        place += LANES
    return total


@routine
def multiply_weights(thread, others, work):
    """Add up each warp's products of weights and other numbers, of all rows that are normalised.

    Args:
        thread: number of the thread.
        others: `[S]` float32: the weights, or gradients by effective weights.
        work: the `BlockWork`; of its numbers one is written for each layer, warp and row.
    """
    lane, warp = thread % LANES, thread // LANES
    for layer in range(len(work.layout.layers)):
        base, scale, _, rows, columns = layer_of(work.layout, layer)
        total, place, end = float32(0.0), base + warp * rows + lane, base + columns * rows
        if scale != ABSENT and lane < rows:
            while place < end:
                total += work.weights[np.uint64(place)] * others[np.uint64(place)]
                place += WARPS * rows
        work.numbers[layer * THREADS + thread] = total


@routine
def normalise_weights(thread, work):
    """Write the effective weights: normalised, or as they are.

    Args:
        thread: number of the thread.
        work: the `BlockWork`, whose numbers are what `multiply_weights` has left; effective weights
            and lengths are written.
    """
    lane, warp = thread % LANES, thread // LANES
    for layer in range(len(work.layout.layers)):
        base, scale, _, rows, columns = layer_of(work.layout, layer)
        if lane < rows:
            factor = float32(1.0)
            if scale != ABSENT:
                length = np.float32(math.sqrt(sum_of_row(layer, lane, work)))
                factor = work.weights[scale + lane] / length
                if warp == 0:
                    work.lengths[layer * LANES + lane] = length
            place, end = base + warp * rows + lane, base + columns * rows
            while place < end:
                work.effective[np.uint64(place)] = work.weights[np.uint64(place)] * factor
                place += WARPS * rows


@routine
def turn_filters(thread, work):
    """Write the effective weights of the second convolution once more, row by row.

    Args:
        thread: number of the thread.
        work: the `BlockWork`, whose turned weights are written.
    """
    base, _, _, rows, columns = layer_of(work.layout, SECOND)
    column, lane = thread // LANES, thread % LANES
    while column < columns:
        weight = work.effective[np.uint64(base + column * rows + lane)]
        work.turned[np.uint64(lane * columns + column)] = weight
        column += WARPS


@routine
def turn_slopes(thread, work):
    """Turn gradients by effective weights into those by the parameters; add up their squares.

    Args:
        thread: number of the thread.
        work: the `BlockWork`, whose numbers are what `multiply_weights` has left; behind it a sum
            of squares is written for each thread. Its slopes are written.
    """
    lane, warp, square = thread % LANES, thread // LANES, float32(0.0)
    for layer in range(len(work.layout.layers)):
        base, scale, biases, rows, columns = layer_of(work.layout, layer)
        if lane < rows:
            factor, across = float32(1.0), float32(0.0)
            if scale != ABSENT:
                length = work.lengths[layer * LANES + lane]
                along = sum_of_row(layer, lane, work) / length
                factor, across = work.weights[scale + lane] / length, along / length
                if warp == 0:
                    work.slopes[scale + lane] = along
                    square += along * along
            place, end = base + warp * rows + lane, base + columns * rows
            while place < end:
                slope = work.slopes[np.uint64(place)]
                slope = factor * (slope - work.weights[np.uint64(place)] * across)
                work.slopes[np.uint64(place)] = slope
                square += slope * slope
                place += WARPS * rows
            if warp == 0:
                square += work.slopes[biases + lane] * work.slopes[biases + lane]
    work.numbers[_SQUARES + thread] = square


@routine
def join_squares(thread, among, count, work):
    """Add up shares of the squared norm.

    Args:
        thread: number of the thread.
        among: how many shares there are.
        count: how many are left.
        work: the `BlockWork`, whose numbers are written.
    """
    if thread < count:
        total, other = float32(0.0), thread
        while other < among:
            total += work.numbers[_SQUARES + other]
            other += count
        work.numbers[_SQUARES + thread] = total


@routine
def report_step(thread, work):
    """Write the gradient's norm, and add what is reported about the step.

    Args:
        thread: number of the thread.
        work: the `BlockWork`, whose numbers have the squared norm; norms and sums are written.
    """
    member, memory, steps = work.member, work.memory, work.settings.steps
    terms = memory.loss.terms
    if thread < len(terms):
        total = 0.0
        for step in range(steps):
            total += terms[thread, member, step]
        memory.told[member, thread] += total / steps
    elif thread == len(terms):
        norm = np.float32(math.sqrt(work.numbers[_SQUARES]))
        memory.gradients.norms[member] = norm
        memory.told[member, thread] += norm


@routine
def move(thread, number, work):
    """Move the member's parameters by Adam.

    Args:
        thread: number of the thread.
        number: of the gradient step in the epoch.
        work: the `BlockWork`, whose state is written.
    """
    settings, memory, place = work.settings, work.memory, thread
    while place < len(work.weights):
        adam_step_of_parameter(
            work.member, place, settings.corrections[number], settings.adam, memory.state,
            memory.gradients,
        )  # fmt: skip
        place += THREADS
