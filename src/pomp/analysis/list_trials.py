"""Many decision lists between the same modes tried at once: each on all starts of a trial."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pomp.analysis.trials import Trials
from pomp.engine.lanes import BY_CHOICE
from pomp.engine.rule_lists import choose_by_rules
from pomp.karel.sensor_set import SHIPPED
from pomp.machine.episodes import Episodes
from pomp.machine.rule_arrays import pack_rules
from pomp.machine.transitions import DecisionList, Rule

_TOGETHER = 2048  # worlds that are played at once
_ENDING = 0.1  # of the network's return is it worth to end as many episodes
_WORD = 2e-4  # of the network's return does a rule or a condition cost
_LEAST_PATIENCE = 32  # macro steps


@dataclass(frozen=True)
class Tried:
    """A list that was tried.

    Attributes:
        rules: which.
        mean: what it earned.
        ended: the share of episodes that it ended.
        score: by which lists are compared: both, less what it costs to read.
        is_enough: whether it keeps enough of what the network earns and ends.
    """

    rules: DecisionList
    mean: float
    ended: float
    score: float
    is_enough: bool

    @property
    def words(self) -> int:
        """How much there is to read."""
        return words_of(self.rules)


def words_of(rules: DecisionList) -> int:
    """Return how many rules and conditions there are."""
    lists = (rules.start, *rules.after)
    return sum(1 + len(rule.when) for one in lists for rule in one)


class ListTrials:
    """Trials of decision lists."""

    def __init__(self, trials: Trials) -> None:
        self._trials, machine = trials, trials.machine
        self._setting, self._modes = machine.configure(), machine.modes
        self._worlds, self._weights = trials.starts()
        self._most = machine.episode.most_steps * self._setting.scale
        programs = trials.network.programs
        self._patience = max(_LEAST_PATIENCE, int(programs.mean()) // 3)
        self._scale = abs(trials.network.mean) or 1.0

    def run(self, lists: Sequence[DecisionList]) -> list[Tried]:
        """Play all lists."""
        share = max(1, _TOGETHER // len(self._worlds))
        return [
            tried
            for first in range(0, len(lists), share)
            for tried in self._run_some(lists[first : first + share])
        ]

    def _run_some(self, lists: Sequence[DecisionList]) -> Iterator[Tried]:
        running = self._play(lists)
        shape = (len(lists), len(self._worlds))
        ended = (running.ending == BY_CHOICE).reshape(shape) @ self._weights
        returns = running.returns.reshape(shape)
        means = returns @ self._weights
        spread = np.sqrt((returns - means[:, None]) ** 2 @ self._weights / shape[1])
        for rules, mean, error, share in zip(lists, means, spread, ended, strict=True):
            yield self._judge(rules, float(mean), float(error), float(share))

    def _judge(self, rules: DecisionList, mean: float, error: float, ended: float) -> Tried:
        """Compare what a list earned with what is enough, a standard error taken off."""
        least = self._trials.least_ended
        share = min(1.0, ended / least) if least else 1.0
        score = mean + self._scale * (_ENDING * share - _WORD * words_of(rules))
        is_enough = mean - error >= self._trials.goal and ended >= least
        return Tried(rules, mean, ended, score, is_enough)

    def _play(self, lists: Sequence[DecisionList]) -> Episodes:
        """Play episodes until they end, or earn nothing more for long."""
        count = len(self._worlds)
        worlds = self._worlds.take(np.tile(np.arange(count), len(lists)))
        episode = replace(self._trials.machine.episode, most_steps=self._most)
        modes = [self._modes] * len(lists)
        running = Episodes(self._setting, modes, worlds, episode, restarts=False)
        rules = pack_rules([(one.start, *one.after) for one in lists], SHIPPED)
        best = np.full(len(worlds), -np.inf)
        waited: NDArray[np.int64] = np.zeros(len(worlds), np.int64)
        while ((running.ending == 0) & (waited < self._patience)).any():
            choices = choose_by_rules(self._setting, worlds, rules, running.mode, running.sense())
            running.step(choices)
            waited = np.where(running.returns > best, 0, waited + 1)
            best = np.maximum(best, running.returns)
        return running


def with_lists(lists: Sequence[tuple[Rule, ...]]) -> DecisionList:
    """Return a decision list of these lists, that of the start first."""
    start, *after = lists
    return DecisionList(start, tuple(after))
