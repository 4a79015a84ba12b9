"""What proposes candidates: the protocol of a run of it, and a search method as a value.

A method of your own is a `Method` in a file of yours that imports what it needs from `pomp.modes`;
`docs/EXTENDING.md` tells how, and `examples/one_plus_many.py` is one.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pomp.core.configs import check_settings
from pomp.core.errors import ConfigError
from pomp.dsl.bytecode import compile_ids

Arrays = dict[str, NDArray[Any]]
_TRIED_LATENTS = 8  # the width of latents when a method is tried out


class ProposerRun(Protocol):
    """One run of a method: it proposes candidates and is told their scores, again and again.

    What it asks for must follow from its settings, its random stream and what it was told alone.

    Attributes:
        iteration: the number of the candidates that are asked for next, from 1.
        is_finished: whether the run is over.
        best: the best candidate so far, `[Z]` float32 or `[L]` uint8: a row of what was asked for.
        best_score: its score with the diversity multiplier.
        best_plain: its score without the diversity multiplier.
    """

    iteration: int
    is_finished: bool
    best: NDArray[Any]
    best_score: float
    best_plain: float

    @property
    def proposals(self) -> int:
        """How many rows of `ask` are candidates; rows behind them are scored, but not counted."""

    @property
    def progress(self) -> float:
        """How much of its budget is used up, from 0 to 1."""

    def ask(self) -> NDArray[Any]:
        """Propose N candidates: `[N, Z]` float32 latents or `[N, L]` uint8 token ids."""

    def tell(
        self,
        asked: NDArray[Any],
        scores: NDArray[np.float64],
        plain: NDArray[np.float64],
        ties: NDArray[np.uint8],
    ) -> slice:
        """Take the scores of what was asked for, and count one iteration more.

        Args:
            asked: `[N, Z]` or `[N, L]`, what `ask` returned.
            scores: `[N]` float64, the scores with the diversity multiplier.
            plain: `[N]` float64, the scores without it.
            ties: `[N, L]` uint8, rows by whose order equal scores may be told apart.

        Returns:
            The rows that count as evaluated, such as `slice(0, len(asked))`.
        """

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the arrays, and the values that JSON can hold, which `restore` needs."""

    def restore(self, arrays: Arrays, values: dict[str, Any]) -> None:
        """Go on from what `to_arrays` returned, to the same candidates."""


@dataclass(frozen=True)
class Method:
    """A search method: its settings, and what makes a run of it.

    Attributes:
        name: what results call it.
        proposer: a frozen dataclass with the settings of a run, each with a default; they are
            changed by `proposer.NAME=VALUE`.
        begin: makes a run from such settings, a random stream (uint64) and the width Z of latents.
        is_latent: whether it proposes latents; else programs, as token ids of `pomp.dsl.LEAPS`.
        changes: what it changes of the other settings of a search, as `{"mode.modes": 3}`: fields
            of `pomp.modes.SearchConfig`.
    """

    name: str
    proposer: type
    begin: Callable[[Any, np.uint64, int], ProposerRun]
    is_latent: bool
    changes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def finds_several(self) -> bool:
        """Whether it finds the modes of a machine, and not one program."""
        return "mode.modes" in self.changes


def check_method(method: Method) -> None:
    """Try a method out on made-up scores, so that what it lacks is told before any work begins.

    Raises:
        ConfigError: says what does not fit.
    """
    try:
        check_settings(method.proposer)
        run = method.begin(method.proposer(), np.uint64(1), _TRIED_LATENTS)
        _check_members(run)
        asked = _check_asked(method, run.ask())
        ranks = np.arange(len(asked))
        counted = run.tell(asked, ranks / len(asked), ranks / len(asked), asked.astype(np.uint8))
        if not isinstance(counted, slice) or counted.start is None or counted.stop is None:
            raise ConfigError(f"tell must return slice(first, last), got {counted!r}")
        if run.iteration != 2:
            raise ConfigError(f"tell must raise iteration from 1 to 2, it is {run.iteration}")
        if not run.is_finished:
            _check_resumed(method, run)
    except ConfigError as error:
        raise ConfigError(f"the method {method.name} does not fit: {error}") from error
    except Exception as error:  # whatever somebody else's code does
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ConfigError(f"the method {method.name} does not fit: {reason}") from error


def _check_members(run: ProposerRun) -> None:
    """Refuse a run that lacks something of the protocol."""
    names = [*ProposerRun.__annotations__, *vars(ProposerRun)]
    wanted = sorted({name for name in names if not name.startswith("_")})
    if missing := [name for name in wanted if not hasattr(run, name)]:
        raise ConfigError(f"its runs lack {', '.join(missing)}")


def _check_asked(method: Method, asked: Any) -> NDArray[Any]:
    """Return what a run asked for, `[N, Z]` or `[N, L]`, if these are candidates."""
    wanted = np.dtype(np.float32 if method.is_latent else np.uint8)
    if not isinstance(asked, np.ndarray) or asked.ndim != 2 or not len(asked):
        raise ConfigError(f"ask must return rows of candidates, got {_shape_of(asked)}")
    if asked.dtype != wanted or (method.is_latent and asked.shape[1] != _TRIED_LATENTS):
        rows = f"[N, {_TRIED_LATENTS}] {wanted}" if method.is_latent else f"[N, L] {wanted}"
        raise ConfigError(f"ask must return {rows}, got {_shape_of(asked)}")
    if not method.is_latent and not compile_ids(asked).valid.any():
        raise ConfigError("none of the token ids it asks for are a program of pomp.dsl.LEAPS")
    return asked


def _check_resumed(method: Method, run: ProposerRun) -> None:
    """Refuse a run that would go on otherwise after a checkpoint."""
    arrays, values = run.to_arrays()
    if not all(isinstance(array, np.ndarray) for array in arrays.values()):
        raise ConfigError("to_arrays must return NumPy arrays by name, and values for JSON")
    other = method.begin(method.proposer(), np.uint64(1), _TRIED_LATENTS)
    other.restore({name: array.copy() for name, array in arrays.items()}, _through_json(values))
    if not np.array_equal(run.ask(), other.ask()):
        raise ConfigError("after restore it asks for other candidates than without")


def _through_json(values: dict[str, Any]) -> dict[str, Any]:
    try:
        return dict(json.loads(json.dumps(values)))
    except TypeError as error:
        raise ConfigError(f"to_arrays must return values for JSON: {error}") from error


def _shape_of(found: Any) -> str:
    if not isinstance(found, np.ndarray):
        return f"a {type(found).__name__}"
    return f"{list(found.shape)} {found.dtype}"
