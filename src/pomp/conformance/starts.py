"""Recorded start states: each must be one the task can draw."""

import numpy as np

from pomp.conformance.recall import SETTINGS
from pomp.conformance.recording import Arrays, raw_worlds
from pomp.conformance.report import FileReport
from pomp.core.errors import GoldenError
from pomp.engine.starts import take_up
from pomp.karel.dynamics import COUNT, WALL, ZERO
from pomp.karel.world import Map, WorldBatch
from pomp.tasks.task import Setting


def check_initial_states(arrays: Arrays, report: FileReport) -> None:
    """Check the starts of several tasks in one file.

    Args:
        arrays: for each task `<task>_grid` `[N, H, W]` and `<task>_pos` `[N, 3]`, row, column and
            facing.
        report: what is wrong is added to it.
    """
    for name in sorted(arrays):
        if name.endswith("_grid"):
            task = name.removesuffix("_grid")
            if task not in SETTINGS:
                raise GoldenError(f"initial_states.npz: unknown task '{task}'")
            setting = SETTINGS[task]()
            poses = arrays[f"{task}_pos"].astype(np.int32)
            pose = (poses[:, 0] * setting.width + poses[:, 1]) << 2 | poses[:, 2]
            starts = raw_worlds(setting, arrays[name].reshape(len(pose), -1), pose)
            check_starts(setting, starts, report, COUNT | WALL | ZERO)


def check_starts(setting: Setting, starts: WorldBatch, report: FileReport, bits: int) -> None:
    """Check that recorded starts are ones the task can draw, down to the flags among `bits`."""
    known: set[tuple[bytes, int]] | None = None
    if setting.task.starts is not None:
        known = {_fingerprint(start.map) for start in setting.list_starts()}
    wrong = []
    for index in range(len(starts)):
        given = starts.take([index])
        start = given.map_of(0)
        is_known = (
            _fingerprint(start) in known if known is not None else setting.task.is_start(start)
        )
        if not is_known:
            wrong.append((index, f"the task cannot start there:\n{start.to_text()}"))
            continue
        bare = raw_worlds(setting, given.cells & np.uint8(COUNT | WALL), given.pose)
        if np.any((take_up(setting, bare).cells ^ given.cells) & np.uint8(bits)):
            wrong.append((index, "cells are flagged differently"))
    report.add("starts", len(starts), wrong)


def _fingerprint(start: Map) -> tuple[bytes, int]:
    """Return what tells a start from others: its grid and pose."""
    return start.grid.tobytes(), (start.row * start.grid.shape[1] + start.col) << 2 | start.facing
