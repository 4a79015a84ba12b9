"""A recorded episode as one JSON document, which `docs/STUDIO.md` describes."""

import base64
import hashlib
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.engine.moments import worth_of
from pomp.karel.world import WorldBatch
from pomp.studio.machine_data import find_loops, machine_data
from pomp.studio.recording import RecordedEpisode, tell_ending
from pomp.studio.telling import Words, find_events

FORMAT = 1
EVERY = 1024
"""Frames from one keyframe to the next."""

_NO_LOOP = (-1, 0)
_TYPES = {"uint8": "u8", "int8": "i8", "uint16": "u16", "int16": "i16", "uint32": "u32",
          "int32": "i32", "float32": "f32", "float64": "f64"}  # fmt: skip


def pack_array(array: NDArray[Any]) -> dict[str, Any]:
    """Return an `array` of any shape `[...]` as JSON can hold it: its bytes in base64."""
    content = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return {
        "type": _TYPES[array.dtype.name],
        "shape": list(array.shape),
        "data": base64.b64encode(content.tobytes()).decode("ascii"),
    }


def world_data(worlds: WorldBatch) -> dict[str, Any]:
    """Return the first of some worlds as the page draws it."""
    return {
        "size": [worlds.height, worlds.width],
        "cells": worlds.cells[0].tolist(),
        "pose": int(worlds.pose[0]),
    }


def episode_data(episode: RecordedEpisode, name: str | None = None) -> dict[str, Any]:
    """Return an episode as the page plays it.

    Args:
        episode: which.
        name: what its machine is asked for by; None: it came as a text.
    """
    setting, moments, words = episode.setting, episode.moments, Words()
    events = find_events(episode)
    start, pose = episode.start, np.concatenate([episode.start.pose, moments.pose])
    said, why = words.of_moments(episode), words.of_steps(episode)
    return {
        "format": FORMAT,
        "machine": machine_data(episode.machine, name),
        "task": setting.task.name,
        "setting": f"{setting.task.name} ({setting.variant}) x{setting.scale}",
        "size": [setting.height, setting.width],
        "scale": setting.scale,
        "seed": episode.seed,
        "greedy": episode.is_greedy,
        "ceiling": setting.ceiling,
        "start": hashlib.sha256(start.cells.tobytes() + start.pose.tobytes()).hexdigest()[:16],
        "return": episode.worth,
        "actions": episode.actions,
        "modes": episode.programs,
        "is_done": bool(moments.is_done[-1]),
        "ending": tell_ending(episode),
        "frames": len(moments.action),
        "world": world_data(start),
        "every": EVERY,
        "moments": {
            "action": pack_array(moments.action),
            "pose": pack_array(pose.astype(np.uint16)),
            "token": pack_array(moments.token),
            "rounds": pack_array(count_rounds(episode)),
            "return": pack_array(np.concatenate([[worth_of(setting, start)], moments.worth])),
            "say": pack_array(said),
        },
        "steps": {
            "first": pack_array(moments.first),
            "mode": pack_array(episode.mode.astype(np.uint8)),
            "rule": pack_array(episode.rule),
            "ending": pack_array(moments.ending),
            "probs": None if episode.probs is None else pack_array(episode.probs),
            "say": pack_array(why),
        },
        "cells": {
            "at": pack_array(moments.flip_at + np.uint32(1)),
            "cell": pack_array(moments.flip_cell),
            "flip": pack_array(moments.flip),
            "keys": pack_array(find_keys(episode)),
        },
        "events": {
            "at": pack_array(events.at),
            "kind": pack_array(events.kind),
            "amount": pack_array(events.amount),
        },
        "cost": episode.cost,
        "words": words.texts,
    }


def find_keys(episode: RecordedEpisode) -> NDArray[np.uint8]:
    """Return the cells of every `EVERY`th frame, the first included, `[N, H * W]` uint8."""
    moments, cells = episode.moments, episode.start.cells[0].copy()
    edges = np.arange(0, len(moments.action) + 1, EVERY)  # frame f shows the flips before moment f
    places = np.searchsorted(moments.flip_at, edges)
    keys = [cells.copy()]
    for first, last in pairwise(places.tolist()):
        np.bitwise_xor.at(cells, moments.flip_cell[first:last], moments.flip[first:last])
        keys.append(cells.copy())
    return np.stack(keys)


def cells_at(episode: RecordedEpisode, frame: int) -> NDArray[np.uint8]:
    """Return the cells of a frame, `[H * W]` uint8."""
    moments, cells = episode.moments, episode.start.cells[0].copy()
    count = np.searchsorted(moments.flip_at, frame)
    np.bitwise_xor.at(cells, moments.flip_cell[:count], moments.flip[:count])
    return cells


def count_rounds(episode: RecordedEpisode) -> NDArray[np.uint8]:
    """Return the rounds of the loops around what acts, `[F, D]` uint8, the outermost first."""
    moments, machine = episode.moments, episode.machine
    mode = np.repeat(episode.mode, np.diff(moments.first))
    nests = [_nests(program) for program in machine.modes]
    deepest = max((len(around) for nest in nests for around in nest), default=0)
    rounds = np.zeros((len(mode), deepest), np.uint8)
    for number, nest in enumerate(nests):
        acts = (mode == number) & (moments.token < len(nest))
        for depth in range(deepest):
            here = [around[depth] if depth < len(around) else _NO_LOOP for around in nest]
            slot, count = np.array(here).T
            token = np.where(acts, moments.token, 0)
            counted = np.flatnonzero(acts & (slot[token] >= 0) & (count[token] > 0))
            there = token[counted]
            rounds[counted, depth] = count[there] + 1 - moments.left[counted, slot[there]]
            open_ended = np.flatnonzero(acts & (slot[token] >= 0) & (count[token] == 0))
            rounds[open_ended, depth] = moments.whiles[open_ended, slot[token[open_ended]]]
    return rounds


def _nests(program: str) -> list[list[tuple[int, int]]]:
    """Return for each token the loops around it: its place among those of its kind, and its count.

    A WHILE has the count 0.
    """
    tokens = program.split()
    nests: list[list[tuple[int, int]]] = [[] for _ in tokens]
    repeats = [0] * len(tokens)  # around each token so far
    for loop in find_loops(tokens):
        count = loop["count"] or 0
        for place in range(loop["first"], loop["last"] + 1):
            nest = nests[place]
            nest.append((repeats[place] if count else len(nest) - repeats[place], count))
            repeats[place] += count > 0
    return nests
