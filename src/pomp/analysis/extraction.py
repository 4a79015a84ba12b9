"""Extract a state machine from a machine whose transitions are a network's.

A quantised bottleneck turns what the network sees into codes (`pomp.machine.bottleneck`); asking
the network at every code after every mode gives a table (`pomp.machine.code_table`). Codes with
equal columns are one observation. Then those whose choices are most alike where they were met are
merged further, as long as the machine, which is run at every try, still earns enough.

Starts and choices of the episodes that teach are drawn for this alone, trials are played on
validation starts, and only what comes out is played on those of evaluation.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import inf, isqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pomp.analysis.code_tables import (
    be_certain,
    gather,
    merge_alike,
    merge_equal,
    settle,
    sharpen,
)
from pomp.analysis.extracted import Extraction, SizeTried, TableTrial, minimise
from pomp.analysis.trials import Trials, check_study, error_of
from pomp.analysis.watching import watch
from pomp.core.configs import check_choices, check_parts, check_ranges
from pomp.core.errors import ConfigError
from pomp.core.extras import LEARN, require
from pomp.machine.code_table import CodeTable, layers_of
from pomp.machine.config import BottleneckConfig
from pomp.machine.evaluation import Evaluation, begin_exactly, evaluate
from pomp.machine.policy import ProgramMachine
from pomp.machine.transitions import NetworkTransition

Choices = Literal["auto", "greedy", "sampled"]

GREEDY, SAMPLED = "greedy", "sampled"
SIZES = (2, 3, 4, 6, 8, 12)
MOST_UNITS = 64
EVALUATED = 400
"""Evaluation starts that are played where something is drawn."""
_UNMET = 1e-6  # of a visit is what the network would choose where it never was
_FAR = 0.2  # of the goal below it, nothing is sharpened until it earns enough
_MORE = 4  # times as many episodes are played again with what earned enough
_POWERS = {GREEDY: (inf,), SAMPLED: (1.0, 1.4, 1.8)}  # by which choices are sharpened, in turn

Tell = Callable[[str, int], None]
"""Called with what comes next, and how many sizes were finished since the last call."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtractionConfig:
    """How a state machine is extracted."""

    sizes: tuple[int, ...] = SIZES
    """Units of a code that are tried."""
    keep: float = 0.97
    """The share of the network's return that a smaller machine must keep, and of the episodes that
    it ends by itself."""
    choices: Choices = "auto"
    """What the table holds: the likeliest choices, as in the paper; how likely each is; auto: the
    latter only if no machine with the former keeps enough."""
    episodes: int = 256
    """Episodes that teach."""
    trials: int = 100
    """Episodes in which a candidate is tried."""
    bottleneck: BottleneckConfig = field(default_factory=BottleneckConfig)

    def __post_init__(self) -> None:
        check_choices(self, choices=Choices)
        check_ranges(self, keep=(0.0, 1.0), episodes=(4, 100_000), trials=(1, 100_000))
        check_parts(self, bottleneck=BottleneckConfig)
        sizes = self.sizes if isinstance(self.sizes, tuple | list) else (self.sizes,)
        are_sizes = all(type(size) is int and 1 <= size <= MOST_UNITS for size in sizes)
        if sizes is not self.sizes or not sizes or not are_sizes or len(set(sizes)) < len(sizes):
            given = " ".join(map(str, sizes)) or "none"
            raise ConfigError(
                f"sizes are different whole numbers from 1 to {MOST_UNITS}, got {given}"
            )


