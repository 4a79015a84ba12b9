"""ProgramMachine: a state machine whose modes are programs. A value that can be saved and run."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pomp.configs import from_json, to_json
from pomp.dsl.parser import parse
from pomp.dsl.printer import print_program
from pomp.embedding.files import read_arrays, write_arrays
from pomp.errors import ConfigError, DataFileError, PompError
from pomp.folders import write_text
from pomp.karel.lanes import BY_CHOICE
from pomp.karel.world import WorldBatch
from pomp.machine.config import MAX_MODES, EpisodeConfig
from pomp.machine.episodes import Episodes
from pomp.machine.transitions import DecisionList, NetworkTransition, Transition
from pomp.streams import Purpose, draw_units, open_streams
from pomp.tasks.catalog import find_task
from pomp.tasks.task import Setting

MACHINE_FILE, WEIGHTS_FILE = "machine.json", "machine.safetensors"
FORMAT = 1
"""Rises when files of this version could not be read by earlier ones."""


@dataclass(frozen=True)
class Step:
    """One macro step: which mode ran (None: the machine ended), and what it earned.

    The last one of an episode is that in which the machine ends, or the last it may take.
    """

    mode: int | None
    program: str | None
    reward: float
    actions: int
    is_last: bool


@dataclass
class ProgramMachine:
    """Modes, what chooses the next of them, and the task they were made for.

    Attributes:
        task: its name.
        modes: the programs, as text on one line each.
        transition: what chooses.
        variant: the task's; None: the default.
        options: of the variant, those that differ from its defaults.
        size: rows and columns of the grid; None: the task's own.
        episode: how it acts.
        provenance: where it comes from; free JSON.
        current: the mode that ran last in the world `act` is used on; None before the first.
        taken: how many ran there.
    """

    task: str
    modes: tuple[str, ...]
    transition: Transition
    variant: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    size: tuple[int, int] | None = None
    episode: EpisodeConfig = field(default_factory=EpisodeConfig)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    current: int | None = None
    taken: int = 0

    def __post_init__(self) -> None:
        if not 1 <= len(self.modes) <= MAX_MODES:
            raise ConfigError(f"a machine has 1 to {MAX_MODES} modes, got {len(self.modes)}")
        self.modes = tuple(print_program(parse(mode)) for mode in self.modes)
        transition = self.transition
        count = transition.modes if isinstance(transition, NetworkTransition) else None
        count = len(transition.after) if isinstance(transition, DecisionList) else count
        if count is not None and count != len(self.modes):
            raise ConfigError(
                f"these transitions are for {count} modes, the machine has {len(self.modes)}"
            )
        self._draws = open_streams(Purpose.EVALUATION, 0, 1, worlds=1)

    def configure(self, scale: int = 1) -> Setting:
        """The task's setting."""
        return find_task(self.task).configure(self.variant, self.options, self.size, scale)

    def episodes(self, setting: Setting, worlds: WorldBatch, *, restarts: bool = False) -> Episodes:
        """Worlds in which this machine's modes run."""
        size = (worlds.height, worlds.width)
        if isinstance(self.transition, NetworkTransition) and not self.transition.fits(size):
            expected = "x".join(map(str, self.transition.size))
            raise ConfigError(
                f"this network sees a grid of {expected}, the world is {size[0]}x{size[1]}"
            )
        return Episodes(setting, [self.modes], worlds, self.episode, restarts=restarts)

    def reset(self, seed: int = 0) -> None:
        """Forget the current mode, before the first `act` in a world."""
        self.current, self.taken = None, 0
        self._draws = open_streams(Purpose.EVALUATION, seed, 1, worlds=1)

    def act(self, world: WorldBatch, *, greedy: bool = False, scale: int = 1) -> Step:
        """Choose the next mode in one world (of the task at a scale) and run it there, in place."""
        if len(world) != 1:
            raise ConfigError(f"act takes one world, got {len(world)}; see pomp.machine.evaluate")
        episodes = self.episodes(self.configure(scale), world)
        episodes.mode[0] = -1 if self.current is None else self.current
        episodes.taken[0] = self.taken
        before = int(world.actions[0])
        draws = None if greedy else draw_units(self._draws, 1)[0]
        choice = self.transition.chooser(episodes)(draws)
        episodes.step(np.asarray(choice, np.int64))
        is_end = episodes.ending[0] == BY_CHOICE
        self.current, self.taken = None if is_end else int(choice[0]), int(episodes.taken[0])
        program = None if self.current is None else self.modes[self.current]
        reward, acted = float(episodes.rewards[0]), int(world.actions[0]) - before
        return Step(self.current, program, reward, acted, is_last=bool(episodes.ending[0]))

    def save(self, folder: str | Path) -> None:
        """Write the machine into a folder, which is made if need be.

        Raises:
            OutputError: it cannot be written.
        """
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        if arrays := self.transition.to_arrays():
            write_arrays(path / WEIGHTS_FILE, arrays, {"kind": self.transition.kind})
        text = json.dumps(
            {
                "format": FORMAT,
                "task": self.task,
                "variant": self.variant,
                "options": dict(self.options),
                "size": self.size,
                "modes": list(self.modes),
                "episode": to_json(self.episode),
                "transition": {"kind": self.transition.kind, **self.transition.to_json()},
                "provenance": dict(self.provenance),
            },
            indent=1,
        )
        write_text(path / MACHINE_FILE, text + "\n")

    @classmethod
    def load(cls, folder: str | Path) -> "ProgramMachine":
        """Read a machine.

        Raises:
            DataFileError: there is none, or it is damaged, from a newer version, or unfit.
        """
        path = Path(folder)
        path = path.parent if path.name == MACHINE_FILE else path
        try:
            values = json.loads((path / MACHINE_FILE).read_text())
        except OSError as error:
            raise DataFileError(f"'{path}' holds no {MACHINE_FILE}") from error
        except ValueError as error:
            raise DataFileError(f"'{path / MACHINE_FILE}' is damaged or cut short") from error
        if not isinstance(values, dict) or type(values.get("format")) is not int:
            raise DataFileError(f"'{path / MACHINE_FILE}' is no machine of pomp")
        if values["format"] < 1:
            raise DataFileError(f"'{path / MACHINE_FILE}' is no machine of pomp")
        if values["format"] > FORMAT:
            raise DataFileError(
                f"'{path}' was written by a newer version (format {values['format']}, this one "
                f"reads up to {FORMAT}); upgrade pomp"
            )
        try:
            return cls._from_json(values, path)
        except (PompError, LookupError, ValueError, TypeError, ArithmeticError) as error:
            raise DataFileError(f"'{path}' holds no usable machine: {error}") from error

    @classmethod
    def _from_json(cls, values: dict[str, Any], path: Path) -> "ProgramMachine":
        parts = dict(values["transition"])
        kind = parts.pop("kind")
        if kind == NetworkTransition.kind:
            arrays, _ = read_arrays(path / WEIGHTS_FILE, "machine")
            transition: Transition = NetworkTransition.from_parts(parts, arrays)
        elif kind == DecisionList.kind:
            transition = DecisionList.from_json(parts)
        else:
            raise DataFileError(f"unknown kind of transition '{kind}'")
        task, variant, options = values["task"], values["variant"], values["options"]
        size = None if values["size"] is None else tuple(map(int, values["size"]))
        modes = values["modes"]
        if not isinstance(options, dict) or not isinstance(modes, list) or variant == "":
            raise TypeError("options are named, modes are a list")
        texts = [task, *modes, *options.values(), *([] if variant is None else [variant])]
        if not all(isinstance(text, str) for text in texts):
            raise TypeError("task, variant, options and modes are texts")
        machine = cls(
            task=task,
            modes=tuple(modes),
            transition=transition,
            variant=variant,
            options=options,
            size=size,  # type: ignore[arg-type]  # checked by configure
            episode=from_json(EpisodeConfig, values["episode"]),
            provenance=dict(values["provenance"]),
        )
        machine.configure()
        return machine
