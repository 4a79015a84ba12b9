"""An episode told action by action, for those who watch or act: no terminal, no torch.

A story is what a machine does; a sandbox is what a person does. `Watching` and `Acting` turn keys
and time into views of them, which `pomp play` draws.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from pomp.core.errors import ConfigError
from pomp.core.streams import Purpose, draw_units, open_streams
from pomp.dsl.bytecode import compile_programs
from pomp.dsl.parser import parse
from pomp.dsl.printer import print_program
from pomp.dsl.vocabulary import ACTION_OF_TOKEN, Action
from pomp.engine.lanes import BY_CHOICE
from pomp.engine.recording import record
from pomp.engine.rollouts import act_on
from pomp.engine.starts import StartName, draw_starts
from pomp.karel.dynamics import COUNT, value
from pomp.karel.world import WorldBatch
from pomp.machine.episodes import LAST_WORDS
from pomp.machine.policy import ProgramMachine
from pomp.tasks.task import Setting

Runs = tuple[tuple[int, int], ...]
"""Modes, each with how often it ran in a row."""

RECENT = 24  # runs that a moment remembers
SLOWEST, FASTEST = 0.25, 1024.0  # actions per second

_FRAME_SECONDS, _IDLE_SECONDS = 1 / 30, 0.1  # between views, if something moves and if nothing does
_LATE_SECONDS = 0.25  # of delay that are made up for
_MODES_COLUMNS = 60  # for the latest modes
_FACTORS = {"+": 2.0, "=": 2.0, "-": 0.5, "_": 0.5}  # of the speed
_HANDS = {
    "w": "move", "up": "move", "a": "turnLeft", "left": "turnLeft", "d": "turnRight",
    "right": "turnRight", "p": "pickMarker", "o": "putMarker",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Moment:
    """What there is to see after one action, or before the first.

    Attributes:
        world: the rows of the map, as in `Map.to_text`.
        under: markers under the agent.
        actions: how many the episode has had.
        worth: the return so far.
        is_done: the task's flag.
        action: the action before this moment; None: none (the start, an idle mode, the end).
        reward: what that action earned.
        step: macro steps so far, this one included.
        mode: the mode that runs; the number of modes: the end; None before the first.
        recent: the latest modes, each with how often it ran in a row, this one last; not the end.
        line: of the mode's program: the one that acted.
        is_last: the mode has ended with this moment.
        ending: how the episode has ended; empty while it goes on.
    """

    world: tuple[str, ...]
    under: int
    actions: int
    worth: float
    is_done: bool
    action: str | None = None
    reward: float = 0.0
    step: int = 0
    mode: int | None = None
    recent: Runs = ()
    line: int | None = None
    is_last: bool = True
    ending: str = ""


class Scene:
    """One world in which actions are performed one by one."""

    def __init__(self, setting: Setting, worlds: WorldBatch) -> None:
        self.setting, self.worlds = setting, worlds

    def act(self, action: int) -> Moment:
        """Perform one action."""
        reward = float(act_on(self.setting, self.worlds, [action], threads=1)[0])
        return replace(self.look(), action=Action(action).token, reward=reward)

    def look(self) -> Moment:
        """What is there."""
        worlds = self.worlds
        return Moment(
            world=tuple(worlds.to_text().splitlines()),
            under=int(worlds.cells[0, worlds.pose[0] >> 2] & COUNT),
            actions=int(worlds.actions[0]),
            worth=float(value(worlds.memory[0], self.setting.constants)),  # type: ignore[no-untyped-call]  # compiled
            is_done=bool(worlds.done[0]),
        )


class Sandbox(Scene):
    """A scene that can be taken back: for a person who acts."""

    def __init__(self, setting: Setting, seed: int) -> None:
        super().__init__(setting, draw_starts(setting, 1, seed))
        self.moments = [self.look()]
        self._before: list[WorldBatch] = []

    def perform(self, action: int) -> None:
        """Act, and remember what was before."""
        self._before.append(self.worlds.copy())
        self.moments.append(self.act(action))

    def undo(self) -> None:
        """Take the latest action back; at the start nothing happens."""
        if self._before:
            self.worlds = self._before.pop()
            self.moments.pop()


def numbered_lines(program: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """A program's lines, indented, and the line each of its tokens stands on."""
    lines = tuple(print_program(parse(program), indent=True).splitlines())
    places = (number for number, line in enumerate(lines) for _ in line.split())
    return lines, tuple(places)


