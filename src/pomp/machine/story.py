"""An episode told action by action, for those who watch: plain values, no terminal, no torch."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from pomp.dsl.bytecode import compile_programs
from pomp.dsl.parser import parse
from pomp.dsl.printer import print_program
from pomp.dsl.vocabulary import Action
from pomp.karel.lanes import BY_CHOICE
from pomp.karel.rules import COUNT, value
from pomp.karel.world import WorldBatch
from pomp.machine.episodes import LAST_WORDS
from pomp.machine.policy import ProgramMachine
from pomp.streams import Purpose, draw_units, open_streams
from pomp.tasks.engine import draw_starts
from pomp.tasks.record import record
from pomp.tasks.rollout import act_on
from pomp.tasks.task import Setting

RECENT = 64
"""Modes a moment remembers."""


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
        recent: the latest modes, this one last; not the end.
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
    recent: tuple[int, ...] = ()
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
            worth=worth_of(self.setting, worlds),
            is_done=bool(worlds.done[0]),
        )


class Sandbox(Scene):
    """A scene that can be taken back: for a person who acts."""

    def __init__(self, setting: Setting, seed: int) -> None:
        super().__init__(setting, draw_starts(setting, 1, seed))
        self.moments = [self.look()]
        self._before: list[WorldBatch] = []

    def act(self, action: int) -> Moment:
        """Perform one action, and remember it."""
        self._before.append(self.worlds.copy())
        self.moments.append(super().act(action))
        return self.moments[-1]

    def undo(self) -> None:
        """Take the latest action back; at the start nothing happens."""
        if self._before:
            self.worlds = self._before.pop()
            self.moments.pop()


def worth_of(setting: Setting, worlds: WorldBatch) -> float:
    """What the episode in the first world is worth now, to the bit as the engine has it."""
    return float(value(worlds.memory[0], setting.rules))  # type: ignore[no-untyped-call] # compiled


def advise(machine: ProgramMachine, setting: Setting, worlds: WorldBatch) -> int:
    """The machine's likeliest choice if it began here; the number of modes: to end."""
    running = machine.episodes(setting, worlds)
    return int(machine.transition.chooser(running)(None)[0])


def lay_out(program: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
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


class Story:
    """One episode of a machine: the one that `evaluate(machine, episodes=1, ...)` plays.

    Iterating gives the start, then a moment per action; one for a mode that does not act, and one
    for an end without last words. Each story is told once.
    """

    def __init__(
        self, machine: ProgramMachine, setting: Setting, *, seed: int = 0, greedy: bool = False
    ) -> None:
        """Begin.

        Args:
            machine: who acts.
            setting: its task, scale included.
            seed: of the start and the choices.
            greedy: take the likeliest choice instead of drawing one.
        """
        self._machine, self._setting = machine, setting
        self._scene = Scene(setting, draw_starts(setting, 1, seed))
        self._running = machine.episodes(setting, self._scene.worlds.copy())
        self._choose = machine.transition.chooser(self._running)
        self._draws = None if greedy else open_streams(Purpose.EVALUATION, seed, 1, worlds=1)
        programs = (*machine.modes, LAST_WORDS)
        self._code = compile_programs(programs, source=True)
        self._lines = [lay_out(program)[1] for program in programs]
        self._recent: tuple[int, ...] = ()

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
            self._recent = (*self._recent[1 - RECENT :], choice)
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
