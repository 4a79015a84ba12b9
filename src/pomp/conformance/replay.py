"""A world that plays back a recording: the program must ask for the recorded actions.

A lane's cells are the frames of the recording one behind the other, so a pose points into the
current frame. The interpreter sees the recorded states and nothing else; chance plays no part.

Arrays of one lane: `cells` `[(T + 1) * H * W]` uint8, read; `constants` int64 `[...]`, those of the
setting, read; `memory` `[FIRST_STEP + 2 * T]` int32, written: the recorded actions and poses, and
the first deviation from them.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pomp.core.compiling import scalar
from pomp.engine.checks import check_places
from pomp.engine.starts import empty_worlds
from pomp.karel.dynamics import ACTIONS, FIRST_CONSTANT, FIRST_SLOT, SCORE, TALLY, UNIT
from pomp.karel.world import WorldBatch, Worlds
from pomp.tasks import layouts
from pomp.tasks.task import Constants, Setting, Task

LENGTH, FIRST_STEP = FIRST_SLOT, FIRST_SLOT + 1  # a step is two slots: its action, its pose after
FIRST_DEVIATION = SCORE  # 1 + the first step at which another action was asked for; 0: none
FRAME = FIRST_CONSTANT


@scalar
def draw_start(cells, constants, memory, stream):
    """Draw nothing: recordings are given."""
    return 0


@scalar
def begin_replay(cells, constants, pose, memory):
    """Accept any world: recordings are given."""
    memory[UNIT] = 1
    return True


@scalar
def step(cells, constants, pose, memory, stream, action):
    """Go on to the next frame if this is the recorded action, else note the deviation and stay."""
    place = memory[ACTIONS] - 1
    slot = FIRST_STEP + 2 * place
    if memory[FIRST_DEVIATION] or place >= memory[LENGTH] or action != memory[slot]:
        if not memory[FIRST_DEVIATION]:
            memory[FIRST_DEVIATION] = place + 1
            memory[TALLY] = action
        return pose
    return memory[slot + 1] + ((place + 1) * constants[FRAME] << 2)


def _constants(setting: Setting) -> Constants:
    """A frame's size is all that `step` needs."""
    return Constants(own=(setting.height * setting.width,))


REPLAY = Task(
    name="Replay",
    suite="Data",
    summary="no task: plays back a recording",
    size=(8, 8),
    ceiling=lambda setting: None,
    draw_start=draw_start,
    begin=begin_replay,
    step=step,
    needs="a recording",
    constants=_constants,
    wrong_size=layouts.any_size,
    too_many="recordings are given",
)


def recordings(
    setting: Setting, frames: list[NDArray[np.uint8]], actions: list[NDArray[np.integer]],
    poses: list[NDArray[np.integer]],
) -> WorldBatch:  # fmt: skip
    """Make worlds that play back recordings, one lane for each.

    Args:
        setting: of `REPLAY`, in the recordings' size.
        frames: `[T + 1, H * W]` each, the cells before the first action and after every one.
        actions: `[T]` each, the recorded actions.
        poses: `[T + 1]` each, the poses before the first action and after every one.
    """
    longest = max((len(steps) for steps in actions), default=0)
    size = setting.height * setting.width
    slots = FIRST_STEP + 2 * longest
    lanes = len(frames)
    worlds = Worlds(
        np.zeros((lanes, (longest + 1) * size), np.uint8), np.zeros(lanes, np.int32),
        np.zeros((lanes, slots), np.int32), np.zeros(lanes, np.uint64),
    )  # fmt: skip
    kind = (setting.task.name, setting.height, setting.width)
    for lane, (cells, steps, places) in enumerate(zip(frames, actions, poses, strict=True)):
        shown = empty_worlds(setting, len(cells))
        check_places(
            replace(shown, cells=np.asarray(cells, np.uint8), pose=np.asarray(places, np.int32))
        )
        worlds.cells[lane, : cells.size] = cells.ravel()
        worlds.pose[lane] = places[0]
        worlds.memory[lane, LENGTH] = len(steps)
        worlds.memory[lane, UNIT] = 1
        worlds.memory[lane, FIRST_STEP : FIRST_STEP + 2 * len(steps) : 2] = steps
        worlds.memory[lane, FIRST_STEP + 1 : FIRST_STEP + 2 * len(steps) : 2] = places[1:]
    return WorldBatch.holding(*kind, worlds, checked_for=setting.task)