def warm_up(machine: ProgramMachine, setting: Setting) -> None:
    """Compile all that telling an episode needs, so that nothing is said of it later."""
    scene = Scene(setting, draw_starts(setting, 1, 0))
    running = machine.episodes(setting, scene.worlds.copy())
    machine.transition.chooser(running)(None)
    running.step(np.zeros(1, np.int64))
    record(setting, list(machine.modes), scene.worlds, lists=[[0]], cap=machine.episode.cap)
    scene.act(Action.TURN_LEFT)


def _count_in(recent: Runs, mode: int) -> Runs:
    """The latest modes with one more."""
    if recent and recent[-1][0] == mode:
        return (*recent[:-1], (mode, recent[-1][1] + 1))
    return (*recent[1 - RECENT :], (mode, 1))


class Story:
    """One episode of a machine: the one that `evaluate(machine, episodes=1, ...)` plays.

    Iterating gives the start, then a moment per action; one for a mode that does not act, and one
    for an end without last words. Each story is told once. The seed is that of the start and of the
    choices, which are the likeliest if `greedy`, else drawn; a `start` that is named replaces it.
    """

    def __init__(
        self,
        machine: ProgramMachine,
        setting: Setting,
        *,
        seed: int = 0,
        greedy: bool = False,
        start: StartName | None = None,
    ) -> None:
        self._machine, self._setting = machine, setting
        start = start or StartName(0, seed)
        self._scene = Scene(setting, start.open(setting))
        self._running = machine.episodes(setting, self._scene.worlds.copy())
        self._choose = machine.transition.chooser(self._running)
        choices = {"worlds": 1, "first": start.number}
        draws = open_streams(Purpose.EVALUATION, start.seed or 0, 1, **choices)
        self._draws = None if greedy else draws
        programs = (*machine.modes, LAST_WORDS)
        self._code = compile_programs(programs, source=True)
        self._lines = [numbered_lines(program)[1] for program in programs]
        self._recent: Runs = ()

    def __iter__(self) -> Iterator[Moment]:
        yield self._scene.look()
        while not self._running.ending[0]:
            yield from self._run_mode()

    def _run_mode(self) -> Iterator[Moment]:
        """One macro step, told."""
        numbers = None if self._draws is None else draw_units(self._draws, 1)[0]
        choice = int(self._choose(numbers)[0])
        self._running.step(np.array([choice], np.int64))
        ending = self._ending()
        if choice < len(self._machine.modes):
            self._recent = _count_in(self._recent, choice)
        about = partial(replace, mode=choice, recent=self._recent, step=int(self._running.taken[0]))
        acts = self._acts_of(choice)
        if not acts:
            yield about(self._scene.look(), ending=ending)
        for left, (action, line) in zip(reversed(range(len(acts))), acts, strict=True):
            moment = about(self._scene.act(action), line=line, is_last=not left)
            yield moment if left else replace(moment, ending=ending)

    def _acts_of(self, choice: int) -> list[tuple[int, int]]:
        """The actions of a mode from where the scene stands, each with its program's line."""
        if choice == len(self._machine.modes) and not self._machine.episode.last_words:
            return []
        trace = record(
            self._setting, self._code, self._scene.worlds,
            lists=[[choice]], cap=self._machine.episode.cap,
        ).arrays  # fmt: skip
        count = int(trace.length[0])
        tokens = self._code.source[choice, trace.pc[0, :count]].tolist()
        lines = [self._lines[choice][token] for token in tokens]
        return list(zip(trace.action[0, :count].tolist(), lines, strict=True))

    def _ending(self) -> str:
        """How the latest macro step ended the episode, if it did."""
        if not self._running.ending[0]:
            return ""
        if self._running.ending[0] == BY_CHOICE:
            return "the machine chose to end"
        return f"stopped at the limit of {int(self._running.taken[0])} modes"


