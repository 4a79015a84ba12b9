"""What a machine earns: episodes on many worlds at once, sampled or exact.

`[N]` is the axis of episodes.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import fsum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.core.configs import MOST_SEED, check_call, check_count
from pomp.core.cuda import to_host
from pomp.core.errors import ConfigError
from pomp.core.resources import check_memory, slices
from pomp.core.streams import Purpose, draw_units, open_streams, resample_means
from pomp.engine.lanes import BY_CHOICE
from pomp.engine.starts import draw_starts, enumerate_starts, reset
from pomp.karel.world import WorldBatch
from pomp.machine.code_table import CodeTable
from pomp.machine.episodes import Episodes
from pomp.machine.moore_table import MooreTable
from pomp.machine.policy import ProgramMachine
from pomp.machine.transitions import Choose, DecisionList, check_chosen
from pomp.tasks.task import Setting

VALIDATION_EPISODES = 200

MOST_LISTED = 1_000
"""Starts that an evaluation plays one by one; from more of them it draws."""

Watch = Callable[[int, int], None]
"""Called at every macro step with how many were taken and how many episodes are over."""

AT_ONCE = 1 << 14
"""Drawn episodes that are played side by side: more of them are played in parts."""

_MOST_EPISODES = 100_000_000
_EPISODE_BYTES = 100  # what is kept of one, twice where parts are joined, and as JSON
_RESAMPLES = 2000  # of the bootstrap
_AHEAD = 64  # macro steps whose random numbers are drawn at once


@dataclass(frozen=True)
class Evaluation:
    """What became of N episodes of a machine.

    Attributes:
        setting: the task, scale included.
        returns: `[N]` float64.
        programs: `[N]` int64, modes that ran (an end counts as one step, but runs none).
        actions: `[N]` int64, primitive actions.
        ended: `[N]` bool, whether the machine chose to end; else it was stopped at its limit.
        paths: `[N, T]` int16, what was chosen, step by step; -1 behind the end. Of more episodes
            than `AT_ONCE` none are kept: `[N, 0]`.
        weights: `[N]` float64, the probabilities of the starts; None: all alike.
        cuts: `[N]` int64, programs that were stopped by their cap; None: nothing ran under one.
    """

    setting: Setting
    returns: NDArray[np.float64]
    programs: NDArray[np.int64]
    actions: NDArray[np.int64]
    ended: NDArray[np.bool_]
    paths: NDArray[np.int16]
    weights: NDArray[np.float64] | None = None
    cuts: NDArray[np.int64] | None = None

    @property
    def mean(self) -> float:
        """The mean return; over exact starts, the expected one."""
        if self.weights is None:
            return fsum(self.returns) / len(self.returns)
        return fsum(self.returns * self.weights)

    @property
    def is_exact(self) -> bool:
        """Whether every start was played once and nothing was drawn."""
        return self.weights is not None

    @property
    def is_clean(self) -> bool:
        """Whether the machine held: no program was cut by its cap, and every end was its choice."""
        return self.cuts is not None and not self.cuts.any() and bool(self.ended.all())

    @property
    def std(self) -> float:
        """Standard deviation of the returns."""
        return float(np.sqrt(np.average((self.returns - self.mean) ** 2, weights=self.weights)))

    @property
    def interval(self) -> tuple[float, float]:
        """95 % bootstrap interval of the mean; of exact returns, the mean twice."""
        if self.weights is not None:
            return self.mean, self.mean
        return bootstrap(self.returns)

    def __repr__(self) -> str:
        """Say in a line what was earned, and on how many starts."""
        kind, count = "exact" if self.is_exact else "mean", len(self.returns)
        name = self.setting.task.name
        return f"{type(self).__name__}({name}: {kind} return {self.mean:.4f}, starts {count})"

    def _repr_html_(self) -> str:
        """What a notebook shows: mean, interval, and how the returns are spread."""
        from pomp.machine.notebook import show_evaluation

        return show_evaluation(self)

    def transitions(self, modes: int) -> NDArray[np.int64]:
        """Count how often a choice came after a mode.

        Returns:
            `[K + 1, K + 1]` int64: a row for each last mode, the first for the start, and a column
            for each choice, the last for the end.
        """
        before = np.concatenate([np.full((len(self.paths), 1), -1), self.paths[:, :-1]], axis=1)
        counts = np.zeros((modes + 1, modes + 1), np.int64)
        happened = self.paths >= 0
        np.add.at(counts, (before[happened] + 1, self.paths[happened]), 1)
        return counts

    def to_json(self) -> dict[str, Any]:
        """Return the statistics and the returns, as JSON can hold them."""
        ceiling = self.setting.ceiling
        return {
            "mean": self.mean,
            "std": self.std,
            "interval": list(self.interval),
            "returns": self.returns.tolist(),
            "episodes": len(self.returns),
            "exact": self.is_exact,
            "ceiling": ceiling,
            "fraction": None if ceiling is None else self.mean / ceiling,
            "programs": float(np.average(self.programs, weights=self.weights)),
            "actions": float(np.average(self.actions, weights=self.weights)),
            "endings": {
                "by choice": int(self.ended.sum()),
                "at the limit": int((~self.ended).sum()),
            },
            **self._tell_cuts(),
        }

    def _tell_cuts(self) -> dict[str, Any]:
        """Return programs cut by their cap per episode, and whether the machine was clean."""
        if self.cuts is None:
            return {}
        cuts = float(np.average(self.cuts, weights=self.weights))
        return {"cuts": cuts, "clean": self.is_clean}


def bootstrap(values: Sequence[float] | NDArray[np.float64]) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the mean of `values`, `[N]`."""
    streams = open_streams(Purpose.EVALUATION, 0, 2, worlds=_RESAMPLES)
    means = resample_means(streams, np.asarray(values, np.float64))
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def evaluate(
    machine: ProgramMachine | str | Path,
    *,
    episodes: int | None = None,
    seed: int | None = None,
    scale: int = 1,
    cap: str | None = None,
    greedy: bool = False,
    device: str = "cpu",
    watch: Watch | None = None,
) -> Evaluation:
    """Play episodes from every start, or from starts that are drawn for evaluation alone.

    Every start is played once, and the mean is the expected return, if neither `episodes` nor
    `seed` is given, there are at most `MOST_LISTED` starts, and nothing else is random: the task
    does not draw, and rules, or the likeliest choices, say what comes next.

    Args:
        machine: whose; or what `pomp.load_machine` finds it by, as `zoo:Maze`.
        episodes: how many are drawn; None: the task's `episodes`, as the paper's tables have.
        seed: decides which starts and choices are drawn; None: 0.
        scale: how much longer the task is than it was in training.
        cap: how long one execution of a mode may last, as `calls217`; None: as the machine has it.
        greedy: take the likeliest choice instead of drawing one.
        device: cpu, cuda or auto.
        watch: called at every step.

    Raises:
        ConfigError: it is no machine, or a number is wrong.
    """
    if isinstance(machine, str | Path):
        from pomp.machine.zoo import load_machine  # which evaluates machines itself

        machine = load_machine(machine)
    if not isinstance(machine, ProgramMachine):
        raise ConfigError(
            f"a machine, or its folder, file or name as zoo:Maze, is evaluated; got {machine!r:.80}"
        )
    if watch is not None:
        check_call("watch", watch)
    machine, setting = machine.under(cap), machine.configure(scale)
    if episodes is None and seed is None and (exact := begin_exactly(machine, setting, greedy)):
        worlds, weights = exact
        try:
            return play_exactly(machine, setting, worlds.to(device), weights, watch)
        except ConfigError:  # it draws, though the task does not say so
            pass
    count = setting.task.episodes if episodes is None else episodes
    check_count("episodes", count, most=_MOST_EPISODES)
    check_count("a seed", seed or 0, least=0, most=MOST_SEED)
    if count > AT_ONCE:
        return _play_in_parts(machine, setting, count, seed or 0, greedy, device, watch)
    worlds, draws = begin_drawn(setting, count, seed or 0, device)
    return play(machine, setting, worlds, None if greedy else draws, watch)


