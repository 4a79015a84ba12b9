"""What runs return: the machines they learned, and what these are worth beside the paper's."""

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pomp.analysis.pictures import describe_machine, frames_of
from pomp.core.errors import ConfigError
from pomp.core.schemas import COUNT, NUMBER, TEXT, Listed, Maybe, Record
from pomp.core.storage import read_json, read_text, with_checksum
from pomp.core.texts import escape_html
from pomp.engine.starts import draw_starts, enumerate_starts
from pomp.karel.render import save_animation
from pomp.karel.world import WorldBatch
from pomp.machine.drawing import draw_machine
from pomp.machine.evaluation import Evaluation
from pomp.machine.policy import ProgramMachine
from pomp.machine.text import SUFFIX, print_machine
from pomp.machine.transitions import DecisionList
from pomp.machine.zoo import load_machine
from pomp.runs.asked import task_modules
from pomp.runs.folder import RunFolder, name_of
from pomp.runs.published import published
from pomp.tasks.catalog import is_shipped
from pomp.tasks.task import Setting

if TYPE_CHECKING:
    from pomp.hprl.policy import LatentEvaluation, MetaPolicy

SUMMARY_FILE, EVALUATION_FILE = "summary.json", "evaluation.json"
MACHINE_FOLDER, POLICY_FOLDER = "machine", "policy"
_TEXT_FILE, _PICTURE_FILE, _EPISODE_FILE = "machine.txt", "machine.svg", "episode.gif"

_EVALUATION = Record(
    {
        **{"task": TEXT, "seed": COUNT, "mean": NUMBER, "std": NUMBER, "returns": Listed(NUMBER)},
        **{"interval": Listed(NUMBER, 2, 2), "validation": Maybe(NUMBER), "ceiling": Maybe(NUMBER)},
    },
    is_open=True,
)


@dataclass(frozen=True)
class LearnedMachine:
    """A machine that a run has learned for a task and a seed.

    Attributes:
        setting: the task.
        seed: of the run.
        row: what it is worth, as in `evaluation.json`: mean, std, interval, validation, ...
        folder: where its files are; without a path if the run was in memory.
        allow: modules, beside its task's, that its files may name.
    """

    setting: Setting
    seed: int
    row: dict[str, Any]
    folder: RunFolder
    allow: tuple[str, ...] = ()
    _kept: dict[str, Any] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        """Say in a line what it is worth."""
        return f"LearnedMachine({self.setting.task.name}, seed {self.seed}: {self.mean:.4f})"

    @property
    def mean(self) -> float:
        """The mean return of its evaluation."""
        return float(self.row["mean"])

    @cached_property
    def policy(self) -> Any:
        """What was learned: a machine, or a `pomp.hprl.MetaPolicy`."""
        if POLICY_FOLDER in self._kept:
            return self._kept[POLICY_FOLDER]
        if self.folder.path is not None and (self.folder.path / POLICY_FOLDER).is_dir():
            from pomp.hprl.policy import MetaPolicy

            allow = (*task_modules([self.setting]), *self.allow)
            return MetaPolicy.load(self.folder.path / POLICY_FOLDER, allow)
        return self.machine

    @cached_property
    def machine(self) -> ProgramMachine:
        """The machine itself, read from its folder if it was learned earlier.

        Raises:
            ConfigError: a policy was learned that is no machine.
        """
        if not self.has_machine:
            raise ConfigError("this policy writes its programs itself, so it is no machine")
        if "machine" in self._kept:
            machine: ProgramMachine = self._kept["machine"]
            return machine
        assert self.folder.path is not None
        place = self.folder.path / MACHINE_FOLDER
        file = self.folder.path / f"{self.setting.task.name}{SUFFIX}"
        allow = (*task_modules([self.setting]), *self.allow)
        return load_machine(place if place.is_dir() else file, allow)

    @property
    def has_machine(self) -> bool:
        """Whether it is a machine, and no policy of another kind."""
        return POLICY_FOLDER not in self._kept and not (
            self.folder.path is not None and (self.folder.path / POLICY_FOLDER).is_dir()
        )

    @cached_property
    def text(self) -> str:
        """Its modes, and what came after each of them how often; or what it wrote."""
        return self._text_of(_TEXT_FILE)

    @cached_property
    def picture(self) -> str:
        """Its graph as SVG."""
        return self._text_of(_PICTURE_FILE)

    @property
    def files(self) -> tuple[Path, ...]:
        """What there is of it to read and to see: as a text machine, its graph, an episode."""
        names = (f"{self.setting.task.name}{SUFFIX}", _TEXT_FILE, _PICTURE_FILE, _EPISODE_FILE)
        return tuple(
            self.folder.path / name for name in names if self.folder.path and self.folder.has(name)
        )

    def _text_of(self, name: str) -> str:
        if name in self._kept:
            return str(self._kept[name])
        assert self.folder.path is not None
        return read_text(self.folder.path / name, "machine's picture or text")


