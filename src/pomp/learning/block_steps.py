"""The gradient steps of an epoch, phase by phase; see `pomp.learning.blockwise`."""

import numpy as np

from pomp.core.compiling import kernel, scalar
from pomp.learning.block_grid import (
    convolve_again,
    convolve_planes,
    gather_planes,
    join_features,
    load_cells,
    mark_cells,
    multiply_cells,
    multiply_patches,
    pull_back_cells,
    pull_back_patches,
    share_features,
)
from pomp.learning.block_head import (
    begin_back,
    climb,
    descend,
    join_squares,
    lose,
    move,
    multiply_levels,
    multiply_weights,
    normalise_weights,
    pull_back_inputs,
    read_inputs,
    report_step,
    turn_filters,
    turn_slopes,
)
from pomp.learning.blockwise import LANES, THREADS, work_of
from pomp.machine.network_cuda import ABSENT


@scalar
def see_grids(begin, end, meet, lowest, first, is_back, work):
    """Run the convolutions of a mini-batch, or their gradients, for a few steps at a time.

    Args:
        begin: as `learn_epoch` takes it.
        end: likewise.
        meet: likewise.
        lowest: likewise.
        first: the place of the mini-batch's first step among the N.
        is_back: whether gradients are computed, for which the first convolution is run once more.
        work: the `BlockWork`.
    """
    step, together = 0, work.grid.together
    while step < work.settings.steps:
        count = min(together, work.settings.steps - step)
        for thread in range(begin, end):
            mark_cells(thread, first + step, count, work)
            if is_back:
                load_cells(thread, step, count, work)
        meet()
        for thread in range(begin, end):
            convolve_planes(thread, lowest, count, work)
        meet()
        for thread in range(begin, end):
            if is_back:
                multiply_patches(thread, step == 0, count, work)
            else:
                convolve_again(thread, step, count, work)
        meet()
        if is_back:
            for thread in range(begin, end):
                pull_back_patches(thread, count, work)
            meet()
            for thread in range(begin, end):
                gather_planes(thread, step == 0, count, work)
            meet()
        step += together


@scalar
def decide_and_lose(begin, end, meet, first, work):
    """Compute logits, values and the loss, and its gradients down to the inputs of the head.

    Args:
        begin: as `learn_epoch` takes it.
        end: likewise.
        meet: likewise.
        first: the place of the mini-batch's first step among the N.
        work: the `BlockWork`.
    """
    for thread in range(begin, end):
        read_inputs(thread, first, work)
    meet()
    for depth in range(work.layout.depth):
        for thread in range(begin, end):
            climb(thread, depth, work)
        meet()
    for thread in range(begin, end):
        lose(thread, first, work)
    meet()
    for thread in range(begin, end):
        begin_back(thread, work)
    meet()
    for number in range(work.layout.depth):
        depth = work.layout.depth - 1 - number
        for thread in range(begin, end):
            descend(thread, depth, work)
            multiply_levels(thread, depth, work)
        meet()


@scalar
def respond(begin, end, meet, first, sees, work):
    """Compute everything behind the convolutions, and all gradients but by these.

    Args:
        begin: as `learn_epoch` takes it.
        end: likewise.
        meet: likewise.
        first: the place of the mini-batch's first step among the N.
        sees: whether there is a grid.
        work: the `BlockWork`.
    """
    if sees:
        for thread in range(begin, end):
            turn_filters(thread, work)
            share_features(thread, work)
        meet()
        for thread in range(begin, end):
            join_features(thread, work)
        meet()
    decide_and_lose(begin, end, meet, first, work)
    if sees:
        for thread in range(begin, end):
            pull_back_inputs(thread, first, work)
            multiply_cells(thread, work)
        meet()
        for thread in range(begin, end):
            pull_back_cells(thread, work)
        meet()


@scalar
def take_step(begin, end, meet, number, work):
    """Turn the gradients by effective weights into a step of Adam.

    Args:
        begin: as `learn_epoch` takes it.
        end: likewise.
        meet: likewise.
        number: of the gradient step in the epoch.
        work: the `BlockWork`.
    """
    for thread in range(begin, end):
        multiply_weights(thread, work.slopes, work)
    meet()
    for thread in range(begin, end):
        turn_slopes(thread, work)
    meet()
    for thread in range(begin, end):
        join_squares(thread, THREADS, LANES, work)
    meet()
    for thread in range(begin, end):
        join_squares(thread, LANES, 1, work)
    meet()
    for thread in range(begin, end):
        report_step(thread, work)
    meet()
    for thread in range(begin, end):
        move(thread, number, work)
    meet()


@scalar
def learn_epoch(begin, end, meet, lowest, work):
    """Take the gradient steps of an epoch, for one member.

    Args:
        begin: the number of the first thread whose work is done here.
        end: the number behind the last one: a GPU does that of one, a CPU that of all.
        meet: waits for the other threads of the block.
        lowest: returns the number of the lowest bit that is on.
        work: the `BlockWork`, written.
    """
    sees = work.layout.feature != ABSENT
    for number in range(len(work.settings.corrections)):
        first = number * work.settings.steps
        for thread in range(begin, end):
            multiply_weights(thread, work.weights, work)
        meet()
        for thread in range(begin, end):
            normalise_weights(thread, work)
        meet()
        for part in range(2):  # forward, then back: the same convolutions
            if sees:
                see_grids(begin, end, meet, lowest, first, part == 1, work)
            if part == 0:
                respond(begin, end, meet, first, sees, work)
        take_step(begin, end, meet, number, work)


@scalar
def _meet_nobody():
    """Wait for no other thread: their work is done one after the other."""


@scalar
def _lowest(bits):
    """Return the number of the lowest bit of `bits` that is on."""
    number = 0
    while not (bits >> np.uint32(number)) & np.uint32(1):
        number += 1
    return number


@kernel
def learn_epoch_plainly(epoch, settings, layout, grid, memory, numbers, marks):
    """Take the gradient steps of an epoch on a CPU, one thread of a block after the other.

    Args:
        epoch: the `Epoch`.
        settings: the `StepSettings`.
        layout: the `Layout`.
        grid: the `GridSizes`.
        memory: the `Memory`, written.
        numbers: `[NUMBERS]` float32, written.
        marks: `[MARKS]` uint8, written.
    """
    for member in range(len(memory.effective)):
        work = work_of(member, epoch, settings, layout, grid, memory, numbers, marks)
        learn_epoch(0, THREADS, _meet_nobody, _lowest, work)