def _play_in_parts(
    machine: ProgramMachine, setting: Setting, count: int, seed: int, greedy: bool, device: str,
    watch: Watch | None,
) -> Evaluation:  # fmt: skip
    """Play drawn episodes as `evaluate` does, `AT_ONCE` at a time; their paths are not kept."""
    check_memory(f"{count} episodes", count, _EPISODE_BYTES)
    parts = []
    for part in slices(count, AT_ONCE):
        which = {"worlds": part.stop - part.start, "first": part.start}
        worlds = reset(setting, open_streams(Purpose.EVALUATION, seed, **which), device)
        draws = open_streams(Purpose.EVALUATION, seed, 1, **which)
        tell = partial(_tell_more, watch, part.start) if watch else None
        found = play(machine, setting, worlds, None if greedy else draws, tell)
        parts.append((found.returns, found.programs, found.actions, found.ended, found.cuts))
    returns, programs, actions, ended, cuts = map(np.concatenate, zip(*parts, strict=True))
    paths: NDArray[np.int16] = np.empty((count, 0), np.int16)
    return Evaluation(setting, returns, programs, actions, ended, paths, cuts=cuts)


def _tell_more(watch: Watch, before: int, steps: int, over: int) -> None:
    """Tell of a part's episodes that are over, and of those before it."""
    watch(steps, before + over)


