"""Going on with more than a run was begun with: rounds, minutes, steps, epochs.

A resumed run must have the config that it was begun with. Some numbers only say when it ends; those
may be raised, also when the run has come to its end. Where a run that was begun with the larger
number would have ended otherwise (a learning rate that falls to zero over the whole training), the
config keeps the smaller numbers, too, since the result depends on them.
"""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pomp.core.errors import ConfigError, abridge

EXTENDED = "extended"
"""The field of a config with numbers that were raised later, where the result shows that."""

_MOST_SHOWN = 80  # characters of a value that differs


@dataclass(frozen=True)
class Growth:
    """Numbers of a config that a resumed run may raise, such as its rounds.

    Attributes:
        names: the fields, as `learning.ppo.total`; for each whether a run that was begun with the
            larger number would have ended alike. If not, the config keeps the numbers before.
        reopen: removes the results that the smaller numbers led to; is told which fields grew.
    """

    names: Mapping[str, bool]
    reopen: Callable[[Collection[str]], None]


def extend(
    folder: Path, before: dict[str, Any], now: dict[str, Any], growth: Growth | None
) -> None:
    """Check that a run was begun with a config but for numbers that grew, and reopen it for these.

    Args:
        folder: the run's.
        before: the config that is there.
        now: what is asked for; notes what grew so that the result is another.
        growth: which numbers may be larger than they were.

    Raises:
        ConfigError: another field differs, or a number would shrink.
    """
    differing = _differing_fields(before, json.loads(json.dumps(now)))
    differing.pop(EXTENDED, None)
    may_grow = growth.names if growth else {}
    if others := [
        f"{_as_asked(name)} ({how})"
        for name, (how, *_) in differing.items()
        if name not in may_grow
    ]:
        raise ConfigError(
            f"'{folder}' was begun otherwise: {'; '.join(others)}. Resume it with the same "
            "settings, or begin another folder"
        )
    for name, (how, left, right) in differing.items():
        if not left < right:
            raise ConfigError(
                f"'{folder}' cannot be extended backwards: {_as_asked(name)} ({how}). Give a "
                "larger number, or none to go on as it was begun"
            )
    if growth and differing:
        growth.reopen(differing.keys())
        noted = [name for name in differing if not may_grow[name]]
        now[EXTENDED] |= {
            name: [*now[EXTENDED].get(name, ()), differing[name][1]] for name in noted
        }


_PARTS = {"evolution.evolve.": "search.", "evolution.": "search.", "evolve.": "", "learning.": ""}
"""How parts of a config begin, and the names of their settings where a run is asked for."""


def _as_asked(name: str) -> str:
    """Return what a field of a config is called where a run is asked for, as `search.rounds`."""
    for part, asked in _PARTS.items():
        if name.startswith(part):
            return asked + name.removeprefix(part)
    return name


def _both(left: Any, right: Any) -> str:
    """Say what a field was and what it is, long values abridged."""
    return f"{abridge(str(left), _MOST_SHOWN)} before, {abridge(str(right), _MOST_SHOWN)} now"


_Differences = dict[str, tuple[str, Any, Any]]
"""Fields in which two configs differ: in words, before and now."""


def _differing_fields(one: Any, other: Any, prefix: str = "") -> _Differences:
    """Return the fields in which two configs differ, by names as `reinforce.batch`."""
    found: _Differences = {}
    for name in sorted(set(one) | set(other)):
        left, right = one.get(name), other.get(name)
        if name not in one or name not in other:
            how = f"only {'now' if name in other else 'before'}"
            found[prefix + name] = how, left, right
        elif isinstance(left, dict) and isinstance(right, dict):
            found |= _differing_fields(left, right, f"{prefix}{name}.")
        elif left != right:
            found[prefix + name] = _both(left, right), left, right
    return found
