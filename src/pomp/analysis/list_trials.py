"""Many decision lists between the same modes tried at once: each on all starts of a trial."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pomp.analysis.trials import Trials
from pomp.engine.lanes import BY_CHOICE, BY_LIMIT
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
        programs = trials.network.programs
        self._patience = max(_LEAST_PATIENCE, int(programs.mean()) // 3)
        self._scale = abs(trials.network.mean) or 1.0

    def run(self, lists: Sequence[DecisionList], part: int = 0, parts: int = 1) -> list[Tried]:
        """Play all lists on all starts, or on a part of them.

        Args:
            lists: which.
            part: which part.
            parts: how many there are.
        """
        count = len(self._worlds)
        chosen = np.arange(part % min(parts, count), count, parts)
        share = max(1, _TOGETHER // len(chosen))
        return [
            tried
            for first in range(0, len(lists), share)
            for tried in self._run_some(lists[first : first + share], chosen)
        ]

    def _run_some(
        self, lists: Sequence[DecisionList], chosen: NDArray[np.int64]
    ) -> Iterator[Tried]:
        """Play lists on the `chosen` starts, `[n]` int64."""
        running, shape = self._play(lists, chosen), (len(lists), len(chosen))
        weights = self._weights[chosen] / self._weights[chosen].sum()
        ended = (running.ending == BY_CHOICE).reshape(shape) @ weights
        returns = running.returns.reshape(shape)
        means = returns @ weights
        spread = np.sqrt((returns - means[:, None]) ** 2 @ weights / shape[1])
        for rules, mean, error, share in zip(lists, means, spread, ended, strict=True):
            yield self._judge(rules, float(mean), float(error), float(share))

    def _judge(self, rules: DecisionList, mean: float, error: float, ended: float) -> Tried:
        """Compare what a list earned with what is enough, a standard error taken off."""
        least = self._trials.least_ended
        share = min(1.0, ended / least) if least else 1.0
        score = mean + self._scale * (_ENDING * share - _WORD * words_of(rules))
        is_enough = mean - error >= self._trials.goal and ended >= least
        return Tried(rules, mean, ended, score, is_enough)

    def _play(self, lists: Sequence[DecisionList], chosen: NDArray[np.int64]) -> Episodes:
        """Play on the `chosen` starts, `[n]` int64, until all ended or earned nothing for long.

        What goes on earning nothing is stopped, and its return is what it would be if it went on
        losing as it did.
        """
        worlds = self._worlds.take(np.tile(chosen, len(lists)))
        modes, episode = [self._modes] * len(lists), self._trials.machine.episode
        running = Episodes(self._setting, modes, worlds, episode, restarts=False)
        rules = pack_rules([(one.start, *one.after) for one in lists], SHIPPED)
        best = np.full(len(worlds), -np.inf)
        waited: NDArray[np.int64] = np.zeros(len(worlds), np.int64)
        while not running.ending.all():
            choices = choose_by_rules(self._setting, worlds, rules, running.mode, running.sense())
            running.step(choices)
            waited = np.where(running.returns > best, 0, waited + 1)
            best = np.maximum(best, running.returns)
            stuck = (running.ending == 0) & (waited >= self._patience)
            losses = (best[stuck] - running.returns[stuck]) / self._patience
            running.returns[stuck] -= losses * (episode.most_steps - running.taken[stuck])
            running.ending[stuck] = BY_LIMIT
        return running


def with_lists(lists: Sequence[tuple[Rule, ...]]) -> DecisionList:
    """Return a decision list of these lists, that of the start first."""
    start, *after = lists
    return DecisionList(start, tuple(after))
