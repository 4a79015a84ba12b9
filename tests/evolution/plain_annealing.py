"""Annealing as it is written down: plain Python, every machine played in every world."""

import numpy as np

from mutating import mutate_rules
from pomp.core.streams import branch
from pomp.dsl.mutation import propose_programs
from pomp.engine.annealing import BOTH, PROGRAM_MUTATIONS
from pomp.evolution.anneal import TRUST, moves_of
from pomp.evolution.genome import Machines, askable, limits_of, reflect, sensors_of
from pomp.evolution.play import play_machines


class PlainAnnealing:
    """What `pomp.evolution.anneal.Annealing` does, with the same attributes."""

    def __init__(self, setting, ground, machines, stream, config, *, is_mirrored) -> None:
        self.setting, self.ground, self.machines, self.config = setting, ground, machines, config
        self.is_mirrored, self.iteration, self.actions = is_mirrored, 0, 0
        root, chains = np.atleast_1d(stream), np.arange(len(machines))
        self._streams = [branch(branch(root, kind), chains) for kind in range(3)]
        self.earned = self._play(machines)
        self.scores = mean_of(self.earned)
        self.best, self.best_scores = machines.copy(), self.scores.copy()
        self._verified = machines.copy(), self.earned.copy(), self.scores.copy()

    def advance(self, steps: int, share: float) -> None:
        """Take some steps, then verify; `share` of the round is over by its actions."""
        for _ in range(steps):
            self._step(share)
        earned = self._play(self.machines)
        scores = mean_of(earned)
        self._remember(self.machines, scores)
        is_worse = scores < self.scores
        machines, before, old = self._verified
        self.machines.put(is_worse, machines.take(is_worse))
        self.earned = np.where(is_worse[:, None], before, earned)
        self.scores = np.where(is_worse, old, scores)
        self._verified = self.machines.copy(), self.earned.copy(), self.scores.copy()

    def _play(self, machines: Machines) -> np.ndarray:
        found = play_machines(self.setting, machines, self.ground, self.config)
        self.actions += int(found.actions.sum())
        return found.earned

    def _step(self, share: float) -> None:
        first, last = self.config.initial_temperature, self.config.final_temperature
        temperature = first * (last / first) ** max(self.iteration / self.config.steps, share)
        draws = branch(self._streams[2], self.iteration)
        uniform = ((draws >> np.uint64(11)) + np.uint64(1)) * 2.0**-53
        thresholds = self.scores + temperature * np.log(uniform)
        new = self._mutate(draws)
        judged = list(map(self._judge, range(len(new)), self._play(new), thresholds))
        earned = np.array([row for row, _ in judged])
        scores = np.where([is_full for _, is_full in judged], mean_of(earned), -np.inf)
        self._remember(new, scores)
        is_accepted = scores >= thresholds
        self.machines.put(is_accepted, new.take(is_accepted))
        self.earned[is_accepted], self.scores[is_accepted] = (
            earned[is_accepted],
            scores[is_accepted],
        )
        self.iteration += 1

    def _judge(self, chain: int, true: np.ndarray, threshold: float) -> tuple[np.ndarray, bool]:
        """Return what a machine is taken to earn, and whether it was not given up."""
        known, worlds = self.earned[chain], len(true)
        trust = max(1, min(worlds // 4, TRUST))
        gains = self.config.optimism * np.maximum(self.ground.goals - known, 0.0)
        expected, found = known + gains, known.copy()
        worst = np.sort(np.argsort(known, kind="stable")[: trust // 2])
        others = (np.arange(worlds) - self.iteration * trust) % worlds
        slack, is_same = -(threshold * worlds), True
        for world in range(worlds):
            slack += expected[world]
        for place, world in enumerate([*worst, *(one for one in others if one not in worst)]):
            if slack < 0:
                return found, False
            if not is_same or place < trust:
                found[world] = true[world]
                is_same = is_same and true[world] == known[world]
            slack += found[world] - expected[world]
        return found, True

    def _remember(self, machines: Machines, scores: np.ndarray) -> None:
        is_better = scores > self.best_scores
        self.best.put(is_better, machines.take(is_better))
        self.best_scores = np.where(is_better, scores, self.best_scores)

    def _mutate(self, draws: np.ndarray) -> Machines:
        kinds, new = branch(draws, 1) % np.uint64(100), self.machines.copy()
        modes = new.modes // (2 if self.is_mirrored else 1)
        which = (branch(draws, 2) % np.uint64(modes)).astype(np.int64)
        is_program = kinds < np.uint64(PROGRAM_MUTATIONS)
        rows, limits = np.flatnonzero(is_program), limits_of(self.config)
        streams, none = self._streams[0][rows], np.zeros(len(rows), np.bool_)
        programs = new.programs[rows, which[rows]]
        new.programs[rows, which[rows]] = propose_programs(
            programs, none, streams, moves_of(self.config), limits
        )
        self._streams[0][rows] = streams
        is_rule = ~is_program | (kinds < np.uint64(BOTH))
        mutate_rules(new, np.flatnonzero(is_rule), self._streams[1], askable(self.config))
        if self.is_mirrored:
            reflect(new, sensors_of(self.config))
        return new


def mean_of(earned: np.ndarray) -> np.ndarray:
    """The means of rows, added up one by one."""
    return np.cumsum(earned, axis=1)[:, -1] / earned.shape[1]