def extract(
    machine: ProgramMachine,
    config: ExtractionConfig | None = None,
    *,
    seed: int = 0,
    tell: Tell = lambda what, sizes: None,
) -> Extraction:
    """Extract a state machine from a machine with a network.

    Args:
        machine: which.
        config: how; None: with the defaults.
        seed: of episodes and of the bottlenecks' first weights.
        tell: hears what comes next.

    Raises:
        ConfigError: the machine has no network, or one that remembers; or something is not of
            its kind.
        MissingExtraError: torch is not installed.
    """
    config = ExtractionConfig() if config is None else config
    check_study("extracting a state machine", machine, config, ExtractionConfig, seed, tell)
    machine.check_memoryless("extracting a table of modes and observations")
    if not isinstance(machine.transition, NetworkTransition):
        raise ConfigError(
            "a state machine is extracted from a network, and this machine has none: "
            f"{machine.headline}; pomp explain shows what it does"
        )
    require(LEARN, "extracting a machine")
    tell("episodes", 0)
    study = _Study(machine, machine.transition, config, seed)
    tried = []
    for units in config.sizes:
        tell(f"{units} units", 0)
        tried.append(study.try_size(units))
        tell(f"{units} units", 1)
    kind, units, trial = study.pick()
    origin = {"extraction": {"units": units, "choices": kind, "seed": seed}}
    extracted = replace(
        machine,
        transition=trial.table,
        names=machine.names or tuple(f"M{number + 1}" for number in range(len(machine.modes))),
        provenance={**machine.provenance, **origin},
    )
    minimal = minimise(extracted)
    return Extraction(
        machine=extracted,
        minimal=minimal,
        choices=kind,
        units=units,
        is_enough=trial.is_enough,
        goal=study.goal,
        sizes=tuple(tried),
        network=_evaluate(machine),
        greedy=evaluate(machine, greedy=True),
        found=_evaluate(extracted),
        minimal_found=_evaluate(minimal),
    )


def _evaluate(machine: ProgramMachine) -> Evaluation:
    """Play a machine on evaluation starts: on all, or on enough to tell shares of a return apart.

    Returns vary from episode to episode; with the hundred of the paper's tables, a share is off by
    two hundredths now and then.
    """
    is_exact = begin_exactly(machine, machine.configure()) is not None
    return evaluate(machine, episodes=None if is_exact else EVALUATED)


