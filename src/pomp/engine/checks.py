"""The door to compiled code, which checks no bounds: what may run passes here first.

What kernels rely on, and who sees to it:

- worlds: arrays of one length, type and layout (`WorldBatch`); a ring of walls, the agent inside
  it, a unit above zero, and what the task's `step` can go on from (`check_worlds`). Steps keep it
  so. Worlds that the engine makes, copies or moves need no check; others are checked when they
  first run, and remember it.
- programs: `Code` comes from the compiler alone and cannot be written.
- constants: a `Setting` is checked whenever one is made, and its numbers cannot be written.
- caps: `Cap.of` refuses limits outside 1 to `MOST_STEPS`.
- numbers of programs, modes and actions: the functions that take them check their ranges.
"""

from typing import Any

import numpy as np

from pomp.core.errors import ConfigError, WorldError
from pomp.karel.dynamics import UNIT, WALL
from pomp.karel.world import WorldBatch, rings_of
from pomp.tasks.task import Setting


def check_setting(setting: object) -> Setting:
    """Return a setting.

    Raises:
        ConfigError: it is something else.
    """
    if not isinstance(setting, Setting):
        kind = type(setting).__name__
        raise ConfigError(f"expected a setting, as from task.configure(), got a {kind}")
    return setting


def check_worlds(setting: Setting, worlds: WorldBatch) -> None:
    """Refuse worlds that a task's kernels cannot run; those of the task's own pass at once.

    Raises:
        ConfigError: they were made for another task or size.
        WorldError: they are no states of the task.
    """
    check_setting(setting)
    if not isinstance(worlds, WorldBatch):
        kind = type(worlds).__name__
        raise ConfigError(f"expected worlds, as from pomp.draw_starts, got a {kind}")
    wanted = (setting.task.name, setting.height, setting.width)
    if (worlds.task, worlds.height, worlds.width) != wanted:
        got = f"{worlds.task} {worlds.height}x{worlds.width}"
        expected = f"{setting.task.name} {setting.height}x{setting.width}"
        raise ConfigError(f"these worlds were made for {got}, not for {expected}")
    if worlds.checked_for is not setting.task:
        check_states(setting, worlds.to("cpu"))
        worlds.vouch(setting.task)


def check_states(setting: Setting, worlds: WorldBatch) -> None:
    """Refuse worlds on the CPU that are no states of a task of their size.

    Raises:
        WorldError: says which world, and what is wrong with it.
    """
    name, slots = setting.task.name, worlds.memory.shape[1]
    if slots != setting.slots:
        raise WorldError(f"worlds of {name} have {setting.slots} integers of memory, got {slots}")
    check_places(worlds)
    _refuse(worlds.memory[:, UNIT] < 1, f"a world of {name} counts in units above zero")
    _refuse(
        np.logical_not(setting.task.is_sound(worlds)),
        f"its memory and its cells are no state of {name}",
    )


def check_places(worlds: WorldBatch) -> None:
    """Refuse worlds on the CPU whose agents are not within walls.

    Raises:
        WorldError: says which world; perhaps it was never reset.
    """
    row, col = worlds.row, worlds.col
    is_inside = (row > 0) & (row < worlds.height - 1) & (col > 0) & (col < worlds.width - 1)
    _refuse(~is_inside, "the agent stands outside; was it ever reset?")
    has_hole = (rings_of(worlds.grid) & WALL == 0).any(1)
    _refuse(has_hole, "the outer ring of a world is walls")


def _refuse(is_wrong: Any, reason: str) -> None:
    """Raise an error about the first world in which `is_wrong`, `[B]` bool, holds."""
    if is_wrong.any():
        raise WorldError(f"world {int(np.argmax(is_wrong))} cannot be used: {reason}")
