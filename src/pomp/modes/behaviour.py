"""What programs do, as vectors: which markers they move, and where they leave the agent."""

import numpy as np
from numpy.typing import NDArray

from pomp.core.cuda import to_host
from pomp.engine.rollout import rollout
from pomp.karel.dynamics import COUNT
from pomp.karel.world import WorldBatch
from pomp.tasks.task import Setting


def behaviour_vectors(
    setting: Setting, ids: NDArray[np.uint8], starts: WorldBatch, cap: str
) -> NDArray[np.float32]:
    """`[P, Z]`: for every start and cell the change of its markers, and whether the agent is there.

    Programs are executed once. Two that do the same have the same vector; one that does nothing
    still has the agent where it was.
    """
    after = rollout(setting, ids, starts, cap=cap, keep_worlds=True).worlds
    assert after is not None
    before = (to_host(starts.cells) & COUNT).astype(np.float32)
    count, (worlds, cells) = len(ids), before.shape
    changes = (to_host(after.cells) & COUNT).astype(np.float32).reshape(count, worlds, cells)
    changes -= before
    places = np.zeros((count * worlds, cells), np.float32)
    places[np.arange(count * worlds), to_host(after.pose) >> 2] = 1.0
    vectors = np.concatenate([changes, places.reshape(changes.shape)], axis=2)
    return vectors.reshape(count, -1)
