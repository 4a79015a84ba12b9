"""Decision lists over sensors and counts, evaluated for many worlds at once.

A machine whose rules ask for sensors alone looks its choices up in a table by readings; one that
counts is evaluated rule by rule. Counts in a conjunction make an interval, so a rule is a box.
"""

from typing import Any, NamedTuple

import numpy as np

from pomp.core.compiling import kernel, scalar
from pomp.core.cuda import THREADS, as_launchable, as_launchable_group, blocks_for, empty_on_device
from pomp.engine.loading import constants_on_device
from pomp.karel.counts import COUNT_TYPE, COUNTS, count_in
from pomp.karel.world import WorldBatch, memory_of
from pomp.tasks.task import Setting

ANY_LOW, ANY_HIGH = -1, int(np.iinfo(COUNT_TYPE).max)
"""What a count that a rule does not compare lies between."""


class RuleArrays(NamedTuple):
    """R rules of C machines with K + 1 lists each, all behind each other, for compiled code.

    Attributes:
        first: `[C, K + 1]` int32: the first rule of each list, that of the start first. The last
            rule of a list always holds.
        masks: `[R]` int32: the sensors that a rule asks for, as bits of a reading.
        wanted: `[R]` int32: those of them that must hold.
        lows: `[R, N]` int32: the least that each count may be.
        highs: `[R, N]` int32: a count must be below this.
        targets: `[R]` int64: where each rule leads; K: the end.
        asked: `[A]` int32: the numbers of the counts that some rule asks for.
    """

    first: Any
    masks: Any
    wanted: Any
    lows: Any
    highs: Any
    targets: Any
    asked: Any


@scalar
def first_to_hold(rules, rule, reading, cells, constants, pose, counts):
    """Return where the first rule of a list leads that holds; the last one always does.

    Nothing is counted before a rule needs it, and nothing twice.

    Args:
        rules: the `RuleArrays`.
        rule: the first rule of the list.
        reading: of the sensors.
        cells: `[H * W]` uint8, read.
        constants: `[N]` int64, read.
        pose: where the agent is.
        counts: `[N]` int32, scratch.
    """
    fires, counted = False, 0
    while not fires:
        fires = reading & rules.masks[rule] == rules.wanted[rule]
        place = 0
        while fires and place < len(rules.asked):
            number = np.int64(rules.asked[place])
            low, high = rules.lows[rule, number], rules.highs[rule, number]
            if low > ANY_LOW or high < ANY_HIGH:
                if counted >> number & 1 == 0:
                    counts[number] = count_in(number, cells, constants, pose)
                    counted |= 1 << number
                fires = low <= counts[number] < high
            place += 1
        rule += 1
    return rules.targets[rule - 1]


@scalar
def choose_in(index, rules, constants, worlds, mode, senses, counts, choices):
    """Choose the next mode in one world; the worlds belong to the machines in equal shares.

    Args:
        index: which of the worlds.
        rules: the `RuleArrays`.
        constants: `[N]` int64, read.
        worlds: the `Worlds`, read.
        mode: `[B]` int64, read: the last modes.
        senses: `[B]` int16, read: the readings.
        counts: `[B, N]` int32, scratch.
        choices: `[B]` int64, written.
    """
    machine = index // (len(worlds.pose) // len(rules.first))
    row = min(mode[index] + 1, rules.first.shape[1] - 1)  # that of an ended episode is not used
    rule, reading = np.int64(rules.first[machine, row]), np.int64(senses[index])
    choices[index] = first_to_hold(
        rules, rule, reading, worlds.cells[index], constants, np.int64(worlds.pose[index]),
        counts[index],
    )  # fmt: skip


@kernel
def _choose_all(rules, constants, worlds, mode, senses, counts, choices):
    """Choose in every world, as `choose_in` does.

    Args:
        rules: the `RuleArrays`.
        constants: `[N]` int64, read.
        worlds: the `Worlds`, read.
        mode: `[B]` int64, read.
        senses: `[B]` int16, read.
        counts: `[B, N]` int32, scratch.
        choices: `[B]` int64, written.
    """
    for index in range(len(worlds.pose)):
        choose_in(index, rules, constants, worlds, mode, senses, counts, choices)


@kernel
def _count_all(constants, worlds, counts):
    """Write all counts of every world.

    Args:
        constants: `[N]` int64, read.
        worlds: the `Worlds`, read.
        counts: `[B, N]` int32, written.
    """
    for index in range(len(worlds.pose)):
        pose = np.int64(worlds.pose[index])
        for number in range(counts.shape[1]):
            counts[index, number] = count_in(number, worlds.cells[index], constants, pose)


def count_worlds(setting: Setting, worlds: WorldBatch) -> Any:
    """Return all counts of worlds on the CPU, `[B, N]` int32."""
    counts = np.empty((len(worlds), len(COUNTS)), COUNT_TYPE)
    _count_all(setting.constants, memory_of(worlds), counts)
    return counts


def choose_by_rules(
    setting: Setting, worlds: WorldBatch, rules: RuleArrays, mode: Any, senses: Any
) -> Any:
    """Return what rules choose in worlds, on their device.

    Args:
        setting: the task.
        worlds: B states.
        rules: on the worlds' device.
        mode: `[B]` int64, the last modes; -1 at the start.
        senses: `[B]` int16, the readings.

    Returns:
        `[B]` int64.
    """
    counts: Any
    choices: Any
    shape = (len(worlds), len(COUNTS))
    if worlds.device == "cuda":
        from pomp.engine.rule_lists_cuda import choose_all

        counts, choices = (
            empty_on_device(shape, COUNT_TYPE),
            empty_on_device(len(worlds), np.int64),
        )
        choose_all[blocks_for(len(worlds)), THREADS, 0](
            as_launchable_group(rules), constants_on_device(setting),
            as_launchable_group(memory_of(worlds)), as_launchable(mode), as_launchable(senses),
            as_launchable(counts), as_launchable(choices),
        )  # fmt: skip
        return choices
    counts, choices = np.empty(shape, COUNT_TYPE), np.empty(len(worlds), np.int64)
    _choose_all(rules, setting.constants, memory_of(worlds), mode, senses, counts, choices)
    return choices
