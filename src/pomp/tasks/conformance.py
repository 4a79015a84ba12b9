"""Replay of recorded reference traces: transition by transition, program by program.

Every recorded transition becomes a world of its own: the state before it goes into the engine, the
action is performed, and cells, pose, reward, done flag, perceptions and the task's variables must
be the recorded ones. Where the task drew at random, its single draw is led to every outcome there
is, until one gives the recorded state; if none does, the task could not have drawn it.
"""

import json
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.dsl.bytecode import Code, compile_ids, compile_programs
from pomp.dsl.parser import parse
from pomp.dsl.printer import print_program
from pomp.dsl.vocabulary import LEAPS, Action
from pomp.errors import GoldenError, ProgramSyntaxError
from pomp.karel.interpreter import Cap
from pomp.karel.rules import ACTIONS, COUNT, SCORE, TALLY, WALL, ZERO
from pomp.karel.world import Map, WorldBatch
from pomp.streams import streams_drawing
from pomp.tasks import golden, replay
from pomp.tasks.engine import kernels_of, take_up
from pomp.tasks.karel_hard import snake
from pomp.tasks.karel_long import up_n_down
from pomp.tasks.rollout import act_on, advance
from pomp.tasks.task import Setting

TOLERANCE = 1e-9
_BADLY_WRITTEN = (KeyError, ValueError, IndexError, TypeError, AttributeError, EOFError, OSError)

Arrays = Mapping[str, NDArray[Any]]


@dataclass
class FileReport:
    """What came of one file: how much was checked, how much was wrong, the first wrong thing."""

    name: str
    checked: dict[str, int] = field(default_factory=dict)
    mismatches: int = 0
    first_mismatch: str = ""
    note: str = ""

    def add(self, what: str, checked: int, wrong: Iterable[tuple[int, str]] = ()) -> None:
        """Count checks, and the mismatches among them as (order, description)."""
        self.checked[what] = self.checked.get(what, 0) + checked
        for order, text in sorted(wrong):
            self.mismatches += 1
            self.first_mismatch = self.first_mismatch or f"{what} {order}: {text}"


def check_folder(
    folder: Path, progress: Callable[[str], None] = lambda name: None
) -> list[FileReport]:
    """Replay every golden file of a folder; any subset of the known files will do.

    Args:
        folder: holds `<task>.npz`, `initial_states.npz`, `dsl.json`, `programs.json`.
        progress: called with each file's name before it is replayed.

    Raises:
        GoldenError: no folder, nothing in it, an unknown file, or one that cannot be read.
    """
    if not folder.is_dir():
        raise GoldenError(f"no folder '{folder}'; expected one with golden files (*.npz, *.json)")
    files = sorted(path for path in folder.iterdir() if path.suffix != ".md")
    if not files:
        raise GoldenError(f"no golden files in '{folder}'; expected *.npz and *.json files")
    known = {f"{name}.npz" for name in golden.SETTINGS}
    known |= {"initial_states.npz", "dsl.json", "programs.json"}
    for path in files:
        if path.name not in known:
            expected = "the golden files' names are in tests/golden/README.md"
            raise GoldenError(f"unknown file '{path.name}' in '{folder}'; {expected}")
    programs = _load_json(folder / "programs.json") if folder / "programs.json" in files else None
    reports = []
    for path in files:
        progress(path.name)
        try:
            reports.append(_check_file(path, programs))
        except _BADLY_WRITTEN as error:
            if isinstance(error, GoldenError):
                raise
            raise GoldenError(f"'{path}' is incomplete or damaged: {error!r}") from error
    return reports


def _check_file(path: Path, programs: dict[str, Any] | None) -> FileReport:
    report = FileReport(path.name)
    if path.name == "dsl.json":
        _check_language(_load_json(path), report)
    elif path.name == "programs.json":
        assert programs is not None
        _check_programs(programs, report)
    elif path.name == "initial_states.npz":
        _check_initial_states(_load_npz(path), report)
    else:
        arrays = _load_npz(path)
        setting = golden.SETTINGS[path.stem]()
        recording = _Recording(setting, arrays)
        _check_starts(setting, recording.starts, report, golden.visible_bits(setting))
        _check_transitions(recording, report)
        if programs is None:
            report.note = "executions not replayed: programs.json is not in the folder"
        else:
            texts = [entry["text"] for entry in programs["tasks"][path.stem]]
            _check_executions(recording, texts, report)
    return report


def _load_npz(path: Path) -> Arrays:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (*_BADLY_WRITTEN, zipfile.BadZipFile) as error:
        raise GoldenError(f"'{path}' is no readable npz file ({error})") from error


def _load_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise GoldenError(f"'{path}' is no readable JSON file ({error})") from error
    if not isinstance(content, dict):
        raise GoldenError(f"'{path}' must hold a JSON object, got {type(content).__name__}")
    return content


