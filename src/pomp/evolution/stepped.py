"""Simulated annealing over whole machines, step by step, with machines played on the GPU.

It does what the compiled chains of `pomp.engine.annealing` do, to the bit where machines are played
on the CPU: mutation and acceptance are here, a step of all chains is one launch.

Arrays: `draws` `[C]` uint64 are random bits of the chains for one step.
"""

import numpy as np
from numpy.typing import NDArray

from pomp.core.streams import branch
from pomp.dsl.mutation import propose_programs
from pomp.engine.annealing import BOTH, PROGRAM_MUTATIONS
from pomp.evolution.anneal import TRUST, VERIFIED
from pomp.evolution.config import EvolveConfig
from pomp.evolution.genome import (
    Machines,
    askable,
    limits_of,
    mutate_rules,
    reflect,
    sensors_of,
)
from pomp.evolution.ground import Ground
from pomp.evolution.play import Parents, Scores, play_machines
from pomp.tasks.task import Setting

_WORTH_THREADS = 100_000  # actions of a step of all chains from which on threads help
_PROGRAMS, _RULES, _CHOICES = range(3)  # what a chain draws from: one branch of its stream for each


class SteppedAnnealing:
    """Chains of machines that all have the same number of modes.

    Args:
        setting: the task.
        ground: B worlds on which every machine is played.
        machines: C machines, one for each chain to begin with; written.
        stream: the random stream of the round.
        config: of the search.
        temperature_factor: times the configured initial temperature.
        length_factor: times the configured steps and actions.
        action_factor: times the actions once more, for machines whose episodes are long.
        is_mirrored: keep the second half of the modes mirror images of the first.
        threads: at most so many; None: one per core.

    Attributes:
        machines: the machines of the chains now.
        earned: `[C, B]` float64, what these earn in each world.
        scores: `[C]` float64, what they earn on average.
        best: the best machine so far, alone.
        best_score: its score.
        evaluated: machines played so far.
        programs: programs that these ran.
        actions: actions that these took.
        iteration: steps taken so far.
    """

    def __init__(
        self, setting: Setting, ground: Ground, machines: Machines, stream: np.uint64,
        config: EvolveConfig, *, temperature_factor: float, length_factor: float,
        action_factor: float = 1.0, is_mirrored: bool = False, threads: int | None = None,
    ) -> None:  # fmt: skip
        self.setting, self.ground, self.machines, self.config = setting, ground, machines, config
        self.is_mirrored, self.threads = is_mirrored, threads
        self._known, self._askable = sensors_of(config), askable(config)
        self._initial_temperature = config.initial_temperature * temperature_factor
        self._most_steps = config.steps * length_factor
        self._most_actions = config.actions * length_factor * action_factor
        self._most_earned = max(1.0, setting.goal)
        chains = np.arange(len(machines))
        root = np.atleast_1d(stream)
        self._program_streams = branch(branch(root, _PROGRAMS), chains)
        self._rule_streams = branch(branch(root, _RULES), chains)
        self._choice_streams = branch(branch(root, _CHOICES), chains)
        found = play_machines(setting, machines, ground, config, threads=threads)
        self.earned, self.scores = found.earned, found.scores
        self._verified = machines.copy(), self.earned.copy(), self.scores.copy()
        self.evaluated, self.programs, self.actions = len(machines), 0, 0
        self._count(found)
        self.best, self.best_score = machines.take([0]), -np.inf
        self._remember(machines, self.scores)
        self.iteration = 0
        self._verified_actions = self.actions

    @property
    def share(self) -> float:
        """The share of the budget that is spent, from 0 to 1: of steps or actions, the larger.

        Actions count when they are verified.
        """
        stepped, acted = (
            self.iteration / self._most_steps,
            self._verified_actions / self._most_actions,
        )
        return min(1.0, max(stepped, acted))

    @property
    def temperature(self) -> float:
        """The temperature now; it falls geometrically with the share of the budget spent."""
        first = self._initial_temperature
        return first * (self.config.final_temperature / first) ** self.share

    @property
    def is_finished(self) -> bool:
        """Whether the budget is spent, or there is nothing left to earn."""
        return self.share >= 1.0 or self.best_score >= self._most_earned - 1e-9

    def advance(self, steps: int = VERIFIED) -> None:
        """Take some steps of every chain, no more than are left, and verify what was trusted."""
        for _ in range(min(steps, int(np.ceil(self._most_steps)) - self.iteration)):
            self.step()
        self._verify()
        self._verified_actions = self.actions

    def step(self) -> None:
        """Mutate every chain's machine once, and accept or reject each mutation.

        A mutation is accepted if its score is at least that of its parent plus the temperature
        times the logarithm of a uniform number: the Metropolis rule, with the number drawn first,
        so that the least score that is enough is known before the machine is played.
        """
        draws = branch(self._choice_streams, self.iteration)
        new = self._mutate(draws)
        uniform = ((draws >> np.uint64(11)) + np.uint64(1)) * 2.0**-53  # above 0, up to 1
        thresholds = self.scores + self.temperature * np.log(uniform)
        parents = self._parents(thresholds)
        threads = self.threads if self._last_actions >= _WORTH_THREADS else 1
        found = play_machines(self.setting, new, self.ground, self.config, parents, threads=threads)
        scores = found.scores
        is_accepted = scores >= thresholds
        self.machines.put(is_accepted, new.take(is_accepted))
        self.earned[is_accepted] = found.earned[is_accepted]
        self.scores[is_accepted] = scores[is_accepted]
        self._count(found)
        self.evaluated += len(scores)
        self._remember(new, scores)
        self.iteration += 1

    def _parents(self, thresholds: NDArray[np.float64]) -> Parents:
        """Tell what is known of the chains' machines, which are the parents of mutated ones.

        Half of the worlds in which a mutation must change nothing to be trusted are those in which
        its parent earns least; the others are different ones in every step.

        Args:
            thresholds: `[C]` float64, the least scores that will be accepted.
        """
        worlds, chains = len(self.ground), np.arange(len(self.machines))[:, None]
        trust = max(1, min(worlds // 4, TRUST))
        places = (np.arange(worlds) + self.iteration * trust) % worlds
        ranks = np.broadcast_to(places, self.earned.shape).copy()
        ranks[chains, np.argsort(self.earned, axis=1, kind="stable")[:, : trust // 2]] = -1
        missing = np.maximum(self.ground.goals - self.earned, 0.0)
        expected = self.earned + self.config.optimism * missing
        orders = np.argsort(ranks, axis=1, kind="stable")
        return Parents(thresholds, self.earned, expected, orders, trust)

    def _verify(self) -> None:
        """Play the chains' machines in all worlds.

        A chain whose machine earns less than was believed has accepted a harmful mutation on
        trust: it returns to the machine that was verified last.
        """
        found = play_machines(
            self.setting, self.machines, self.ground, self.config, threads=self.threads
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
        """Keep the best of some machines if it is better than any before; `scores` is `[C]`."""
        top = int(np.argmax(scores))
        if scores[top] > self.best_score:
            self.best, self.best_score = machines.take([top]), float(scores[top])

    def _count(self, found: Scores) -> None:
        """Add to the counts what playing machines took."""
        self._last_actions = int(found.actions.sum())
        self.programs += int(found.programs.sum())
        self.actions += self._last_actions

    def _mutate(self, draws: NDArray[np.uint64]) -> Machines:
        """Return the chains' machines, each with a mutated program, a mutated rule, or both."""
        kinds = branch(draws, 1) % np.uint64(100)
        modes = self.machines.modes // (2 if self.is_mirrored else 1)
        which = (branch(draws, 2) % np.uint64(modes)).astype(np.int64)
        new, limits = self.machines.copy(), limits_of(self.config)
        is_program = kinds < np.uint64(PROGRAM_MUTATIONS)
        rows = np.flatnonzero(is_program)
        streams, none = self._program_streams[rows], np.zeros(len(rows), np.bool_)
        programs = new.programs[rows, which[rows]]
        proposed = propose_programs(programs, none, streams, "rich", limits)
        self._program_streams[rows] = streams
        new.programs[rows, which[rows]] = proposed
        is_rule = ~is_program | (kinds < np.uint64(BOTH))
        mutate_rules(
            is_rule, self._askable, self._rule_streams,
            new.literals, new.targets, new.defaults, new.start,
        )  # fmt: skip
        if self.is_mirrored:
            reflect(new, self._known)
        return new
