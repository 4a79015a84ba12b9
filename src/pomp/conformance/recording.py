"""One file of recorded episodes, as states before and after every step.

Axes: N starts, S steps of all episodes one behind the other, E episodes.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.conformance.recall import RecordedStates
from pomp.core.errors import GoldenError
from pomp.engine.starts import empty_worlds, take_up
from pomp.karel.dynamics import COUNT, WALL
from pomp.karel.world import WorldBatch, memory_of
from pomp.tasks.task import Setting

Arrays = Mapping[str, NDArray[Any]]


def raw_worlds(setting: Setting, cells: NDArray[Any], pose: NDArray[Any]) -> WorldBatch:
    """Make B worlds with given cells and poses that the task has not taken up yet.

    Args:
        setting: the task.
        cells: `[B, H * W]` uint8.
        pose: `[B]` int32, 4 * cell + facing.
    """
    worlds = empty_worlds(setting, len(pose))
    memory_of(worlds).cells[:] = cells
    memory_of(worlds).pose[:] = pose
    return worlds


class Recording:
    """One npz file: its starts, and the states before and after each of its steps.

    Attributes:
        setting: the task.
        arrays: what the file holds, by name: `ep_...` `[E]`, `init_...` `[N, ...]`, others
            `[S, ...]`.
        episode: `[S]`, the episode of each step.
        start_of_step: `[S]`, the start of that episode.
        is_first: `[S]` bool, whether a step is the first of its episode.
        init_cells: `[N, H * W]` uint8, the cells of the starts, and `init_pose` `[N]` int32.
        cells: `[S, H * W]` uint8, the cells after each step, and `pose` `[S]` int32.
        starts: N worlds as recorded.
        begun: S worlds, the start of each step's episode as the engine takes it up.

    Raises:
        GoldenError: the arrays do not fit each other or the setting.
    """

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
        self.starts = raw_worlds(setting, self.init_cells, self.init_pose)
        begun = raw_worlds(setting, self.init_cells & np.uint8(COUNT | WALL), self.init_pose)
        self.begun = take_up(setting, begun).take(self.start_of_step)

    def _pose(self, prefix: str) -> NDArray[np.int32]:
        """Return poses as the engine has them: `[N]` for the starts, `[S]` for the steps."""
        row, col, facing = (
            self.arrays[f"{prefix}{name}"].astype(np.int32) for name in ("row", "col", "facing")
        )
        return (row * self.setting.width + col) << 2 | facing

    def before(self) -> RecordedStates:
        """Return the S states before the steps."""
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
        return RecordedStates(
            shifted(self.cells, self.init_cells),
            shifted(self.pose, self.init_pose),
            shifted(arrays["done"], none) != 0,
            self._paid() - arrays["reward"],
            shifted(arrays["reward"], none),
            metas,
        )

    def after(self) -> RecordedStates:
        """Return the S states after the steps."""
        arrays = self.arrays
        metas = {
            name.removeprefix("meta_"): arrays[name] for name in arrays if name.startswith("meta_")
        }
        done, reward = arrays["done"] != 0, arrays["reward"]
        return RecordedStates(self.cells, self.pose, done, self._paid(), reward, metas)

    def _paid(self) -> NDArray[np.float64]:
        """Return the sum of rewards in the episode up to each step: `[S]` float64."""
        total = np.cumsum(self.arrays["reward"])
        first = np.flatnonzero(self.is_first)
        base = np.concatenate([[0.0], total])[first]
        counts = np.diff(np.append(first, len(total)))
        return total - np.repeat(base, counts)
