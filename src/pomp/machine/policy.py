"""ProgramMachine: a state machine whose modes are programs. A value that can be saved and run."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.core.configs import from_json, to_json
from pomp.core.errors import (
    ConfigError,
    DataFileError,
    MissingExtraError,
    PompError,
    UnloadableError,
    UntrustedModuleError,
)
from pomp.core.sources import load_object, require_source
from pomp.core.storage import (
    make_folder,
    read_arrays,
    read_json,
    through_file,
    with_checksum,
    write_arrays,
    write_text,
)
from pomp.core.streams import Purpose, draw_units, open_streams
from pomp.dsl.parser import parse
from pomp.dsl.printer import print_program
from pomp.engine.lanes import BY_CHOICE
from pomp.karel.sensor_set import find_sensors
from pomp.karel.world import WorldBatch
from pomp.machine.code_table import CodeTable
from pomp.machine.config import MAX_MODES, POLICY_FILE, EpisodeConfig
from pomp.machine.episodes import Episodes
from pomp.machine.moore_table import MooreTable
from pomp.machine.quantised import QuantisedNetwork
from pomp.machine.schemas import FORMAT, MACHINE, SENSORS, VERSIONED, WEIGHTS
from pomp.machine.transitions import (
    DecisionList,
    NetworkTransition,
    Transition,
    check_transition,
    remembers,
)
from pomp.tasks.catalog import find_task, source_of
from pomp.tasks.task import Setting, Task

MACHINE_FILE, WEIGHTS_FILE = "machine.json", "machine.safetensors"

_SEEING = (NetworkTransition, CodeTable, QuantisedNetwork, MooreTable)
"""Kinds of transitions that look at the grid."""

NAME = re.compile("[A-Za-z][A-Za-z0-9_-]*")
STOP = "stop"
RESERVED = (STOP, "start", "mode", "machine", "if", "else", "and", "not", "end")
"""What no mode may be called."""


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
        task: the task; a name or `module:NAME` is looked up.
        modes: the programs, as text on one line each.
        transition: what chooses.
        variant: the task's; None: the default.
        options: of the variant, those that differ from its defaults.
        size: rows and columns of the grid; None: the task's own.
        episode: how it acts.
        provenance: where it comes from; free JSON.
        names: of the modes; None: they are numbered.
        comments: lines a text file has about a mode, by its name, or about the machine ("").
        current: the mode that ran last in the world `act` is used on; None before the first.
        taken: how many ran there.
        is_idle: the last of them took no action.
    """

    task: Task
    modes: tuple[str, ...]
    transition: Transition
    variant: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    size: tuple[int, int] | None = None
    episode: EpisodeConfig = field(default_factory=EpisodeConfig)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] | None = None
    comments: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    current: int | None = None
    taken: int = 0
    is_idle: bool = False

    def __post_init__(self) -> None:
        self.task = find_task(self.task)
        if not callable(getattr(self.transition, "chooser", None)):
            raise ConfigError(f"no transition: {self.transition!r:.80} chooses nothing")
        if isinstance(self.modes, str) or not isinstance(self.modes, Sequence):
            got = type(self.modes).__name__
            raise ConfigError(f"the modes of a machine are a list of programs, got a {got}")
        if not 1 <= len(self.modes) <= MAX_MODES:
            raise ConfigError(f"a machine has 1 to {MAX_MODES} modes, got {len(self.modes)}")
        self.modes = tuple(print_program(parse(mode)) for mode in self.modes)
        transition = self.transition
        count = transition.modes if isinstance(transition, _SEEING) else None
        count = len(transition.after) if isinstance(transition, DecisionList) else count
        if count is not None and count != len(self.modes):
            raise ConfigError(
                f"these transitions are for {count} modes, the machine has {len(self.modes)}"
            )
        if self.names is not None:
            check_names(self.names, len(self.modes))
        known = ("", *(self.names or ()))
        about = {name: tuple(lines) for name, lines in self.comments.items() if name in known}
        self.comments = {name: lines for name, lines in about.items() if lines}
        for line in (line for lines in self.comments.values() for line in lines):
            if "\n" in line or line != line.rstrip():
                raise ConfigError("a comment is one line without blanks at its end")
        self._draws = open_streams(Purpose.EVALUATION, 0, 1, worlds=1)

    @property
    def signs(self) -> tuple[str, ...]:
        """The modes in short: their names, or 1, 2, ..."""
        return self.names or tuple(str(n + 1) for n in range(len(self.modes)))

    @property
    def titles(self) -> tuple[str, ...]:
        """What the modes are called: their names, or `mode 1`, `mode 2`, ..."""
        return self.names or tuple(f"mode {sign}" for sign in self.signs)

    @property
    def sensors(self) -> str | None:
        """What its rules ask for, `perceptions only` or `with ...`; None: it has no rules."""
        return self.transition.sensors if isinstance(self.transition, DecisionList) else None

    @property
    def headline(self) -> str:
        """Its task, how many modes it has and what chooses among them."""
        chooses = f"rules, {self.sensors}" if self.sensors else self.transition.kind
        modes = "1 mode" if len(self.modes) == 1 else f"{len(self.modes)} modes"
        return f"{self.task.name}: {modes}, transitions by {chooses}"

    def _repr_svg_(self) -> str:
        """What a notebook shows: modes, programs and rules as a picture."""
        from pomp.machine.drawing import draw_machine, fit_to_page

        return fit_to_page(draw_machine(self))

    def __repr__(self) -> str:
        """Say in a line what it is."""
        return f"ProgramMachine({self.headline})"

    def configure(self, scale: int = 1) -> Setting:
        """The task's setting."""
        return self.task.configure(self.variant, self.options, self.size, scale)

    def under(self, cap: str | None) -> "ProgramMachine":
        """Return the machine with another cap of its programs; None: with its own.

        Raises:
            ConfigError: the text is no cap.
        """
        return self if cap is None else replace(self, episode=replace(self.episode, cap=cap))

    def episodes(self, setting: Setting, worlds: WorldBatch, *, restarts: bool = False) -> Episodes:
        """Worlds in which this machine's modes run."""
        size = (worlds.height, worlds.width)
        seeing = self.transition if isinstance(self.transition, _SEEING) else None
        if seeing is not None and not seeing.fits(size):
            expected = "x".join(map(str, seeing.size))
            raise ConfigError(
                f"this network sees a grid of {expected}, the world is {size[0]}x{size[1]}"
            )
        return Episodes(setting, [self.modes], worlds, self.episode, restarts=restarts)

    def reset(self, seed: int = 0) -> None:
        """Forget the current mode, before the first `act` in a world."""
        self.current, self.taken, self.is_idle = None, 0, False
        self._draws = open_streams(Purpose.EVALUATION, seed, 1, worlds=1)

    def check_memoryless(self, what: str) -> None:
        """Refuse transitions that remember more than the last mode.

        Args:
            what: what cannot be done with them, as the subject of a sentence.

        Raises:
            ConfigError: they do.
        """
        if remembers(self.transition):
            raise ConfigError(
                f"{what} needs transitions that know what is seen and the last mode alone, and "
                f"these remember more ({self.headline}); pomp eval and pomp play run whole episodes"
            )

    def act(self, world: WorldBatch, *, greedy: bool = False, scale: int = 1) -> Step:
        """Choose the next mode in one world (of the task at a scale) and run it there, in place."""
        self.check_memoryless("a single step")
        if len(world) != 1:
            raise ConfigError(f"act takes one world, got {len(world)}; see pomp.machine.evaluation")
        episodes = self.episodes(self.configure(scale), world)
        episodes.mode[0] = -1 if self.current is None else self.current
        episodes.taken[0], episodes.idle[0] = self.taken, self.is_idle
        before = int(world.actions[0])
        draws = None if greedy else draw_units(self._draws, 1)[0]
        choice = self.transition.chooser(episodes)(draws)
        episodes.step(np.asarray(choice, np.int64))
        is_end = episodes.ending[0] == BY_CHOICE
        self.current, self.taken = None if is_end else int(choice[0]), int(episodes.taken[0])
        self.is_idle = bool(episodes.idle[0])
        program = None if self.current is None else self.modes[self.current]
        reward, acted = float(episodes.rewards[0]), int(world.actions[0]) - before
        return Step(self.current, program, reward, acted, is_last=bool(episodes.ending[0]))

    def save(self, folder: str | Path) -> None:
        """Write the machine into a folder, which is made if need be.

        Raises:
            OutputError: it cannot be written.
            ConfigError: its transitions are of a class that cannot be read back.
        """
        check_transition(self.transition)
        path = make_folder(folder)
        if arrays := self.transition.to_arrays():
            write_arrays(path / WEIGHTS_FILE, arrays, {"kind": self.transition.kind})
        kind = _name_kind(self.transition)
        values = with_checksum(
            {
                "format": FORMAT,
                "task": source_of(self.task),
                "variant": self.variant,
                "options": dict(self.options),
                "size": self.size,
                "modes": list(self.modes),
                **({} if self.names is None else {"names": list(self.names)}),
                **({"comments": dict(self.comments)} if self.comments else {}),
                "episode": to_json(self.episode),
                "transition": {"kind": kind, **self.transition.to_json()},
                "provenance": dict(self.provenance),
            }
        )
        write_text(path / MACHINE_FILE, json.dumps(values, indent=1) + "\n")

    @classmethod
    def load(cls, folder: str | Path, allow: Collection[str] = ()) -> "ProgramMachine":
        """Read a machine from the folder that `save` wrote.

        Args:
            folder: the folder, or the machine.json in it.
            allow: modules that the file may name as the homes of its task, its transitions and
                their sensors.

        Raises:
            DataFileError: there is none, or it is damaged, from a newer version, or unfit.
            UntrustedModuleError: one of these is in a module that is not allowed.
            UnloadableError: one of these is not found.
            MissingExtraError: it has a network, and torch is not installed.
        """
        path = Path(folder)
        path = path.parent if path.name == MACHINE_FILE else path
        if not (path / MACHINE_FILE).exists():
            has_other = (path / POLICY_FILE).is_file()
            hint = "; it holds a policy that is no machine, which pomp eval plays"
            raise DataFileError(f"'{path}' holds no {MACHINE_FILE}{hint if has_other else ''}")
        values = read_json(path / MACHINE_FILE, "machine", VERSIONED)
        if values["format"] > FORMAT:
            raise DataFileError(
                f"'{path}' was written by a newer version (format {values['format']}, this one "
                f"reads up to {FORMAT}); upgrade pomp"
            )
        try:
            return cls._from_json(values, path, allow)
        except (UntrustedModuleError, UnloadableError, MissingExtraError):
            raise
        except (PompError, LookupError, ValueError, TypeError, ArithmeticError) as error:
            raise DataFileError(f"'{path}' holds no usable machine: {error}") from error

    @classmethod
    def _from_json(
        cls, values: dict[str, Any], path: Path, allow: Collection[str]
    ) -> "ProgramMachine":
        MACHINE.check(values)
        parts = dict(values["transition"])
        found = _find_kind(parts.pop("kind"), allow)
        has_arrays = found in _SEEING or (path / WEIGHTS_FILE).exists()
        arrays = read_arrays(path / WEIGHTS_FILE, "machine", WEIGHTS)[0] if has_arrays else {}
        transition = _read_transition(found, parts, arrays, allow)
        size = None if values["size"] is None else tuple(values["size"])
        names = None if values.get("names") is None else tuple(values["names"])
        comments = {name: tuple(lines) for name, lines in values.get("comments", {}).items()}
        machine = cls(
            task=find_task(values["task"], allow),
            modes=tuple(values["modes"]),
            transition=transition,
            variant=values["variant"],
            options=values["options"],
            size=size,
            episode=from_json(EpisodeConfig, values["episode"]),
            provenance=values["provenance"],
            names=names,
            comments=comments,
        )
        machine.configure()
        return machine


