"""Machines tried in place of one with a network: on validation starts, against what it earns."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pomp.core.configs import MOST_SEED, check_call, check_count
from pomp.core.errors import ConfigError
from pomp.core.streams import Purpose, open_streams
from pomp.engine.starts import reset
from pomp.karel.world import WorldBatch
from pomp.machine.code_table import CodeTable
from pomp.machine.evaluation import Evaluation, list_all, play, play_exactly
from pomp.machine.policy import ProgramMachine, check_machine
from pomp.machine.transitions import DecisionList

_LONGER = 4  # times as many programs as the network's longest episode may a trial have


def check_study(
    what: str, machine: object, config: object, kind: type, seed: object, tell: object = print
) -> None:
    """Refuse what no study of a machine can be asked for.

    Args:
        what: is done with the machine, as the subject of a sentence.
        machine: whose network is looked into.
        config: how.
        kind: what its settings must be.
        seed: of episodes.
        tell: hears what comes next.

    Raises:
        ConfigError: says what came.
    """
    check_machine(machine, what)
    if not isinstance(config, kind):
        raise ConfigError(f"{what} takes a {kind.__name__}, got {config!r:.80}")
    check_count("a seed", seed, least=0, most=MOST_SEED)
    check_call("tell", tell)


class Trials:
    """The starts of trials, and what is enough there.

    Attributes:
        machine: the one with the network, whose episodes are cut where trials are.
        network: its episodes.
        goal: the mean return that another machine must have.
        least_ended: the share of episodes that it must end by itself.
    """

    def __init__(
        self, machine: ProgramMachine, keep: float, count: int, seed: int, *, more: int = 1
    ) -> None:
        """Play the network.

        Args:
            machine: the one with the network.
            keep: the share of its return, and of the episodes it ends, that is enough.
            count: episodes of a trial.
            seed: decides which starts are drawn.
            more: times as many are played again.
        """
        self._more = more
        self._count, self._seed, self._setting = count, seed, machine.configure()
        self.network = self.play(machine)
        self.goal = self.network.mean - (1.0 - keep) * abs(self.network.mean)
        self.least_ended = keep * float(self.network.ended.mean())
        most = machine.episode.most_steps
        if self.network.ended.all():
            most = min(most, _LONGER * (int(self.network.programs.max()) + 1))
        self.machine = replace(machine, episode=replace(machine.episode, most_steps=most))

    def play(
        self, machine: ProgramMachine, *, again: bool = False, is_greedy: bool = False
    ) -> Evaluation:
        """Play a machine on trial starts, or on all starts where that is exact.

        Args:
            machine: which.
            again: whether the starts are others than those of the first time.
            is_greedy: whether the likeliest choices are taken, not drawn ones.
        """
        by = machine.transition
        is_sure = isinstance(by, DecisionList) or (isinstance(by, CodeTable) and by.is_sure)
        if is_sure and (exact := self._list_all()):
            try:
                return play_exactly(machine, self._setting, *exact)
            except ConfigError:  # it draws, though the task does not say so
                pass
        first, count = (self._count, self._more * self._count) if again else (0, self._count)
        draws = open_streams(Purpose.VALIDATION, self._seed, 1, worlds=count, first=first)
        worlds = self._draw(first, count)
        return play(machine, self._setting, worlds, None if is_greedy else draws)

    def starts(self) -> tuple[WorldBatch, NDArray[np.float64]]:
        """Return all starts if they are no more than those of a trial, else these.

        Returns:
            The worlds, and their weights `[B]` float64, which sum to 1.
        """
        count = self._count
        return self._list_all() or (self._draw(0, count), np.full(count, 1.0 / count))

    def _list_all(self) -> tuple[WorldBatch, NDArray[np.float64]] | None:
        exact = list_all(self._setting)
        return exact if exact is not None and len(exact[0]) <= self._count else None

    def _draw(self, first: int, count: int) -> WorldBatch:
        streams = open_streams(Purpose.VALIDATION, self._seed, worlds=count, first=first)
        return reset(self._setting, streams)

    def is_enough(self, found: Evaluation, *, is_lucky: bool = True) -> bool:
        """Whether episodes earned enough and ended as often.

        Args:
            found: the episodes.
            is_lucky: whether they may be the luckiest of many tries: a standard error is taken off.
        """
        has_ended = float(found.ended.mean()) >= self.least_ended
        return found.mean - is_lucky * error_of(found) >= self.goal and has_ended


def error_of(found: Evaluation) -> float:
    """Return the standard error of a mean return; 0 if it is exact."""
    return 0.0 if found.is_exact else found.std / len(found.returns) ** 0.5
