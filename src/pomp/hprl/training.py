"""The training of meta-policies: many tasks and seeds together, update by update.

All of `pomp.learning.training` but for what a policy is: the axes are E members, A actors (worlds)
of each, and S parameters of a member.
"""

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pomp.core.streams import Purpose
from pomp.embedding.space import Embedding
from pomp.hprl.config import HprlConfig
from pomp.hprl.episodes import LatentViews, ProgramEpisodes, load_space
from pomp.hprl.network import MetaNetwork, MetaShape
from pomp.hprl.policy import MetaPolicy
from pomp.hprl.rollouts import LatentRollouts, LatentValidation, MetaLearner
from pomp.karel.world import WorldBatch
from pomp.learning.members import WEIGHTS, Member
from pomp.learning.training import Training
from pomp.tasks.task import Setting


def meta_member(setting: Setting, seed: int, config: HprlConfig) -> Member:
    """Return a member of a training that learns one task with one seed; it has no modes."""
    return Member(setting, (), seed, config.ppo.learning_rate)


class MetaTraining(Training):
    """Meta-policies in training, of which the best is kept even if it earns less than nothing.

    Attributes:
        config: settings of HPRL.
        embedding: the space of programs.
    """

    least_score = -inf
    has_teacher = False
    config: Any
    shape: MetaShape
    rollouts: LatentRollouts

    def __init__(
        self,
        members: Sequence[Member],
        config: HprlConfig,
        device: str,
        embedding: Embedding | None = None,
    ) -> None:
        """Draw first weights and starts.

        Args:
            members: tasks and seeds, those of a task side by side, with grids of one size.
            config: settings of HPRL.
            device: cpu or cuda.
            embedding: the one that the settings name, if it is loaded already.

        Raises:
            ConfigError: the members' grids differ in size, or the embedding does not fit.
        """
        self.embedding = embedding or load_space(config.policy.embedding, device)
        setting = members[0].setting
        self._shape = MetaShape(
            setting.height, setting.width, self.embedding.latent, config.policy.hidden
        )
        self._network = MetaNetwork(self._shape, config.policy.programs)
        super().__init__(members, config, device)  # type: ignore[arg-type]  # it has ppo, validation

    def _make_shape(self) -> MetaShape:
        return self._shape

    def _make_learner(self, parameters: Tensor, rates: Tensor) -> MetaLearner:
        """Return what learns, given the first `parameters` `[E, S]` and learning `rates` `[E]`."""
        return MetaLearner(self.config.ppo, self._network, parameters, rates)

    def _make_rollouts(self, views: Any, choices: NDArray[np.uint64]) -> LatentRollouts:
        """Return what plays, given its episodes and the streams of `choices`, `[E * A]` uint64."""
        parameters = self.learner.parameters
        return LatentRollouts(self.config, self._network, parameters, views, choices)

    def _make_validation(self, views: Any) -> LatentValidation:
        return LatentValidation(self._network, self.learner.parameters, views)

    def _spent(self, index: int) -> dict[str, int]:
        """Return how many programs ran in a member's rollouts, and their actions."""
        executions, taken = self.rollouts.spent[index].tolist()
        return {"executions": executions, "actions_taken": taken}

    @property
    def _memory(self) -> int:
        return 0  # rollouts and networks of their own remember

    @property
    def _rows(self) -> int:
        actors: int = self.config.ppo.actors
        return actors

    def _first_weights(self, member: Member) -> dict[str, NDArray[np.float32]]:
        """Draw a member's first weights, by name; `[outputs, ...]` each."""
        return self._shape.draw(member.streams(Purpose.TRAINING, WEIGHTS, worlds=1)[0])

    def _make_episodes(
        self, members: Sequence[Member], worlds: WorldBatch, *, restarts: bool
    ) -> ProgramEpisodes:
        setting, config = members[0].setting, self.config.policy
        return ProgramEpisodes(setting, worlds, config, restarts=restarts)

    def _make_views(self, batches: Sequence[ProgramEpisodes]) -> LatentViews:
        return LatentViews(batches, len(self.members), self.embedding, self.config.policy)

    def policy(self, index: int, provenance: dict[str, Any]) -> MetaPolicy:
        """Return a member's best policy; if none was good enough, the latest.

        Args:
            index: the member's number.
            provenance: what the policy will say about where it comes from.
        """
        setting, parameters = self.members[index].setting, self.kept[index].parameters
        if parameters is None:
            parameters = self.learner.parameters[index].detach().cpu().numpy()
        return MetaPolicy(
            setting=setting,
            config=self.config.policy,
            latent=self.embedding.latent,
            space=self.embedding.digest,
            arrays=self._shape.unpack(parameters),
            provenance=provenance,
        )