def begin_exactly(
    machine: ProgramMachine, setting: Setting, greedy: bool = False
) -> tuple[WorldBatch, NDArray[np.float64]] | None:
    """Return all starts, if playing each once tells exactly what a machine earns.

    Args:
        machine: whose.
        setting: its task.
        greedy: whether the likeliest choices are taken.

    Returns:
        The worlds, and their probabilities `[N]` float64; None if there are more than
        `MOST_LISTED`, or something else is random.
    """
    return list_all(setting) if greedy or is_sure(machine) else None


def is_sure(machine: ProgramMachine) -> bool:
    """Whether what a machine chooses is not drawn."""
    by = machine.transition
    return isinstance(by, DecisionList | MooreTable) or (isinstance(by, CodeTable) and by.is_sure)


def list_all(setting: Setting) -> tuple[WorldBatch, NDArray[np.float64]] | None:
    """Return all starts of a task, if an evaluation plays each of them once.

    Returns:
        The worlds, and their probabilities `[N]` float64; None if there are more than
        `MOST_LISTED`, or the task draws at random.
    """
    if setting.task.draws(setting):
        return None
    try:
        worlds, starts = enumerate_starts(setting, MOST_LISTED)
    except ConfigError:
        return None
    return worlds, np.array([float(start.probability) for start in starts])


def begin_drawn(
    setting: Setting, episodes: int | None, seed: int, device: str = "cpu"
) -> tuple[WorldBatch, NDArray[np.uint64]]:
    """Draw starts for an evaluation.

    Args:
        setting: the task.
        episodes: how many; None: the task's `episodes`.
        seed: decides which are drawn.
        device: cpu, cuda or auto.

    Returns:
        The worlds, and `[N]` uint64, the streams that choices are drawn from.
    """
    count = setting.task.episodes if episodes is None else episodes
    worlds = draw_starts(setting, count, seed, device=device)
    return worlds, open_streams(Purpose.EVALUATION, seed, 1, worlds=count)


def validate(machine: ProgramMachine) -> float:
    """Return the mean return of episodes that belong to no evaluation."""
    return play_validation(machine).mean


def play_validation(machine: ProgramMachine) -> Evaluation:
    """Play episodes that belong to no evaluation: they decide between machines of one task."""
    setting = machine.configure()
    worlds = draw_starts(setting, VALIDATION_EPISODES, 0, Purpose.VALIDATION)
    draws = open_streams(Purpose.VALIDATION, 0, 1, worlds=VALIDATION_EPISODES)
    return play(machine, setting, worlds, draws)


