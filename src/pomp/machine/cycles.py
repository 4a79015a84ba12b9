"""Episodes that provably never end: what they are at before a step, they were at before."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.karel.world import PAY_SLOTS
from pomp.machine.episodes import Episodes
from pomp.tasks.catalog import is_shipped


class Cycles:
    """Finds episodes whose world, mode and idleness come back, by Brent's algorithm.

    What such an episode does next it has done before, so it goes on forever. Actions and tally are
    left out of the comparison: in the tasks of the package they decide what is paid alone. For a
    task of your own they are compared, too.
    """

    def __init__(self, running: Episodes) -> None:
        self._running, self._step, self._next = running, 0, 1
        slots = running.worlds.arrays.memory.shape[1]
        blind = PAY_SLOTS if is_shipped(running.setting.task) else ()
        self._slots = [slot for slot in range(slots) if slot not in blind]
        self._saved = self._state()

    def _state(self) -> tuple[NDArray[Any], ...]:
        running, (cells, pose, memory, stream) = self._running, self._running.worlds.arrays
        return tuple(
            np.array(part)
            for part in (running.mode, running.idle, pose, stream, memory[:, self._slots], cells)
        )

    def find(self) -> NDArray[np.bool_]:
        """Return which episodes, `[N]` bool, are where they were; call it before every step."""
        running, (cells, pose, memory, stream) = self._running, self._running.worlds.arrays
        mode, idle, old_pose, old_stream, old_memory, old_cells = self._saved
        same = (running.ending == 0) & (running.mode == mode) & (running.idle == idle)
        same &= (pose == old_pose) & (stream == old_stream) & (self._step > 0)
        where = np.flatnonzero(same)
        if len(where):
            alike = (memory[where][:, self._slots] == old_memory[where]).all(axis=1)
            same[where] = alike & (cells[where] == old_cells[where]).all(axis=1)
        if self._step == self._next:
            self._saved, self._next = self._state(), 2 * self._next
        self._step += 1
        return same
