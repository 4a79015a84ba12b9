"""Recorded transitions: state before + action -> state after, reward, done, variables.

Every recorded transition becomes a world of its own: the state before it goes into the engine, the
action is performed, and cells, pose, reward, done flag, perceptions and the task's variables must
be the recorded ones. Where the task drew at random, its single draw is led to every outcome there
is, until one gives the recorded state; if none does, the task could not have drawn it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.conformance.recall import recall, visible_bits
from pomp.conformance.recording import Recording
from pomp.conformance.report import FileReport
from pomp.core.errors import GoldenError
from pomp.core.streams import streams_drawing
from pomp.dsl.vocabulary import Action
from pomp.engine.loading import kernels_of
from pomp.engine.rollouts import act_on
from pomp.karel.dynamics import ACTIONS, COUNT, SCORE, TALLY
from pomp.karel.sensors import PERCEIVED_BITS, READING_TYPE
from pomp.karel.world import WorldBatch, memory_of
from pomp.tasks.karel_hard import snake
from pomp.tasks.karel_long import up_n_down
from pomp.tasks.task import Setting

TOLERANCE = 1e-9


def check_transitions(recording: Recording, report: FileReport) -> None:
    """Perform every recorded action on the state before it, and report what differs after it."""
    setting, arrays = recording.setting, recording.arrays
    before = recall(setting, recording.before(), recording.begun)
    after = recall(setting, recording.after(), recording.begun)
    actions = arrays["action"].astype(np.int64)
    if len(actions) and not 0 <= actions.min() <= actions.max() <= max(Action):
        raise GoldenError("an action is not in 0..4")

    result = before.copy()
    rewards = act_on(setting, result, actions)
    drew = np.flatnonzero(result.stream != before.stream)
    if len(drew):
        found, rewards[drew] = _lead_draws(
            setting, before.take(drew), after.take(drew), actions[drew]
        )
        for mine, theirs in zip(memory_of(result), memory_of(found), strict=True):
            mine[drew] = theirs
    differences = _differences(setting, result, after)
    idle, senses = np.zeros(len(actions), np.uint8), np.zeros(len(actions), READING_TYPE)
    sense_worlds = kernels_of(setting.task).sense_worlds
    sense_worlds(setting.constants, memory_of(result), idle, False, senses)
    counted = result.memory[:, ACTIONS] != before.memory[:, ACTIONS]
    comparisons: dict[str, tuple[NDArray[Any], NDArray[Any]]] = {
        "reward": (arrays["reward"], np.where(counted, rewards, 0.0)),
        "perceptions": (arrays["percept"], senses & PERCEIVED_BITS),
        "logged": (arrays["logged"] != 0, counted),
        "spawn": (_cells_of(arrays["spawn"], setting), _spawned(setting, before, after)),
    }
    wrong: dict[int, str] = {}
    for name, (expected, got) in comparisons.items():
        is_wrong = np.abs(expected.astype(float) - got.astype(float)) > TOLERANCE
        for step in np.flatnonzero(is_wrong).tolist():
            wrong.setdefault(step, f"{name}: expected {expected[step]}, got {got[step]}")
    for step, text in differences.items():
        wrong.setdefault(step, text)
    described = []
    for step, text in wrong.items():
        place = int(step - arrays["ep_start"][recording.episode[step]])
        action = Action(int(actions[step])).token
        where = f"episode {recording.episode[step]}, action {place} ({action})"
        described.append((step, f"{where}: {text}"))
    report.add("steps", len(actions), described)


def _lead_draws(
    setting: Setting, before: WorldBatch, after: WorldBatch, actions: NDArray[np.int64]
) -> tuple[WorldBatch, NDArray[np.float64]]:
    """Perform actions that draw at random, led to the outcomes that were recorded.

    Args:
        setting: the task.
        before: B states before the actions.
        after: B recorded states after them.
        actions: `[B]` int64.

    Returns:
        The states after the actions, as recorded where any draw gives them; and the rewards, `[B]`.
    """
    result, rewards = before.copy(), np.zeros(len(before))
    rewards[:] = act_on(setting, result, actions)
    open_ones = np.arange(len(before))
    outcomes = setting.height * setting.width * 2 * setting.scale
    for place in range(1 << (outcomes - 1).bit_length()):
        # Evenly spread first values, coarse to fine: a draw of few outcomes is exhausted early.
        value = int(f"{place:032b}"[::-1], 2) << 32 | 1 << 31
        trial = before.take(open_ones)
        memory_of(trial).stream[:] = streams_drawing(np.full(len(trial), value, np.uint64))
        paid = act_on(setting, trial, actions[open_ones])
        differing = _differences(setting, trial, after.take(open_ones), describe=False)
        matched = np.ones(len(open_ones), bool)
        matched[list(differing)] = False
        for mine, theirs in zip(memory_of(result), memory_of(trial), strict=True):
            mine[open_ones[matched]] = theirs[matched]
        rewards[open_ones[matched]] = paid[matched]
        open_ones = open_ones[~matched]
        if len(open_ones) == 0:
            break
    return result, rewards


def _differences(
    setting: Setting, got: WorldBatch, expected: WorldBatch, *, describe: bool = True
) -> dict[int, str]:
    """Return what differs between two states, by world; worlds that agree are left out."""
    bits = np.uint8(visible_bits(setting))
    cells = (got.cells ^ expected.cells) & bits
    memory, wanted = got.memory.copy(), expected.memory.copy()
    if setting.task.name == "Snake":
        memory = _unrolled(memory)
    for slot in (ACTIONS, TALLY):
        memory[:, slot] = wanted[:, slot] = 0
    is_cell = np.asarray(cells.any(axis=1))
    is_pose = np.asarray(got.pose != expected.pose)
    is_slot = np.asarray(memory != wanted)
    texts: dict[int, str] = {}
    for world in np.flatnonzero(is_cell | is_pose | is_slot.any(axis=1)).tolist():
        text = ""
        if describe and is_pose[world]:
            text = f"pose: expected {_where(expected, world)}, got {_where(got, world)}"
        elif describe and is_cell[world]:
            cell = int(np.argmax(cells[world] != 0))
            place = f"({cell // got.width}, {cell % got.width})"
            mine, theirs = got.cells[world, cell] & bits, expected.cells[world, cell] & bits
            text = f"cell {place}: expected byte {theirs}, got {mine}"
        elif describe:
            slot = int(np.argmax(is_slot[world]))
            mine, theirs = memory[world, slot], wanted[world, slot]
            text = f"{_slot_name(slot)}: expected {theirs}, got {mine}"
        texts[world] = text
    return texts


def _slot_name(slot: int) -> str:
    """Return what a memory slot is called in reports."""
    return {0: "done", SCORE: "progress"}.get(slot, f"variable in memory slot {slot}")


def _where(worlds: WorldBatch, world: int) -> str:
    """Return a world's pose in words."""
    facing = "NESW"[worlds.facing[world]]
    return f"({worlds.row[world]}, {worlds.col[world]}) {facing}"