_KINDS: dict[str, type[Transition]] = {kind.kind: kind for kind in (DecisionList, *_SEEING)}


def _name_kind(transition: Transition) -> str:
    """Return what a file calls the class of a transition.

    Raises:
        ConfigError: it is a class of your own that no other process could find.
    """
    own = type(transition)
    if _KINDS.get(own.kind) is own:
        return own.kind
    return require_source(own, "class", own.__name__, own.__module__)


def check_machine(machine: object, what: str) -> None:
    """Refuse what is no machine.

    Args:
        machine: what a caller has given.
        what: is done with it, as the subject of a sentence.

    Raises:
        ConfigError: says what came.
    """
    if not isinstance(machine, ProgramMachine):
        raise ConfigError(f"{what} takes a ProgramMachine, got {machine!r:.80}")


def read_again(transition: Transition) -> Transition:
    """Return a transition as it is read from the files that it is kept in.

    Raises:
        ConfigError: it cannot be kept, or not be read.
    """
    kind = _find_kind(_name_kind(transition), allow=None)
    try:
        arrays, values = through_file(transition.to_arrays(), transition.to_json())
        return _read_transition(kind, values, arrays, allow=None)
    except Exception as error:  # whatever somebody else's class does
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        what = f"{kind.__name__} cannot be read back from what to_json and to_arrays return"
        raise ConfigError(f"{what}: {reason}") from error


