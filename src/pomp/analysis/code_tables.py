"""Tables of choices by last mode and code, made smaller.

A table is `[K + 1, N, K + 1]`: how likely what is chosen after each of K modes, the first row being
the start, at each of N codes; the last choice is the end.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_DIGITS = 9  # to which probabilities must agree to be equal
_ROUNDS = 30  # of changes of groups at most
_LEAST = 1e-12  # of a probability, where its logarithm is taken


def merge_equal(table: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the groups of codes whose columns are equal.

    Args:
        table: `[K + 1, N, K + 1]` float64.

    Returns:
        `[N]` int64, the number of each code's group; the groups in the order of their first codes.
    """
    columns = [column.tobytes() for column in np.round(table, _DIGITS).transpose(1, 0, 2)]
    return number_groups(columns)


def number_groups(keys: Sequence[object]) -> NDArray[np.int64]:
    """Number `keys` by the order in which they first come, equal ones alike: `[N]` int64."""
    seen: dict[object, int] = {}
    return np.array([seen.setdefault(key, len(seen)) for key in keys], np.int64)


@dataclass(frozen=True)
class Merges:
    """Codes that are merged one pair after the other, until one is left.

    Attributes:
        pairs: `[N - 1, 2]` int64, the pairs; the second of a pair becomes the first.
    """

    pairs: NDArray[np.int64]

    def groups(self, count: int) -> NDArray[np.int64]:
        """Return the group of each code, `[N]` int64, once so many groups are left."""
        into = list(range(len(self.pairs) + 1))
        for kept, gone in self.pairs[: len(into) - count].tolist():
            into[gone] = kept
        for code in range(len(into)):
            while into[into[code]] != into[code]:
                into[code] = into[into[code]]
        return number_groups(into)


def merge_alike(weights: NDArray[np.float64], end_weight: float = 1.0) -> Merges:
    """Merge the codes whose choices are most alike where they were met, pair by pair.

    What a merge costs is how much less is known about the choices of the episodes (the sum of
    their log probabilities), when both codes have the choices of the two together. It costs nothing
    if the codes agree after each mode that both were met with.

    Args:
        weights: `[K + 1, N, K + 1]` float64, how often what was chosen.
        end_weight: how much more it counts whether the end is chosen than which mode is.
    """
    sums = np.array(weights.transpose(1, 0, 2), order="C")
    count = len(sums)
    unsure = _uncertainty(sums, end_weight)
    costs = np.full((count, count), np.inf)
    for code in range(count - 1):
        others = np.arange(code + 1, count)
        costs[code, others] = costs[others, code] = _merging_costs(
            sums, unsure, code, others, end_weight
        )
    nearest = costs.argmin(axis=1)  # the cheapest partner of each code
    alive, pairs = np.ones(count, np.bool_), []
    for _ in range(count - 1):
        kept = int(costs[np.arange(count), nearest].argmin())
        gone = int(nearest[kept])
        pairs.append((kept, gone))
        sums[kept] += sums[gone]
        unsure[kept] = _uncertainty(sums[kept], end_weight)
        alive[gone] = False
        costs[gone], costs[:, gone] = np.inf, np.inf
        others = np.flatnonzero(alive)
        others = others[others != kept]
        found = _merging_costs(sums, unsure, kept, others, end_weight)
        costs[kept, others] = costs[others, kept] = found
        before = costs[others, nearest[others]]
        is_nearer = (found < before) | ((found == before) & (kept < nearest[others]))
        nearest[others[is_nearer]] = kept
        lost = np.isin(nearest, (kept, gone))
        lost[others[is_nearer]], lost[kept] = False, True
        nearest[lost] = costs[lost].argmin(axis=1)
    return Merges(np.array(pairs, np.int64).reshape(-1, 2))


def _uncertainty(sums: NDArray[np.float64], end_weight: float) -> NDArray[np.float64]:
    """Return what is not known of choices, `[...]`, given `sums`, `[..., K + 1, K + 1]`."""
    choices = -(sums * _log_shares(sums)).sum(axis=(-1, -2))
    ends = _ends_of(sums)
    return choices - (end_weight - 1) * (ends * _log_shares(ends)).sum(axis=(-1, -2))


