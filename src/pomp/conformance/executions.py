"""Recorded program executions: action sequence, call counter, completion."""

import numpy as np
from numpy.typing import NDArray

from pomp.conformance import replay
from pomp.conformance.recording import Recording
from pomp.conformance.report import FileReport
from pomp.dsl.bytecode import Code, compile_programs
from pomp.dsl.vocabulary import Action
from pomp.engine.rollouts import advance
from pomp.karel.dynamics import ACTIONS, TALLY
from pomp.karel.interpreter import Cap


def check_executions(recording: Recording, texts: list[str], report: FileReport) -> None:
    """Replay every execution of a recording under the budget it had.

    Args:
        recording: the file.
        texts: the programs that it refers to by number.
        report: what is wrong is added to it.
    """
    arrays = recording.arrays
    limits = arrays["seg_max_func_call"]
    code = compile_programs(texts)
    wrong: list[tuple[int, str]] = []
    for limit in np.unique(limits):
        chosen = np.flatnonzero(limits == limit)
        wrong.extend(_replay(recording, code, chosen, Cap(by_calls=True, limit=int(limit))))
    report.add("executions", len(limits), wrong)


def _replay(
    recording: Recording, code: Code, chosen: NDArray[np.intp], cap: Cap
) -> list[tuple[int, str]]:
    """Run recorded executions against their recordings.

    Args:
        recording: the file.
        code: the programs that it refers to by number.
        chosen: `[N]`, which executions.
        cap: the budget they had.

    Returns:
        The executions that differ, and what is wrong with each.
    """
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