# The language.


def _check_language(content: dict[str, Any], report: FileReport) -> None:
    _check_vocabulary(content["vocabulary"], report)
    _check_texts(content["programs"], report)
    wrong = []
    rows = [entry["tokens"] for entry in content["syntax"]]
    ids = np.full((len(rows), max(map(len, rows), default=1)), LEAPS.pad, np.int64)
    for row, tokens in zip(ids, rows, strict=True):
        row[: len(tokens)] = tokens
    compiled = compile_ids(ids).valid
    for index, entry in enumerate(content["syntax"]):
        expected = bool(entry["full_program"])
        for reader, accepts in (("parser", _parses(entry["text"])), ("compiler", compiled[index])):
            if accepts != expected:
                verb = "accepted" if accepts else "refused"
                wrong.append((index, f"the {reader} {verb} '{entry['text']}'"))
    report.add("syntax", len(rows), wrong)


def _parses(text: str) -> bool:
    try:
        parse(text)
    except ProgramSyntaxError:
        return False
    return True


def _check_vocabulary(vocabulary: list[str], report: FileReport) -> None:
    wrong = [
        (index, f"expected token '{expected}', got '{token}'")
        for index, (expected, token) in enumerate(zip(vocabulary, LEAPS.tokens, strict=False))
        if expected != token
    ]
    report.add("tokens", len(vocabulary), wrong)


def _check_texts(entries: list[dict[str, Any]], report: FileReport) -> None:
    wrong = []
    for index, entry in enumerate(entries):
        if not _parses(entry["text"]):
            wrong.append((index, f"'{entry['text']}' does not parse"))
        elif print_program(parse(entry["text"])) != entry["text"]:
            wrong.append((index, f"'{entry['text']}' is printed differently"))
        elif LEAPS.encode(entry["text"].split()) != entry["tokens"]:
            wrong.append((index, f"'{entry['text']}' has other token ids"))
    report.add("programs", len(entries), wrong)


def _check_programs(content: dict[str, Any], report: FileReport) -> None:
    _check_vocabulary(content["vocabulary"], report)
    for entries in content["tasks"].values():
        _check_texts(entries, report)


# Starts.


def _check_initial_states(arrays: Arrays, report: FileReport) -> None:
    for name in sorted(arrays):
        if name.endswith("_grid"):
            task = name.removesuffix("_grid")
            if task not in golden.SETTINGS:
                raise GoldenError(f"initial_states.npz: unknown task '{task}'")
            setting = golden.SETTINGS[task]()
            poses = arrays[f"{task}_pos"].astype(np.int32)
            pose = (poses[:, 0] * setting.width + poses[:, 1]) << 2 | poses[:, 2]
            starts = _raw_worlds(setting, arrays[name].reshape(len(pose), -1), pose)
            _check_starts(setting, starts, report, COUNT | WALL | ZERO)


def _raw_worlds(setting: Setting, cells: NDArray[Any], pose: NDArray[Any]) -> WorldBatch:
    worlds = WorldBatch.empty(len(pose), setting.height, setting.width, setting.slots)
    worlds.cells[:] = cells
    worlds.pose[:] = pose
    return worlds


def _check_starts(setting: Setting, starts: WorldBatch, report: FileReport, bits: int) -> None:
    """A recorded start must be one the task can draw, down to the flags among `bits`."""
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
        bare = _raw_worlds(setting, given.cells & np.uint8(COUNT | WALL), given.pose)
        if np.any((take_up(setting, bare).cells ^ given.cells) & np.uint8(bits)):
            wrong.append((index, "cells are flagged differently"))
    report.add("starts", len(starts), wrong)


def _fingerprint(start: Map) -> tuple[bytes, int]:
    return start.grid.tobytes(), (start.row * start.grid.shape[1] + start.col) << 2 | start.facing


# Transitions.