def _log_shares(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logarithms of the shares, `[..., C]`, of counts, `sums` `[..., C]`."""
    totals = np.maximum(sums.sum(axis=-1, keepdims=True), 1e-300)
    return np.log(np.maximum(sums, 1e-300) / totals)


def _ends_of(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how often modes and how often the end was chosen.

    Args:
        sums: `[..., K + 1]` float64, how often what was chosen.

    Returns:
        `[..., 2]` float64.
    """
    return np.stack([sums[..., :-1].sum(axis=-1), sums[..., -1]], axis=-1)


def _merging_costs(
    sums: NDArray[np.float64],
    unsure: NDArray[np.float64],
    code: int,
    others: NDArray[np.int64],
    end_weight: float,
) -> NDArray[np.float64]:
    """Return what merging a code with others costs.

    Args:
        sums: `[N, K + 1, K + 1]` float64, how often what was chosen at each code.
        unsure: `[N]` float64, the uncertainty of each.
        code: which.
        others: `[M]` int64.
        end_weight: as in `merge_alike`, how much more ends count.

    Returns:
        `[M]` float64, never below 0.
    """
    together = _uncertainty(sums[code] + sums[others], end_weight)
    return np.round(np.maximum(together - unsure[code] - unsure[others], 0.0), _DIGITS)


def settle(
    weights: NDArray[np.float64], groups: NDArray[np.int64], end_weight: float = 1.0
) -> NDArray[np.int64]:
    """Move codes to the groups whose choices explain theirs best, until none moves any more.

    Merging pair by pair cannot take back what turned out to be a poor start; this can.

    Args:
        weights: `[K + 1, N, K + 1]` float64, how often what was chosen.
        groups: `[N]` int64, the group of each code at first.
        end_weight: how much more it counts whether the end is chosen than which mode is.

    Returns:
        `[N]` int64, the group of each code; a group may have lost all its codes and be gone.
    """
    ends = _ends_of(weights)
    for _ in range(_ROUNDS):
        probs = gather(weights, groups)
        explained = np.einsum("mna,moa->no", weights, _log(probs), optimize=True)
        explained += (end_weight - 1) * np.einsum(
            "mna,moa->no", ends, _log(_ends_of(probs)), optimize=True
        )
        better = number_groups(explained.argmax(axis=1).tolist())
        if (better == groups).all():
            break
        groups = better
    return groups


def _log(probs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logarithms of `probs`, `[...]`; of 0 that of something tiny."""
    return np.log(np.maximum(probs, _LEAST))


def sharpen(probs: NDArray[np.float64], power: float) -> NDArray[np.float64]:
    """Return a table whose choices between modes are more certain; how likely the end is, stays.

    A group of codes chooses as its codes did together, so less surely than each of them.

    Args:
        probs: `[K + 1, O, K + 1]` float64.
        power: that probabilities are raised to; infinite: only the likeliest choices are left,
            the end among them.

    Returns:
        `[K + 1, O, K + 1]` float64.
    """
    if np.isinf(power):
        return be_certain(probs)
    modes, ends = probs[..., :-1], probs[..., -1:]
    raised = (modes / np.maximum(modes.sum(axis=-1, keepdims=True), _LEAST)) ** power
    shares = raised / np.maximum(raised.sum(axis=-1, keepdims=True), _LEAST)
    return np.concatenate([shares * (1.0 - ends), ends], axis=-1)


def gather(weights: NDArray[np.float64], groups: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the choices of groups of codes.

    Args:
        weights: `[K + 1, N, K + 1]` float64, how often what was chosen; nowhere 0 in a whole row.
        groups: `[N]` int64, the group of each code.

    Returns:
        `[K + 1, O, K + 1]` float64, probabilities.
    """
    sums = np.zeros((int(groups.max()) + 1, *weights.shape[::2]))
    np.add.at(sums, groups, weights.transpose(1, 0, 2))
    return np.ascontiguousarray((sums / sums.sum(axis=-1, keepdims=True)).transpose(1, 0, 2))


def be_certain(probs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a table, `[K + 1, O, K + 1]`, of the likeliest choices of `probs`, of that shape."""
    return np.eye(probs.shape[-1])[probs.argmax(axis=-1)]


def reachable_modes(probs: NDArray[np.float64]) -> list[int]:
    """Return the modes that a table, `probs` `[K + 1, O, K + 1]`, can lead to from the start."""
    leads = probs.max(axis=1) > 0
    reached, pending = set[int](), [0]
    while pending:
        found = set(np.flatnonzero(leads[pending.pop()][:-1]).tolist()) - reached
        reached |= found
        pending += [mode + 1 for mode in found]
    return sorted(reached)


def equal_modes(probs: NDArray[np.float64], programs: Sequence[str]) -> NDArray[np.int64]:
    """Find modes that do the same now and ever after: a minimal Moore machine's states.

    Modes with different programs are never the same. Classes of modes with equal programs are
    split until all members of a class lead, at every observation, to the same classes.

    Args:
        probs: `[K + 1, O, K + 1]` float64, the table.
        programs: of the modes.

    Returns:
        `[K]` int64, the class of each mode.
    """
    classes = number_groups(programs)
    while True:
        count = int(classes.max()) + 1
        columns = np.append(classes, count)  # the end is a class of its own
        sums = np.zeros((*probs.shape[:2], count + 1))
        for choice, to in enumerate(columns.tolist()):
            sums[..., to] += probs[..., choice]
        rows = [row.tobytes() for row in np.round(sums[1:], _DIGITS)]
        finer = number_groups(list(zip(classes.tolist(), rows, strict=True)))
        if int(finer.max()) + 1 == count:
            return classes
        classes = finer


def equal_rows(probs: NDArray[np.float64]) -> list[list[int]]:
    """Return the decision points after which the same is chosen at every observation.

    Args:
        probs: `[K + 1, O, K + 1]` float64, the table.

    Returns:
        Groups of at least two rows of the table.
    """
    groups = number_groups([row.tobytes() for row in np.round(probs, _DIGITS)])
    members = [np.flatnonzero(groups == group).tolist() for group in range(int(groups.max()) + 1)]
    return [rows for rows in members if len(rows) > 1]
