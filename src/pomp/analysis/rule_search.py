"""Decision lists made better by trying: rules changed at random, and rules left out.

Rules are certain, networks need not be: a list that says what a network likes best may go in
circles where the network gets away by chance. So lists are changed until they earn as much.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from pomp.analysis.equivalence import shorter_rules
from pomp.analysis.list_trials import ListTrials, Tried, with_lists
from pomp.analysis.rule_trees import RuleLessons, Split
from pomp.core.streams import Purpose, draw_units, open_streams
from pomp.machine.transitions import DecisionList, Rule

CHAINS, PROPOSALS = 8, 4
_BEGINNINGS = 4  # the best lists, with which the chains begin
_UNITS = 24  # random numbers for one change
_WARMTH = 0.02  # of the best score is the first temperature
_SPREADING = 30  # rounds after which the worst chains go on with the best lists
_SEARCH = 3  # the stream of changes
_TWICE = 0.3  # of the proposals are two changes
_PARTS = 4  # of the starts; on one of them proposals are compared first


class _Dice:
    """Random numbers of one change, one after the other."""

    def __init__(self, units: NDArray[np.float64]) -> None:
        """Take `units`, `[N]` float64 from 0 to 1."""
        self._units = iter(units.tolist())

    def chance(self) -> float:
        """Return the next number, from 0 to 1."""
        return next(self._units)

    def below(self, count: int) -> int:
        """Return a whole number from 0 to `count` - 1."""
        return min(int(self.chance() * count), count - 1)


class RuleSearch:
    """A search for better lists.

    Attributes:
        best: the best that was tried.
    """

    def __init__(
        self, trials: ListTrials, lessons: RuleLessons, begin: Sequence[Tried], seed: int
    ) -> None:
        """Begin with lists that were tried.

        Args:
            trials: what tries.
            lessons: what was met, from which conditions are drawn.
            begin: the lists.
            seed: of the changes.
        """
        self._trials, self._lessons = trials, lessons
        order = sorted(begin, key=lambda one: -one.score)[:_BEGINNINGS]
        self._chains = [order[number % len(order)] for number in range(CHAINS)]
        self._streams = open_streams(Purpose.EXTRACTION, seed, _SEARCH, worlds=CHAINS * PROPOSALS)
        modes = lessons.weights.shape[1]
        self._met = [np.flatnonzero(lessons.modes == number - 1) for number in range(modes)]
        self.best = order[0]

    def run(self, rounds: int, tell: Callable[[], None]) -> None:
        """Change the lists of all chains so often, or until one is enough."""
        warmth = _WARMTH * abs(self.best.score)
        for number in range(rounds):
            self._run_round(number, warmth * (1 - number / rounds) + 1e-12)
            if number % _SPREADING == _SPREADING - 1:
                self._chains.sort(key=lambda one: -one.score)
                self._chains[-CHAINS // 4 :] = self._chains[: CHAINS // 4]
            tell()
            if self.best.is_enough:
                return

    def _run_round(self, number: int, warmth: float) -> None:
        """Try changes of each chain's list, and go on with the best if it is good enough."""
        units = draw_units(self._streams, _UNITS)
        dice = [_Dice(units[:, stream]) for stream in range(CHAINS * PROPOSALS)]
        changed = [self._change(self._chains[n % CHAINS].rules, one) for n, one in enumerate(dice)]
        scores = [one.score for one in self._trials.run(changed, number, _PARTS)]
        best = [
            max(range(chain, len(changed), CHAINS), key=scores.__getitem__)
            for chain in range(CHAINS)
        ]
        for chain, found in enumerate(self._trials.run([changed[n] for n in best])):
            loss = self._chains[chain].score - found.score
            if dice[chain].chance() < math.exp(min(0.0, -loss / warmth)):
                self._chains[chain] = found
            if (found.is_enough, found.score) > (self.best.is_enough, self.best.score):
                self.best = found

    def _change(self, rules: DecisionList, dice: _Dice) -> DecisionList:
        """Return rules with one change, sometimes two."""
        lists = [list(one) for one in _lists_of(rules)]
        owners = [number for number, rows in enumerate(self._met) if len(rows)]
        for _ in range(1 + (dice.chance() < _TWICE)):
            owner = owners[dice.below(len(owners))]
            self._change_list(lists[owner], owner, dice)
        return with_lists([tuple(one) for one in lists])

    def _change_list(self, rules: list[Rule], owner: int, dice: _Dice) -> None:
        """Change one list in place: drop, redirect, add or swap rules, or change conditions."""
        kind, place = dice.chance(), dice.below(len(rules))
        if kind < 0.3:
            when = tuple(self._draw(owner, dice) for _ in range(1 + dice.below(2)))
            rules.insert(place, Rule(self._target(dice), when))
        elif kind < 0.5 or len(rules) == 1:
            rules[place] = Rule(self._target(dice), rules[place].when)
        elif kind < 0.7:
            del rules[min(place, len(rules) - 2)]
        elif kind < 0.9:
            place = min(place, len(rules) - 2)
            rules[place] = Rule(rules[place].to, self._change_when(rules[place].when, owner, dice))
        elif len(rules) > 2:
            place = min(place, len(rules) - 3)
            rules[place], rules[place + 1] = rules[place + 1], rules[place]

    def _change_when(self, when: tuple[str, ...], owner: int, dice: _Dice) -> tuple[str, ...]:
        """Return conditions of which one is another, is new or is gone."""
        place, kind = dice.below(len(when)), dice.chance()
        rest = (*when[:place], *when[place + 1 :])
        if kind < 0.3 and rest:
            return rest
        return (*(when if kind > 0.7 else rest), self._draw(owner, dice))

    def _target(self, dice: _Dice) -> int | None:
        """Return a mode or the end."""
        ends = len(self._met) - 1
        to = dice.below(ends + 1)
        return None if to == ends else to

    def _draw(self, owner: int, dice: _Dice) -> str:
        """Return a condition that told something apart among what was met after a mode."""
        seen = self._lessons.seen[self._met[owner]]
        varying = np.flatnonzero(seen.min(axis=0) < seen.max(axis=0))
        if not len(varying):
            return "idle"
        column = int(varying[dice.below(len(varying))])
        value, least = int(seen[dice.below(len(seen)), column]), int(seen[:, column].min())
        return Split(column, max(value, least + 1)).condition(dice.chance() < 0.5)