@dataclass(frozen=True)
class LearningResult:
    """What `pomp.evolve` and `pomp.train` return.

    Attributes:
        is_finished: whether the run came to its end; else it was stopped.
        was_finished: whether an earlier run had come to its end, and this one did nothing.
        learned: the machines found so far, task by task and seed by seed.
        planned: how many machines there will be when the run is finished.
        path: the run's folder; None: it was in memory.
        method: what learned them, as `pomp train --method` takes it.
    """

    is_finished: bool
    was_finished: bool
    learned: tuple[LearnedMachine, ...]
    planned: int
    path: Path | None
    method: str

    def __repr__(self) -> str:
        """Say in a line what was found."""
        state = "finished" if self.is_finished else "stopped"
        return f"LearningResult({state}, {self.method}: {list(self.learned)})"

    @property
    def best(self) -> LearnedMachine:
        """The best machine by validation, which its evaluation had no part in.

        Raises:
            ConfigError: the run was stopped before it found one.
        """
        if not self.learned:
            raise ConfigError("the run was stopped before it found a machine; resume it")
        return max(self.learned, key=lambda one: (one.row["validation"] or 0.0, -one.seed))

    @property
    def machine(self) -> ProgramMachine:
        """The best machine by validation."""
        return self.best.machine

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Every task's mean, standard deviation over seeds and machines, as in `summary.json`."""
        return sum_up(self.learned, self.method)

    def _repr_html_(self) -> str:
        """The best machine's picture and return, for a notebook."""
        if not self.learned:
            return "<div>stopped before a machine was found</div>"
        best = self.best
        worth = f"{best.setting.task.name}, seed {best.seed}: mean return {best.mean:.3f}"
        if not best.has_machine:
            return f"<div>{escape_html(worth)}<pre>{escape_html(best.text)}</pre></div>"
        # As an image: the folder may be a stranger's, and a page would run what is in its picture.
        picture = base64.b64encode(best.picture.encode()).decode()
        image = f'<img style="max-width:100%" src="data:image/svg+xml;base64,{picture}">'
        return f"<div>{escape_html(worth)}<br>{image}</div>"


def write_learned(
    setting: Setting,
    seed: int,
    machine: ProgramMachine,
    found: Evaluation,
    about: dict[str, Any],
    folder: RunFolder,
) -> LearnedMachine:
    """Write a machine, its evaluation, its pictures and an episode into a folder.

    Args:
        setting: the task.
        seed: of the run.
        machine: what was learned.
        found: its evaluation.
        about: what else belongs to the evaluation: validation, search, ...
        folder: where all of it goes.

    Returns:
        The machine with what it is worth.
    """
    told = {"task": setting.task.name, "seed": seed, **about, **found.to_json()}
    row = {name: value for name, value in told.items() if name != "returns"}
    kept: dict[str, Any] = {
        "machine": machine,
        _TEXT_FILE: describe_machine(machine, found) + "\n",
        _PICTURE_FILE: draw_machine(machine, found),
    }
    if folder.path is not None:
        folder.make()
        folder.within(MACHINE_FOLDER).make()
        machine.save(folder.path / MACHINE_FOLDER)
        if isinstance(machine.transition, DecisionList):
            folder.write_text(f"{setting.task.name}{SUFFIX}", print_machine(machine))
        folder.write_text("programs.txt", "".join(f"{mode}\n" for mode in machine.modes))
        folder.write_text(_TEXT_FILE, kept[_TEXT_FILE])
        folder.write_text(_PICTURE_FILE, kept[_PICTURE_FILE])
        frames = frames_of(machine, found, _starts_of(found))
        save_animation(frames, folder.path / _EPISODE_FILE)
        folder.write_text(EVALUATION_FILE, json.dumps(with_checksum(told), indent=1) + "\n")
    return LearnedMachine(setting, seed, row, folder, _kept=kept)


