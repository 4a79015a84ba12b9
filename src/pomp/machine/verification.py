"""Whether a machine holds: start by start, under several budgets, without waiting for the cap.

A machine holds on a set of starts if it is clean there (no program is cut by its cap, every episode
is ended by the machine itself) and earns the same under every budget of calls. Where nothing is
random and all starts are listed, that is a proof; else it is a sample, with the bound that follows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, isfinite, lgamma, log, log1p
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.core.configs import MOST_SEED, check_call, check_count
from pomp.core.cuda import to_host
from pomp.core.errors import ConfigError
from pomp.core.streams import Purpose, open_streams
from pomp.engine.lanes import BY_LIMIT
from pomp.engine.starts import StartName, draw_starts, enumerate_starts
from pomp.karel.interpreter import Cap
from pomp.karel.world import WorldBatch
from pomp.machine.cycles import Cycles
from pomp.machine.evaluation import Evaluation, Watch, choose_steps, conclude, is_sure
from pomp.machine.policy import ProgramMachine
from pomp.machine.transitions import remembers
from pomp.tasks.task import MAX_STARTS, Setting

BUDGETS = tuple(f"calls{calls}" for calls in (*range(217, 224), 500, 10_000))
"""Caps under which a machine must earn the same: all remainders by four, and far larger ones."""

DRAWN = 1_000
"""Episodes that are drawn where starts cannot be listed or something is random."""

DOUBT = 0.05
"""How likely a bound that is said of drawn episodes may be wrong."""

_MOST_DRAWN = 100_000
_MOST_CELLS = 1 << 26  # of starts that are listed


@dataclass(frozen=True)
class Fault:
    """A start from which a machine does not hold.

    Attributes:
        start: its name, for `pomp play --start`.
        what: what goes wrong there, in words.
        cap: under which cap.
        map: the start as text.
    """

    start: StartName
    what: str
    cap: str
    map: str


@dataclass(frozen=True)
class Verification:
    """What became of a machine from every start, or from drawn ones.

    Attributes:
        found: the episodes under the machine's own cap. One that provably never ends is there as
            it was when that was seen.
        endless: `[N]` bool, episodes that provably never end: world and mode came back.
        under: what was played under each cap, by its name; the machine's own among them.
        faults: starts from which it does not hold, the first of each kind.
        failures: how many starts these are in all.
        is_proof: all starts were played and nothing is random.
        least: the return that was asked for; None: none was.
    """

    found: Evaluation
    endless: NDArray[np.bool_]
    under: dict[str, Evaluation]
    faults: tuple[Fault, ...]
    failures: int
    is_proof: bool
    least: float | None = None

    @property
    def holds(self) -> bool:
        """Whether no start speaks against it."""
        return self.failures == 0

    @property
    def bound(self) -> float:
        """The share of starts on which it fails at most; of drawn ones, with 95 % confidence."""
        count = len(self.found.returns)
        return self.failures / count if self.is_proof else bound_share(self.failures, count)

    def __repr__(self) -> str:
        """Say in a line whether it holds, and on what."""
        starts = "all" if self.is_proof else "drawn"
        verdict = "holds" if self.holds else f"fails on {self.failures}"
        name, count = self.found.setting.task.name, len(self.found.returns)
        return f"Verification({name}: {verdict} of {starts} {count} starts)"

    def to_json(self) -> dict[str, Any]:
        """Return all of it, as JSON can hold it."""
        found = self.found
        assert found.cuts is not None
        return {
            "task": found.setting.task.name,
            "size": [found.setting.height, found.setting.width],
            "scale": found.setting.scale,
            "holds": self.holds,
            "proof": self.is_proof,
            "starts": len(found.returns),
            "failures": self.failures,
            "bound": self.bound,
            "endings": {
                "by choice": int(found.ended.sum()),
                "never": int(self.endless.sum()),
                "at the limit": int((~found.ended & ~self.endless).sum()),
            },
            "most modes": int(found.programs.max()),
            "most actions": int(found.actions.max()),
            "cuts": int(found.cuts.sum()),
            "mean": found.mean,
            "worst": float(found.returns.min()),
            **({} if self.least is None else {"least": self.least}),
            "budgets": [_tell_budget(cap, one) for cap, one in self.under.items()],
            "counterexamples": [
                {"start": str(one.start), "what": one.what, "cap": one.cap, "map": one.map}
                for one in self.faults
            ],
        }


def _tell_budget(cap: str, found: Evaluation) -> dict[str, Any]:
    assert found.cuts is not None
    return {
        "cap": cap,
        "mean": found.mean,
        "worst": float(found.returns.min()),
        "cuts": float(np.average(found.cuts, weights=found.weights)),
        "ended": int(found.ended.sum()),
        "clean": found.is_clean,
    }


def bound_share(failures: int, episodes: int, doubt: float = DOUBT) -> float:
    """Return the largest share of failures that so few of them leave likely (Clopper-Pearson).

    Args:
        failures: episodes that failed.
        episodes: how many were drawn.
        doubt: how likely fewer failures would be if the share were the bound.
    """
    if failures >= episodes:
        return 1.0
    if failures == 0:
        return 1.0 - doubt ** (1.0 / episodes)
    low, high = failures / episodes, 1.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if _at_most(failures, episodes, middle) > doubt else (low, middle)
        )
    return high


def _at_most(failures: int, episodes: int, share: float) -> float:
    """Return how likely no more failures are, if each episode fails with a probability."""
    if share >= 1.0:
        return 0.0
    ways = (
        lgamma(episodes + 1) - lgamma(count + 1) - lgamma(episodes - count + 1)
        + count * log(share) + (episodes - count) * log1p(-share)
        for count in range(failures + 1)
    )  # fmt: skip
    return sum(map(exp, ways))


def verify(
    machine: ProgramMachine | str | Path,
    *,
    episodes: int | None = None,
    seed: int = 0,
    exact: bool = False,
    scale: int = 1,
    size: tuple[int, int] | None = None,
    cap: str | None = None,
    budgets: Sequence[str] = BUDGETS,
    least: float | None = None,
    watch: Watch | None = None,
) -> Verification:
    """Check a machine start by start.

    It holds if from every start it ends by its own rule, no program is cut by its cap, and it earns
    the same under every budget. All starts are played where they can be listed and nothing is
    random, neither in the task nor in the machine's choices: then the result is a proof. Else
    episodes are drawn as for an evaluation.

    Args:
        machine: whose; or what `pomp.load_machine` finds it by.
        episodes: how many are drawn; None: all starts, or `DRAWN` where these are no proof.
        seed: of drawn episodes.
        exact: refuse to draw where all starts are no proof or too many.
        scale: how much longer the task is than it was in training.
        size: rows and columns of the grid; None: the machine's.
        cap: of a program; None: as the machine has it.
        budgets: further caps.
        least: the return that every episode must reach, too; None: none.
        watch: called at every step.

    Raises:
        ConfigError: it is no machine, a number is wrong, the task cannot have this size, or an
            exact result is asked for where there is none.
    """
    if isinstance(machine, str | Path):
        from pomp.machine.zoo import load_machine  # which evaluates machines itself

        machine = load_machine(machine)
    if not isinstance(machine, ProgramMachine):
        raise ConfigError(
            f"a machine, or its folder, file or name, is verified; got {machine!r:.80}"
        )
    machine = (machine if size is None else replace(machine, size=size)).under(cap)
    _check_asked(seed, budgets, least, watch)
    setting = machine.configure(scale)
    starts = _find_starts(machine, setting, episodes, seed, exact)
    trial = _Trial(machine, setting, starts, watch)
    under = trial.play_all({machine.episode.cap, *budgets})
    if trial.drew and starts.weights is not None:
        raise ConfigError(
            f"{setting.task.name} draws at random though its `draws` denies it, so that its starts "
            "prove nothing; give a number of episodes"
        )
    return trial.judge(under, least)


def _check_asked(seed: object, budgets: object, least: object, watch: object) -> None:
    """Refuse what no verification can be asked for.

    Raises:
        ConfigError: says what.
    """
    check_count("a seed", seed, least=0, most=MOST_SEED)
    are_texts = isinstance(budgets, list | tuple) and all(isinstance(one, str) for one in budgets)
    if not are_texts:
        raise ConfigError(f"budgets are a list of caps, as [calls500], got {budgets!r:.80}")
    is_number = isinstance(least, int | float) and isfinite(least)
    if least is not None and not is_number:
        raise ConfigError(f"the least return must be a number, got {least!r:.80}")
    if watch is not None:
        check_call("watch", watch)


@dataclass(frozen=True)
class _StartSet:
    """The worlds that episodes begin in.

    Attributes:
        worlds: which.
        weights: `[N]` float64, how likely each is if they are all there are; else None.
        seed: of drawn ones.
    """

    worlds: WorldBatch
    weights: NDArray[np.float64] | None
    seed: int

    def name(self, number: int) -> StartName:
        """Return what `pomp play --start` finds one of them by."""
        return StartName(number, None if self.weights is not None else self.seed)


def _find_starts(
    machine: ProgramMachine, setting: Setting, episodes: int | None, seed: int, exact: bool
) -> _StartSet:
    """Return all starts where these are a proof and no number is given; else drawn ones."""
    if episodes is None:
        try:
            return _list_starts(machine, setting)
        except ConfigError as error:
            if exact:
                instead = f"without asking for all starts, {DRAWN} episodes are drawn instead"
                raise ConfigError(f"no proof: {error}; {instead}") from error
    elif exact:
        raise ConfigError("an exact result takes every start once, not a number of episodes")
    count = DRAWN if episodes is None else episodes
    check_count("episodes", count, most=_MOST_DRAWN)
    return _StartSet(draw_starts(setting, count, seed), None, seed)


def _list_starts(machine: ProgramMachine, setting: Setting) -> _StartSet:
    """Return all starts, if nothing else is random.

    Raises:
        ConfigError: something is, or there are too many to list.
    """
    if not is_sure(machine):
        raise ConfigError("the machine draws its choices")
    if setting.task.draws(setting):
        raise ConfigError(f"{setting.task.name} draws at random while a machine runs")
    most = min(MAX_STARTS, max(1, _MOST_CELLS // (setting.height * setting.width)))
    worlds, listed = enumerate_starts(setting, most)
    return _StartSet(worlds, np.array([float(start.probability) for start in listed]), 0)


class _Trial:
    """Episodes of a machine from the same starts under several caps.

    Attributes:
        drew: the task drew at random in an episode.
        endless: by cap, `[N]` bool, episodes that provably never end.
    """

    def __init__(
        self, machine: ProgramMachine, setting: Setting, starts: _StartSet, watch: Watch | None
    ) -> None:
        self._machine, self._setting, self._starts, self._watch = machine, setting, starts, watch
        self.drew = False
        self.endless: dict[str, NDArray[np.bool_]] = {}

    def play_all(self, caps: set[str]) -> dict[str, Evaluation]:
        """Play under all caps, the smallest first; those that cannot make a difference are not."""
        by_size = sorted(
            (Cap.parse(cap) for cap in caps), key=lambda cap: (cap.by_calls, cap.limit)
        )
        under, before = dict[str, Evaluation](), Cap(by_calls=False, limit=0)
        for cap in by_size:
            same = under.get(str(before))
            if same is None or not same.is_clean or before.by_calls != cap.by_calls:
                under[str(cap)] = self._play(str(cap))
            else:  # where no program was cut, none is cut by a larger cap
                under[str(cap)], self.endless[str(cap)] = same, self.endless[str(before)]
            before = cap
        return under

    def _play(self, cap: str) -> Evaluation:
        """Play one episode from each start under a cap."""
        machine, worlds = self._machine.under(cap), self._starts.worlds.copy()
        seed, count = self._starts.seed, len(worlds)
        sure = is_sure(machine)
        draws = None if sure else open_streams(Purpose.EVALUATION, seed, 1, worlds=count)
        before = np.array(to_host(worlds.stream))
        running, steps = machine.episodes(self._setting, worlds), list[NDArray[np.int16]]()
        cycles = Cycles(running) if sure and not remembers(machine.transition) else None
        endless = np.zeros(count, np.bool_)
        for number, _ in enumerate(choose_steps(machine, running, draws)):
            if cycles:
                endless |= cycles.find()
                running.ending[endless] = BY_LIMIT
            if self._watch:
                self._watch(number + 1, int((running.ending != 0).sum()))
        steps.append(np.full(count, -1, np.int16))
        self.drew |= bool((to_host(worlds.stream) != before).any())
        self.endless[cap] = endless
        return replace(conclude(running, steps), weights=self._starts.weights)

    def judge(self, under: dict[str, Evaluation], least: float | None) -> Verification:
        """Say where the machine does not hold."""
        own = self._machine.episode.cap
        found, failed = under[own], np.zeros(len(self._starts.worlds), np.bool_)
        faults = list[Fault]()
        told = set[str]()
        for cap, what, where in self._suspicions(under, least):
            kind = "budget" if cap != own else what
            if where.any() and kind not in told:
                told.add(kind)
                faults.append(self._fault(cap, what, int(np.argmax(where)), under[cap]))
            failed |= where
        is_proof = self._starts.weights is not None
        return Verification(
            found, self.endless[own], under, tuple(faults), int(failed.sum()), is_proof, least
        )

    def _suspicions(
        self, under: dict[str, Evaluation], least: float | None
    ) -> "list[tuple[str, str, NDArray[np.bool_]]]":
        """Return what can go wrong: under which cap, in words, and `[N]` bool, where it does."""
        own = self._machine.episode.cap
        found, endless = under[own], self.endless[own]
        assert found.cuts is not None
        listed = [
            (own, "it never stops: world and mode come back", endless),
            (own, "it does not stop within {programs} modes", ~found.ended & ~endless),
            (own, "{cuts} of its programs are cut by their cap", found.cuts > 0),
        ]
        if least is not None:
            listed.append(
                (own, f"it earns {{returns:z.4f}}, less than {least:g}", found.returns < least)
            )
        for cap, other in under.items():
            if (other.returns != found.returns).any():
                what = f"it earns {{returns:z.4f}} under {cap}, and another return under {own}"
                listed.append((cap, what, other.returns != found.returns))
        return listed

    def _fault(self, cap: str, what: str, number: int, found: Evaluation) -> Fault:
        """Describe what goes wrong from a start."""
        assert found.cuts is not None
        numbers = {"programs": found.programs, "cuts": found.cuts, "returns": found.returns}
        told = what.format(**{name: array[number] for name, array in numbers.items()})
        text = self._starts.worlds.map_of(number).to_text()
        return Fault(self._starts.name(number), told, cap, text)
