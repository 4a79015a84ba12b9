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
from pomp.dsl.parser import parse
from pomp.machine.transitions import Transition, check_transition
from pomp.tasks.task import Setting

Arrays = dict[str, NDArray[Any]]


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
        """Begin to learn once, so that what it lacks is told before any work begins.

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
            _check_learner(self.begin(setting, self.modes or modes, 0, settings))
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


def _check_learner(learner: TransitionLearner) -> None:
    """Refuse a learner that lacks something of the protocol."""
    wanted = sorted(name for name in vars(TransitionLearner) if not name.startswith("_"))
    if missing := [name for name in wanted if not hasattr(learner, name)]:
        raise ConfigError(f"what it begins lacks {', '.join(missing)}")
    arrays, values = learner.to_arrays()
    if not all(isinstance(array, np.ndarray) for array in arrays.values()):
        raise ConfigError("to_arrays must return NumPy arrays by name, and values for JSON")
    learner.restore(arrays, values)
    check_transition(learner.transition())
