"""Episodes of an ensemble: the rollouts it learns from, and those that validate it.

The axes are E members, A actors (worlds) of each, T macro steps of a rollout, and S parameters of a
member. On a GPU each kind of work is captured as a CUDA graph, once.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pomp.core.cuda import fill, to_host
from pomp.core.graphs import Replayed, exact
from pomp.core.streams import draw_units
from pomp.engine.rollouts import check_worlds
from pomp.karel.world import WorldBatch
from pomp.learning.checkpoint import check_modes
from pomp.learning.config import PpoConfig
from pomp.learning.ppo import (
    Network,
    RolloutBatch,
    estimate_advantages,
    normalise_advantages,
    select_log_probs,
)
from pomp.machine.network import choose
from pomp.machine.views import Views

_AHEAD = 64  # macro steps of a validation whose random numbers are drawn at once
_WORLDS, _EPISODES = ("cells", "pose", "memory", "stream"), ("mode", "taken")  # of a checkpoint


class EpisodeOutcomes(NamedTuple):
    """What became of the episodes at each macro step of a rollout.

    Attributes:
        returns: `[E, T, A]` float64, the return of the episode up to the step.
        ending: `[E, T, A]` uint8, how the step ended the episode, as in `Episodes`; 0: not.
    """

    returns: NDArray[np.float64]
    ending: NDArray[np.uint8]


class Rollouts:
    """Collects rollouts; episodes go on from one to the next, and begin anew where they end."""

    def __init__(
        self,
        config: PpoConfig,
        network: Network,
        parameters: Tensor,
        views: Views,
        streams: NDArray[np.uint64],
    ) -> None:
        """Prepare the first rollout.

        Args:
            config: settings of PPO.
            network: computes logits and values.
            parameters: `[E, S]` float32, read at every rollout.
            views: the episodes.
            streams: `[E * A]` uint64, from which choices are drawn.
        """
        self._config, self._network, self._parameters = config, network, parameters
        self._views, self._streams = views, streams
        self._run = Replayed(self._run_steps, views.changed, parameters.device)

    def collect(self) -> tuple[RolloutBatch, EpisodeOutcomes]:
        """Play the macro steps of one rollout, which on a GPU overwrites the one before."""
        shape = (self._config.steps, self._views.members, self._views.actors)
        device = self._parameters.device
        draws = torch.from_numpy(draw_units(self._streams, self._config.steps)).to(device)
        with exact(device):
            parts, returns, ending = self._run(draws.view(shape))
        return RolloutBatch(*parts), EpisodeOutcomes(returns.cpu().numpy(), ending.cpu().numpy())

    @torch.no_grad()
    def _run_steps(self, draws: Tensor) -> tuple[list[Tensor], Tensor, Tensor]:
        """Play a rollout with random numbers from 0 to 1, `draws`: `[T, E, A]` float64.

        Returns:
            The fields of a `RolloutBatch`, `[E, T * A, ...]`, and those of `EpisodeOutcomes`,
            `[E, T, A]`.
        """
        config, parameters, views = self._config, self._parameters, self._views
        rows: list[tuple[Tensor, ...]] = []
        for numbers in draws:
            observations, modes = views.look().clone(), views.mode().clone()
            logits, values = self._network(parameters, observations, modes)
            choices = choose(logits, numbers)
            log_probs = select_log_probs(torch.log_softmax(logits, dim=-1), choices)
            views.take(choices)
            outcome = (views.gather(name) for name in ("rewards", "ending", "returns"))
            rows.append((observations, modes, choices, log_probs, values, *outcome))
        *seen, values, rewards, ending, returns = (
            torch.stack(column, dim=1) for column in zip(*rows, strict=True)
        )
        _, last_values = self._network(parameters, views.look(), views.mode())
        rewards = (rewards - config.step_cost).to(values.dtype)
        advantages = estimate_advantages(
            rewards, values, ending != 0, last_values, config.discount, config.gae_lambda
        )
        whole = [*seen, values, advantages, advantages + values]
        *parts, advantages, targets = (part.flatten(1, 2) for part in whole)
        return [*parts, normalise_advantages(advantages), targets], returns, ending

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return what a checkpoint keeps: streams and states of the worlds, `[E * A, ...]`."""
        arrays: dict[str, NDArray[Any]] = {"choices": self._streams}
        for number, batch in enumerate(self._views.batches):
            state = zip(_WORLDS, batch.worlds.to("cpu").arrays, strict=True)
            arrays |= {f"worlds{number}.{name}": np.array(array) for name, array in state}
            arrays |= {
                f"episodes{number}.{name}": np.array(to_host(getattr(batch, name)))
                for name in _EPISODES
            }
        return arrays

    def check(self, arrays: dict[str, NDArray[Any]], counts: NDArray[np.integer]) -> None:
        """Refuse states of worlds and episodes that could not be.

        Args:
            arrays: those of a checkpoint, `[E * A, ...]` each, of the right types and shapes.
            counts: `[E * A]` integers, how many modes there are in each world.

        Raises:
            DataFileError: an episode is in no state of this training.
            ConfigError: a world is in no state of its task.
        """
        first = 0
        for number, batch in enumerate(self._views.batches):
            setting, last = batch.setting, first + len(batch)
            state = [arrays[f"worlds{number}.{name}"] for name in _WORLDS]
            task, size = setting.task.name, (setting.height, setting.width)
            check_worlds(setting, WorldBatch(task, *size, *state))
            mode, taken = (arrays[f"episodes{number}.{name}"] for name in _EPISODES)
            most = batch.config.most_steps * setting.scale
            check_modes(mode, taken, counts[first:last], most)
            first = last

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Go on from a checkpoint: `arrays`, `[E * A, ...]` each, that `to_arrays` gave."""
        self._streams = np.array(arrays["choices"])
        for number, batch in enumerate(self._views.batches):
            for name, array in zip(_WORLDS, batch.worlds.arrays, strict=True):
                fill(array, arrays[f"worlds{number}.{name}"])
            for name in _EPISODES:
                fill(getattr(batch, name), arrays[f"episodes{number}.{name}"])


class ValidationEpisodes:
    """Plays fresh episodes to their ends, with drawn choices.

    Attributes:
        views: the episodes; those of the last validation until the next.
    """

    def __init__(self, network: Network, parameters: Tensor, views: Views) -> None:
        """Prepare the first validation.

        Args:
            network: computes logits and values.
            parameters: `[E, S]` float32, read at every validation.
            views: the episodes, which do not begin anew where they end.
        """
        self.views = views
        self._network, self._parameters = network, parameters
        self._run = Replayed(self._run_steps, views.changed, parameters.device)

    def play(self, starts: NDArray[np.uint64], choices: NDArray[np.uint64]) -> None:
        """Begin all episodes again and play them to their ends.

        Args:
            starts: `[E * A]` uint64, streams from which the starts are drawn.
            choices: `[E * A]` uint64, streams from which choices are drawn; written.
        """
        first, device = 0, self._parameters.device
        for batch in self.views.batches:
            batch.restart(starts[first : first + len(batch)])
            first += len(batch)
        while not bool(self.views.gather("ending").all()):
            draws = torch.from_numpy(draw_units(choices, _AHEAD)).to(device)
            with exact(device):
                self._run(draws.view(_AHEAD, self.views.members, self.views.actors))

    @torch.no_grad()
    def _run_steps(self, draws: Tensor) -> None:
        """Take macro steps with random numbers from 0 to 1, `draws`: `[steps, E, A]` float64."""
        for numbers in draws:
            logits, _ = self._network(self._parameters, self.views.look(), self.views.mode())
            self.views.take(choose(logits, numbers))