class _Recording:
    """One npz file: its starts, and its steps as moments before and after."""

    def __init__(self, setting: Setting, arrays: Arrays) -> None:
        self.setting, self.arrays = setting, arrays
        size = setting.height * setting.width
        if (int(arrays["height"]), int(arrays["width"])) != (setting.height, setting.width):
            raise GoldenError(f"the recorded grid is not {setting.height}x{setting.width}")
        first, length = arrays["ep_start"], arrays["ep_len"]
        steps = len(arrays["action"])
        if len(arrays["grid"]) != steps or int(length.sum()) != steps:
            raise GoldenError("the step arrays have different lengths")
        self.episode = np.repeat(np.arange(len(first)), length)
        self.start_of_step = arrays["ep_init"][self.episode]
        self.is_first = np.zeros(steps, bool)
        self.is_first[first[length > 0]] = True
        self.init_cells = arrays["init_grid"].reshape(-1, size)
        self.init_pose = self._pose("init_")
        self.cells, self.pose = arrays["grid"].reshape(-1, size), self._pose("")
        self.starts = _raw_worlds(setting, self.init_cells, self.init_pose)
        begun = _raw_worlds(setting, self.init_cells & np.uint8(COUNT | WALL), self.init_pose)
        self.begun = take_up(setting, begun).take(self.start_of_step)

    def _pose(self, prefix: str) -> NDArray[np.int32]:
        row, col, facing = (
            self.arrays[f"{prefix}{name}"].astype(np.int32) for name in ("row", "col", "facing")
        )
        return (row * self.setting.width + col) << 2 | facing

    def before(self) -> golden.Moment:
        """The state before every step."""
        arrays, first, init = self.arrays, self.is_first, self.start_of_step

        def shifted(after: NDArray[Any], initial: NDArray[Any]) -> NDArray[Any]:
            previous = np.roll(after, 1, axis=0)
            previous[first] = initial[init[first]]
            return previous

        metas = {
            name.removeprefix("meta_"): shifted(arrays[name], arrays[f"init_{name}"])
            for name in arrays
            if name.startswith("meta_")
        }
        none = np.zeros(len(self.init_pose))
        return golden.Moment(
            shifted(self.cells, self.init_cells),
            shifted(self.pose, self.init_pose),
            shifted(arrays["done"], none) != 0,
            self._paid() - arrays["reward"],
            shifted(arrays["reward"], none),
            metas,
        )

    def after(self) -> golden.Moment:
        """The state after every step."""
        arrays = self.arrays
        metas = {
            name.removeprefix("meta_"): arrays[name] for name in arrays if name.startswith("meta_")
        }
        done, reward = arrays["done"] != 0, arrays["reward"]
        return golden.Moment(self.cells, self.pose, done, self._paid(), reward, metas)

    def _paid(self) -> NDArray[np.float64]:
        total = np.cumsum(self.arrays["reward"])
        first = np.flatnonzero(self.is_first)
        base = np.concatenate([[0.0], total])[first]
        counts = np.diff(np.append(first, len(total)))
        return total - np.repeat(base, counts)


def _check_transitions(recording: _Recording, report: FileReport) -> None:
    setting, arrays = recording.setting, recording.arrays
    before = golden.recall(setting, recording.before(), recording.begun)
    after = golden.recall(setting, recording.after(), recording.begun)
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
        for mine, theirs in zip(result.arrays, found.arrays, strict=True):
            mine[drew] = theirs
    differences = _differences(setting, result, after)
    perceptions = np.zeros(len(actions), np.uint8)
    kernels_of(setting.task).perceive_worlds(setting.rules, result.cells, result.pose, perceptions)
    counted = result.memory[:, ACTIONS] != before.memory[:, ACTIONS]
    comparisons: dict[str, tuple[NDArray[Any], NDArray[Any]]] = {
        "reward": (arrays["reward"], np.where(counted, rewards, 0.0)),
        "perceptions": (arrays["percept"], perceptions),
        "logged": (arrays["logged"] != 0, counted),
        "spawn": (_cells_of(arrays["spawn"], setting), _spawned(setting, before, after)),
    }
    wrong: dict[int, str] = {}
    for name, (expected, got) in comparisons.items():
        is_wrong = np.abs(expected.astype(float) - got.astype(float)) > TOLERANCE
        for step in np.flatnonzero(is_wrong):
            wrong.setdefault(int(step), f"{name}: expected {expected[step]}, got {got[step]}")
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
    """Perform actions that draw, with the draws that give the recorded states where any do."""
    result, rewards = before.copy(), np.zeros(len(before))
    rewards[:] = act_on(setting, result, actions)
    open_ones = np.arange(len(before))
    outcomes = setting.height * setting.width * 2 * setting.scale
    for place in range(1 << (outcomes - 1).bit_length()):
        # Evenly spread first values, coarse to fine: a draw of few outcomes is exhausted early.
        value = int(f"{place:032b}"[::-1], 2) << 32 | 1 << 31
        trial = before.take(open_ones)
        trial.stream[:] = streams_drawing(np.full(len(trial), value, np.uint64))
        paid = act_on(setting, trial, actions[open_ones])
        differing = _differences(setting, trial, after.take(open_ones), describe=False)
        matched = np.ones(len(open_ones), bool)
        matched[list(differing)] = False
        for mine, theirs in zip(result.arrays, trial.arrays, strict=True):
            mine[open_ones[matched]] = theirs[matched]
        rewards[open_ones[matched]] = paid[matched]
        open_ones = open_ones[~matched]
        if len(open_ones) == 0:
            break
    return result, rewards


