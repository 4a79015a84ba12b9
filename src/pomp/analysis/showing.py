"""Record what a planner decides, for networks to learn from.

Axes: B episodes, N macro steps of all of them, R some of the episodes.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from pomp.analysis.bounds import check_bounded
from pomp.analysis.outcomes import Floats, Integers
from pomp.analysis.planning import DEPTH, play_episodes
from pomp.core.streams import Purpose, draw_units, open_streams
from pomp.dsl.bytecode import compile_programs
from pomp.dsl.syntax import Program
from pomp.engine.starts import reset
from pomp.karel.observation import observe
from pomp.karel.world import WorldBatch
from pomp.machine.config import EpisodeConfig
from pomp.machine.teaching import ShownChoices
from pomp.tasks.task import Setting

Lead = Callable[[NDArray[np.uint8], Integers], Integers]
"""Chooses in R situations: planes `[R, 8, H, W]` uint8 and last modes `[R]` int64 to numbers of
modes `[R]` int64; that of modes: to end."""

_AT_ONCE = 32  # episodes
_NOISE, _OTHERS = 1, 2  # what is drawn beside starts: what the planner imagines, and other modes


def show_choices(
    setting: Setting,
    modes: Sequence[Program | str],
    config: EpisodeConfig,
    least: int,
    *,
    seed: int,
    discount: float,
    share: float,
    lead: Lead | None = None,
    first: int = 0,
) -> ShownChoices:
    """Record what the planner decides in whole episodes from starts of trainings.

    Args:
        setting: the task.
        modes: K programs.
        config: how machines act.
        least: how many choices are recorded at least: 32 episodes are played, and 32 more until
            there are as many.
        seed: of the starts and of all that is drawn.
        discount: factor of what is earned one macro step later.
        share: that of its plans instead of which a single other mode runs, so that it also shows
            how to go on from where it would not have gone. What it would have chosen is recorded.
        lead: chooses these other modes; where it would end, the plan runs. None: at random.
        first: the number of the first start.

    Raises:
        ConfigError: the task's rewards do not add up to its return, or there are too many modes.
    """
    check_bounded(setting, modes)
    code = compile_programs(modes)
    modes_of = np.tile(np.arange(len(modes)), (_AT_ONCE, 1))
    most = config.most_steps * setting.stretch
    parts, count = list[ShownChoices](), 0
    while count < least:
        number = first + len(parts) * _AT_ONCE
        starts, noise, draws = (
            open_streams(Purpose.TRAINING, seed, *what, worlds=_AT_ONCE, first=number)
            for what in ((), (_NOISE,), (_OTHERS,))
        )
        recorder = _Recorder(len(modes), share, lead, draws)
        values = play_episodes(
            setting,
            code,
            config.cap,
            modes_of,
            reset(setting, starts),
            noise,
            DEPTH,
            most,
            recorder,
        )
        parts.append(recorder.collect(values, discount))
        count += len(parts[-1].modes)
    return ShownChoices.join(parts)


class _Recorder:
    """Records episodes of a planner, in which other modes run instead of some plans.

    The programs of the planner are the K modes of one machine.
    """

    def __init__(
        self, modes: int, share: float, lead: Lead | None, streams: NDArray[np.uint64]
    ) -> None:
        """Begin; `streams`, `[B]` uint64, are written."""
        self._modes, self._share, self._lead, self._streams = modes, share, lead, streams
        self._rows, self._values = list[Integers](), list[Floats]()
        self._parts = list[tuple[NDArray[np.uint8], Integers, Integers]]()

    def disturb(
        self, rows: Integers, worlds: WorldBatch, last: Integers, plans: Integers
    ) -> Integers:
        """Return one other mode, or the plan; the arguments are those of an `Observer`."""
        drawn, which = draw_units(self._streams, 2)[:, rows]
        if self._lead:
            others = self._lead(observe(worlds.take(rows)), last[rows])
        else:
            others = (which * self._modes).astype(np.int64)
        is_other = (drawn < self._share) & (plans[:, 0] >= 0) & (others < self._modes)
        run = np.where(is_other[:, None], -1, plans)
        run[is_other, 0] = others[is_other]
        return run

    def note(
        self, rows: Integers, worlds: WorldBatch, last: Integers, choices: Integers, values: Floats
    ) -> None:
        """Note situations and what is chosen in them; the arguments are those of an `Observer`."""
        if not len(rows):
            return
        named = np.where(choices < 0, self._modes, choices)
        self._parts.append((observe(worlds.take(rows)), last[rows], named))
        self._rows.append(rows)
        self._values.append(values[rows])

    def collect(self, values: Floats, discount: float) -> ShownChoices:
        """Return what was recorded; `values`, `[B]` float64, are what the episodes earned."""
        rows, earned = np.concatenate(self._rows), np.concatenate(self._values)
        later, to_come = values.copy(), np.zeros(len(values))
        returns = np.empty(len(rows), np.float32)
        for place in reversed(range(len(rows))):  # from the end: each step follows the next
            row = rows[place]
            to_come[row] = later[row] - earned[place] + discount * to_come[row]
            returns[place], later[row] = to_come[row], earned[place]
        planes, last, choices = (
            np.concatenate(column) for column in zip(*self._parts, strict=True)
        )
        return ShownChoices(planes, last, choices, returns)
