"""Distil rules from a machine whose transitions are a network's: the same modes, a decision list.

Lists over sensors and counts are fitted to the network's choices on states that its episodes meet
(`pomp.analysis.rule_trees`), then on those that the fitted list itself meets, since there the
network may never have been. Every list is run. If none earns enough, rules are changed by trying;
what is enough is made as short as it can be (`pomp.analysis.rule_search`).

Starts of the episodes that teach are drawn for this alone, lists are tried on validation starts,
and only what comes out is played on those of evaluation.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from pomp.analysis.distilled import Distillation, Fidelity
from pomp.analysis.list_trials import ListTrials, Tried
from pomp.analysis.rule_search import RuleSearch, leave_rules_out
from pomp.analysis.rule_trees import Forest, RuleLessons, collect, see
from pomp.analysis.trials import Trials, check_study
from pomp.analysis.watching import Met, watch
from pomp.core.configs import check_ranges
from pomp.core.errors import ConfigError
from pomp.core.extras import LEARN, require
from pomp.karel.sensors import SENSORS
from pomp.machine.code_table import CodeTable
from pomp.machine.evaluation import evaluate
from pomp.machine.policy import ProgramMachine
from pomp.machine.transitions import DecisionList, NetworkTransition

FEWER = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)
"""Splits with which lists are tried, before the most."""

Tell = Callable[[str, int], None]
"""Called with what comes next, and how many steps of `DistillationConfig.steps` are done."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DistillationConfig:
    """How rules are distilled."""

    keep: float = 0.95
    """The share of the network's return that rules must keep, and of the episodes that it ends by
    itself."""
    episodes: int = 128
    """Episodes that teach, of each fit."""
    trials: int = 100
    """Episodes in which each list is tried."""
    fits: int = 3
    """How often lists are fitted: to what the network meets, then also to what they meet."""
    rules: int = 64
    """Rules beside the defaults that a fitted list has at most."""
    search: int = 200
    """Rounds in which rules are changed by trying, if fitted ones do not earn enough."""

    def __post_init__(self) -> None:
        check_ranges(
            self,
            keep=(0.0, 1.0),
            episodes=(4, 100_000),
            trials=(1, 100_000),
            fits=(1, 100),
            rules=(0, 1_000),
            search=(0, 1_000_000),
        )

    @property
    def steps(self) -> int:
        """Fits, rounds of the search, and leaving out."""
        return self.fits + self.search + 1


def distill(
    machine: ProgramMachine,
    config: DistillationConfig | None = None,
    *,
    seed: int = 0,
    tell: Tell = lambda what, steps: None,
) -> Distillation:
    """Distil rules from a machine with a network.

    Args:
        machine: which.
        config: how; None: with the defaults.
        seed: of episodes and changes.
        tell: hears what comes next.

    Raises:
        ConfigError: the machine has no network, or one that remembers more than the last mode;
            or something is not of its kind.
        MissingExtraError: torch is not installed.
    """
    config = DistillationConfig() if config is None else config
    check_study("distilling rules", machine, config, DistillationConfig, seed, tell)
    transition = machine.transition
    if not isinstance(transition, NetworkTransition):
        raise ConfigError(_refuse(machine))
    machine.check_memoryless("distilling rules")
    require(LEARN, "distilling rules")
    study = _Distiller(machine, transition, config, seed, tell)
    study.fit()
    chosen, was_searched = study.choose()
    told = {"distillation": {"keep": config.keep, "seed": seed}}
    distilled = replace(
        machine,
        transition=chosen.rules,
        names=machine.names or tuple(f"M{number + 1}" for number in range(len(machine.modes))),
        provenance={**machine.provenance, **told},
    )
    return Distillation(
        machine=distilled,
        is_enough=chosen.is_enough,
        was_searched=was_searched,
        goal=study.goal,
        fidelity=study.compare(chosen.rules),
        network=evaluate(machine),
        greedy=evaluate(machine, greedy=True),
        found=evaluate(distilled),
    )


def _refuse(machine: ProgramMachine) -> str:
    """Say why there is nothing to distil in a machine, and what to use."""
    instead = "pomp explain shows what it does"
    if isinstance(machine.transition, DecisionList):
        instead = "it is a text machine already; pomp simplify makes it smaller"
    elif isinstance(machine.transition, CodeTable):
        instead = "it was extracted; distil the machine it came from, or use pomp explain"
    return (
        "rules are distilled from a network, and this machine has none: "
        f"{machine.headline}; {instead}"
    )


