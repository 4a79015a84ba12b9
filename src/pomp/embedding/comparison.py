"""Agreement: how far two programs behave alike from the same start states.

Axes: P programs, D start states of each, H W grid.
"""

import numpy as np
from numpy.typing import NDArray

from pomp.core.compiling import kernel, launch, parts_for, pieces_for, scalar
from pomp.core.errors import ConfigError
from pomp.dsl.bytecode import Code
from pomp.embedding.demonstrations import (
    LEAST_PROGRAMS,
    Demonstrations,
    make_recording,
    make_scratch,
    record_action,
)
from pomp.engine.units import DEFAULT_CAP
from pomp.karel.dynamics import act
from pomp.karel.interpreter import Cap, WorldState, refuses_nothing, run_program, sees_nothing
from pomp.tasks.random_world import step
from pomp.tasks.task import Setting


def agreement(
    originals: Code,
    others: Code,
    starts: Demonstrations,
    setting: Setting,
    *,
    cap: Cap | str = DEFAULT_CAP,
    threads: int | None = None,
) -> NDArray[np.float64]:
    """Measure how far each other program behaves like the original from the same starts.

    Two runs with p and q states whose first c are the same agree by (c - 1) / (max(p, q) - 1), or
    fully if neither acts.

    Args:
        originals: P programs.
        others: P programs; where one is none, the agreement is zero.
        starts: their start states; the actions in it are not used.
        setting: the random worlds.
        cap: how long a program may run.
        threads: CPU threads; None: all.

    Returns:
        `[P]` float64, the mean over the starts that were found; zero if there are none.
    """
    if not len(originals) == len(others) == len(starts.found):
        raise ConfigError("agreement needs as many originals as others and starts")
    cap = Cap.of(cap)
    result = np.zeros(len(originals), np.float64)
    parts = parts_for(len(originals), threads, least=LEAST_PROGRAMS)
    pieces = pieces_for(parts, 2 * starts.length.size * cap.limit)

    def compare_piece(piece: int) -> None:
        one, two = (make_recording(cap, code, False) for code in (originals, others))
        scratch = make_scratch(setting, originals if originals.depth > others.depth else others)
        _compare(
            piece, pieces, originals.instructions, others.instructions, others.valid,
            setting.constants, cap, starts, one, two, scratch, result,
        )  # fmt: skip

    if len(result):
        launch(parts, compare_piece, pieces)
    return result


@scalar
def _perform(cells, other, constants, pose, action, differing):
    """Perform an action in one of two worlds; return the pose and how many cells differ now.

    Args:
        cells: `[H * W]` uint8, the world, written.
        other: `[H * W]` uint8, the other world.
        constants: `[F]` int64, the constants of the worlds.
        pose: the agent's pose.
        action: the action.
        differing: how many cells differ before.
    """
    cell = pose >> 2  # the only one an action can change
    differing -= cells[cell] != other[cell]
    pose = act(cells, constants, pose, np.int64(action))
    return pose, differing + (cells[cell] != other[cell])


@scalar
def _same_states(constants, cells, other, pose, one, two):
    """Return how many states two runs from one start share before they first differ.

    Args:
        constants: `[F]` int64, the constants of the worlds.
        cells: `[H * W]` uint8, the start state, written.
        other: `[H * W]` uint8, the start state once more, written.
        pose: the agent's pose at the start.
        one: the first run's `RunRecording`.
        two: the second run's `RunRecording`.
    """
    pose_one, pose_two, differing = pose, pose, 0
    shared = 1
    for t in range(min(one.length[0], two.length[0])):
        pose_one, differing = _perform(cells, other, constants, pose_one, one.actions[t], differing)
        pose_two, differing = _perform(other, cells, constants, pose_two, two.actions[t], differing)
        if differing != 0 or pose_one != pose_two:
            break
        shared += 1
    return shared


@kernel
def _compare(
    part, parts, originals, others, is_program, constants, cap, starts, one, two, scratch, result
):
    """Compare the programs `part`, `part + parts`, ..., as `agreement` says.

    Args:
        part: the first program.
        parts: how many parts the programs are divided into.
        originals: `[P, L]` uint32, the original programs.
        others: `[P, L]` uint32, the other programs.
        is_program: `[P]` bool, whether the other is a program.
        constants: `[F]` int64, the constants of the random worlds.
        cap: `Cap`, how long a program may run.
        starts: `Demonstrations`, of which the start states are used.
        one: `RunRecording`, scratch of the original's run.
        two: `RunRecording`, scratch of the other's run.
        scratch: `RunScratch`.
        result: `[P]` float64, written.
    """
    cells, memory, other = scratch.cells, scratch.memory, scratch.other
    for p in range(part, len(result), parts):
        if not is_program[p] or starts.found[p] == 0:
            continue
        total = 0.0
        for k in range(starts.found[p]):
            pose = np.int64(starts.pose[p, k])
            for which in range(2):
                recording = one if which == 0 else two
                code = originals if which == 0 else others
                recording.length[0] = 0
                for cell in range(len(other)):
                    cells[0, cell] = starts.cells[p, k, cell]
                run_program(
                    step, refuses_nothing, record_action, sees_nothing, recording, code[p],
                    cap, constants,
                    WorldState(cells[0], pose, memory[0], scratch.stream), scratch.counters,
                )  # fmt: skip
            for cell in range(len(other)):
                cells[0, cell] = starts.cells[p, k, cell]
                other[cell] = starts.cells[p, k, cell]
            longest = max(one.length[0], two.length[0])
            shared = _same_states(constants, cells[0], other, pose, one, two)
            total += (shared - 1) / longest if longest else 1.0
        result[p] = total / starts.found[p]