class _Study:
    """A network that is looked into: what it met, and what is enough.

    Attributes:
        goal: the mean return that a smaller machine must have.
    """

    def __init__(
        self,
        machine: ProgramMachine,
        transition: NetworkTransition,
        config: ExtractionConfig,
        seed: int,
    ) -> None:
        from pomp.machine.bottleneck import OpenedNetwork

        self._config, self._seed = config, seed
        self._has_greedy, self._may_be_greedy = False, config.choices == GREEDY
        self._found: list[tuple[str, int, TableTrial]] = []  # by kind and units, all that was tried
        self._transition, self._network = transition, OpenedNetwork(transition)
        self._trials = Trials(machine, config.keep, config.trials, seed, more=_MORE)
        self.goal = self._trials.goal
        self._hopeless = self.goal - _FAR * abs(self.goal)
        if config.choices == "auto":  # a table does hardly better than the network it is asked of
            certain = self._trials.play(machine, is_greedy=True)
            self._may_be_greedy = certain.mean >= self._hopeless
        length = int(self._trials.network.programs.mean()) + 1
        self._met = watch(machine, self._network, config.episodes, length, seed)

    def _try(self, table: CodeTable, again: bool = False) -> TableTrial:
        """Run a table; a machine that never ends is stopped early.

        Args:
            table: which.
            again: whether on other starts, which were not searched for luck; else what it earned
                must be enough by a standard error.
        """
        machine = replace(self._trials.machine, transition=table)
        found = self._trials.play(machine, again=again)
        is_enough = self._trials.is_enough(found, is_lucky=not again)
        return TableTrial(table, found.mean, error_of(found), is_enough)

    def pick(self) -> tuple[str, int, TableTrial]:
        """Return the kind, the units and the trial of the machine that is kept.

        It is the one with the fewest observations among those that earned enough and do so again
        on other starts, since of many tries some are lucky; greedy ones first. Else it is the one
        that earned most.
        """
        enough = [one for one in self._found if one[2].is_enough]
        enough.sort(key=lambda one: (one[0] != GREEDY, one[2].observations))
        for kind, units, trial in enough:
            if self._try(trial.table, again=True).is_enough:
                return kind, units, trial
        kind, units, trial = max(self._found, key=lambda one: one[2].mean)
        return kind, units, replace(trial, is_enough=False)

    def try_size(self, units: int) -> SizeTried:
        """Learn codes of a size, make tables of them and run these."""
        from pomp.machine.bottleneck import fit_bottleneck

        met = self._met
        bottleneck = fit_bottleneck(
            self._network, met.features, met.modes, units, self._config.bottleneck, self._seed
        )
        codes, which, counts = np.unique(
            bottleneck.encode(met.features), axis=0, return_inverse=True, return_counts=True
        )
        order = np.argsort(-counts, kind="stable")  # the most frequent first
        codes, which = codes[order], np.argsort(order)[which.reshape(-1)]
        asked = self._network.probabilities(bottleneck.decode(codes)).transpose(1, 0, 2)
        weights = {**layers_of(self._transition.arrays), **bottleneck.encoder}

        def tabulate(groups: NDArray[np.int64], probs: NDArray[np.float64]) -> CodeTable:
            again = merge_equal(probs)
            _, first = np.unique(again, return_index=True)
            return CodeTable(
                self._transition.config, self._transition.size, self._transition.modes, weights,
                codes, again[groups], np.ascontiguousarray(probs[:, first]),
            )  # fmt: skip

        certain = tabulate(np.arange(len(codes)), be_certain(asked))
        complete = self._try(certain) if self._may_be_greedy else None
        visits = np.zeros_like(asked)
        np.add.at(visits, (met.modes + 1, which), met.probs)
        merged = {}
        for kind in self._kinds():
            weighed = visits + _UNMET * asked
            if kind == GREEDY:
                weighed = be_certain(asked) * weighed.sum(axis=-1, keepdims=True)
            trials = self._shrink(weighed, _POWERS[kind], tabulate)
            self._found += [(kind, units, trial) for trial in trials]
            enough = [trial for trial in trials if trial.is_enough]
            merged[kind] = enough[-1] if enough else max(trials, key=lambda trial: trial.mean)
            self._has_greedy |= kind == GREEDY and bool(enough)
        if complete:
            self._found.append((GREEDY, units, complete))
        return SizeTried(units, len(codes), len(certain.observations), complete, merged)

    def _kinds(self) -> Iterator[str]:
        """Yield the kinds of choices to try; drawn ones only as long as they are needed."""
        if self._may_be_greedy:
            yield GREEDY
        if self._config.choices != GREEDY and not self._has_greedy:
            yield SAMPLED

    def _shrink(
        self,
        weighed: NDArray[np.float64],
        powers: tuple[float, ...],
        tabulate: Callable[[NDArray[np.int64], NDArray[np.float64]], CodeTable],
    ) -> list[TableTrial]:
        """Merge codes as long as the machine earns enough.

        Args:
            weighed: `[K + 1, N, K + 1]` float64, how often what was chosen.
            powers: by which choices are sharpened, until it earns enough.
            tabulate: makes a table, given the groups of codes and the probabilities of groups.

        Returns:
            All that was tried; of those that earn enough, the smallest is the last.
        """
        end_weight = self._config.bottleneck.end_weight
        merges, trials = merge_alike(weighed, end_weight), list[TableTrial]()

        def run(count: int) -> bool:
            groups = settle(weighed, merges.groups(count), end_weight)
            probs = gather(weighed, groups)
            for power in powers:
                trials.append(self._try(tabulate(groups, sharpen(probs, power))))
                if trials[-1].is_enough or trials[-1].mean < self._hopeless:
                    break
            return trials[-1].is_enough

        low, high = 1, weighed.shape[1]
        if not run(high):
            return trials
        high = trials[-1].observations
        while low < high:
            middle = isqrt(low * high)  # few are enough, and they are played soonest
            if run(middle):
                high = middle
            else:
                low = middle + 1
        return trials