def evaluate_exactly(
    machine: ProgramMachine, *, scale: int = 1, cap: str | None = None
) -> Evaluation:
    """Play one episode from every possible start, where nothing else is random.

    The mean of the result is the expected return.

    Args:
        machine: whose.
        scale: how much longer the task is than it was in training.
        cap: how long one execution of a mode may last; None: as the machine has it.

    Raises:
        ConfigError: starts cannot be listed, or the task draws at random.
    """
    machine = machine.under(cap)
    setting = machine.configure(scale)
    worlds, starts = enumerate_starts(setting)
    weights = np.array([float(start.probability) for start in starts])
    return play_exactly(machine, setting, worlds, weights)


def play_exactly(
    machine: ProgramMachine,
    setting: Setting,
    worlds: WorldBatch,
    weights: NDArray[np.float64],
    watch: Watch | None = None,
) -> Evaluation:
    """Play one episode in every world, in place, with the likeliest choices.

    Args:
        machine: whose.
        setting: its task.
        worlds: the starts, written.
        weights: `[N]` float64, the probability of each start.
        watch: called at every step.

    Raises:
        ConfigError: the task draws at random.
    """
    before = np.array(to_host(worlds.stream))
    found = play(machine, setting, worlds, None, watch)
    if (to_host(worlds.stream) != before).any():
        raise ConfigError(
            f"{setting.task.name} draws at random while this machine runs, so no list of starts "
            "gives an exact return; leave out --exact"
        )
    return replace(found, weights=weights)


def play(
    machine: ProgramMachine,
    setting: Setting,
    worlds: WorldBatch,
    streams: NDArray[np.uint64] | None,
    watch: Watch | None = None,
) -> Evaluation:
    """Play one episode in every world, in place.

    Args:
        machine: whose.
        setting: its task.
        worlds: the starts, written.
        streams: `[N]` uint64, from which choices are drawn, written; None: the likeliest choices
            are taken.
        watch: called at every step.
    """
    running, steps = machine.episodes(setting, worlds), list[NDArray[np.int16]]()
    for chosen in choose_steps(machine, running, streams):
        steps.append(chosen)
        if watch:
            watch(len(steps), int((chosen < 0).sum()))
    return conclude(running, steps)


def choose_steps(
    machine: ProgramMachine,
    running: Episodes,
    streams: NDArray[np.uint64] | None,
    choose: Choose | None = None,
) -> Iterator[NDArray[np.int16]]:
    """Play episodes to their ends, and say before every step what is chosen.

    Args:
        machine: whose.
        running: the episodes, written.
        streams: `[N]` uint64, from which choices are drawn, written; None: the likeliest choices
            are taken.
        choose: the machine's chooser for these episodes, if it is at hand.

    Yields:
        `[N]` int16, the choices; -1 where the episode is over.

    Raises:
        ConfigError: the machine's transitions choose what is no mode and not the end.
    """
    choose = choose or machine.transition.chooser(running)
    ahead, place = np.empty((0, len(running))), 0
    while not (is_over := to_host(running.ending) != 0).all():
        if streams is not None and place == len(ahead):
            ahead, place = draw_units(streams, _AHEAD), 0
        choices = choose(None if streams is None else ahead[place])
        chosen = to_host(choices)
        check_chosen(np.where(is_over, 0, chosen), len(running), len(machine.modes))
        yield np.where(is_over, -1, chosen).astype(np.int16)
        running.step(choices)
        place += 1


def conclude(running: Episodes, steps: Sequence[NDArray[np.int16]]) -> Evaluation:
    """Sum up ended episodes, given the choices of their `steps`, `[N]` int16 each."""
    returns, programs, actions, ended = outcomes(running)
    paths, cuts = np.stack(steps, axis=1), to_host(running.cuts).astype(np.int64)
    setting = running.setting
    return Evaluation(setting, returns, programs, actions, ended, paths, cuts=cuts)


def outcomes(batch: Episodes) -> tuple[NDArray[Any], ...]:
    """Return what became of ended episodes.

    Returns:
        Returns, programs run, actions, and whether the end was chosen; `[N]` each, as in
        `Evaluation`.
    """
    ended = to_host(batch.ending) == BY_CHOICE
    programs = to_host(batch.taken).astype(np.int64) - ended
    actions = batch.worlds.to("cpu").actions.astype(np.int64)
    return np.array(to_host(batch.returns)), programs, actions, ended