@dataclass(frozen=True, kw_only=True)
class View:
    """What a frame shows.

    Attributes:
        title: the first line.
        world: rows of the map, as in `Map.to_text`.
        under: markers under the agent.
        heading: what stands above the text beside the world.
        text: that text.
        focus: the line of it to be marked, if any.
        tallest: how many lines the text may come to have.
        status: lines below the world, the most important first.
        keys: the last line.
    """

    title: str
    world: Sequence[str]
    under: int
    heading: str
    text: Sequence[str]
    focus: int | None
    tallest: int
    status: Sequence[str]
    keys: str


class Watching:
    """A machine plays; keys stop, step and hurry it."""

    def __init__(
        self,
        machine: ProgramMachine,
        setting: Setting,
        seed: int,
        speed: float,
        *,
        greedy: bool,
        start: StartName | None = None,
    ) -> None:
        if not SLOWEST <= speed <= FASTEST:
            raise ConfigError(
                f"the speed is {SLOWEST:g} to {FASTEST:g} actions a second, got {speed:g}"
            )
        warm_up(machine, setting)
        self.machine, self.setting = machine, setting
        self.speed, self.greedy, self.is_paused = speed, greedy, False
        last_words = numbered_lines(LAST_WORDS)[0] if machine.episode.last_words else ()
        self._programs = [*(numbered_lines(program)[0] for program in machine.modes), last_words]
        self._begin(seed, start)

    def _begin(self, seed: int, start: StartName | None) -> None:
        self.seed, self._start, self._due = seed, start, math.inf
        told = Story(self.machine, self.setting, seed=seed, greedy=self.greedy, start=start)
        self._story = iter(told)
        self.moment = next(self._story)

    def press(self, key: str) -> None:
        """See `pomp.cli.play.Player`."""
        if key == " ":
            self.is_paused = not self.is_paused
        elif key in (".", "right") and self.is_paused:
            self._go_on()
        elif key == "n":
            self._go_on()
            while not self.moment.is_last:
                self._go_on()
        elif key in _FACTORS:
            self.speed = min(max(self.speed * _FACTORS[key], SLOWEST), FASTEST)
        elif key == "r":
            self._begin(self.seed, self._start)
        elif key == "s":
            self._begin(self.seed + 1, None)

    def _go_on(self) -> None:
        self.moment = next(self._story, self.moment)

    def pass_time(self, now: float) -> float:
        """See `pomp.cli.play.Player`."""
        if self.is_paused or self.moment.ending:
            self._due = math.inf
            return _IDLE_SECONDS
        self._due = min(max(self._due, now - _LATE_SECONDS), now + 1 / self.speed)
        while self._due <= now:
            self._go_on()
            self._due += 1 / self.speed
        return min(max(self._due - now, _FRAME_SECONDS), _IDLE_SECONDS)

    def view(self) -> View:
        """See `pomp.cli.play.Player`."""
        moment, mode = self.moment, self.moment.mode
        state = "ended" if moment.ending else "paused" if self.is_paused else "running"
        how = "likeliest choices" if self.greedy else "drawn choices"
        began = f"seed {self.seed}" if self._start is None else f"start {self._start}"
        return View(
            title=f"{_name(self.setting)}   {began}   {self.machine.sensors or how}   "
            f"{self.speed:g} actions/s   {state}",
            world=moment.world,
            under=moment.under,
            heading=self._heading(),
            text=() if mode is None else self._programs[mode],
            focus=moment.line,
            tallest=max(map(len, self._programs)),
            status=(
                _return_line(moment, self.setting),
                f"macro step {moment.step}   {_action_line(moment)}",
                f"modes  {_modes_line(moment, self.machine.signs)}",
                f"over: {moment.ending}" if moment.ending else "",
            ),
            keys="r again  s next seed  q quit"
            if moment.ending
            else "space pause  . step  n mode's end  + - speed  r again  s next seed  q quit",
        )

    def _heading(self) -> str:
        mode, count = self.moment.mode, len(self.machine.modes)
        if mode is None:
            return "before the first mode"
        if mode == count:
            return "the end"
        name = f"{self.machine.names[mode]}, " if self.machine.names else ""
        return f"{name}mode {mode + 1} of {count}" + ("" if self.moment.action else ", did not act")