def _differences(
    setting: Setting, got: WorldBatch, expected: WorldBatch, *, describe: bool = True
) -> dict[int, str]:
    """World -> what differs between two states; empty where they agree."""
    bits = np.uint8(golden.visible_bits(setting))
    cells = (got.cells ^ expected.cells) & bits
    memory, wanted = got.memory.copy(), expected.memory.copy()
    if setting.task.name == "Snake":
        memory = _unrolled(memory)
    for slot in (ACTIONS, TALLY):
        memory[:, slot] = wanted[:, slot] = 0
    is_cell, is_pose = cells.any(axis=1), got.pose != expected.pose
    is_slot = memory != wanted
    texts: dict[int, str] = {}
    for world in np.flatnonzero(is_cell | is_pose | is_slot.any(axis=1)):
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
        texts[int(world)] = text
    return texts


def _slot_name(slot: int) -> str:
    return {0: "done", SCORE: "progress"}.get(slot, f"variable in memory slot {slot}")


def _where(worlds: WorldBatch, world: int) -> str:
    facing = "NESW"[worlds.facing[world]]
    return f"({worlds.row[world]}, {worlds.col[world]}) {facing}"


def _unrolled(memory: NDArray[np.int32]) -> NDArray[np.int32]:
    """Snake's body with its oldest cell first, as recordings have it."""
    memory = memory.copy()
    ring = slice(snake.BODY_CELLS, snake.BODY_CELLS + snake.RING)
    places = np.arange(snake.RING)[None, :]
    order = (memory[:, [snake.OLDEST]] + places) % snake.RING
    body = np.take_along_axis(memory[:, ring], order, axis=1)
    memory[:, ring] = np.where(places < memory[:, [snake.SIZE]], body, 0)
    memory[:, snake.OLDEST] = 0
    return memory


def _cells_of(places: NDArray[Any], setting: Setting) -> NDArray[np.int32]:
    rows, cols = places[:, 0].astype(np.int32), places[:, 1].astype(np.int32)
    return np.where(rows >= 0, rows * setting.width + cols, -1)


def _spawned(setting: Setting, before: WorldBatch, after: WorldBatch) -> NDArray[np.int64]:
    """The cell on which chance (Snake: its list) put a marker between two states, or -1."""
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


# Executions.


def _check_executions(recording: _Recording, texts: list[str], report: FileReport) -> None:
    arrays = recording.arrays
    limits = arrays["seg_max_func_call"]
    code = compile_programs(texts)
    wrong: list[tuple[int, str]] = []
    for limit in np.unique(limits):
        chosen = np.flatnonzero(limits == limit)
        wrong.extend(_replay(recording, code, chosen, Cap(by_calls=True, limit=int(limit))))
    report.add("executions", len(limits), wrong)


def _replay(
    recording: _Recording, code: Code, chosen: NDArray[np.intp], cap: Cap
) -> list[tuple[int, str]]:
    """Run recorded executions against their recordings; returns (execution, what is wrong)."""
    arrays = recording.arrays
    setting = replay.REPLAY.configure(size=(recording.setting.height, recording.setting.width))
    frames, actions, poses = [], [], []
    for index in chosen:
        first, length = int(arrays["seg_start"][index]), int(arrays["seg_len"][index])
        episode = int(arrays["seg_episode"][index])
        if first == arrays["ep_start"][episode]:
            init = arrays["ep_init"][episode]
            cells, pose = recording.init_cells[init], recording.init_pose[init]
        else:
            cells, pose = recording.cells[first - 1], recording.pose[first - 1]
        steps = slice(first, first + length)
        frames.append(np.concatenate([cells[None], recording.cells[steps]]))
        actions.append(arrays["action"][steps])
        poses.append(np.concatenate([[pose], recording.pose[steps]]))
    worlds = replay.recordings(setting, frames, actions, poses)
    result = advance(setting, code, worlds, arrays["seg_program"][chosen], cap=cap)
    wrong = []
    for lane, index in enumerate(chosen):
        memory, length = worlds.memory[lane], int(arrays["seg_len"][index])
        deviation = int(memory[replay.FIRST_DEVIATION])
        calls, completed = int(result.calls[lane, 0]), bool(result.completed[lane, 0])
        if deviation:
            asked = Action(int(memory[TALLY])).token
            past = deviation > length
            expected = "the end" if past else Action(int(actions[lane][deviation - 1])).token
            wrong.append((int(index), f"action {deviation - 1}: expected {expected}, got {asked}"))
        elif memory[ACTIONS] != length:
            wrong.append((int(index), f"expected {length} actions, got {memory[ACTIONS]}"))
        elif calls != arrays["seg_n_calls"][index]:
            expected = arrays["seg_n_calls"][index]
            wrong.append((int(index), f"call counter: expected {expected}, got {calls}"))
        elif completed != bool(arrays["seg_completed"][index]):
            wrong.append((int(index), f"completed: expected {not completed}, got {completed}"))
    return wrong
