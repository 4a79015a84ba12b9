"""The search for one machine: epochs of annealing rounds over populations."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.core.streams import Purpose, branch, draw_units
from pomp.evolution.beginnings import (
    FOUR,
    MIRRORED,
    ONE,
    PAIR,
    WALKER,
    continued_chains,
    fresh_chains,
    later_chains,
)
from pomp.evolution.checkpoint import check_progress, machines_of, values_schema
from pomp.evolution.config import BUDGETS, EvolveConfig
from pomp.evolution.genome import Machines
from pomp.evolution.ground import Ground, some_ground
from pomp.evolution.play import Scores, StoppedError, play_machines
from pomp.evolution.population import KEPT, Population, is_robust
from pomp.evolution.rounds import CHOICES, Round, RoundResult, draws_of, stricter
from pomp.evolution.teams import Teams
from pomp.tasks.task import Setting

_TRIALS = {
    "perceptions": (
        (PAIR, 0.5, 1), (FOUR, 0.5, 1), (ONE, 1.0, 1), (PAIR, 1.0, 1),
        (FOUR, 2.0, 5), (FOUR, 1.0, 5), (PAIR, 1.0, 5),
    ),
    "compass": (
        (WALKER, 0.5, 1), (FOUR, 0.5, 1), (WALKER, 1.0, 1),
        (PAIR, 1.0, 1), (ONE, 2.0, 1), (FOUR, 2.0, 1),
    ),
}  # fmt: skip
# An epoch's first rounds, which begin populations: how, their `length_factor`, `action_factor`.
_STAGES = ((12, 4), (10, 2))  # then rounds in which so many populations take turns; then the best
# Where machines must be clean: how strict rounds of the first stage are, later ones, and fitness.
# Rounds that begin populations are mild: else machines that stop at once are all they find.
_STRICT, _STRICTER, _STRICT_FITNESS = 3.0, 10.0, 3.0
_STALE = 10  # rounds without improvement that end an epoch
_HOPEFUL = 0.5  # share of an epoch's best fitness that its machines must earn in validation by then
_OVERFIT = 0.03  # an epoch whose machines are that much better on its starts gets more of them
_MORE_STARTS = 4  # times as many starts at most
_TEMPERATURES = (0.03, 0.1, 0.3, 1.0)  # temperature factors of later rounds, one is drawn
_LENGTHS = (0.3, 0.6, 1.2)  # length factors of later rounds, one is drawn

_MOST_GIVEN, _GIVEN_TEMPERATURE = 8, 0.3  # given machines that begin populations, and how warm
_UNCLEAN = 1.0  # what an episode costs in validation in which a machine is not clean
_CLEAN_STARTS = 1000  # worlds in which a machine must be clean to be handed over as such

_PENDING = "pending."
_COUNTS = ("round", "epoch", "improved", "starts", "evaluated", "programs", "actions")


class Evolution:
    """A search in epochs: fresh populations, of which fewer and fewer continue.

    What a round does depends on earlier rounds alone: an epoch's first rounds depend on none, later
    ones on all but the last `teams - 1`, so that these can be computed at the same time.

    Args:
        setting: the task.
        seed: of everything drawn.
        config: of the search.
        device: where machines are played, cpu or cuda.
        workers: processes that compute rounds; with 1, rounds are computed in this one.
        given: machines that the first epoch begins with, each alone; of more than `_MOST_GIVEN` the
            best.

    Attributes:
        round: the number of the round that is finished next, from 0.
        pending: rounds that are decided but not finished, the next one first.
        epoch: the number of the round with which this epoch began.
        improved: the number of the round that last improved this epoch's best fitness.
        starts: worlds on which mutated machines are played; within an epoch they never become
            fewer.
        populations: those of this epoch, the best first. Their scores are the fitness on the
            validation worlds: what machines earn there as in a round, with all that is taken off.
        hall: the hall of fame, the best machines of all epochs by what they earn in the validation
            worlds when stuck episodes run to their very end.
        holding: where machines must be clean, the best of those that are in many more worlds, by
            what they earn there.
        evaluated: machines played in finished rounds.
        programs: programs that these ran.
        actions: actions that these took.
    """

    def __init__(
        self,
        setting: Setting,
        seed: int,
        config: EvolveConfig,
        device: str = "cpu",
        workers: int = 1,
        given: Sequence[Machines] = (),
    ) -> None:
        self.config = config if setting.task.is_restless else replace(config, fragility=0.0)
        self.setting, self.seed, self.device = setting, seed, device
        self.round, self.evaluated, self.programs, self.actions = 0, 0, 0, 0
        self.epoch, self.improved = 0, 0
        self._given = list(given)
        self.populations: list[Population] = []
        self.hall, self.holding = Population(), Population()
        self.pending: list[Round] = []
        self._played: dict[int, RoundResult] = {}  # what rounds found whose validation was stopped
        self.starts = self.first_starts
        self.validation_ground = self._draw_validation(config.validation_starts)
        self._teams = Teams(setting, seed, self.config, device, workers)

    @property
    def first_starts(self) -> int:
        """How many worlds an epoch begins with."""
        task, starts = self.setting.task, self.config.starts
        begin_alike = task.starts is not None and len(self.setting.list_starts()) == 1
        return max(1, starts // 4) if begin_alike else starts

    @property
    def is_solved(self) -> bool:
        """Whether a machine earns as much as the task allows."""
        found = self.holding if self.config.clean else self.hall
        return found.best >= self.setting.goal - 1e-9

    @property
    def tried(self) -> int:
        """Machines played so far, also in rounds that are not finished."""
        return self.evaluated + self._teams.tried

    def advance(self, stop: Callable[[], bool]) -> bool:
        """Decide rounds as far as possible, compute them, and finish the next one.

        Args:
            stop: asked again and again whether to stop waiting.

        Returns:
            Whether the next round came to its end; if not, decided rounds are still computed.
        """
        if not self.round and not self.pending:
            self._take_given()
        while self._may_decide():
            self.pending.append(self._decide(self.round + len(self.pending)))
        one = self.pending[0]
        found = self._played.pop(one.number, None)
        for other in self.pending[found is not None :]:
            self._teams.begin(other)
        found = found or self._teams.wait(one, stop)
        if found is None:
            return False
        try:
            self._finish(one, found, stop)
        except StoppedError:
            self._played[one.number] = found
            return False
        return True

    def gather(self) -> None:
        """Finish all rounds that came to their end, in any order: for the end of a search."""
        for one in tuple(self.pending):
            if found := self._played.pop(one.number, None) or self._teams.result(one):
                self._finish(one, found)

    def close(self) -> None:
        """Stop rounds that are being computed; they begin anew with the next `advance`."""
        self._teams.close()

    def _take_given(self) -> None:
        """Keep the best of the given machines, and let them into the hall of fame."""
        found = [self._judge(one) for one in self._given]
        scores = [earned.scores[0] for earned, _ in found]
        best = np.argsort(scores, kind="stable")[::-1][:_MOST_GIVEN]
        for place in best:
            self._honour(self._given[place], *found[place])
        self._given = [self._given[place] for place in sorted(best)]

    def _first_rounds(self, epoch: int) -> int:
        """Return how many rounds begin populations in the epoch that began with a round."""
        given = 0 if epoch else min(len(self._given), _MOST_GIVEN)
        return given + len(_TRIALS[self.config.sensors])

    def _may_decide(self) -> bool:
        """Whether one more round can be decided now."""
        trials = self._first_rounds(self.epoch)
        if self.round + len(self.pending) - self.epoch < trials:
            return True
        return self.round - self.epoch >= trials and len(self.pending) < self.config.teams

    def _decide(self, number: int) -> Round:
        """Decide what a round does."""
        draws = draws_of(self.seed, number)
        trials = _TRIALS[self.config.sensors]
        place = number - self.epoch - (self._first_rounds(self.epoch) - len(trials))
        if place < 0:
            machines = self._given[place].repeat(self.config.chains)
            return Round(machines, number, number, self.starts, _GIVEN_TEMPERATURE, 1.0)
        if place < len(trials):
            kind, length, more_actions = trials[place]
            machines, is_mirrored = fresh_chains(kind, draws, self.config), kind in MIRRORED
            return Round(
                machines, number, number, self.starts, 1.0, length, more_actions, is_mirrored
            )
        uniforms = draw_units(branch(draws, CHOICES), 5)[:, 0]
        population = self._choose_population(place - len(trials))
        machines = continued_chains(population, uniforms, draws, self.config)
        temperature = _TEMPERATURES[int(uniforms[2] * len(_TEMPERATURES))]
        length = _LENGTHS[int(uniforms[3] * len(_LENGTHS))]
        strictness = _STRICT if place < len(trials) + _STAGES[0][0] else _STRICTER
        return Round(
            machines, number, population.number, self.starts, temperature, length,
            strictness=strictness if self.config.clean else 1.0,
        )  # fmt: skip

    def _finish(
        self, one: Round, found: RoundResult, stop: Callable[[], bool] = lambda: False
    ) -> None:
        """Add a round's machine to its population, and end the epoch if it no longer improves.

        Raises:
            StoppedError: nothing was added, since validation was stopped.
        """
        machine = found.machine
        strictness = _STRICT_FITNESS if self.config.clean else 1.0
        expected = self._fitness(machine, one.strictness, stop)
        fitness = self._fitness(machine, strictness, stop)
        judged = self._judge(machine, stop)
        self.pending.remove(one)
        self.evaluated += found.evaluated
        self.programs += found.programs
        self.actions += found.actions
        best = self.populations[0].best if self.populations else -np.inf
        known = [other for other in self.populations if other.number == one.population]
        if not known:
            known = [Population(one.population)]
            self.populations += known
        elif found.score - expected > _OVERFIT and one.starts < _MORE_STARTS * self.first_starts:
            self.starts = max(self.starts, 2 * one.starts)
        known[0].add(machine, fitness)
        self._honour(machine, *judged)
        self.populations.sort(key=lambda other: -other.best)
        if fitness > best:
            self.improved = self.round
        self.round += 1
        least = self._first_rounds(self.epoch) + sum(rounds for rounds, _ in _STAGES)
        is_stale = self.round - self.improved > _STALE
        if self.round - self.epoch > least and (is_stale or self._lives_by_mercy()):
            self.close()
            self.pending, self.populations = [], []
            self.epoch, self.improved, self.starts = self.round, self.round, self.first_starts

    def _lives_by_mercy(self) -> bool:
        """Whether machines must be clean, and the epoch's best earn far less than their fitness."""
        if not self.config.clean:
            return False
        best = self.populations[0]
        earned = max(self.validate(one).scores[0] for one in best.machines)
        return bool(earned < _HOPEFUL * best.best)

    def _judge(
        self, machine: Machines, stop: Callable[[], bool] = lambda: False
    ) -> tuple[Scores, Scores | None]:
        """Return what a machine earns in validation and, if it must be clean, in many worlds."""
        earned = self.validate(machine, stop)
        is_hopeful = self.config.clean and not earned.unclean.any()
        return earned, self.prove(machine, stop) if is_hopeful else None

    def _honour(self, machine: Machines, earned: Scores, proven: Scores | None) -> None:
        """Let a machine into the hall of fame, and among those that hold if it was proven to."""
        for honoured, found in ((self.hall, earned), (self.holding, proven)):
            score = -np.inf if found is None else float(found.scores[0])
            if found and score not in honoured.scores:  # else most likely the same machine again
                honoured.add(machine, score)

    def _fitness(self, machine: Machines, strictness: float, stop: Callable[[], bool]) -> float:
        """Return what a machine earns in the validation worlds, judged as in a round."""
        ground, config = self.validation_ground, stricter(self.config, strictness)
        return float(play_machines(self.setting, machine, ground, config, stop=stop).scores[0])

    def validate(self, machines: Machines, stop: Callable[[], bool] = lambda: False) -> Scores:
        """Play machines in the validation worlds, stuck episodes to their very end.

        Where machines must be clean, an episode in which one is not costs as much as all rewards.

        Raises:
            StoppedError: it was stopped.
        """
        config = self.config
        if config.clean:
            config = replace(config, penalty=_UNCLEAN, lateness=_UNCLEAN)
        ground = self.validation_ground
        return play_machines(self.setting, machines, ground, config, to_the_end=True, stop=stop)

    def validate_by_budget(self, machine: Machines) -> dict[int, float]:
        """Return what a machine earns in the validation worlds under each of the budgets."""
        plain = replace(self.config, penalty=0.0, lateness=0.0, fragility=0.0, clean=False)

        def earned(budget: int) -> float:
            ground, budgets = self.validation_ground, (budget,)
            found = play_machines(
                self.setting, machine, ground, plain, budgets=budgets, to_the_end=True
            )
            return float(found.scores[0])

        return {budget: earned(budget) for budget in BUDGETS}

    def prove(self, machine: Machines, stop: Callable[[], bool] = lambda: False) -> Scores | None:
        """Return what a machine earns in many validation worlds if it is clean in all of them.

        Raises:
            StoppedError: it was stopped.
        """
        ground, strict = self._many_worlds, replace(self.config, clean=True)
        found = play_machines(self.setting, machine, ground, strict, to_the_end=True, stop=stop)
        return None if found.unclean.any() else found

    @cached_property
    def _many_worlds(self) -> Ground:
        return self._draw_validation(max(_CLEAN_STARTS, self.config.validation_starts))

    def _draw_validation(self, count: int) -> Ground:
        asked = self.setting, self.config, count, self.seed
        return some_ground(*asked, Purpose.VALIDATION, self.device)

    def choose(self) -> tuple[Machines, float]:
        """Choose the machine that the search hands over.

        Returns:
            The best machine that is clean, if that is wanted; or else the best in the hall of fame
            whose return does not depend on the budget; or the best of all if there is none; and
            what it earned in validation.
        """
        if self.holding.machines:
            return self.holding.machines[0], self.holding.best
        found = list(zip(self.hall.machines, self.hall.scores, strict=True))
        robust = (pair for pair in found if is_robust(self.validate_by_budget(pair[0])))
        return next(robust, found[0])

    def _choose_population(self, place: int) -> Population:
        """Choose the population that a later round continues; fewer and fewer take turns.

        Args:
            place: how many rounds of the epoch have continued a population before.
        """
        for rounds, kept in _STAGES:
            if place < rounds:
                return self.populations[place % kept]
            place -= rounds
        return self.populations[0]

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return what a search must remember to go on: arrays by name, and values for JSON.

        The arrays are those of `Machines` with a prefix: `0.` and a place for the hall of fame,
        `1.`, `2.`, ... and a place for the populations, `pending.` and a place for the chains of
        decided rounds. A machine alone has arrays `[1, ...]`, the chains of a round `[C, ...]`.
        """
        everyone = (self.hall, self.holding, *self.populations)
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
        values["scores"] = [[one.number, one.scores] for one in everyone]
        return arrays, {**values, "pending": [one.values() for one in self.pending]}

    def restore(self, arrays: dict[str, NDArray[Any]], values: dict[str, Any]) -> None:
        """Go on where `to_arrays` was called.

        Args:
            arrays: its arrays by name, `[1, ...]` or `[C, ...]`.
            values: its values.

        Raises:
            DataFileError: they are damaged, or those of another search.
        """
        most = 2 * _MORE_STARTS * self.first_starts
        values_schema(_COUNTS, KEPT, self.first_starts, most).check(values)

        def read(prefix: str, count: int) -> Machines:
            return machines_of(arrays, prefix, self.config, count)

        def read_population(number: int, first: int, scores: list[float]) -> Population:
            machines = [read(f"{number}.{place}.", 1) for place in range(len(scores))]
            return Population(first, machines, list(scores))

        everyone = enumerate(values["scores"])
        hall, holding, *populations = (read_population(number, *told) for number, told in everyone)
        begun = values["epoch"] + self._first_rounds(values["epoch"])

        def read_pending(place: int, one: dict[str, Any]) -> Round:
            is_first = one["number"] < begun
            chains = self.config.chains if is_first else later_chains(self.config)
            return Round(read(f"{_PENDING}{place}.", chains), **one)

        pending = [read_pending(place, one) for place, one in enumerate(values["pending"])]
        has_begun = values["round"] >= begun
        check_progress(hall, populations, pending, values, has_begun)
        self.hall, self.holding = hall, holding
        self.populations, self.pending = populations, pending
        for name in _COUNTS:
            setattr(self, name, values[name])