class Acting:
    """A person plays; what a machine would choose is said, if there is one."""

    def __init__(self, setting: Setting, seed: int, machine: ProgramMachine | None = None) -> None:
        self.setting, self.machine = setting, machine
        Sandbox(setting, 0).perform(Action.TURN_LEFT)  # compiled before anything is shown
        self._begin(seed)

    def _begin(self, seed: int) -> None:
        self.seed, self.sandbox = seed, Sandbox(self.setting, seed)
        self._look()

    def press(self, key: str) -> None:
        """See `pomp.cli.play.Player`."""
        if key in _HANDS:
            self.sandbox.perform(ACTION_OF_TOKEN[_HANDS[key]])
        elif key == "u":
            self.sandbox.undo()
        elif key in ("r", "s"):
            self._begin(self.seed + (key == "s"))
        self._look()

    def _look(self) -> None:
        """See what is there now, and ask the machine what it would do if it began here."""
        self.moment, self._advice = self.sandbox.moments[-1], ""
        if self.machine:
            running = self.machine.episodes(self.setting, self.sandbox.worlds)
            choice = int(self.machine.transition.chooser(running)(None)[0])
            does = [*(f"begin with {title}" for title in self.machine.titles), "end at once"]
            self._advice = f"from here the machine would {does[choice]}"

    def pass_time(self, now: float) -> float:
        """See `pomp.cli.play.Player`."""
        return _IDLE_SECONDS

    def view(self) -> View:
        """See `pomp.cli.play.Player`."""
        moment, acted = self.moment, self.sandbox.moments[1:]
        rewards = [f"{one.actions:4d}  {one.action:<10} {one.reward:+.6f}" for one in acted]
        return View(
            title=f"{_name(self.setting)}   seed {self.seed}   you act",
            world=moment.world,
            under=moment.under,
            heading="action and reward",
            text=rewards,
            focus=len(rewards) - 1 if rewards else None,
            tallest=12,
            status=(_return_line(moment, self.setting), _action_line(moment), self._advice),
            keys="w move  a left  d right  p pick  o put  u undo  r again  s next seed  q quit",
        )


def _name(setting: Setting) -> str:
    return f"{setting.task.name} ({setting.variant}) x{setting.scale}"


def _return_line(moment: Moment, setting: Setting) -> str:
    done = "the task is done" if moment.is_done else "the task is not done"
    ceiling = "" if setting.ceiling is None else f"ceiling {setting.ceiling:.6f}   "
    return f"return {moment.worth:.6f}   {ceiling}{done}"


def _action_line(moment: Moment) -> str:
    last = f"{moment.action} {moment.reward:+.6f}" if moment.action else "none"
    return f"actions {moment.actions}   last {last}"


def _modes_line(moment: Moment, signs: Sequence[str]) -> str:
    """The latest modes that fit on a line."""
    is_end = moment.mode is not None and (not moment.recent or moment.mode != moment.recent[-1][0])
    line, told = "end" if is_end else "", int(is_end)
    for mode, times in reversed(moment.recent):
        run = f"{signs[mode]} x{times}" if times > 1 else signs[mode]
        if len(line) + len(run) > _MODES_COLUMNS:
            break
        line, told = f"{run}  {line}", told + times
    return (f"...  {line}" if told < moment.step else line).rstrip()
