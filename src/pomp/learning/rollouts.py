"""Episodes of an ensemble: the rollouts it learns from, and those that validate it.

The axes are E members, A actors (worlds) of each, T macro steps of a rollout, and S parameters of a
member. On a GPU each kind of work is captured as a CUDA graph, once.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pomp.core.arrays import check_streams
from pomp.core.cuda import to_host
from pomp.core.graphs import Replayed, exact
from pomp.core.streams import draw_units
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


class _Players:
    """Networks that play episodes, and what they remember of them.

    Attributes:
        states: `[E, A, U]` float32, alone in a list; none if the networks do not remember.
    """

    def __init__(self, network: Network, parameters: Tensor, views: Views, memory: int) -> None:
        """Begin with nothing to remember; `parameters`, `[E, S]`, are read at every step."""
        self._network, self._parameters, self._views = network, parameters, views
        shape = (views.members, views.actors, memory)
        self.states = [torch.zeros(shape, device=parameters.device)] if memory else []

    def answer(self, observations: Tensor, modes: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return logits, `[E, A, K + 1]`, values, `[E, A]`, and what is remembered then.

        Args:
            observations: `[E, A, ...]`, what is seen.
            modes: `[E, A]` int64, the last modes; where these are -1, memories are new.
        """
        if not self.states:
            return *self._network(self._parameters, observations, modes), None
        return self._network.recall(self._parameters, observations, modes, self.states[0], 1)

    def respond(self, observations: Tensor, modes: Tensor) -> tuple[Tensor, Tensor]:
        """Return `answer` to `observations`, `[E, A, ...]`, and `modes`, `[E, A]`; remember it."""
        logits, values, after = self.answer(observations, modes)
        if after is not None:
            self.states[0].copy_(after)
        return logits, values

    def changed(self) -> list[Tensor]:
        """Return what steps write to: tensors `[...]` of the episodes, and the memories."""
        return [*self._views.changed(), *self.states]


class Rollouts:
    """Collects rollouts; episodes go on from one to the next, and begin anew where they end."""

    def __init__(
        self,
        config: PpoConfig,
        network: Any,
        parameters: Tensor,
        views: Views,
        streams: NDArray[np.uint64],
        memory: int = 0,
    ) -> None:
        """Prepare the first rollout.

        Args:
            config: settings of PPO.
            network: a `Network`, or that of another kind of rollouts.
            parameters: `[E, S]` float32, read at every rollout.
            views: the episodes.
            streams: `[E * A]` uint64, from which choices are drawn.
            memory: U, how many numbers the network remembers.
        """
        self._config, self._parameters = config, parameters
        self._views, self._streams = views, streams
        self._players = _Players(network, parameters, views, memory)
        self._run = Replayed(self._run_steps, self._players.changed, parameters.device)

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
        config, views, players = self._config, self._views, self._players
        rows: list[tuple[Tensor, ...]] = []
        for numbers in draws:
            observations, modes = views.look().clone(), views.mode().clone()
            before = [states.clone() for states in players.states]
            logits, values = players.respond(observations, modes)
            choices = choose(logits, numbers)
            log_probs = select_log_probs(torch.log_softmax(logits, dim=-1), choices)
            views.take(choices)
            outcome = (views.gather(name) for name in ("rewards", "ending", "returns"))
            rows.append((observations, modes, choices, log_probs, values, *outcome, *before))
        whole = [torch.stack(column, dim=1) for column in zip(*rows, strict=True)]
        seen, (values, rewards, ending, returns, *states) = whole[:4], whole[4:]
        _, last_values, _ = players.answer(views.look(), views.mode())
        rewards = (config.reward_scale * (rewards - config.step_cost)).to(values.dtype)
        advantages = estimate_advantages(
            rewards, values, ending != 0, last_values, config.discount, config.gae_lambda
        )
        whole = [values, advantages, advantages + values, *states]
        values, advantages, *rest = (part.flatten(1, 2) for part in whole)
        parts = [*(part.flatten(1, 2) for part in seen), values]
        return [*parts, normalise_advantages(advantages), *rest], returns, ending

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return what a checkpoint keeps: streams and states of the worlds, `[E * A, ...]`."""
        arrays: dict[str, NDArray[Any]] = {"choices": self._streams}
        if self._players.states:
            arrays["states"] = np.array(self._players.states[0].cpu().numpy())
        for number, batch in enumerate(self._views.batches):
            state = zip(_WORLDS, batch.worlds.to("cpu").arrays, strict=True)
            arrays |= {f"worlds{number}.{name}": np.array(array) for name, array in state}
            arrays |= {
                f"episodes{number}.{name}": np.array(to_host(getattr(batch, name)))
                for name in _EPISODES
            }
        return arrays

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Go on from a checkpoint: `arrays`, `[E * A, ...]` each, that `to_arrays` gave.

        Raises:
            ConfigError: they are no such arrays.
            WorldError: the worlds in them are no states of their task.
        """
        self._streams = check_streams(np.array(arrays["choices"]), len(self._streams))
        for states in self._players.states:
            states.copy_(torch.from_numpy(arrays["states"]))
        for number, batch in enumerate(self._views.batches):
            batch.restore(
                {name: arrays[f"worlds{number}.{name}"] for name in _WORLDS},
                {name: arrays[f"episodes{number}.{name}"] for name in _EPISODES},
            )


class ValidationEpisodes:
    """Plays fresh episodes to their ends, with drawn choices.

    Attributes:
        views: the episodes; those of the last validation until the next.
    """

    def __init__(self, network: Any, parameters: Tensor, views: Views, memory: int = 0) -> None:
        """Prepare the first validation.

        Args:
            network: a `Network`, or that of another kind of episodes.
            parameters: `[E, S]` float32, read at every validation.
            views: the episodes, which do not begin anew where they end.
            memory: U, how many numbers the network remembers.
        """
        self.views, self._device = views, parameters.device
        self._players = _Players(network, parameters, views, memory)
        self._run = Replayed(self._run_steps, self._players.changed, parameters.device)

    def play(self, starts: NDArray[np.uint64], choices: NDArray[np.uint64]) -> None:
        """Begin all episodes again and play them to their ends.

        Args:
            starts: `[E * A]` uint64, streams from which the starts are drawn.
            choices: `[E * A]` uint64, streams from which choices are drawn; written.
        """
        first = 0
        for batch in self.views.batches:
            batch.restart(starts[first : first + len(batch)])
            first += len(batch)
        self._play(choices)

    def _play(self, choices: NDArray[np.uint64]) -> None:
        """Play episodes that have just begun, with the streams `choices` `[E * A]` uint64."""
        device = self._device
        while not bool(self.views.gather("ending").all()):
            draws = torch.from_numpy(draw_units(choices, _AHEAD)).to(device)
            with exact(device):
                self._run(draws.view(_AHEAD, self.views.members, self.views.actors))

    @torch.no_grad()
    def _run_steps(self, draws: Tensor) -> None:
        """Take macro steps with random numbers from 0 to 1, `draws`: `[steps, E, A]` float64."""
        for numbers in draws:
            logits, _ = self._players.respond(self.views.look(), self.views.mode())
            self.views.take(choose(logits, numbers))
