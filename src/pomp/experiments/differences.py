"""Two stores of results side by side, cell by cell."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pomp.experiments.store import CellResult

_APART = ("cell", "fingerprint", "settings", "returns", "made", "cost")
"""Fields that are compared in a way of their own, or say only where and when."""
_TIME = ("seconds", "shared_by")

Pair = tuple[Any, Any]
"""What the first store has, and what the second."""


@dataclass(frozen=True)
class CellDifference:
    """In what the results of one cell differ.

    Attributes:
        name: the cell's.
        returns: the returns of episodes that differ, by the number of the episode; an episode that
            one of them has not has None there.
        episodes: how many episodes both have, at most.
        means: the mean returns.
        fingerprint: the fields of the fingerprint that differ.
        settings: the settings that differ, as `learning.ppo.total`.
        fields: names of other fields that differ: programs, curve, cost.executions, ...
    """

    name: str
    returns: Mapping[int, Pair]
    episodes: int
    means: Pair
    fingerprint: Mapping[str, Pair]
    settings: Mapping[str, Pair]
    fields: tuple[str, ...]

    @property
    def most(self) -> float:
        """By how much the returns of an episode differ at most; 0 if none can be compared."""
        both = [(a, b) for a, b in self.returns.values() if a is not None and b is not None]
        return max((abs(b - a) for a, b in both), default=0.0)

    def to_json(self) -> dict[str, Any]:
        """Return its fields."""
        return {
            "cell": self.name,
            "returns": {str(number): list(pair) for number, pair in self.returns.items()},
            "episodes": self.episodes,
            "most": self.most,
            "means": list(self.means),
            "fingerprint": {name: list(pair) for name, pair in self.fingerprint.items()},
            "settings": {name: list(pair) for name, pair in self.settings.items()},
            "fields": list(self.fields),
        }


@dataclass(frozen=True)
class StoreDifference:
    """In what two stores differ.

    Attributes:
        first: names of cells that only the first has.
        second: names of cells that only the second has.
        same: names of cells with equal results; hardware, versions and seconds may differ.
        differing: cells that both have, with other results.
    """

    first: tuple[str, ...]
    second: tuple[str, ...]
    same: tuple[str, ...]
    differing: tuple[CellDifference, ...]

    @property
    def is_none(self) -> bool:
        """Whether both have the same cells with the same results."""
        return not (self.first or self.second or self.differing)

    def to_json(self) -> dict[str, Any]:
        """Return its fields."""
        return {
            "only_in_first": list(self.first),
            "only_in_second": list(self.second),
            "same": list(self.same),
            "differing": [one.to_json() for one in self.differing],
        }


def compare_stores(first: Iterable[CellResult], second: Iterable[CellResult]) -> StoreDifference:
    """Compare the results of two stores, cell by cell.

    Args:
        first: one store's, as `read_results` returns them.
        second: the other's.
    """
    ours = {one.cell.name: one.values for one in first}
    theirs = {one.cell.name: one.values for one in second}
    both = sorted(ours.keys() & theirs.keys())
    compared = [_compare(name, ours[name], theirs[name]) for name in both]
    differing = tuple(one for one in compared if one is not None)
    apart = {one.name for one in differing}
    return StoreDifference(
        tuple(sorted(ours.keys() - theirs.keys())),
        tuple(sorted(theirs.keys() - ours.keys())),
        tuple(name for name in both if name not in apart),
        differing,
    )


def _compare(
    name: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]
) -> CellDifference | None:
    """Return in what two results of a cell differ; None if in nothing that matters."""
    counted = [
        {key: value for key, value in one.get("cost", {}).items() if key not in _TIME}
        for one in (ours, theirs)
    ]
    fields = [key for key in _differing(ours, theirs) if key not in _APART]
    fields += [f"cost.{key}" for key in _differing(*counted)]
    returns = [one.get("returns", []) for one in (ours, theirs)]
    found = CellDifference(
        name,
        _differing(*(dict(enumerate(own)) for own in returns)),
        max(map(len, returns)),
        (ours.get("mean"), theirs.get("mean")),
        _differing(ours.get("fingerprint", {}), theirs.get("fingerprint", {})),
        _differing(*(dict(_flatten(one.get("settings", {}))) for one in (ours, theirs))),
        tuple(fields),
    )
    is_same = not (found.returns or found.fingerprint or found.settings or found.fields)
    return None if is_same else found


def _differing(ours: Mapping[Any, Any], theirs: Mapping[Any, Any]) -> dict[Any, Pair]:
    """Return the entries of two mappings that differ; what one has not is None there."""
    pairs = {key: (ours.get(key), theirs.get(key)) for key in sorted({*ours, *theirs})}
    return {key: (a, b) for key, (a, b) in pairs.items() if a != b}


def _flatten(values: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield what nested settings hold, with dots in the names."""
    if isinstance(values, Mapping):
        inside = [(str(key), value) for key, value in values.items()]
    elif isinstance(values, list) and any(isinstance(one, Mapping) for one in values):
        inside = [(str(number), value) for number, value in enumerate(values)]
    else:
        yield name, values
        return
    for key, value in inside:
        yield from _flatten(value, f"{name}.{key}" if name else key)