def write_policy(
    policy: "MetaPolicy",
    seed: int,
    found: "LatentEvaluation",
    about: dict[str, Any],
    folder: RunFolder,
) -> LearnedMachine:
    """Write a policy that writes programs, its evaluation and what it wrote into a folder.

    Args:
        policy: what was learned.
        seed: of the run.
        found: its evaluation.
        about: what else belongs to the evaluation: validation, ...
        folder: where all of it goes.

    Returns:
        The policy with what it is worth.
    """
    told = {"task": policy.setting.task.name, "seed": seed, **about, **found.to_json()}
    row = {name: value for name, value in told.items() if name != "returns"}
    first = (f"program {number}: {text}" for number, text in enumerate(found.written[0], 1))
    text = "\n".join(["the first episode of its evaluation:", *first]) + "\n"
    if folder.path is not None:
        folder.make()
        policy.save(folder.path / POLICY_FOLDER)
        folder.write_text(_TEXT_FILE, text)
        folder.write_text(EVALUATION_FILE, json.dumps(told, indent=1) + "\n")
    return LearnedMachine(
        policy.setting, seed, row, folder, _kept={POLICY_FOLDER: policy, _TEXT_FILE: text}
    )


def _starts_of(found: Evaluation) -> WorldBatch:
    """Return the worlds that an evaluation without a seed began with."""
    if found.is_exact:
        return enumerate_starts(found.setting)[0]
    return draw_starts(found.setting, len(found.returns), 0)


def read_learned(
    setting: Setting, seed: int, folder: RunFolder, allow: tuple[str, ...] = ()
) -> LearnedMachine:
    """Read what `write_learned` wrote.

    Args:
        setting: the task.
        seed: of the run.
        folder: where it was written.
        allow: modules, beside the task's, that its files may name.
    """
    assert folder.path is not None
    told = read_json(folder.path / EVALUATION_FILE, "evaluation", _EVALUATION)
    row = {name: value for name, value in told.items() if name != "returns"}
    return LearnedMachine(setting, seed, row, folder, allow)


def read_all(
    pairs: Iterable[tuple[Setting, int]], folder: RunFolder, allow: tuple[str, ...] = ()
) -> dict[tuple[str, int], LearnedMachine]:
    """Read what the earlier run of a folder has written, by task and seed.

    Args:
        pairs: every task with every seed.
        folder: the run's.
        allow: modules, beside the tasks', that its files may name.
    """
    found = {}
    for setting, seed in pairs:
        place = folder.within(*name_of(setting, seed))
        if place.has(EVALUATION_FILE):
            found[setting.task.name, seed] = read_learned(setting, seed, place, allow)
    return found


def sum_up(learned: Sequence[LearnedMachine], method: str) -> dict[str, Any]:
    """Return every task's mean and standard deviation over seeds.

    Args:
        learned: the machines.
        method: that learned them; the paper's numbers of the same one stand beside ours.
    """
    tasks: dict[str, list[LearnedMachine]] = {}
    for one in learned:
        tasks.setdefault(one.setting.task.name, []).append(one)
    return {
        "tasks": {
            name: {
                "mean": float(np.mean([one.mean for one in own])),
                "std": float(np.std([one.mean for one in own])),
                "seeds": len(own),
                "ceiling": own[0].row["ceiling"],
                "published": published(method, name) if is_shipped(own[0].setting.task) else None,
                "machines": [one.row for one in own],
            }
            for name, own in tasks.items()
        }
    }
