"""Recorded runs as the eye follows them: what changed, what could not be done, what it was worth.

F moments lead from frame 0, the start, to frame F; a moment is an action, or none (`NOTHING`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.dsl.bytecode import COUNTERS_PER_LOOP, Code
from pomp.engine.recording import record
from pomp.engine.tracing import TraceArrays
from pomp.engine.while_rounds import count_while_rounds
from pomp.karel.dynamics import (
    CAP,
    COST,
    COUNT,
    LAST,
    MOVE,
    PICK,
    PUT,
    SUM,
    UNIT,
    VALUE,
    WHOLE,
    ZERO,
    value,
)
from pomp.karel.interpreter import Cap
from pomp.karel.world import WorldBatch
from pomp.tasks.task import Setting

NOTHING, NO_TOKEN, NO_PROGRAM = 255, 65535, 255
"""The action of a moment without one; the token of such a moment; how no program ended."""

_LEAST = 1e-9  # of an amount: below is rounding


@dataclass(frozen=True)
class Moments:
    """F moments of M programs that ran one after the other in one world.

    Attributes:
        first: `[M + 1]` uint32, the first moment of each program; the last is F.
        ending: `[M]` uint8, why each stopped, an `Ending`; `NO_PROGRAM`: none ran.
        action: `[F]` uint8, or `NOTHING`.
        token: `[F]` uint16, the place in the program of what acted, or `NO_TOKEN`.
        left: `[F, D]` uint8, rounds that the counted loops around it have left, this one included,
            the outermost loop first; 0: no such loop.
        whiles: `[F, E]` uint8, the rounds, from 1 to at most 255, of the WHILE loops around it, the
            outermost first; 0: no such loop.
        pose: `[F]` int32, after each moment.
        worth: `[F]` float64, the return after each moment.
        amount: `[F]` float64, what it earned (or lost, below zero) beside the cost of an action.
        is_done: `[F]` bool, the task's flag.
        is_vain: `[F]` bool, the action could not be carried out.
        flip_at: `[N]` uint32, the moment of each change of a cell, ascending.
        flip_cell: `[N]` uint16, the cell.
        flip: `[N]` uint8, the bits that changed.
    """

    first: NDArray[np.uint32]
    ending: NDArray[np.uint8]
    action: NDArray[np.uint8]
    token: NDArray[np.uint16]
    left: NDArray[np.uint8]
    whiles: NDArray[np.uint8]
    pose: NDArray[np.int32]
    worth: NDArray[np.float64]
    amount: NDArray[np.float64]
    is_done: NDArray[np.bool_]
    is_vain: NDArray[np.bool_]
    flip_at: NDArray[np.uint32]
    flip_cell: NDArray[np.uint16]
    flip: NDArray[np.uint8]


def action_cost(setting: Setting, worlds: WorldBatch) -> float:
    """Return what every action costs in the first of some worlds."""
    constants = setting.constants
    if constants[VALUE] != SUM:
        return 0.0
    return float(constants[COST] / (worlds.memory[0, UNIT] * constants[WHOLE]))


def worth_of(setting: Setting, worlds: WorldBatch) -> float:
    """Return what the first of some worlds is worth as it stands."""
    return float(value(worlds.memory[0], setting.constants))  # type: ignore[no-untyped-call]  # compiled


def record_moments(
    setting: Setting, code: Code, programs: NDArray[np.integer], worlds: WorldBatch,
    cap: Cap | str, most_actions: int, worth: float,
) -> tuple[Moments, WorldBatch]:  # fmt: skip
    """Run programs one after the other in one world and unfold what happened.

    Args:
        setting: the task.
        code: programs with their sources.
        programs: `[M]` integers, the numbers of those that run; -1: none, a moment of nothing.
        worlds: the one world; it is not changed.
        cap: how long a program may run.
        most_actions: how many actions they take at most.
        worth: what the world is worth.

    Returns:
        What happened, and the world they leave.
    """
    runs = np.flatnonzero(programs >= 0)
    lists = [programs[runs].tolist()] if len(runs) else [[-1]]
    trace = record(setting, code, worlds, lists=lists, cap=cap, most_actions=most_actions,
                   keep_cells=True)  # fmt: skip
    arrays, count = trace.arrays, int(trace.arrays.length[0])
    acts = np.zeros(len(programs), np.int64)  # actions of each program
    np.add.at(acts, runs[arrays.program[0, :count]], 1)
    first = np.concatenate([[0], np.cumsum(np.maximum(acts, 1))]).astype(np.uint32)
    rows = np.flatnonzero(np.repeat(acts > 0, np.maximum(acts, 1)))  # the moments that act
    ending = np.full(len(programs), NO_PROGRAM, np.uint8)
    if len(runs):
        ending[runs] = arrays.ending[0]
    source = code.source[programs[runs[arrays.program[0, :count]]], arrays.pc[0, :count]]
    frames = np.concatenate([worlds.cells, arrays.cells[0, :count]])
    pose = np.concatenate([worlds.pose, arrays.pose[0, :count]])
    at, cell = np.nonzero(frames[1:] ^ frames[:-1])
    done = np.concatenate([worlds.done, arrays.done[0, :count]])
    acting = programs[runs].astype(np.int64)
    begins = np.concatenate([[0], np.cumsum(acts[runs])])
    pcs, rounds = count_while_rounds(
        code, acting, begins, cap, setting.constants, frames[:-1], pose[:-1]
    )
    assert np.array_equal(pcs, arrays.pc[0, :count]), "walked otherwise"
    worths = _worths(setting, worlds, arrays, count, worth)
    held = np.searchsorted(rows, np.arange(first[-1]), side="right")  # actions up to each moment
    unfolded = Moments(
        first=first,
        ending=ending,
        action=_spread(arrays.action[0, :count], rows, first[-1], NOTHING, np.uint8),
        token=_spread(source, rows, first[-1], NO_TOKEN, np.uint16),
        left=_spread(arrays.counters[0, :count, ::COUNTERS_PER_LOOP], rows, first[-1], 0, np.uint8),
        whiles=_spread(np.minimum(rounds, 255), rows, first[-1], 0, np.uint8),
        pose=pose[held],
        worth=np.concatenate([[worth], worths])[held],
        amount=_spread(_amounts(setting, worlds, arrays, count), rows, first[-1], 0, np.float64),
        is_done=done[held],
        is_vain=_spread(_vain(setting, arrays, frames, pose), rows, first[-1], 0, np.bool_),
        flip_at=rows[at].astype(np.uint32),
        flip_cell=cell.astype(np.uint16),
        flip=(frames[1:] ^ frames[:-1])[at, cell],
    )
    return unfolded, trace.worlds


def _spread(
    values: NDArray[Any], rows: NDArray[np.intp], count: int, blank: int, dtype: type
) -> NDArray[Any]:
    """Put `values`, `[N, ...]`, at the moments `rows`, `[N]`, of `count`: `[count, ...]`."""
    spread = np.full((count, *values.shape[1:]), blank, dtype)
    spread[rows] = values
    return spread


def _worths(
    setting: Setting, worlds: WorldBatch, arrays: TraceArrays, count: int, worth: float
) -> NDArray[np.float64]:
    """Return the return after each action, `[count]` float64, to the last digit."""
    constants, rewards = setting.constants, arrays.reward[0, :count]
    counted = worlds.actions[0] + np.cumsum(arrays.counted[0, :count])
    if constants[VALUE] == SUM:  # a fraction with a known denominator
        whole = float(worlds.memory[0, UNIT] * constants[WHOLE])
        return np.rint((worth + np.cumsum(rewards)) * whole) / whole
    if constants[VALUE] == LAST:
        return np.where(counted >= 2, rewards, 0.0)
    unit = float(worlds.memory[0, UNIT])  # the mean score: whole numbers of units
    scores = np.rint((worth * float(worlds.actions[0]) + np.cumsum(rewards)) * unit)
    return scores / (unit * np.maximum(counted, 1))


def _amounts(
    setting: Setting, worlds: WorldBatch, arrays: TraceArrays, count: int
) -> NDArray[np.float64]:
    """Return what each action earned beside its cost, `[count]` float64."""
    rewards = arrays.reward[0, :count]
    if setting.constants[VALUE] == SUM:
        amounts = rewards + action_cost(setting, worlds) * arrays.counted[0, :count]
    else:  # a reward is the score there, not what was added to it
        amounts = np.diff(rewards, prepend=rewards[:1])
    return np.where(np.abs(amounts) < _LEAST, 0.0, amounts)


def _vain(
    setting: Setting, arrays: TraceArrays, frames: NDArray[np.uint8], pose: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """Return which actions could not be carried out.

    Args:
        setting: the task.
        arrays: what was recorded.
        frames: `[N + 1, H * W]` uint8, the cells before the first action and after each.
        pose: `[N + 1]` int32, the same of the pose.

    Returns:
        `[N]` bool.
    """
    action, here = arrays.action[0, : len(pose) - 1], pose[:-1]
    cell = frames[np.arange(len(here)), here >> 2]
    usable = np.where(cell & ZERO, 0, cell & COUNT)
    is_blocked = (action == MOVE) & (pose[1:] == here ^ 2)
    is_empty = (action == PICK) & (usable == 0)
    return is_blocked | is_empty | ((action == PUT) & (usable >= setting.constants[CAP]))


def join_moments(parts: Sequence[Moments]) -> Moments:
    """Return moments of one world that come one after the other as one."""
    offsets = np.cumsum([0, *(int(part.first[-1]) for part in parts)])[:-1].tolist()
    moved = {
        "first": [part.first[:-1] + offset for part, offset in zip(parts, offsets, strict=True)],
        "flip_at": [part.flip_at + offset for part, offset in zip(parts, offsets, strict=True)],
    }
    moved["first"].append(parts[-1].first[-1:] + offsets[-1])
    joined = {
        name: np.concatenate(moved.get(name) or [getattr(part, name) for part in parts])
        for name in (field.name for field in fields(Moments))
    }
    joined["first"], joined["flip_at"] = (joined[name].astype(np.uint32) for name in moved)
    return Moments(**joined)
