"""One episode of a machine, played as `evaluate` plays it, then written down moment by moment."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pomp.core.configs import check_call
from pomp.core.errors import ConfigError
from pomp.core.streams import Purpose, open_streams
from pomp.dsl.bytecode import compile_programs
from pomp.engine.moments import Moments, action_cost, join_moments, record_moments, worth_of
from pomp.engine.rollouts import MOST_CALLS
from pomp.engine.rule_lists import count_worlds
from pomp.engine.starts import begin, draw_starts
from pomp.karel.interpreter import Cap
from pomp.karel.sensor_set import COUNTING
from pomp.karel.sensors import COMPASS
from pomp.karel.world import Map, WorldBatch
from pomp.machine.episodes import LAST_WORDS, Episodes
from pomp.machine.evaluation import choose_steps, outcomes
from pomp.machine.policy import ProgramMachine
from pomp.machine.transitions import Choose, DecisionList, NetworkTransition
from pomp.machine.zoo import load_machine
from pomp.tasks.task import Setting

MOST_MOMENTS = 200_000
"""Moments of an episode that can be shown."""

Watch = Callable[[int], None]
"""Called at every macro step with the moments so far; what it raises ends the recording."""

_CELLS_AT_ONCE = 1 << 24  # bytes of cells that are kept while a part is unfolded
_PROGRAMS_AT_ONCE = 512


@dataclass(frozen=True)
class RecordedEpisode:
    """What happened in an episode, in M macro steps and F moments.

    Attributes:
        machine: whose.
        setting: the task.
        seed: of the start and the choices.
        is_greedy: whether the likeliest choices were taken.
        start: the world it began with.
        mode: `[M]` int16, what was chosen; the number of modes: the end.
        rule: `[M]` int16, which rule fired in the list of the last mode; -1: there are none.
        probs: `[M, K + 1]` float32, how likely each choice was; None: nobody says.
        moments: what the modes did.
        worth: the return.
        actions: primitive actions.
        programs: modes that ran.
        has_ended: whether the machine chose to end; else it was stopped at its limit.
        cost: what every action cost.
    """

    machine: ProgramMachine
    setting: Setting
    seed: int
    is_greedy: bool
    start: WorldBatch
    mode: NDArray[np.int16]
    rule: NDArray[np.int16]
    probs: NDArray[np.float32] | None
    moments: Moments
    worth: float
    actions: int
    programs: int
    has_ended: bool
    cost: float

    @property
    def last(self) -> NDArray[np.int16]:
        """`[M]` int16: the mode before each macro step; -1 before the first."""
        return np.concatenate([np.full(1, -1, np.int16), self.mode[:-1]])

    def _repr_html_(self) -> str:
        """What a notebook shows: the player with this episode in it."""
        from pomp.studio.pages import frame_page, make_page

        return frame_page(make_page(self))


def record_episode(
    machine: ProgramMachine | str | Path,
    *,
    seed: int = 0,
    scale: int = 1,
    greedy: bool = False,
    start: Map | None = None,
    watch: Watch | None = None,
) -> RecordedEpisode:
    """Play the episode that `evaluate(machine, episodes=1, seed=seed)` plays, and write it down.

    Args:
        machine: whose; or what `pomp.load_machine` finds it by, as `zoo:Maze`.
        seed: of the start and the choices.
        scale: how much longer the task is than it was in training.
        greedy: take the likeliest choice instead of drawing one.
        start: the world it begins with; None: the seed's.
        watch: called at every macro step.

    Raises:
        ConfigError: a number is wrong, or the episode is too long to be shown.
        WorldError: the task cannot start from that world.
    """
    if isinstance(machine, str | Path):
        machine = load_machine(machine)
    if not isinstance(machine, ProgramMachine):
        raise ConfigError(f"an episode is that of a machine, got {machine!r:.80}")
    if watch is not None:
        check_call("watch", watch)
    setting = machine.configure(scale)
    first = draw_starts(setting, 1, seed)
    if start is not None:
        first = begin(setting, [start], open_streams(Purpose.EVALUATION, seed, worlds=1))
    running = machine.episodes(setting, first.copy())
    notes = _Notes(machine, running)
    draws = None if greedy else open_streams(Purpose.EVALUATION, seed, 1, worlds=1)
    for chosen in choose_steps(machine, running, draws, notes.choose):
        notes.look(int(chosen[0]))
        if watch:
            watch(notes.count())
    acted = notes.acts()
    mode = np.array(notes.modes, np.int16)
    returns, programs, actions, ended = (found[0] for found in outcomes(running))
    parts = list(_unfold(machine, setting, first, mode, acted, watch))
    moments = join_moments([part for part, _ in parts])
    left = parts[-1][1]
    assert all(map(np.array_equal, left.arrays, running.worlds.arrays)), "recorded otherwise"
    return RecordedEpisode(
        machine=machine, setting=setting, seed=seed, is_greedy=greedy, start=first,
        mode=mode, rule=notes.fired(mode), probs=notes.probs(), moments=moments,
        worth=float(returns), actions=int(actions), programs=int(programs),
        has_ended=bool(ended), cost=action_cost(setting, first),
    )  # fmt: skip


def _unfold(
    machine: ProgramMachine, setting: Setting, worlds: WorldBatch, mode: NDArray[np.int16],
    acted: NDArray[np.int64], watch: Watch | None,
) -> Iterator[tuple[Moments, WorldBatch]]:  # fmt: skip
    """Run an episode's modes again, some at a time, and yield what happened and the world left.

    Args:
        machine: whose.
        setting: the task.
        worlds: the start.
        mode: `[M]` int16, what was chosen.
        acted: `[M]` int64, how many actions each took at most.
        watch: called before each part.
    """
    code = compile_programs([*machine.modes, LAST_WORDS], source=True)
    runs = mode.astype(np.int64)
    if not machine.episode.last_words:
        runs[mode == len(machine.modes)] = -1
    most = min(_PROGRAMS_AT_ONCE, max(1, MOST_CALLS // Cap.of(machine.episode.cap).limit))
    rows = max(1, _CELLS_AT_ONCE // worlds.cells.shape[1])
    first, worth = 0, worth_of(setting, worlds)
    while first < len(mode):
        fitting = int(np.searchsorted(np.cumsum(acted[first:]), rows, side="right"))
        part = slice(first, first + min(max(fitting, 1), most))
        if watch:
            watch(0)
        found, worlds = record_moments(
            setting, code, runs[part], worlds, machine.episode.cap, int(acted[part].sum()), worth
        )
        yield found, worlds
        first, worth = part.stop, float(found.worth[-1])


class _Notes:
    """What is noted of an episode while it is played, at each choice before it is carried out."""

    def __init__(self, machine: ProgramMachine, running: Episodes) -> None:
        self._machine, self._running = machine, running
        self.modes: list[int] = []
        self._before: list[int] = []  # actions before each step
        self._readings: list[int] = []
        self._counts: list[NDArray[np.int32]] = []
        self._probs: list[NDArray[np.float32]] = []
        by = machine.transition
        self._rules = by if isinstance(by, DecisionList) else None
        self.choose: Choose | None = None
        if isinstance(by, NetworkTransition):
            self.choose = by.chooser(running, watch=self._probs.append)

    def look(self, mode: int) -> None:
        """Note a choice, and what it was made by.

        Raises:
            ConfigError: the episode is too long to be shown.
        """
        running, rules = self._running, self._rules
        self.modes.append(mode)
        self._before.append(int(running.worlds.actions[0]))
        self._check()
        if rules is not None:
            sensed = running.sense(compass=COMPASS in rules.extras, own=rules.own)
            self._readings.append(int(sensed[0]))
            if COUNTING in rules.extras:
                self._counts.append(count_worlds(running.setting, running.worlds)[0])

    def count(self) -> int:
        """Return about how many moments there are so far."""
        return self._before[-1] + len(self.modes)

    def _check(self) -> None:
        worlds = self._running.worlds
        most = min(MOST_MOMENTS, (1 << 31) // (worlds.height * worlds.width))
        if self.count() > most:
            raise ConfigError(f"the episode has over {most:,} actions: too long to be shown")

    def acts(self) -> NDArray[np.int64]:
        """Return how many actions each step took at most, `[M]` int64; Snake's bite is not counted.

        Raises:
            ConfigError: the episode is too long to be shown.
        """
        self._before.append(int(self._running.worlds.actions[0]))
        self._check()
        return np.diff(self._before) + 1

    def fired(self, mode: NDArray[np.int16]) -> NDArray[np.int16]:
        """Return which rules fired, `[M]` int16, given what was chosen, `mode` `[M]` int16."""
        found = np.full(len(mode), -1, np.int16)
        if self._rules is None:
            return found
        last = np.concatenate([[-1], mode[:-1]])
        readings = np.array(self._readings)
        counts = np.array(self._counts) if self._counts else None
        for row, rules in enumerate((self._rules.start, *self._rules.after)):
            for number in reversed(range(len(rules))):
                holds = rules[number].holds(readings, self._rules.known, counts)
                found[holds & (last == row - 1)] = number
        return found

    def probs(self) -> NDArray[np.float32] | None:
        """Return how likely a network made each choice, `[M, K + 1]` float32."""
        return np.concatenate(self._probs) if self._probs else None


def tell_ending(episode: RecordedEpisode) -> str:
    """Return how an episode ended, in words."""
    if episode.has_ended:
        return "the machine chose to end"
    return f"stopped at the limit of {len(episode.mode)} modes"
