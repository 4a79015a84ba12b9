"""What transitions learn from shown choices, before PPO begins.

A network learns to choose as was shown, and to expect what was earned from there on. What is shown
next begins with what it would choose by then. The axes are E members, N situations that were shown,
M of those in a gradient step, R that a member chooses in, and S parameters of a member.
"""

from collections.abc import Callable, Sequence

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
from pomp.machine.network import Ensemble, choose
from pomp.machine.teaching import ShownChoices


class Teaching:
    """The members of an ensemble while they are taught, round by round.

    Attributes:
        taken: gradient steps so far.
        episodes: from how many episodes each member was shown choices.
    """

    def __init__(
        self,
        learner: Learner,
        networks: Sequence[Ensemble],
        config: TeachingConfig,
        streams: NDArray[np.uint64],
    ) -> None:
        """Prepare the first round.

        Args:
            learner: whose parameters are changed.
            networks: those of the members, each alone.
            config: how they are taught.
            streams: `[E]` uint64, from which mini-batches and choices are drawn; written.
        """
        self._learner, self._networks = learner, networks
        self._config, self._streams = config, streams
        self.taken, self.episodes = 0, [0] * len(networks)
        self._shown: list[list[ShownChoices]] = [[] for _ in networks]
        parameters = learner.parameters.detach()
        device = self._device = parameters.device
        self._state = AdamState(
            parameters, torch.zeros_like(parameters), torch.zeros_like(parameters)
        )
        self._adam = AdamSettings.of(learner.config.gradient_norm, np.float32)
        self._rates = torch.full((len(networks),), config.learning_rate, device=device)

    @property
    def is_over(self) -> bool:
        """Whether all gradient steps are taken."""
        return self.taken >= self._config.steps

    @property
    def waiting(self) -> int | None:
        """The number of a member to whom nothing was shown in this round; None: there is none."""
        rounds = self.taken * self._config.rounds // self._config.steps + 1
        lacking = (number for number, own in enumerate(self._shown) if len(own) < rounds)
        return None if self.is_over else next(lacking, None)

    def show(self, number: int, choices: ShownChoices) -> None:
        """Show choices to a member."""
        self._shown[number].append(choices)
        self.episodes[number] += choices.episodes

    def leader(
        self, number: int
    ) -> Callable[[NDArray[np.uint8], NDArray[np.int64]], NDArray[np.int64]] | None:
        """Return what chooses as a member would by now; None in the first round.

        It takes planes, `[R, 8, H, W]` uint8, and last modes, `[R]` int64, and returns numbers of
        modes, `[R]` int64; that of modes stands for the end.
        """
        if not self._shown[number]:
            return None
        network, stream = self._networks[number], self._streams[number : number + 1]

        @torch.no_grad()
        def lead(planes: NDArray[np.uint8], modes: NDArray[np.int64]) -> NDArray[np.int64]:
            seen = (torch.from_numpy(part)[None].to(self._device) for part in (planes, modes))
            draws = torch.from_numpy(draw_units(stream, len(modes))[:, 0]).to(self._device)
            with exact(self._device):
                logits, _ = network(self._learner.parameters[number : number + 1], *seen)
                return choose(logits[0], draws).cpu().numpy()

        return lead

    def advance(self, steps: int) -> None:
        """Take some gradient steps, no more than are left of the round.

        Raises:
            TrainingError: a parameter is not a number any more.
        """
        with exact(self._device):
            while steps and self.waiting is None and not self.is_over:
                self._step()
                steps -= 1
        if not bool(torch.isfinite(self._state.parameters).all()):
            raise TrainingError(
                f"parameters are no numbers after {self.taken} steps of teaching; try a smaller "
                f"teaching.learning_rate than {self._config.learning_rate:g}"
            )

    def _step(self) -> None:
        config, batch = self._config, self._draw()
        parts = (torch.from_numpy(part).to(self._device) for part in batch)
        planes, modes, choices, returns = parts
        logits, values = self._learner.network(self._learner.parameters, planes, modes)
        losses = functional.cross_entropy(logits.flatten(0, 1), choices.flatten(), reduction="none")
        errors = (values / self._learner.config.reward_scale - returns).square().flatten()
        loss = (losses + config.value_weight * errors).sum() / config.batch
        (gradients,) = torch.autograd.grad(loss, self._learner.parameters)
        given = Gradients(gradients, gradients.norm(dim=1), self._rates)
        decay = 1.0 - self.taken / config.steps
        self.taken += 1
        correction = correct_bias(self.taken, self._learner.config.adam_epsilon, decay)
        numbers = torch.tensor(correction, dtype=torch.float32, device=self._device)
        adam_step(numbers, self._adam, self._state, given)

    def _draw(self) -> list[NDArray[np.generic]]:
        """Draw what the next gradient step learns from: `[E, M, ...]` each."""
        draws = draw_units(self._streams, self._config.batch).T
        drawn = [_pick(own, numbers) for own, numbers in zip(self._shown, draws, strict=True)]
        return [np.stack(column) for column in zip(*drawn, strict=True)]


def _pick(parts: list[ShownChoices], draws: NDArray[np.float64]) -> ShownChoices:
    """Return some of the choices in all parts, by random numbers from 0 to 1, `[M]` float64."""
    edges = np.cumsum([len(part.modes) for part in parts])
    rows = np.sort((draws * edges[-1]).astype(np.int64))
    cuts = np.split(rows, np.searchsorted(rows, edges[:-1]))
    firsts = edges - [len(part.modes) for part in parts]
    every = zip(parts, cuts, firsts, strict=True)
    return ShownChoices.join(
        [ShownChoices(*(array[own - first] for array in part)) for part, own, first in every]
    )
