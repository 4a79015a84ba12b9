"""Ways of learning transitions, as values: the protocol of one that is not the package's own PPO.

A way of your own is a `LearningMethod` in a file of yours that imports what it needs from
`pomp.learning` and `pomp.machine`; `docs/EXTENDING.md` tells how, and `examples/q_learning.py` is
one.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pomp.core.configs import check_settings, from_json, to_json
from pomp.core.errors import ConfigError
from pomp.core.sources import load_object, require_source
from pomp.core.storage import through_file
from pomp.core.streams import Purpose, draw_units, open_streams
from pomp.dsl.parser import parse
from pomp.engine.starts import draw_starts
from pomp.machine.config import EpisodeConfig
from pomp.machine.episodes import Episodes
from pomp.machine.policy import read_again
from pomp.machine.transitions import Transition, check_chosen, check_transition
from pomp.tasks.task import Setting

Arrays = dict[str, NDArray[Any]]

_TRIED_WORLDS, _TRIED_STEPS = 4, 3  # in which a new method's transitions choose


class TransitionLearner(Protocol):
    """The transitions of one machine while they are learned, piece by piece.

    What it learns must follow from what it was begun with alone.

    Attributes:
        is_finished: whether there is nothing more to learn.
        progress: how much of its budget is used up, from 0 to 1.
    """

    @property
    def is_finished(self) -> bool: ...  # noqa: D102 - above

    @property
    def progress(self) -> float: ...  # noqa: D102 - above

    def advance(self) -> Mapping[str, float] | None:
        """Do a piece of the work, of a second or less.

        Returns:
            Numbers by name that make a line of `metrics.jsonl`; None: no line.
        """

    def transition(self) -> Transition:
        """Return what was learned so far, as something that chooses."""

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the arrays, and the values that JSON can hold, which `restore` needs."""

    def restore(self, arrays: Arrays, values: dict[str, Any]) -> None:
        """Go on from what `to_arrays` returned, to the same result."""


@dataclass(frozen=True)
class LearningMethod:
    """A way of learning transitions: its settings, and what begins to learn.

    Attributes:
        name: what results call it.
        settings: a frozen dataclass with its settings, each with a default; they are changed by
            `--set NAME=VALUE`.
        begin: called with the task's `Setting`, the modes (texts), the seed and the settings;
            returns a `TransitionLearner`.
        modes: programs that it chooses from, as a baseline does; empty: those that are searched
            for, or given.
    """

    name: str
    settings: type
    begin: Callable[[Setting, tuple[str, ...], int, Any], TransitionLearner]
    modes: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """Its `module:NAME`.

        Raises:
            ConfigError: no module that can be imported holds it.
        """
        home = getattr(self.begin, "__module__", "")
        return require_source(self, "learning method", self.name, home)

    def check(self, setting: Setting, modes: tuple[str, ...], settings: Any) -> None:
        """Learn a piece, so that what it lacks is told before any work begins.

        Args:
            setting: a task that it is to learn.
            modes: some programs.
            settings: its own.

        Raises:
            ConfigError: says what does not fit.
        """
        try:
            check_settings(self.settings)
            for mode in self.modes:
                parse(mode)
            programs = self.modes or modes
            _check_learner(lambda: self.begin(setting, programs, 0, settings), setting, programs)
        except ConfigError as error:
            what = f"the learning method {self.name} does not fit"
            raise ConfigError(f"{what}: {error}") from error
        except Exception as error:  # whatever somebody else's code does
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            what = f"the learning method {self.name} does not fit"
            raise ConfigError(f"{what}: {reason}") from error


@dataclass(frozen=True)
class OwnLearning:
    """A `LearningMethod` with its settings decided: stage 3 of a training.

    Attributes:
        method: what learns.
        settings: an instance of its settings.
    """

    method: LearningMethod
    settings: Any

    def begin(self, setting: Setting, modes: tuple[str, ...], seed: int) -> TransitionLearner:
        """Begin to learn the transitions between the modes of one machine."""
        return self.method.begin(setting, modes, seed, self.settings)

    def describe(self) -> dict[str, Any]:
        """Return it as JSON, for a folder's config."""
        return {"method": self.method.source, "settings": to_json(self.settings)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any], allow: Collection[str]) -> "OwnLearning":
        """Read what `describe` returned.

        Raises:
            UntrustedModuleError: its module is not allowed.
            ConfigError: the module has no such method, or its settings are others.
        """
        method = load_object(values["method"], "learning method", LearningMethod, allow)
        return cls(method, from_json(method.settings, values["settings"]))