class _Distiller:
    """A network from which rules are distilled.

    Attributes:
        goal: the mean return that is enough.
    """

    def __init__(
        self,
        machine: ProgramMachine,
        transition: NetworkTransition,
        config: DistillationConfig,
        seed: int,
        tell: Tell,
    ) -> None:
        from pomp.machine.bottleneck import OpenedNetwork

        tell("episodes of the network", 0)
        self._machine, self._config, self._seed, self._tell = machine, config, seed, tell
        self._network = OpenedNetwork(transition)
        self._trials = Trials(machine, config.keep, config.trials, seed)
        self._lists = ListTrials(self._trials)
        self.goal = self._trials.goal
        programs = self._trials.network.programs
        self._length, self._longest = int(programs.mean()) + 1, int(programs.max()) + 1
        self._tried: list[Tried] = []
        self._lessons: RuleLessons

    def fit(self) -> None:
        """Fit lists to what the network meets, and then also to what the best of them meet."""
        met: list[Met] = []
        for fit in range(self._config.fits):
            self._tell(f"fit {fit + 1}", 0)
            leader = max(self._tried, key=lambda one: one.score).rules if fit else None
            met.append(self._watch(fit, leader))
            self._lessons = collect(met)
            forest = Forest(self._lessons, self._config.rules)
            sizes = [size for size in FEWER if size < forest.splits]
            lists = [forest.rules(size) for size in (*sizes, forest.splits)]
            self._tried += self._lists.run(lists)
            self._tell(f"fit {fit + 1}", 1)

    def _watch(self, fit: int, leader: DecisionList | None) -> Met:
        """Play episodes that teach; each fit has its own starts."""
        count = self._config.episodes
        return watch(
            self._machine, self._network, count, self._length, self._seed,
            first=fit * count, see=see, leader=leader, most=self._longest if leader else None,
        )  # fmt: skip

    def choose(self) -> tuple[Tried, bool]:
        """Return the list that is kept, and whether rules were changed by trying.

        It is the shortest that earned enough and does so again on other starts, since of many
        tries some are lucky. Else it is the best on the first starts.
        """
        was_searched = not any(one.is_enough for one in self._tried) and self._config.search > 0
        if was_searched:
            self._search()
        enough = [one for one in self._tried if one.is_enough]
        best = max(self._tried, key=lambda one: one.score)
        if enough:
            best = min(enough, key=lambda one: (one.words, -one.score))
        way = leave_rules_out(
            self._lists, best, lambda words: self._tell(f"leaving out of {words} words", 0)
        )
        for one in reversed(way):
            if one.is_enough and self._is_enough_again(one.rules):
                return one, was_searched
        return replace(max(way, key=lambda one: one.score), is_enough=False), was_searched

    def _search(self) -> None:
        """Change rules by trying."""
        search = RuleSearch(self._lists, self._lessons, self._tried, self._seed)
        search.run(self._config.search, lambda: self._tell(f"search {search.best.mean:.3f}", 1))
        self._tried.append(search.best)

    def _is_enough_again(self, rules: DecisionList) -> bool:
        """Whether rules earn enough on other starts, too."""
        machine = replace(self._trials.machine, transition=rules)
        return self._trials.is_enough(self._trials.play(machine, again=True))

    def compare(self, rules: DecisionList) -> Fidelity:
        """Compare what rules choose with what the network does, in fresh episodes of it."""
        config = self._config
        met = watch(
            self._machine, self._network, config.episodes, self._length, self._seed,
            first=config.fits * config.episodes, see=see, is_plain=True,
        )  # fmt: skip
        sensed, counts = np.split(met.seen, [len(SENSORS)], axis=1)
        readings = (sensed.astype(np.int64) << np.arange(len(SENSORS))).sum(axis=1)
        rows = np.arange(len(readings))
        choices = rules.choices(readings, counts)[met.modes + 1, rows]
        return Fidelity(
            likeliest=float((choices == met.probs.argmax(axis=1)).mean()),
            drawn=float(met.probs[rows, choices].mean()),
            most=float(met.probs.max(axis=1).mean()),
            states=len(rows),
        )
