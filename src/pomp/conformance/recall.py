"""Turn states recorded from the reference implementations into states of the engine.

A recorded state holds cells, pose, done flag and the reference's own variables. Here each file is
assigned to its task and setting, and each variable to its slot in the task's memory.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.karel.dynamics import COUNT, DONE, FLAG, SCORE, SUM, UNIT, VALUE, WALL, ZERO
from pomp.karel.world import WorldBatch, memory_of
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
    """Map the name of each file, without its ending, to the setting it was recorded in."""

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
"""The setting of each file by its name without ending; a function makes it."""


@dataclass(frozen=True)
class RecordedStates:
    """N recorded states of one setting.

    Attributes:
        cells: `[N, H * W]` uint8, the bytes of the cells.
        pose: `[N]` int32, 4 * cell + facing.
        done: `[N]` bool, whether the task is done.
        paid: `[N]` float64, the sum of rewards since the start of the episode.
        last_reward: `[N]` float64.
        meta: the reference's own variables by name, `[N]` or `[N, ...]`.
    """

    cells: NDArray[np.uint8]
    pose: NDArray[np.int32]
    done: NDArray[np.bool_]
    paid: NDArray[np.float64]
    last_reward: NDArray[np.float64]
    meta: Mapping[str, NDArray[Any]]

    @property
    def count(self) -> NDArray[np.uint8]:
        """The visible markers of each cell, `[N, H * W]` uint8."""
        return self.cells & np.uint8(COUNT)


def recall(setting: Setting, recorded: RecordedStates, begun: WorldBatch) -> WorldBatch:
    """Return the engine's states that correspond to recorded ones.

    Args:
        setting: the task.
        recorded: N recorded states.
        begun: the N worlds as the task took them up at the start of their episodes; what it
            decided then (goals, targets, flags) is kept.
    """
    worlds = begun.copy()
    kept = FLAG if _holds_flag(setting) else 0
    decided = begun.cells & np.uint8(FLAG & ~kept)
    cells, pose, memory, _ = memory_of(worlds)
    cells[:] = (recorded.cells & np.uint8(COUNT | WALL | ZERO | kept)) | decided
    pose[:] = recorded.pose
    memory[:, DONE] = recorded.done
    if setting.constants[VALUE] == SUM:
        memory[:, SCORE] = np.rint(recorded.paid * memory[:, UNIT])
    else:
        memory[:, SCORE] = np.rint(recorded.last_reward * memory[:, UNIT])
    if setting.task.name in _RECALL:
        _RECALL[setting.task.name](setting, recorded, worlds)
    return worlds.vouch(None)  # a file may say anything


def _holds_flag(setting: Setting) -> bool:
    """Whether the recorded bit 6 is the task's flag (elsewhere it is not recorded)."""
    return setting.task.name in ("OneStroke", "InfHarvester")


def visible_bits(setting: Setting) -> int:
    """Return which bits of a cell the recordings hold."""
    return COUNT | WALL | ZERO | (FLAG if _holds_flag(setting) else 0)


