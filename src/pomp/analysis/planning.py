"""Estimate what the best transitions could earn from given modes by planning, quickly.

A planner plays episodes. It knows the task and sees the whole world, but not what will be drawn:
it looks for the shortest sequence of modes that earns something, of several as short ones for that
which earns most, runs it, and plans again. It ends an episode when it finds no such sequence. So
what it earns is less than the best transitions would, and close to it where every sequence that
pays makes the next one no harder to find.

An observer is told of its decisions, for networks to learn from (`pomp.analysis.showing`).

Axes: B episodes, N nodes of the planner's trees, each a world at the end of some sequence of modes.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pomp.analysis.bounds import Bound, best_of_each, check_bounded, essence_of
from pomp.analysis.outcomes import Floats, Integers, digest_of
from pomp.core.streams import Purpose, branch, open_streams
from pomp.dsl.bytecode import Code, compile_programs
from pomp.dsl.syntax import Program
from pomp.engine.rollouts import advance
from pomp.engine.starts import draw_starts
from pomp.engine.units import DEFAULT_CAP
from pomp.karel.interpreter import Cap
from pomp.karel.world import WorldBatch, memory_of
from pomp.machine.config import EpisodeConfig
from pomp.tasks.task import Setting

EPISODES = 64
"""Episodes that an estimate is the mean of."""
DEPTH = 32
"""Macro steps that are planned ahead at most."""
_WIDTH = 32  # worlds kept after each of them
_NOISE = 1  # what the planner draws beside its starts


class Observer(Protocol):
    """Watches episodes of a planner, and may disturb them."""

    def disturb(
        self, rows: Integers, worlds: WorldBatch, last: Integers, plans: Integers
    ) -> Integers:
        """Return what runs instead of plans.

        Args:
            rows: `[R]` int64, the numbers of the episodes.
            worlds: B, those of all episodes.
            last: `[B]` int64, the programs that ran before in all episodes; -1: none.
            plans: `[R, D]` int64, sequences of programs, filled up with -1.
        """

    def note(
        self, rows: Integers, worlds: WorldBatch, last: Integers, choices: Integers, values: Floats
    ) -> None:
        """Be told what the planner would choose, before anything runs.

        Args:
            rows: `[R]` int64, the numbers of the episodes.
            worlds: B, those of all episodes.
            last: `[B]` int64, the programs that ran before in all episodes; -1: none.
            choices: `[R]` int64, programs; -1: to end.
            values: `[B]` float64, what all episodes have earned so far.
        """


def estimate(
    setting: Setting,
    modes: Sequence[Program | str],
    cap: Cap | str = DEFAULT_CAP,
    *,
    episodes: int = EPISODES,
    most_steps: int = EpisodeConfig().most_steps,
    seed: int = 0,
) -> Bound:
    """Estimate the most that transitions between modes can earn, from below.

    Args:
        setting: the task.
        modes: the programs.
        cap: how long one execution of a mode may last.
        episodes: how many are played, from starts that no evaluation, validation or training has.
        most_steps: macro steps of an episode at scale 1.
        seed: of the starts and of all that is drawn.

    Raises:
        ConfigError: the task's rewards do not add up to its return, or there are too many modes.
    """
    check_bounded(setting, modes)
    every = np.arange(len(modes))[None]
    returns = play_sets(
        setting, compile_programs(modes), every, cap, episodes, most_steps=most_steps, seed=seed
    )
    error = float(returns.std() / np.sqrt(episodes))
    how = f"a planner's mean return in {episodes} episodes, standard error {error:.4f}"
    return Bound(float(returns.mean()), "lower", 0, how)


def play_sets(
    setting: Setting,
    code: Code,
    sets: Integers,
    cap: Cap | str,
    episodes: int,
    *,
    depth: int = DEPTH,
    most_steps: int = EpisodeConfig().most_steps,
    seed: int = 0,
) -> Floats:
    """Let the planner play with several sets of modes, with each from the same starts.

    Args:
        setting: the task.
        code: P programs.
        sets: `[S, K]` int64, numbers of the programs that are the modes of each set.
        cap: how long one execution of a mode may last.
        episodes: how many are played with each set.
        depth: macro steps that are planned ahead at most.
        most_steps: macro steps of an episode at scale 1.
        seed: of the starts and of all that is drawn.

    Returns:
        `[S, episodes]` float64, the returns.
    """
    first = np.tile(np.arange(episodes), len(sets))
    modes_of = np.repeat(sets, episodes, axis=0)  # [B, K]
    worlds = draw_starts(setting, episodes, seed, Purpose.SEARCH).take(first)
    noise = open_streams(Purpose.SEARCH, seed, _NOISE, worlds=episodes)[first]
    most = most_steps * setting.scale
    values = play_episodes(setting, code, cap, modes_of, worlds, noise, depth, most)
    return values.reshape(len(sets), episodes)


def play_episodes(
    setting: Setting,
    code: Code,
    cap: Cap | str,
    modes_of: Integers,
    worlds: WorldBatch,
    noise: NDArray[np.uint64],
    depth: int,
    most: int,
    observer: Observer | None = None,
) -> Floats:
    """Let the planner play episodes to their ends.

    Args:
        setting: the task.
        code: P programs.
        cap: how long one execution of a mode may last.
        modes_of: `[B, K]` int64, the programs that are the modes in each episode.
        worlds: B starts, which are changed.
        noise: `[B]` uint64, from which comes what it imagines to be drawn.
        depth: macro steps that are planned ahead at most.
        most: macro steps of an episode.
        observer: is told of every decision.

    Returns:
        `[B]` float64, what the episodes earned.
    """
    steps_left, last = np.full(len(worlds), most), np.full(len(worlds), -1)
    values, is_on = np.zeros(len(worlds)), ~worlds.done
    if observer:
        _note_ends(observer, np.flatnonzero(~is_on), worlds, last, values)
    plans = 0
    while is_on.any():
        on = np.flatnonzero(is_on)
        imagined = worlds.take(on)
        memory_of(imagined).stream[:] = branch(noise[on], plans)
        planned = _plan(setting, code, cap, modes_of[on], imagined, values[on], depth)
        run = observer.disturb(on, worlds, last, planned) if observer else planned
        is_on[on] = planned[:, 0] >= 0
        for told, sequence in zip(planned.T, run.T, strict=True):
            goes_on = (sequence >= 0) & ~worlds.done[on] & (steps_left[on] > 0)
            choice = np.full(len(worlds), -1)
            choice[on] = np.where(goes_on, sequence, -1)
            if observer:
                observer.note(on[goes_on], worlds, last, told[goes_on], values)
            values = advance(setting, code, worlds, choice, cap=cap).returns[:, 0]
            last = np.where(choice >= 0, choice, last)
            steps_left -= choice >= 0
        is_over = worlds.done | (steps_left == 0)
        if observer:
            ends = on[(~is_on | worlds.done)[on] & (steps_left > 0)[on]]
            _note_ends(observer, ends, worlds, last, values)
        is_on &= ~is_over
        plans += 1
    return values


def _note_ends(
    observer: Observer, rows: Integers, worlds: WorldBatch, last: Integers, values: Floats
) -> None:
    """Tell an observer of the episodes `rows`, `[R]` int64, that the planner ends; see `note`."""
    observer.note(rows, worlds, last, np.full(len(rows), -1), values)


def _plan(
    setting: Setting,
    code: Code,
    cap: Cap | str,
    modes_of: Integers,
    worlds: WorldBatch,
    values: Floats,
    most: int,
) -> Integers:
    """Look for the shortest sequences of modes that earn something.

    Args:
        setting: the task.
        code: P programs.
        cap: how long one execution of a mode may last.
        modes_of: `[B, K]` int64, the programs that are the modes in each world.
        worlds: B worlds as they are now, but for their random streams, which the planner imagines.
        values: `[B]` float64, what was earned up to them.
        most: how long a sequence is at most.

    Returns:
        `[B, D]` int64, numbers of programs, filled up with -1; all -1: there is no such sequence.
    """
    found = np.full((len(worlds), most), -1)
    owner, nodes = np.arange(len(worlds)), worlds
    path = np.empty((len(worlds), 0), np.int64)
    known = digest_of(owner, *essence_of(setting, nodes))
    for depth in range(1, most + 1):
        modes = modes_of[owner].ravel()
        lanes = np.repeat(np.arange(len(nodes)), modes_of.shape[1])
        nodes, owner = nodes.take(lanes), owner[lanes]
        path = np.column_stack([path[lanes], modes])
        gains = advance(setting, code, nodes, modes, cap=cap).returns[:, 0] - values[owner]
        top = best_of_each(np.arange(len(nodes)), owner, gains, 1)
        top = top[gains[top] > 0]
        found[owner[top], :depth] = path[top]
        is_open = ~nodes.done & (found[owner, 0] < 0)
        digests = digest_of(owner, *essence_of(setting, nodes))
        fresh, first = np.unique(digests, return_index=True)
        is_new = np.zeros(len(nodes), np.bool_)
        is_new[first] = ~np.isin(fresh, known)
        kept = best_of_each(np.flatnonzero(is_open & is_new), owner, gains, _WIDTH)
        if not len(kept):
            break
        known = np.concatenate([known, digests[kept]])
        nodes, owner, path = nodes.take(kept), owner[kept], path[kept]
    length = max(1, int((found >= 0).sum(axis=1).max()))
    return found[:, :length]