def _unrolled(memory: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return Snake's memory, `[B, M]` int32, with the oldest cell of its body first, as recorded.

    Args:
        memory: `[B, M]` int32, with the body as a ring.
    """
    memory = memory.copy()
    ring = slice(snake.BODY_CELLS, snake.BODY_CELLS + snake.RING)
    places = np.arange(snake.RING)[None, :]
    order = (memory[:, [snake.OLDEST]] + places) % snake.RING
    body = np.take_along_axis(memory[:, ring], order, axis=1)
    memory[:, ring] = np.where(places < memory[:, [snake.SIZE]], body, 0)
    memory[:, snake.OLDEST] = 0
    return memory


def _cells_of(places: NDArray[Any], setting: Setting) -> NDArray[np.int32]:
    """Return the cells of places, `[B]` int32; -1: none.

    Args:
        places: `[B, 2]`, rows and columns; negative: none.
        setting: the task.
    """
    rows, cols = places[:, 0].astype(np.int32), places[:, 1].astype(np.int32)
    return np.where(rows >= 0, rows * setting.width + cols, -1)


def _spawned(setting: Setting, before: WorldBatch, after: WorldBatch) -> NDArray[np.int64]:
    """Return where chance (Snake: its list) put a marker between two states: `[B]`; -1: nowhere."""
    if not setting.task.draws(setting) and setting.task.name != "Snake":
        return np.full(len(before), -1, np.int64)
    is_new = before.memory[:, SCORE] != after.memory[:, SCORE]
    if setting.task.name == "UpNDown":  # the goal may fall on a marker that is there already
        is_up = after.memory[:, SCORE] % 2 == 0
        goal = np.where(is_up, after.memory[:, up_n_down.UP], after.memory[:, up_n_down.DOWN])
        return np.where(is_new, goal, -1)
    # A marker picked and drawn again at once shows no gain: compare with the cell emptied.
    count = before.cells & COUNT
    agent = before.pose >> 2
    rows = np.arange(len(before))
    count[rows[is_new], agent[is_new]] = 0
    gained = (after.cells & COUNT == 1) & (count != 1) & is_new[:, None]
    return np.where(gained.any(axis=1), np.argmax(gained, axis=1), -1)
