"""Discounted returns: slow, because every action's reward is recorded first."""

import numpy as np
from numpy.typing import NDArray

from pomp.core.cuda import to_host
from pomp.engine.recording import record
from pomp.engine.units import CANDIDATE, Launch

_LANES_AT_ONCE = 256


def run_discounted(
    launch: Launch, discount: float
) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Run a launch on the CPU; return discounted returns and actions, each `[units, span]`."""
    units, worlds = launch.units, launch.worlds.to("cpu")
    unit = np.repeat(np.arange(len(units)), units.span)
    world = units.table[unit, 2] + np.tile(np.arange(units.span), len(units))
    rows = to_host(units.lists)[units.table[unit, 0]]
    rows = np.where(rows == CANDIDATE, units.table[unit, 1][:, None], rows)
    returns, actions = np.empty(units.lanes), np.empty(units.lanes, np.int32)
    for first in range(0, units.lanes, _LANES_AT_ONCE):
        lanes = slice(first, first + _LANES_AT_ONCE)
        recording = record(
            launch.setting, launch.code, worlds.take(world[lanes]),
            lists=rows[lanes], paired=True, cap=launch.cap,
        ).arrays  # fmt: skip
        length, steps = recording.length, np.arange(recording.reward.shape[1])
        weights = np.where(steps < length[:, None], discount**steps, 0.0)
        returns[lanes] = np.where(weights > 0, recording.reward * weights, 0.0).sum(axis=1)
        actions[lanes] = length
    shape = (len(units), units.span)
    return returns.reshape(shape), actions.reshape(shape)