def _stair_climber(setting: Setting, recorded: RecordedStates, worlds: WorldBatch) -> None:
    if not setting.flag("dense"):
        return
    goal = worlds.memory[:, stair_climber.GOAL]
    rows, cols = np.abs(worlds.row - goal // worlds.width), np.abs(worlds.col - goal % worlds.width)
    memory_of(worlds).memory[:, stair_climber.DISTANCE] = rows + cols


def _four_corner(setting: Setting, recorded: RecordedStates, worlds: WorldBatch) -> None:
    is_corner, memory = worlds.cells & FLAG != 0, memory_of(worlds).memory
    memory[:, four_corner.GOOD] = np.sum((recorded.count == 1) & is_corner, axis=1)
    memory[:, four_corner.WRONG] = np.sum((recorded.count > 0) & ~is_corner, axis=1)
    memory[:, four_corner.MARKERS] = recorded.meta["total_markers"]


def _top_off(setting: Setting, recorded: RecordedStates, worlds: WorldBatch) -> None:
    bottom = worlds.grid[:, -2, 1:-1]
    is_target = bottom & FLAG != 0
    is_right = np.where(is_target, bottom & COUNT == 2, bottom & ZERO != 0)
    padded = np.concatenate([~is_right, np.ones((len(worlds), 1), bool)], axis=1)
    memory_of(worlds).memory[:, top_off.FIRST_WRONG] = 1 + np.argmax(padded, axis=1)
    memory_of(worlds).memory[:, top_off.COLUMN] = worlds.col


def _clean_house(setting: Setting, recorded: RecordedStates, worlds: WorldBatch) -> None:
    if setting.variant == "leaps":  # recorded rewards begin with the first action
        is_gone = (worlds.cells & FLAG != 0) & (worlds.cells & ZERO != 0)
        memory_of(worlds).memory[:, SCORE] = np.sum(is_gone, axis=1)


def _harvester(setting: Setting, recorded: RecordedStates, worlds: WorldBatch) -> None:
    memory_of(worlds).memory[:, harvester.MARKERS] = recorded.meta["total_markers"]


def _door_key(setting: Setting, recorded: RecordedStates, worlds: WorldBatch) -> None:
    memory_of(worlds).memory[:, door_key.MARKED] = recorded.meta["total_markers"]


def _one_stroke(setting: Setting, recorded: RecordedStates, worlds: WorldBatch) -> None:
    memory_of(worlds).memory[:, one_stroke.VISITED] = recorded.meta["n_visited"]


def _seeder(setting: Setting, recorded: RecordedStates, worlds: WorldBatch) -> None:
    memory_of(worlds).memory[:, seeder.SINGLES] = np.sum(recorded.count == 1, axis=1)
    memory_of(worlds).memory[:, seeder.DOUBLES] = np.sum(recorded.count > 1, axis=1)


def _snake(setting: Setting, recorded: RecordedStates, worlds: WorldBatch) -> None:
    memory, body = memory_of(worlds).memory, recorded.meta["snake_body"].astype(np.int32)
    memory[:, snake.LENGTH] = recorded.meta["snake_len"]
    memory[:, snake.POINTER] = recorded.meta["marker_pointer"]
    memory[:, snake.SIZE] = np.sum(body[:, :, 0] >= 0, axis=1)
    memory[:, snake.OLDEST] = 0
    ring = slice(snake.BODY_CELLS, snake.BODY_CELLS + snake.RING)
    memory[:, ring] = np.where(body[:, :, 0] >= 0, body[:, :, 0] * worlds.width + body[:, :, 1], 0)


def _seesaw(setting: Setting, recorded: RecordedStates, worlds: WorldBatch) -> None:
    memory_of(worlds).memory[:, SCORE] = recorded.meta["marker_picked"]


def _up_n_down(setting: Setting, recorded: RecordedStates, worlds: WorldBatch) -> None:
    memory_of(worlds).memory[:, SCORE] = recorded.meta["reached_marker"]
    for slot, name in ((up_n_down.UP, "up_marker_pos"), (up_n_down.DOWN, "down_marker_pos")):
        place = recorded.meta[name].astype(np.int32)
        memory_of(worlds).memory[:, slot] = place[:, 0] * worlds.width + place[:, 1]


def _farmer(setting: Setting, recorded: RecordedStates, worlds: WorldBatch) -> None:
    names = {
        farmer.HARVESTING: "harvester_mode",
        farmer.QUOTA: "continuous_marker",
        farmer.ROUNDS: "clean_up_iter",
        farmer.PICKED: "marker_picked",
        farmer.PLACED: "marker_put",
        farmer.MARKED: "total_markers",
    }
    memory = memory_of(worlds).memory
    for slot, name in names.items():
        memory[:, slot] = recorded.meta[name]
    memory[:, SCORE] = memory[:, [farmer.PICKED, farmer.PLACED]].sum(axis=1)


def _inf_door_key(setting: Setting, recorded: RecordedStates, worlds: WorldBatch) -> None:
    memory_of(worlds).memory[:, SCORE] = recorded.meta["marker_picked"]
    memory_of(worlds).memory[:, inf_door_key.STAGE] = recorded.meta["current_stage"]


def _inf_harvester(setting: Setting, recorded: RecordedStates, worlds: WorldBatch) -> None:
    memory = memory_of(worlds).memory
    memory[:, SCORE] = recorded.meta["marker_picked"]
    is_empty = worlds.grid & ZERO != 0
    rows = slice(inf_harvester.EMPTY_IN_ROW, inf_harvester.EMPTY_IN_ROW + worlds.height)
    memory[:, rows] = is_empty.sum(axis=2)
    memory[:, inf_harvester.EMPTY] = is_empty.sum(axis=(1, 2))


_RECALL: Mapping[str, Callable[[Setting, RecordedStates, WorldBatch], None]] = {
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