def _read_transition(
    kind: type[Transition],
    values: dict[str, Any],
    arrays: dict[str, NDArray[Any]],
    allow: Collection[str] | None,
) -> Transition:
    """Read a transition of a class from its values and its `arrays`, of any shapes `[...]`."""
    if kind is DecisionList:
        SENSORS.check(values.get("sensors", []), "sensors")
        values = {**values, "sensors": find_sensors(values.get("sensors", ()), allow).own}
    return kind.from_parts(values, arrays)


def _find_kind(kind: str, allow: Collection[str] | None) -> type[Transition]:
    """Return the class of a transition by what a file calls it.

    Raises:
        DataFileError: there is no such class in the package.
        UntrustedModuleError: it is one of your own, in a module that is not allowed.
        ConfigError: the module has no such class.
    """
    if kind in _KINDS:
        return _KINDS[kind]
    if ":" not in kind:
        raise DataFileError(f"unknown kind of transition '{kind}'")
    return load_object(kind, "transition", type, allow)


def check_names(names: tuple[str, ...], modes: int) -> None:
    """Refuse names that a text file could not hold.

    Raises:
        ConfigError: says which.
    """
    if len(names) != modes or len(set(names)) != modes:
        raise ConfigError(f"{modes} modes need as many names, all different, got {names}")
    for name in names:
        if not isinstance(name, str) or not NAME.fullmatch(name) or name in RESERVED:
            raise ConfigError(
                f"a mode's name has letters, digits, - and _, begins with a letter and is none of "
                f"{', '.join(RESERVED)}; got '{name}'"
            )
