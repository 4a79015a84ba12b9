"""Recorded traces of the reference implementations: which file is which task, what it holds.

A recorded state is cells, pose, done flag and the reference's own variables. Here each of those
variables finds its slot in a task's memory.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.karel.dynamics import COUNT, DONE, FLAG, SCORE, SUM, UNIT, VALUE, WALL, ZERO
from pomp.karel.world import WorldBatch
from pomp.tasks.catalog import find_task
from pomp.tasks.karel import four_corner, harvester, stair_climber, top_off
from pomp.tasks.karel_hard import door_key, one_stroke, seeder, snake
from pomp.tasks.karel_long import farmer, inf_door_key, inf_harvester, up_n_down
from pomp.tasks.task import Setting

_SCALES = (2, 4, 8, 16)
_KAREL: Mapping[str, tuple[str, dict[str, object]]] = {
    "stairClimber_sparse": ("StairClimber", {"dense": "off"}),
    "stairClimber": ("StairClimber", {"dense": "on"}),
    "fourCorners": ("FourCorner", {}),
    "topOff": ("TopOff", {"last_marker": "never"}),
    "randomMaze": ("Maze", {}),
    "cleanHouse": ("CleanHouse", {}),
    "harvester": ("Harvester", {}),
}
_KAREL_HARD = {
    "doorkey": "DoorKey",
    "oneStroke": "OneStroke",
    "seeder": "Seeder",
    "snake": "Snake",
}
_KAREL_LONG = {
    "seesaw": "Seesaw",
    "upNdown": "UpNDown",
    "farmer": "Farmer",
    "infinite_doorkey": "InfDoorKey",
    "infinite_harvester": "InfHarvester",
}


def _settings() -> dict[str, Callable[[], Setting]]:
    """File name without ending -> the setting it was recorded in."""

    def make(task: str, *args: Any, **kwargs: Any) -> Callable[[], Setting]:
        return lambda: find_task(task).configure(*args, **kwargs)

    table = {}
    for name, (task, options) in _KAREL.items():
        table[name] = make(task, "leaps", options)
        table[f"{name}__delta"] = make(task, "hprl", options)
    for name, task in _KAREL_HARD.items():
        table[name] = make(task, "hprl")
    for name, task in _KAREL_LONG.items():
        table[name] = make(task, "hipo")
        for scale in _SCALES:
            table[f"{name}__x{scale}"] = make(task, "hipo", scale=scale)
    return table


SETTINGS = _settings()


@dataclass(frozen=True)
class Moment:
    """N recorded states of one setting."""

    cells: NDArray[np.uint8]  # [N, H * W]
    pose: NDArray[np.int32]  # [N]
    done: NDArray[np.bool_]  # [N]
    paid: NDArray[np.float64]  # [N]: rewards since the start of the episode
    last_reward: NDArray[np.float64]  # [N]
    meta: Mapping[str, NDArray[Any]]  # the reference's variables

    @property
    def count(self) -> NDArray[np.uint8]:
        """Visible markers, `[N, H * W]`."""
        return self.cells & np.uint8(COUNT)


def recall(setting: Setting, moment: Moment, begun: WorldBatch) -> WorldBatch:
    """The engine's state of recorded moments.

    Args:
        setting: the task.
        moment: what was recorded.
        begun: the same worlds as the task took them up at the start of their episodes: what it
            decided then (goals, targets, flags) is kept.
    """
    worlds = begun.copy()
    kept = FLAG if _holds_flag(setting) else 0
    decided = begun.cells & np.uint8(FLAG & ~kept)
    worlds.cells[:] = (moment.cells & np.uint8(COUNT | WALL | ZERO | kept)) | decided
    worlds.pose[:] = moment.pose
    memory = worlds.memory
    memory[:, DONE] = moment.done
    if setting.constants[VALUE] == SUM:
        memory[:, SCORE] = np.rint(moment.paid * memory[:, UNIT])
    else:
        memory[:, SCORE] = np.rint(moment.last_reward * memory[:, UNIT])
    if setting.task.name in _RECALL:
        _RECALL[setting.task.name](setting, moment, worlds)
    return worlds


def _holds_flag(setting: Setting) -> bool:
    """Whether the recorded bit 6 is the task's flag (elsewhere it is not recorded)."""
    return setting.task.name in ("OneStroke", "InfHarvester")


def visible_bits(setting: Setting) -> int:
    """Which bits of a cell the recordings hold."""
    return COUNT | WALL | ZERO | (FLAG if _holds_flag(setting) else 0)


