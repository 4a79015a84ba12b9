"""Decision lists that count as arrays for compiled code."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pomp.engine.rule_lists import ANY_HIGH, ANY_LOW, RuleArrays
from pomp.karel.counts import COUNT_TYPE, COUNTS
from pomp.karel.sensor_set import SensorSet
from pomp.machine.sensors import NOT, read_condition, read_threshold

if TYPE_CHECKING:
    from pomp.machine.transitions import Rule

_IMPOSSIBLE = 1 << 30  # the bit of a sensor that there is not


def pack_rules(machines: Sequence[Sequence[Sequence["Rule"]]], known: SensorSet) -> RuleArrays:
    """Return the rules of machines with K modes as arrays.

    Args:
        machines: their K + 1 lists, that of the start first.
        known: the sensors that conditions may name.
    """
    lists, ends_at = [rules for machine in machines for rules in machine], len(machines[0]) - 1
    targets = [ends_at if rule.to is None else rule.to for rules in lists for rule in rules]
    boxes = [_box_of(rule.when, known) for rules in lists for rule in rules]
    ends = np.cumsum([len(rules) for rules in lists])
    first = np.concatenate([[0], ends[:-1]]).reshape(len(machines), -1)
    lows = np.full((len(boxes), len(COUNTS)), ANY_LOW, COUNT_TYPE)
    highs = np.full((len(boxes), len(COUNTS)), ANY_HIGH, COUNT_TYPE)
    for row, (_, _, intervals) in enumerate(boxes):
        for count, (low, high) in intervals.items():
            lows[row, count], highs[row, count] = low, high
    asked = sorted({count for _, _, intervals in boxes for count in intervals})
    return RuleArrays(
        first=first.astype(np.int32),
        masks=np.array([mask for mask, _, _ in boxes], np.int32),
        wanted=np.array([wanted for _, wanted, _ in boxes], np.int32),
        lows=lows,
        highs=highs,
        targets=np.array(targets, np.int64),
        asked=np.array(asked, np.int32),
    )


def _box_of(when: Sequence[str], known: SensorSet) -> tuple[int, int, dict[int, tuple[int, int]]]:
    """Return the sensors that conditions ask for, those that must hold, and counts' intervals."""
    mask, wanted = 0, 0
    intervals: dict[int, tuple[int, int]] = {}
    for condition in when:
        if condition.removeprefix(NOT) in known.names:
            literal = read_condition(condition, known)
            bit, is_wanted = 1 << (literal >> 1), not literal & 1
            if mask & bit and bool(wanted & bit) != is_wanted:
                mask, wanted = mask | _IMPOSSIBLE, wanted | _IMPOSSIBLE
            mask, wanted = mask | bit, wanted | bit * is_wanted
        elif found := read_threshold(condition):
            low, high = intervals.get(found.count, (ANY_LOW, ANY_HIGH))
            if found.is_below:
                high = min(high, found.number)
            else:
                low = max(low, found.number)
            intervals[found.count] = low, high
    return mask, wanted, intervals
