"""The search for one machine: rounds of annealing over populations."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.dsl.mutation import propose_programs
from pomp.dsl.vocabulary import LEAPS
from pomp.evolve.anneal import Annealing
from pomp.evolve.config import BUDGETS, EvolveConfig
from pomp.evolve.genome import (
    Machines,
    divide,
    first_machines,
    limits_of,
    mirror,
    walkers,
    with_images,
)
from pomp.evolve.play import Scores, play_machines
from pomp.karel.world import WorldBatch
from pomp.streams import Purpose, branch, draw_units, open_streams
from pomp.tasks.engine import begin, draw_starts
from pomp.tasks.task import Setting

_KEPT = 4  # machines of a population, and of the best of all
_ONE, _PAIR, _FOUR, _WALKER = range(4)  # how machines begin; pair, four: with images
_MIRRORED = (_PAIR, _FOUR)
_TRIALS = {
    "perceptions": (
        (_PAIR, 0.5, 1), (_FOUR, 0.5, 1), (_ONE, 1.0, 1), (_PAIR, 1.0, 1),
        (_FOUR, 2.0, 5), (_FOUR, 1.0, 5), (_PAIR, 1.0, 5),
    ),
    "compass": (
        (_WALKER, 0.5, 1), (_FOUR, 0.5, 1), (_WALKER, 1.0, 1),
        (_PAIR, 1.0, 1), (_ONE, 2.0, 1), (_FOUR, 2.0, 1),
    ),
}  # fmt: skip
# An epoch's first rounds, which begin anew: how, and `length` and `stretch` of their annealing.
_STAGES = ((12, 4), (10, 2))  # then rounds in which so many populations take turns; then the best
_STALE = 10  # rounds without a better machine that end an epoch
_OVERFIT = 0.03  # an epoch whose machines are that much better on its starts gets more of them
_MORE_STARTS = 4  # times as many at most
_GROWTH = 0.35  # chance that a round begins with a mode more
_HEATS = (0.03, 0.1, 0.3, 1.0)  # of the hottest, one per round
_LENGTHS = (0.3, 0.6, 1.2)  # by the length that is set, one per round

_NEW, _CHOICES, _CHAINS = range(3)  # what a round draws
_COUNTS = ("round", "epoch", "gained", "starts", "evaluated", "programs", "actions")


@dataclass
class Population:
    """Relatives: the best machines of rounds that began with one another."""

    machines: list[Machines] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)

    @property
    def best(self) -> float:
        """Of its scores."""
        return self.scores[0] if self.scores else -np.inf

    def add(self, machine: Machines, score: float) -> None:
        """Keep a machine if it is one of the best."""
        place = sum(other >= score for other in self.scores)
        self.machines.insert(place, machine)
        self.scores.insert(place, score)
        del self.machines[_KEPT:], self.scores[_KEPT:]


class Evolution:
    """A search in epochs: fresh populations, of which fewer and fewer go on, until none gains.

    What a round does depends on the rounds before it alone.

    Attributes:
        setting: the task.
        seed: of everything drawn.
        device: where machines are played.
        round: the one that comes next, from 0.
        epoch: the round with which this epoch began.
        gained: the round of this epoch's last success.
        starts: worlds on which changed machines are played, and `worlds` these.
        populations: of this epoch, the best first, by their fitness on the starts that judge.
        hall: the best machines so far, by what they earn there to the very end.
        evaluated: machines played in all; `programs` they ran, and `actions` these took.
    """

    def __init__(
        self, setting: Setting, seed: int, config: EvolveConfig, device: str = "cpu"
    ) -> None:
        self.config = config if setting.task.is_restless else replace(config, fragility=0.0)
        self.setting, self.seed, self.device = setting, seed, device
        self.round, self.evaluated, self.programs, self.actions = 0, 0, 0, 0
        self.epoch, self.gained = 0, 0
        self.populations: list[Population] = []
        self.hall = Population()
        self._play_on(self.first_starts)
        self.judges = some_starts(setting, config.polish, seed, Purpose.VALIDATION).to(device)

    @property
    def first_starts(self) -> int:
        """Worlds with which an epoch begins."""
        task, starts = self.setting.task, self.config.starts
        begin_alike = task.starts is not None and len(self.setting.list_starts()) == 1
        return max(1, starts // 4) if begin_alike else starts

    def _play_on(self, starts: int) -> None:
        self.starts = starts
        worlds = some_starts(self.setting, starts, self.seed, Purpose.SEARCH)
        self.worlds = worlds.to(self.device)

    @property
    def is_solved(self) -> bool:
        """Whether nothing is left to gain."""
        return self.hall.best >= self.setting.task.ceiling - 1e-9

    def advance(self, stop: Callable[[], bool]) -> bool:
        """One round; whether it came to its end (if not, it leaves nothing behind).

        Args:
            stop: asked after every step.
        """
        draws = open_streams(Purpose.PROGRAMS, self.seed, self.round, worlds=1)
        luck = draw_units(branch(draws, _CHOICES), 5)[:, 0]
        place, trials = self.round - self.epoch, _TRIALS[self.config.sensors]
        is_trial, is_mirrored = place < len(trials), False
        population = Population() if is_trial else self._choose()
        if is_trial:
            kind, length, stretch = trials[place]
            machines, is_mirrored, heat = self._begin(kind, draws), kind in _MIRRORED, 1.0
        else:
            stretch = 1
            machines = self._go_on(population, luck, draws)
            heat = _HEATS[int(luck[2] * len(_HEATS))]
            length = _LENGTHS[int(luck[3] * len(_LENGTHS))]
        config = self.config
        annealing = Annealing(
            self.setting, self.worlds, machines, branch(draws, _CHAINS)[0], config,
            heat=heat, length=length, stretch=stretch, is_mirrored=is_mirrored,
        )  # fmt: skip
        while not annealing.is_finished:
            if stop():
                return False
            annealing.step()
        self.evaluated += annealing.evaluated
        self.programs += annealing.programs
        self.actions += annealing.actions
        self._take(annealing.best, annealing.best_score, population, is_trial=is_trial)
        return True

    def _take(
        self, machine: Machines, found: float, population: Population, *, is_trial: bool
    ) -> None:
        """Keep a round's machine, and end the epoch if it gains nothing any more."""
        best = self.populations[0].best if self.populations else -np.inf
        fitness = float(play_machines(self.setting, machine, self.judges, self.config).scores[0])
        population.add(machine, fitness)
        earned = float(self.judge(machine).scores[0])
        if earned not in self.hall.scores:  # else it is most likely the same machine once more
            self.hall.add(machine, earned)
        if is_trial:
            self.populations.append(population)
        elif found - fitness > _OVERFIT and self.starts < _MORE_STARTS * self.first_starts:
            self._play_on(2 * self.starts)
        self.populations.sort(key=lambda one: -one.best)
        if fitness > best:
            self.gained = self.round
        self.round += 1
        least = len(_TRIALS[self.config.sensors]) + sum(rounds for rounds, _ in _STAGES)
        if self.round - self.epoch > least and self.round - self.gained > _STALE:
            self.populations, self.epoch, self.gained = [], self.round, self.round
            self._play_on(self.first_starts)

    def judge(self, machines: Machines) -> Scores:
        """What machines earn on the starts that judge, each to its very end."""
        return play_machines(self.setting, machines, self.judges, self.config, to_the_end=True)

    def judge_by_budget(self, machine: Machines) -> dict[int, float]:
        """What a machine earns there by the calls that a program may spend."""
        plain = replace(self.config, penalty=0.0, lateness=0.0, fragility=0.0)

        def judge(budget: int) -> float:
            found = play_machines(
                self.setting, machine, self.judges, plain, budgets=(budget,), to_the_end=True
            )
            return float(found.scores[0])

        return {budget: judge(budget) for budget in BUDGETS}

    def _choose(self) -> Population:
        """Populations take turns; of fewer and fewer."""
        place, count = self.round - self.epoch - len(_TRIALS[self.config.sensors]), 1
        for rounds, kept in _STAGES:
            if place < rounds:
                count = kept
                break
            place -= rounds
        return self.populations[place % count]

    def _begin(self, kind: int, draws: NDArray[np.uint64]) -> Machines:
        """Chains of one of an epoch's first rounds."""
        if kind == _WALKER:
            return walkers(self.config)
        machines = first_machines(self._programs(draws))
        if kind == _FOUR:
            machines = divide(machines, 0)
        return machines if kind == _ONE else with_images(machines)

    def _go_on(
        self, population: Population, luck: NDArray[np.float64], draws: NDArray[np.uint64]
    ) -> Machines:
        """Chains that begin with one of the population, perhaps with a mode more."""
        rank = min(int(-np.log(1 - luck[0])), len(population.machines) - 1)
        chosen = population.machines[rank].repeat(self.config.chains)
        if chosen.modes == self.config.modes or luck[1] >= _GROWTH:
            return chosen
        return self._grow(chosen, int(luck[4] * chosen.modes), draws)

    def _grow(self, machines: Machines, source: int, draws: NDArray[np.uint64]) -> Machines:
        """A mode more, by chain: a new one, the twin of another, its mirror image, or its end."""
        grown, twins = machines.grown(self._programs(draws)), machines.split(source)
        kind = np.arange(len(machines)) % 4
        grown.put(kind > 0, twins.take(kind > 0))
        mirror(grown, kind == 2)
        grown.put(kind == 3, divide(machines.take(kind == 3), source))
        return grown

    def _programs(self, draws: NDArray[np.uint64]) -> NDArray[np.uint8]:
        config, chains = self.config, np.arange(self.config.chains)
        streams = branch(branch(draws, _NEW), chains)
        blank = np.full((len(chains), config.tokens), LEAPS.pad, np.uint8)
        fresh = np.ones(len(chains), np.bool_)
        return propose_programs(blank, fresh, streams, "rich", limits_of(config))

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """What a search must remember to go on."""
        everyone = (self.hall, *self.populations)
        arrays = {
            f"{number}.{place}.{name}": array
            for number, population in enumerate(everyone)
            for place, machine in enumerate(population.machines)
            for name, array in machine.named().items()
        }
        values = {name: getattr(self, name) for name in _COUNTS}
        return arrays, {**values, "scores": [one.scores for one in everyone]}

    def restore(self, arrays: dict[str, NDArray[Any]], values: dict[str, Any]) -> None:
        """Go on where `to_arrays` was called."""
        for name in _COUNTS:
            setattr(self, name, int(values[name]))
        self._play_on(self.starts)
        self.hall, *self.populations = (
            Population(
                [Machines.from_named(arrays, f"{number}.{place}.") for place in range(len(scores))],
                [float(score) for score in scores],
            )
            for number, scores in enumerate(values["scores"])
        )


def some_starts(setting: Setting, count: int, seed: int, purpose: Purpose) -> WorldBatch:
    """All starts of a task that has few and draws nothing later, else some at random."""
    starts = setting.list_starts() if setting.task.starts is not None else ()
    if not setting.task.draws(setting) and 0 < len(starts) <= count:
        return begin(setting, [start.map for start in starts])
    return draw_starts(setting, count, seed, purpose)