def _stair_climber(setting: Setting, moment: Moment, worlds: WorldBatch) -> None:
    if not setting.flag("dense"):
        return
    goal = worlds.memory[:, stair_climber.GOAL]
    rows, cols = np.abs(worlds.row - goal // worlds.width), np.abs(worlds.col - goal % worlds.width)
    worlds.memory[:, stair_climber.DISTANCE] = rows + cols


def _four_corner(setting: Setting, moment: Moment, worlds: WorldBatch) -> None:
    is_corner = worlds.cells & FLAG != 0
    worlds.memory[:, four_corner.GOOD] = np.sum((moment.count == 1) & is_corner, axis=1)
    worlds.memory[:, four_corner.WRONG] = np.sum((moment.count > 0) & ~is_corner, axis=1)
    worlds.memory[:, four_corner.MARKERS] = moment.meta["total_markers"]


def _top_off(setting: Setting, moment: Moment, worlds: WorldBatch) -> None:
    bottom = worlds.grid[:, -2, 1:-1]
    is_target = bottom & FLAG != 0
    is_right = np.where(is_target, bottom & COUNT == 2, bottom & ZERO != 0)
    padded = np.concatenate([~is_right, np.ones((len(worlds), 1), bool)], axis=1)
    worlds.memory[:, top_off.FIRST_WRONG] = 1 + np.argmax(padded, axis=1)
    worlds.memory[:, top_off.COLUMN] = worlds.col


def _clean_house(setting: Setting, moment: Moment, worlds: WorldBatch) -> None:
    if setting.variant == "leaps":  # recorded rewards begin with the first action
        is_gone = (worlds.cells & FLAG != 0) & (worlds.cells & ZERO != 0)
        worlds.memory[:, SCORE] = np.sum(is_gone, axis=1)


def _harvester(setting: Setting, moment: Moment, worlds: WorldBatch) -> None:
    worlds.memory[:, harvester.MARKERS] = moment.meta["total_markers"]


def _door_key(setting: Setting, moment: Moment, worlds: WorldBatch) -> None:
    worlds.memory[:, door_key.MARKED] = moment.meta["total_markers"]


def _one_stroke(setting: Setting, moment: Moment, worlds: WorldBatch) -> None:
    worlds.memory[:, one_stroke.VISITED] = moment.meta["n_visited"]


def _seeder(setting: Setting, moment: Moment, worlds: WorldBatch) -> None:
    worlds.memory[:, seeder.SINGLES] = np.sum(moment.count == 1, axis=1)
    worlds.memory[:, seeder.DOUBLES] = np.sum(moment.count > 1, axis=1)


def _snake(setting: Setting, moment: Moment, worlds: WorldBatch) -> None:
    memory, body = worlds.memory, moment.meta["snake_body"].astype(np.int32)
    memory[:, snake.LENGTH] = moment.meta["snake_len"]
    memory[:, snake.POINTER] = moment.meta["marker_pointer"]
    memory[:, snake.SIZE] = np.sum(body[:, :, 0] >= 0, axis=1)
    memory[:, snake.OLDEST] = 0
    ring = slice(snake.BODY_CELLS, snake.BODY_CELLS + snake.RING)
    memory[:, ring] = np.where(body[:, :, 0] >= 0, body[:, :, 0] * worlds.width + body[:, :, 1], 0)


def _seesaw(setting: Setting, moment: Moment, worlds: WorldBatch) -> None:
    worlds.memory[:, SCORE] = moment.meta["marker_picked"]


def _up_n_down(setting: Setting, moment: Moment, worlds: WorldBatch) -> None:
    worlds.memory[:, SCORE] = moment.meta["reached_marker"]
    for slot, name in ((up_n_down.UP, "up_marker_pos"), (up_n_down.DOWN, "down_marker_pos")):
        place = moment.meta[name].astype(np.int32)
        worlds.memory[:, slot] = place[:, 0] * worlds.width + place[:, 1]


def _farmer(setting: Setting, moment: Moment, worlds: WorldBatch) -> None:
    names = {
        farmer.HARVESTING: "harvester_mode",
        farmer.QUOTA: "continuous_marker",
        farmer.ROUNDS: "clean_up_iter",
        farmer.PICKED: "marker_picked",
        farmer.PLACED: "marker_put",
        farmer.MARKED: "total_markers",
    }
    for slot, name in names.items():
        worlds.memory[:, slot] = moment.meta[name]
    worlds.memory[:, SCORE] = worlds.memory[:, farmer.PICKED] + worlds.memory[:, farmer.PLACED]


def _inf_door_key(setting: Setting, moment: Moment, worlds: WorldBatch) -> None:
    worlds.memory[:, SCORE] = moment.meta["marker_picked"]
    worlds.memory[:, inf_door_key.STAGE] = moment.meta["current_stage"]


def _inf_harvester(setting: Setting, moment: Moment, worlds: WorldBatch) -> None:
    worlds.memory[:, SCORE] = moment.meta["marker_picked"]
    is_empty = worlds.grid & ZERO != 0
    rows = slice(inf_harvester.EMPTY_IN_ROW, inf_harvester.EMPTY_IN_ROW + worlds.height)
    worlds.memory[:, rows] = is_empty.sum(axis=2)
    worlds.memory[:, inf_harvester.EMPTY] = is_empty.sum(axis=(1, 2))


_RECALL: Mapping[str, Callable[[Setting, Moment, WorldBatch], None]] = {
    "StairClimber": _stair_climber,
    "FourCorner": _four_corner,
    "TopOff": _top_off,
    "CleanHouse": _clean_house,
    "Harvester": _harvester,
    "DoorKey": _door_key,
    "OneStroke": _one_stroke,
    "Seeder": _seeder,
    "Snake": _snake,
    "Seesaw": _seesaw,
    "UpNDown": _up_n_down,
    "Farmer": _farmer,
    "InfDoorKey": _inf_door_key,
    "InfHarvester": _inf_harvester,
}
