"""The effects of programs as vectors: which markers they move, where they leave the agent."""

import numpy as np
from numpy.typing import NDArray

from pomp.engine.rollouts import rollout
from pomp.karel.world import WorldBatch
from pomp.tasks.task import Setting


def behaviour_vectors(
    setting: Setting, ids: NDArray[np.uint8], starts: WorldBatch, cap: str
) -> NDArray[np.float32]:
    """Execute programs once and describe what they changed.

    Two programs that do the same have the same vector; one that does nothing still has the agent
    where it was.

    Args:
        setting: the task.
        ids: `[P, L]` uint8, the programs' token ids.
        starts: B start states.
        cap: how long one execution may last, as `ScoreConfig.cap`.

    Returns:
        `[P, B * 2 * H * W]` float32: for every start and cell the change of its marker count, and
        then for every cell whether the agent is there.
    """
    after = rollout(setting, ids, starts, cap=cap, keep_worlds=True).worlds
    assert after is not None
    before, after = starts.to("cpu").markers.astype(np.float32), after.to("cpu")
    count, (worlds, cells) = len(ids), before.shape
    changes = after.markers.astype(np.float32).reshape(count, worlds, cells)
    changes -= before
    places = np.zeros((count * worlds, cells), np.float32)
    places[np.arange(count * worlds), after.cell] = 1.0
    vectors = np.concatenate([changes, places.reshape(changes.shape)], axis=2)
    return vectors.reshape(count, -1)