def leave_rules_out(
    trials: ListTrials, given: Tried, tell: Callable[[int], None] = lambda words: None
) -> list[Tried]:
    """Leave out rules and conditions as long as a list is enough; returns the way there.

    At every step, the largest piece goes without which it is, after every mode if that is enough
    together. From a list that is not enough, pieces go as long as its score does not fall, the most
    needless first.

    Args:
        trials: what tries.
        given: the list.
        tell: hears before each step how much there is to read.
    """
    way = [given]

    def is_good(one: Tried) -> bool:
        return one.is_enough if given.is_enough else one.score >= way[-1].score

    def rank(one: Tried) -> tuple[float, float]:
        return (one.words if given.is_enough else 0, -one.score)

    while True:
        tell(way[-1].words)
        lists = _lists_of(way[-1].rules)
        shorter = _leave_out(lists)
        good = sorted(filter(is_good, trials.run(shorter)), key=rank)
        if not good:
            return way
        together = list(lists)
        for one in reversed(good):  # of pieces after one mode, the best is taken last
            for owner, rules in enumerate(_lists_of(one.rules)):
                together[owner] = rules if rules != lists[owner] else together[owner]
        joint = trials.run([with_lists(together)])[0]
        way.append(joint if is_good(joint) else good[0])


def _lists_of(rules: DecisionList) -> list[tuple[Rule, ...]]:
    """Return the lists of rules, that of the start first."""
    return [rules.start, *rules.after]


def _leave_out(lists: list[tuple[Rule, ...]]) -> list[DecisionList]:
    """Return rules of which each lacks one piece."""
    targets: dict[int | None, str] = {None: "", **dict.fromkeys(range(len(lists) - 1), "")}
    return [
        with_lists([*lists[:owner], left, *lists[owner + 1 :]])
        for owner, one in enumerate(lists)
        for left, _ in shorter_rules(one, targets)
    ]
