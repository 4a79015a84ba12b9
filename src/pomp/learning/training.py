"""Stage 3: many machines' transitions learned together, update by update.

Members (task, modes, seed, learning rate) of one grid size are one ensemble: one network call
serves all their worlds. What a member draws depends on its own seed alone. The axes are E members,
A actors (worlds) of each, T macro steps of a rollout, and S parameters of a member.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pomp.core.errors import ConfigError, TrainingError
from pomp.core.graphs import exact, prepare
from pomp.core.streams import Purpose, draw_units
from pomp.engine.lanes import BY_CHOICE
from pomp.engine.starts import reset
from pomp.karel.world import WorldBatch
from pomp.learning.checkpoint import KEPT, check_arrays_of_states, check_values
from pomp.learning.config import LearningConfig
from pomp.learning.members import CHOICES, LESSONS, ORDER, STARTS, WEIGHTS, Kept, Member
from pomp.learning.ppo import STATISTICS, Learner, order_sequences
from pomp.learning.rollouts import EpisodeOutcomes, Rollouts, ValidationEpisodes
from pomp.learning.teaching import Teaching
from pomp.machine.episodes import Episodes
from pomp.machine.evaluation import outcomes
from pomp.machine.layers import Shape, draw_weights
from pomp.machine.network import Ensemble
from pomp.machine.policy import ProgramMachine
from pomp.machine.transitions import NetworkTransition
from pomp.machine.views import Views


class Training:
    """An ensemble in training.

    Attributes:
        members: the machines to be learned, those of a task side by side.
        shape: that of the members' networks.
        learner: their parameters, and what changes them.
        rollouts: what it learns from.
        update: rollouts learned from so far.
        kept: each member's best transitions.
        finished_at: each member's last update, or None while it goes on.
        diverged: numbers of the members whose losses are no numbers any more.
        least_score: what a validation must reach for its parameters to be kept.
    """

    least_score = 0.0

    def __init__(self, members: Sequence[Member], config: LearningConfig, device: str) -> None:
        """Draw first weights and starts.

        Raises:
            ConfigError: the members' grids differ in size.
        """
        if len({(one.setting.height, one.setting.width) for one in members}) != 1:
            raise ConfigError("members of one ensemble have grids of one size")
        self.members, self.config, self.device = list(members), config, device
        self._where = torch.device(device)
        prepare(self._where)
        self.shape = self._make_shape()
        rows = [self.shape.pack(self._first_weights(member)) for member in members]
        rates = torch.tensor([member.learning_rate for member in members], dtype=torch.float32)
        parameters = torch.from_numpy(np.stack(rows)).to(device)
        self.learner = self._make_learner(parameters, rates.to(device))
        self.update = 0
        self.kept = [Kept() for _ in members]
        self.finished_at: list[int | None] = [None] * len(members)
        self.diverged: list[int] = []
        actors = config.ppo.actors
        starts = self._streams(Purpose.TRAINING, STARTS, worlds=actors)
        views = self._begin(starts, restarts=True)
        choices = self._streams(Purpose.TRAINING, CHOICES, worlds=actors)
        self.rollouts = self._make_rollouts(views, choices)
        self._validation: ValidationEpisodes | None = None  # made when it is needed
        self._orders = self._streams(Purpose.TRAINING, ORDER, worlds=1)

    # What another kind of policy has otherwise.

    def _make_shape(self) -> Any:
        """Return the layout of the members' parameters."""
        setting, most = self.members[0].setting, max(len(one.modes) for one in self.members)
        return Shape(self.config.network, setting.height, setting.width, most)

    def _make_learner(self, parameters: Tensor, rates: Tensor) -> Learner:
        """Return what learns, given the first `parameters` `[E, S]` and learning `rates` `[E]`."""
        counts = [len(member.modes) for member in self.members]
        network = Ensemble(self.shape, counts, self.device)
        return Learner(self.config.ppo, network, parameters, rates)

    def _make_episodes(
        self, members: Sequence[Member], worlds: WorldBatch, *, restarts: bool
    ) -> Any:
        """Begin episodes of the members of one task, to whom the worlds are dealt out."""
        setting, sets = members[0].setting, [one.modes for one in members]
        return Episodes(setting, sets, worlds, self.config.episode, restarts=restarts)

    def _make_views(self, batches: Sequence[Any]) -> Views:
        """Return what the networks see of batches of episodes."""
        return Views(batches, self.config.network.inputs, len(self.members))

    def _make_rollouts(self, views: Views, choices: NDArray[np.uint64]) -> Rollouts:
        """Return what plays, given its episodes and the streams of `choices`, `[E * A]` uint64."""
        learner, memory = self.learner, self._memory
        parts = learner.network, learner.parameters, views, choices, memory
        return Rollouts(self.config.ppo, *parts)

    def _make_validation(self, views: Views) -> ValidationEpisodes:
        """Return what plays episodes to validate, given these."""
        learner = self.learner
        return ValidationEpisodes(learner.network, learner.parameters, views, self._memory)

    def _spent(self, index: int) -> dict[str, int]:
        """Return what a member's rollouts have cost so far, beside their steps, by name."""
        return {}

    @property
    def _memory(self) -> int:
        """How many numbers the networks remember, by a GRU of their own; 0: nothing."""
        return self.config.network.memory

    @property
    def _rows(self) -> int:
        """The rows of a rollout, of which mini-batches are made: steps, or those of an actor."""
        return self.config.ppo.actors if self._memory else self.config.ppo.rollout

    def _first_weights(self, member: Member) -> dict[str, NDArray[np.float32]]:
        """Draw a member's first weights, by name; `[outputs, ...]` each."""
        small = Shape(self.shape.config, self.shape.height, self.shape.width, len(member.modes))
        return draw_weights(small, member.streams(Purpose.TRAINING, WEIGHTS, worlds=1)[0])

    def _streams(
        self, purpose: Purpose, what: int, *indices: int, worlds: int
    ) -> NDArray[np.uint64]:
        """Open streams of all members, one after the other: `[E * worlds]` uint64."""
        parts = [one.streams(purpose, what, *indices, worlds=worlds) for one in self.members]
        return np.concatenate(parts)

    def _begin(self, streams: NDArray[np.uint64], *, restarts: bool) -> Views:
        """Begin episodes for all members, those of a task in one batch.

        Args:
            streams: `[E * A]` uint64, one for each world, the members one after the other.
            restarts: whether a new episode begins where one has ended.
        """
        batches, share, first = [], len(streams) // len(self.members), 0
        for _, group in groupby(self.members, key=lambda one: id(one.setting)):
            own = list(group)
            last = first + share * len(own)
            worlds = reset(own[0].setting, streams[first:last], self.device)
            batches.append(self._make_episodes(own, worlds, restarts=restarts))
            first = last
        return self._make_views(batches)

    @property
    def is_finished(self) -> bool:
        """Whether all members are finished."""
        return all(when is not None for when in self.finished_at)

    @property
    def has_teacher(self) -> bool:
        """Whether the members are taught before the first update."""
        return self.config.teaching.steps > 0

    def begin_teaching(self) -> Teaching:
        """Return the members about to be taught, each what is shown to it alone."""
        streams = self._streams(Purpose.TRAINING, LESSONS, worlds=1)
        counts = [len(member.modes) for member in self.members]
        networks = [Ensemble(self.shape, [count], self.device) for count in counts]
        return Teaching(self.learner, networks, self.config.teaching, streams)

    def judge(self) -> list[dict[str, Any]]:
        """Validate what the members have been taught, before the first update.

        Returns:
            A record for each member.
        """
        nothing = np.empty((len(self.members), 0))
        statistics = np.full((len(self.members), len(STATISTICS)), np.nan, np.float32)
        return self._validate(statistics, EpisodeOutcomes(nothing, nothing.astype(np.uint8)))

    def step(self) -> list[dict[str, Any]]:
        """Make one update: collect a rollout, learn from it, and validate if it is time.

        Returns:
            A record for each member if there was a validation, else nothing.

        Raises:
            TrainingError: a loss is not a number any more.
        """
        batch, episodes = self.rollouts.collect()
        orders = self._draw_orders()
        with exact(self._where):
            found = self.learner.learn(batch, orders.transpose(0, 1), self.update)
        statistics = found.cpu().numpy()
        self.update += 1
        self._check(statistics)
        is_last = self.update >= self.config.ppo.updates
        if self.update % self.config.validation.every and not is_last:
            return []
        records = self._validate(statistics, episodes)
        for number in range(len(self.members)):
            if self.finished_at[number] is None and (
                is_last or self._has_plateaued(number, self.update)
            ):
                self.finished_at[number] = self.update
        return records

    def _draw_orders(self) -> torch.Tensor:
        """Draw the orders in which epochs go through a rollout: `[E, epochs, rows]` int64.

        Networks that remember take the steps of an actor one after the other.
        """
        ppo, count = self.config.ppo, self._rows
        keys = draw_units(self._orders, ppo.epochs * count).T
        shape = (len(self.members), ppo.epochs, count)
        orders = torch.from_numpy(keys.reshape(shape)).to(self.device).argsort(dim=2, stable=True)
        if not self._memory:
            return orders
        return order_sequences(orders, ppo.steps, ppo.minibatch // ppo.steps)

    def _check(self, statistics: NDArray[np.float32]) -> None:
        """Give up members whose losses are no numbers.

        Args:
            statistics: `[E, 4]`, those of the last update.

        Raises:
            TrainingError: no member is left of a machine.
        """
        for number, row in enumerate(statistics):
            if np.isfinite(row).all():
                continue
            member = self.members[number]
            first = self.shape.pack(self._first_weights(member))
            self.learner.reset_member(number, torch.from_numpy(first))  # to go on without NaN
            if number in self.diverged:
                continue
            self.diverged.append(number)
            self.finished_at[number] = self.finished_at[number] or self.update
            if not any(
                (other.setting, other.seed) == (member.setting, member.seed)
                for place, other in enumerate(self.members)
                if place not in self.diverged
            ):
                name, value = next(
                    pair for pair in zip(STATISTICS, row, strict=True) if not np.isfinite(pair[1])
                )
                who = f"{member.setting.task.name}, seed {member.seed}"
                raise TrainingError(
                    f"{name} is {value} after {self.update} updates ({who}, learning rate "
                    f"{member.learning_rate:g}); the last checkpoint is kept. Try a smaller "
                    "learning rate"
                )

    def _has_plateaued(self, number: int, update: int) -> bool:
        waits = self.config.validation.patience * self.config.validation.every
        return waits > 0 and update - self.kept[number].update >= waits

    def _play_validation(self) -> Views:
        """Play fresh episodes with drawn choices, all to their ends."""
        count, number = self.config.validation.episodes, self.update
        starts = self._streams(Purpose.VALIDATION, STARTS, number, worlds=count)
        choices = self._streams(Purpose.VALIDATION, CHOICES, number, worlds=count)
        if self._validation is None:
            self._validation = self._make_validation(self._begin(starts, restarts=False))
        self._validation.play(starts, choices)
        return self._validation.views

    def _validate(
        self, statistics: NDArray[np.float32], episodes: EpisodeOutcomes
    ) -> list[dict[str, Any]]:
        """Play fresh episodes with drawn choices, and keep transitions that did as well as any.

        Args:
            statistics: `[E, 4]`, those of the last update.
            episodes: what became of the episodes of the last rollout.

        Returns:
            A record for each member.
        """
        count = self.config.validation.episodes
        parts = [outcomes(batch) for batch in self._play_validation().batches]
        returns, programs, actions, ended = (
            np.concatenate(column).reshape(len(self.members), count)
            for column in zip(*parts, strict=True)
        )
        training_returns, ending = episodes
        records = []
        for index in range(len(self.members)):
            self._keep(index, float(returns[index].mean()), has_ended=bool(ended[index].any()))
            ended_returns = training_returns[index][ending[index] != 0]
            records.append(
                {
                    "update": self.update,
                    "steps": self.update * self.config.ppo.rollout,
                    "return": float(returns[index].mean()),
                    "best": self.kept[index].score,
                    "programs": float(programs[index].mean()),
                    "actions": float(actions[index].mean()),
                    "ended": int(ended[index].sum()),
                    "training_return": float(ended_returns.mean()) if len(ended_returns) else None,
                    "training_ended": int((ending[index] == BY_CHOICE).sum()),
                    **_finite(statistics[index]),
                    **self._spent(index),
                }
            )
        return records

    def _keep(self, index: int, score: float, *, has_ended: bool) -> None:
        """Keep a member's parameters if they are good enough.

        Args:
            index: the member's number.
            score: the mean return of the validation.
            has_ended: whether one of its episodes ended by choice.
        """
        kept = self.kept[index]
        if self.finished_at[index] is not None:
            return
        if score < (self.least_score if kept.score is None else kept.score):
            return
        if not has_ended and self.config.validation.needs_end:
            return
        # An equal score replaces what is kept, but is no progress: a plateau stays one.
        update = kept.update if kept.score == score else self.update
        parameters = self.learner.parameters[index].detach().cpu().numpy().copy()
        self.kept[index] = Kept(score, update, parameters)

    def policy(self, index: int, provenance: dict[str, Any]) -> Any:
        """Return what a member has learned; here its machine."""
        return self.machine(index, provenance)

    def machine(self, index: int, provenance: dict[str, Any]) -> ProgramMachine:
        """Return a member's best machine; if none was good enough, the latest.

        Args:
            index: the member's number.
            provenance: what the machine will say about where it comes from.
        """
        member, parameters = self.members[index], self.kept[index].parameters
        if parameters is None:
            parameters = self.learner.parameters[index].detach().cpu().numpy()
        setting = member.setting
        arrays = self.shape.cut(parameters, len(member.modes))
        transition = NetworkTransition(
            self.config.network, (setting.height, setting.width), len(member.modes), arrays
        )
        return ProgramMachine(
            task=setting.task,
            modes=member.modes,
            transition=transition,
            variant=setting.variant,
            options=setting.option_texts,
            size=(setting.height, setting.width),
            episode=self.config.episode,
            provenance=provenance,
        )

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return all that a checkpoint needs.

        Returns:
            Arrays by name: parameters and moments `[E, S]`, random streams and the state of the
            worlds `[E * A, ...]`, kept parameters `[S]`; and values that JSON can hold.
        """
        arrays = self.learner.to_arrays()
        arrays |= {**self.rollouts.to_arrays(), "orders": self._orders}
        for number, kept in enumerate(self.kept):
            if kept.parameters is not None:
                arrays[f"{KEPT}{number}"] = kept.parameters
        scores = [[kept.score, kept.update] for kept in self.kept]
        counts = {"update": self.update, "gradient_steps": self.learner.gradient_steps}
        states = {"finished_at": self.finished_at, "diverged": self.diverged}
        return arrays, {**counts, "kept": scores, **states}

    def restore(self, arrays: dict[str, NDArray[Any]], values: dict[str, Any]) -> None:
        """Go on from a checkpoint: `arrays` (`[E, S]` and others) and `values` of `to_arrays`.

        Raises:
            DataFileError: the checkpoint is damaged, or that of another training.
            ConfigError: an episode in it is in no state that it could be in.
        """
        self._check_checkpoint(arrays, values)
        self.learner.restore(arrays, values["gradient_steps"])
        self.update, self.diverged = values["update"], values["diverged"]
        self.rollouts.restore(arrays)
        self._orders = np.array(arrays["orders"])
        for number, (score, update) in enumerate(values["kept"]):
            self.kept[number] = Kept(score, update, arrays.get(f"{KEPT}{number}"))
        self.finished_at = [
            when if self._is_over(number, when) else None
            for number, when in enumerate(values["finished_at"])
        ]

    def _check_checkpoint(self, arrays: dict[str, NDArray[Any]], values: dict[str, Any]) -> None:
        """Refuse what could not be the checkpoint of this training; `arrays` are `[...]` each."""
        check_values(values, len(self.members), self.config.ppo.updates)
        check_arrays_of_states(arrays, self.to_arrays()[0], [score for score, _ in values["kept"]])

    def _is_over(self, number: int, when: int | None) -> bool:
        """Whether a member that finished at an update has nothing more to learn.

        One that finished only because the whole training did goes on if that is longer now.
        """
        if when is None or number in self.diverged or when >= self.config.ppo.updates:
            return when is not None
        return self._has_plateaued(number, when)


def _finite(statistics: NDArray[np.float32]) -> dict[str, float | None]:
    """Name a member's `statistics`, `[4]`; None for what is no number, which JSON cannot hold."""
    pairs = zip(STATISTICS, statistics, strict=True)
    return {name: float(value) if np.isfinite(value) else None for name, value in pairs}
