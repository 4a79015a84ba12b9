"""What transitions learn from shown choices, before PPO begins.

A network learns to choose as was shown, and to expect what was earned from there on. The axes are E
members, N situations that were shown, M of those in a gradient step, and S parameters of a member.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from pomp.core.errors import TrainingError
from pomp.core.graphs import exact
from pomp.core.streams import draw_units
from pomp.learning.adam import AdamSettings, AdamState, Gradients, adam_step, correct_bias
from pomp.learning.config import TeachingConfig
from pomp.learning.ppo import Learner
from pomp.machine.teaching import ShownChoices


class Teaching:
    """The members of an ensemble while they are taught.

    Attributes:
        taken: gradient steps so far.
    """

    def __init__(
        self,
        learner: Learner,
        lessons: Sequence[ShownChoices],
        modes: Sequence[int],
        config: TeachingConfig,
        streams: NDArray[np.uint64],
    ) -> None:
        """Prepare the first gradient step.

        Args:
            learner: whose parameters are changed.
            lessons: those of each member.
            modes: how many each member has, which is also the number of the choice to end.
            config: how they are learned.
            streams: `[E]` uint64, from which mini-batches are drawn; written.
        """
        self._learner, self._config, self._streams = learner, config, streams
        self.taken = 0
        parameters = learner.parameters.detach()
        device = self._device = parameters.device
        self._state = AdamState(
            parameters, torch.zeros_like(parameters), torch.zeros_like(parameters)
        )
        self._adam = AdamSettings.of(learner.config.gradient_norm, np.float32)
        self._rates = torch.full((len(lessons),), config.learning_rate, device=device)
        self._counts = np.array([len(one.modes) for one in lessons])
        pairs = zip(lessons, modes, strict=True)
        self._ends = [np.flatnonzero(one.choices == count) for one, count in pairs]
        self._lessons = [[torch.from_numpy(part).to(device) for part in one] for one in lessons]

    @property
    def is_over(self) -> bool:
        """Whether all gradient steps are taken."""
        return self.taken >= self._config.steps

    def advance(self, steps: int) -> None:
        """Take some gradient steps, no more than are left.

        Raises:
            TrainingError: a parameter is not a number any more.
        """
        with exact(self._device):
            for _ in range(min(steps, self._config.steps - self.taken)):
                self._step()
        if not bool(torch.isfinite(self._state.parameters).all()):
            raise TrainingError(
                f"parameters are no numbers after {self.taken} steps of teaching; try a smaller "
                f"teaching.learning_rate than {self._config.learning_rate:g}"
            )

    def _step(self) -> None:
        config = self._config
        rows = torch.from_numpy(self._draw_rows()).to(self._device)
        drawn = [[part[own] for part in one] for one, own in zip(self._lessons, rows, strict=True)]
        planes, modes, choices, returns = (
            torch.stack(column) for column in zip(*drawn, strict=True)
        )
        logits, values = self._learner.network(self._learner.parameters, planes, modes)
        losses = functional.cross_entropy(logits.flatten(0, 1), choices.flatten(), reduction="none")
        errors = (values - returns).square().flatten()
        loss = (losses + config.value_weight * errors).sum() / config.batch
        (gradients,) = torch.autograd.grad(loss, self._learner.parameters)
        given = Gradients(gradients, gradients.norm(dim=1), self._rates)
        decay = 1.0 - self.taken / config.steps
        self.taken += 1
        correction = correct_bias(self.taken, self._learner.config.adam_epsilon, decay)
        numbers = torch.tensor(correction, dtype=torch.float32, device=self._device)
        adam_step(numbers, self._adam, self._state, given)

    def _draw_rows(self) -> NDArray[np.int64]:
        """Draw the situations of the next gradient step: `[E, M]`, some of them ends."""
        draws = draw_units(self._streams, self._config.batch).T
        rows = (draws * self._counts[:, None]).astype(np.int64)
        count = round(self._config.end_share * self._config.batch)
        for own, numbers, ends in zip(rows, draws, self._ends, strict=True):
            if len(ends):
                own[:count] = ends[(numbers[:count] * len(ends)).astype(np.int64)]
        return rows
