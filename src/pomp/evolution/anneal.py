"""Annealing over whole machines: chains that each change theirs step by step."""

import numpy as np
from numpy.typing import NDArray

from pomp.core.streams import branch
from pomp.dsl.mutation import propose_programs
from pomp.evolution.config import EvolveConfig
from pomp.evolution.genome import Machines, change_rules, limits_of, reflect
from pomp.evolution.play import Parents, Scores, play_machines
from pomp.karel.world import WorldBatch
from pomp.tasks.task import Setting

_PROGRAM_CHANGES, _BOTH = 65, 10  # of 100 changes: of a program, and of these also of a rule
_TRUST = 8  # worlds, at most, after which a change that changed nothing is taken to change nothing
_VERIFIED = 32  # changes after which that is verified
_WORTH_THREADS = 100_000  # actions of a change of all chains from which on threads help
_PROGRAMS, _RULES, _CHOICES = range(3)  # what a chain draws


class Annealing:
    """Chains of machines with one number of modes.

    It takes `length` times the changes and actions that are set, and the actions `stretch` times
    again, for machines whose episodes are long; `threads` at most, None: one per core.

    Attributes:
        machines: where the chains are.
        earned: `[C, B]`, what these earn in each world, and `scores` `[C]`, on average.
        best: the best machine so far, and `best_score` its score.
        evaluated: machines played; `programs` they ran, and `actions` these took.
    """

    def __init__(
        self, setting: Setting, worlds: WorldBatch, machines: Machines, stream: np.uint64,
        config: EvolveConfig, *, heat: float, length: float, stretch: float = 1.0,
        is_mirrored: bool = False, threads: int | None = None,
    ) -> None:  # fmt: skip
        self.setting, self.worlds, self.machines, self.config = setting, worlds, machines, config
        self.hot, self.is_mirrored, self.threads = config.hot * heat, is_mirrored, threads
        self._most_changes = config.length * length
        self._most_actions = config.actions * length * stretch
        chains = np.arange(len(machines))
        root = np.atleast_1d(stream)
        self._changes = branch(branch(root, _PROGRAMS), chains)
        self._rules = branch(branch(root, _RULES), chains)
        self._draws = branch(branch(root, _CHOICES), chains)
        found = play_machines(setting, machines, worlds, config, threads=threads)
        self.earned, self.scores = found.earned, found.scores
        self._verified = machines.copy(), self.earned.copy(), self.scores.copy()
        self.evaluated, self.programs, self.actions = len(machines), 0, 0
        self._count(found)
        self.best, self.best_score = machines.take([0]), -np.inf
        self._remember(machines, self.scores)
        self.iteration = 0

    @property
    def share(self) -> float:
        """How far it is, from 0 to 1: by changes or by actions, whichever are spent first."""
        changed, acted = self.iteration / self._most_changes, self.actions / self._most_actions
        return min(1.0, max(changed, acted))

    @property
    def is_finished(self) -> bool:
        """Whether it is cold, or there is nothing left to earn."""
        return self.share >= 1.0 or self.best_score >= 1.0 - 1e-9

    def step(self) -> None:
        """One change of every chain."""
        draws = branch(self._draws, self.iteration)
        new = self._change(draws)
        chance = ((draws >> np.uint64(11)) + np.uint64(1)) * 2.0**-53  # above 0, up to 1
        temperature = self.hot * (self.config.cold / self.hot) ** self.share
        thresholds = self.scores + temperature * np.log(chance)
        parents = self._parents(thresholds)
        threads = self.threads if self._last >= _WORTH_THREADS else 1
        found = play_machines(self.setting, new, self.worlds, self.config, parents, threads=threads)
        scores = found.scores
        taken = scores >= thresholds
        self.machines.put(taken, new.take(taken))
        self.earned[taken], self.scores[taken] = found.earned[taken], scores[taken]
        self._count(found)
        self.evaluated += len(scores)
        self._remember(new, scores)
        self.iteration += 1
        if self.iteration % _VERIFIED == 0:
            self._verify()

    def _parents(self, thresholds: NDArray[np.float64]) -> Parents:
        """What is known of the chains' machines: worlds in which they earn least come first."""
        worlds, chains = len(self.worlds), np.arange(len(self.machines))[:, None]
        trust = max(1, min(worlds // 4, _TRUST))
        places = (np.arange(worlds) + self.iteration * trust) % worlds
        ranks = np.broadcast_to(places, self.earned.shape).copy()
        ranks[chains, np.argsort(self.earned, axis=1, kind="stable")[:, : trust // 2]] = -1
        missing = np.maximum(self.setting.task.ceiling - self.earned, 0.0)
        hopes = self.earned + self.config.hope * missing
        orders = np.argsort(ranks, axis=1, kind="stable")
        return Parents(thresholds, self.earned, hopes, orders, trust)

    def _verify(self) -> None:
        """Play the chains' machines in all worlds; back to the last verified where one is worse."""
        found = play_machines(
            self.setting, self.machines, self.worlds, self.config, threads=self.threads
        )
        scores = found.scores
        self._remember(self.machines, scores)
        is_worse = scores < self.scores
        machines, earned, before = self._verified
        self.machines.put(is_worse, machines.take(is_worse))
        self.earned = np.where(is_worse[:, None], earned, found.earned)
        self.scores = np.where(is_worse, before, scores)
        self._verified = self.machines.copy(), self.earned.copy(), self.scores.copy()
        self._count(found)

    def _remember(self, machines: Machines, scores: NDArray[np.float64]) -> None:
        """Keep the best of some machines if it is better than any before."""
        top = int(np.argmax(scores))
        if scores[top] > self.best_score:
            self.best, self.best_score = machines.take([top]), float(scores[top])

    def _count(self, found: Scores) -> None:
        self._last = int(found.actions.sum())
        self.programs += int(found.programs.sum())
        self.actions += self._last

    def _change(self, draws: NDArray[np.uint64]) -> Machines:
        """Another program in a mode, another rule, or both."""
        kinds = branch(draws, 1) % np.uint64(100)
        modes = self.machines.modes // (2 if self.is_mirrored else 1)
        which = (branch(draws, 2) % np.uint64(modes)).astype(np.int64)
        new, rows = self.machines.copy(), np.arange(len(self.machines))
        programs = new.programs[rows, which]
        none = np.zeros(len(rows), np.bool_)
        proposed = propose_programs(programs, none, self._changes, "rich", limits_of(self.config))
        is_program = kinds < np.uint64(_PROGRAM_CHANGES)
        new.programs[rows, which] = np.where(is_program[:, None], proposed, programs)
        is_rule = ~is_program | (kinds < np.uint64(_BOTH))
        has_compass = self.config.sensors == "compass"
        change_rules(
            is_rule, has_compass, self._rules, new.literals, new.targets, new.defaults, new.start
        )
        if self.is_mirrored:
            reflect(new)
        return new
