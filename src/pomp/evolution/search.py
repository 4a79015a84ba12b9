"""The search for one machine: rounds of annealing over populations."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.core.streams import Purpose, branch, draw_units
from pomp.dsl.mutation import propose_programs
from pomp.dsl.vocabulary import LEAPS
from pomp.evolution.config import BUDGETS, EvolveConfig
from pomp.evolution.genome import (
    Machines,
    divide,
    first_machines,
    limits_of,
    mirror,
    walkers,
    with_images,
)
from pomp.evolution.play import Scores, play_machines
from pomp.evolution.rounds import CHOICES, NEW, Found, Round, draws_of, some_starts
from pomp.evolution.teams import Teams
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

_PENDING = "pending."
_COUNTS = ("round", "epoch", "gained", "starts", "evaluated", "programs", "actions")


@dataclass
class Population:
    """Relatives: the best machines of rounds that began with one another, from `number` on."""

    number: int = 0
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

    What a round does depends on earlier rounds alone: none for an epoch's first ones, for others
    all but the last `teams - 1`, so that these can go on beside it.

    Attributes:
        setting: the task.
        seed: of everything drawn.
        device: where machines are played.
        round: the one that is taken next, from 0.
        pending: rounds that are decided, this one first.
        epoch: the round with which this epoch began.
        gained: the round of this epoch's last success.
        starts: worlds on which changed machines are played.
        populations: of this epoch, the best first, by their fitness on the starts that judge.
        hall: the best machines so far, by what they earn there to the very end.
        evaluated: machines played in all; `programs` they ran, and `actions` these took.
    """

    def __init__(
        self,
        setting: Setting,
        seed: int,
        config: EvolveConfig,
        device: str = "cpu",
        workers: int = 1,
    ) -> None:
        self.config = config if setting.task.is_restless else replace(config, fragility=0.0)
        self.setting, self.seed, self.device = setting, seed, device
        self.round, self.evaluated, self.programs, self.actions = 0, 0, 0, 0
        self.epoch, self.gained = 0, 0
        self.populations: list[Population] = []
        self.hall = Population()
        self.pending: list[Round] = []
        self.starts = self.first_starts
        self.judges = some_starts(setting, config.polish, seed, Purpose.VALIDATION).to(device)
        self._teams = Teams(setting, seed, self.config, device, workers)

    @property
    def first_starts(self) -> int:
        """Worlds with which an epoch begins."""
        task, starts = self.setting.task, self.config.starts
        begin_alike = task.starts is not None and len(self.setting.list_starts()) == 1
        return max(1, starts // 4) if begin_alike else starts

    @property
    def is_solved(self) -> bool:
        """Whether nothing is left to gain."""
        return self.hall.best >= self.setting.task.ceiling - 1e-9

    @property
    def tried(self) -> int:
        """Machines played so far, those of rounds that go on included."""
        return self.evaluated + self._teams.tried

    def advance(self, stop: Callable[[], bool]) -> bool:
        """Wait for a round; whether it came to its end (if not, others still go on).

        Args:
            stop: asked again and again.
        """
        while self._may_decide():
            self.pending.append(self._decide(self.round + len(self.pending)))
        for one in self.pending:
            self._teams.begin(one)
        found = self._teams.wait(self.pending[0], stop)
        if found:
            self._take(self.pending[0], found)
        return found is not None

    def gather(self) -> None:
        """Take what is finished, whatever its turn: for the end of a search."""
        for one in tuple(self.pending):
            if found := self._teams.result(one):
                self._take(one, found)

    def close(self) -> None:
        """Stop rounds that go on; they begin anew with the next `advance`."""
        self._teams.close()

    def _may_decide(self) -> bool:
        trials = len(_TRIALS[self.config.sensors])
        if self.round + len(self.pending) - self.epoch < trials:
            return True
        return self.round - self.epoch >= trials and len(self.pending) < self.config.teams

    def _decide(self, number: int) -> Round:
        """What a round does."""
        draws = draws_of(self.seed, number)
        place, trials = number - self.epoch, _TRIALS[self.config.sensors]
        if place < len(trials):
            kind, length, stretch = trials[place]
            machines = self._begin(kind, draws)
            is_mirrored = kind in _MIRRORED
            return Round(machines, number, number, self.starts, 1.0, length, stretch, is_mirrored)
        luck = draw_units(branch(draws, CHOICES), 5)[:, 0]
        population = self._choose(place - len(trials))
        machines = self._go_on(population, luck, draws)
        heat = _HEATS[int(luck[2] * len(_HEATS))]
        length = _LENGTHS[int(luck[3] * len(_LENGTHS))]
        return Round(machines, number, population.number, self.starts, heat, length)

    def _take(self, one: Round, found: Found) -> None:
        """Keep a round's machine, and end the epoch if it gains nothing any more."""
        self.pending.remove(one)
        self.evaluated += found.evaluated
        self.programs += found.programs
        self.actions += found.actions
        best = self.populations[0].best if self.populations else -np.inf
        played = play_machines(self.setting, found.machine, self.judges, self.config)
        fitness = float(played.scores[0])
        known = [other for other in self.populations if other.number == one.population]
        if not known:
            known = [Population(one.population)]
            self.populations += known
        elif found.score - fitness > _OVERFIT and one.starts < _MORE_STARTS * self.first_starts:
            self.starts = max(self.starts, 2 * one.starts)
        known[0].add(found.machine, fitness)
        earned = float(self.judge(found.machine).scores[0])
        if earned not in self.hall.scores:  # else it is most likely the same machine once more
            self.hall.add(found.machine, earned)
        self.populations.sort(key=lambda other: -other.best)
        if fitness > best:
            self.gained = self.round
        self.round += 1
        least = len(_TRIALS[self.config.sensors]) + sum(rounds for rounds, _ in _STAGES)
        if self.round - self.epoch > least and self.round - self.gained > _STALE:
            self.close()
            self.pending, self.populations = [], []
            self.epoch, self.gained, self.starts = self.round, self.round, self.first_starts

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

    def _choose(self, place: int) -> Population:
        """Populations take turns; of fewer and fewer."""
        for rounds, kept in _STAGES:
            if place < rounds:
                return self.populations[place % kept]
            place -= rounds
        return self.populations[0]

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
        streams = branch(branch(draws, NEW), chains)
        blank = np.full((len(chains), config.tokens), LEAPS.pad, np.uint8)
        fresh = np.ones(len(chains), np.bool_)
        return propose_programs(blank, fresh, streams, "rich", limits_of(config))

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """What a search must remember to go on."""
        everyone = (self.hall, *self.populations)
        machines = {
            f"{number}.{place}.": machine
            for number, population in enumerate(everyone)
            for place, machine in enumerate(population.machines)
        } | {f"{_PENDING}{place}.": one.machines for place, one in enumerate(self.pending)}
        arrays = {
            prefix + name: array
            for prefix, several in machines.items()
            for name, array in several.named().items()
        }
        values = {name: getattr(self, name) for name in _COUNTS}
        values["populations"] = [(one.number, one.scores) for one in everyone]
        return arrays, {**values, "pending": [one.values() for one in self.pending]}

    def restore(self, arrays: dict[str, NDArray[Any]], values: dict[str, Any]) -> None:
        """Go on where `to_arrays` was called."""
        for name in _COUNTS:
            setattr(self, name, int(values[name]))
        self.hall, *self.populations = (
            Population(
                int(first),
                [Machines.from_named(arrays, f"{number}.{place}.") for place in range(len(scores))],
                [float(score) for score in scores],
            )
            for number, (first, scores) in enumerate(values["populations"])
        )
        self.pending = [
            Round(Machines.from_named(arrays, f"{_PENDING}{place}."), **one)
            for place, one in enumerate(values["pending"])
        ]