def _check_learner(
    begin: Callable[[], TransitionLearner], setting: Setting, modes: tuple[str, ...]
) -> None:
    """Learn a piece, keep it and go on from what was kept; refuse what is not as it should be.

    Args:
        begin: begins to learn, in the same way each time.
        setting: the task.
        modes: the programs that are chosen from.

    Raises:
        ConfigError: says what does not fit.
    """
    learner = begin()
    wanted = {name: one for name, one in vars(TransitionLearner).items() if name[0] != "_"}
    if missing := [name for name, one in sorted(wanted.items()) if not _has(learner, name, one)]:
        raise ConfigError(f"what it begins lacks {', '.join(missing)}")
    if not learner.is_finished:
        _check_record(learner.advance())
    if not 0.0 <= float(learner.progress) <= 1.0:
        raise ConfigError(f"progress must be from 0 to 1, got {learner.progress}")
    other = begin()
    kept = _checkpoint(learner)
    other.restore({name: array.copy() for name, array in kept[0].items()}, kept[1])
    same = [_is_same(_checkpoint(other), kept), other.progress == learner.progress]
    if not all(same):
        raise ConfigError("after restore it is not where to_arrays was called")
    _check_choices(learner.transition(), setting, modes)


def _has(learner: TransitionLearner, name: str, wanted: Any) -> bool:
    """Whether a learner has a member, and can call it where the protocol `wanted` a method."""
    is_property = isinstance(wanted, property)
    return hasattr(learner, name) and (is_property or callable(getattr(learner, name)))


def _check_record(record: Any) -> None:
    """Refuse what is no line of metrics."""
    is_named = isinstance(record, Mapping) and all(isinstance(name, str) for name in record)
    if record is not None and not is_named:
        kind = type(record).__name__
        raise ConfigError(f"advance must return numbers by name, or None, got a {kind}")
    for name, number in (record or {}).items():
        try:
            float(number)
        except (TypeError, ValueError):
            raise ConfigError(f"advance must return numbers; {name} is {number!r}") from None


def _checkpoint(learner: TransitionLearner) -> tuple[Arrays, dict[str, Any]]:
    """Return a learner's checkpoint as a file gives it back."""
    arrays, values = learner.to_arrays()
    if not all(isinstance(array, np.ndarray) for array in arrays.values()):
        raise ConfigError("to_arrays must return NumPy arrays by name, and values for JSON")
    try:
        return through_file(arrays, values)
    except ConfigError as error:
        raise ConfigError(f"to_arrays: {error}") from error


def _is_same(one: tuple[Arrays, dict[str, Any]], other: tuple[Arrays, dict[str, Any]]) -> bool:
    """Whether two checkpoints agree to the bit."""
    parts = [
        ({name: (a.dtype, a.shape, a.tobytes()) for name, a in arrays.items()}, values)
        for arrays, values in (one, other)
    ]
    return parts[0] == parts[1]


def _check_choices(transition: Transition, setting: Setting, modes: tuple[str, ...]) -> None:
    """Refuse a transition whose choices are none, or are others once it was kept in a file."""
    check_transition(transition)
    again = read_again(transition)
    worlds = draw_starts(setting, _TRIED_WORLDS, 0, Purpose.TRAINING)
    episodes = Episodes(setting, [modes], worlds, EpisodeConfig(), restarts=True)
    draws = draw_units(open_streams(Purpose.TRAINING, 0, worlds=_TRIED_WORLDS), _TRIED_STEPS)
    for numbers in (None, *draws):
        before = transition.chooser(episodes)(numbers)
        check_chosen(before, _TRIED_WORLDS, len(modes))
        if not np.array_equal(before, again.chooser(episodes)(numbers)):
            kind = type(transition).__name__
            raise ConfigError(f"{kind} chooses otherwise after to_json, to_arrays and from_parts")
        episodes.step(before)
