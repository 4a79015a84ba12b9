"""What programs were found to be worth, looked up in compiled code: a hash table of rows."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.core.compiling import kernel, scalar

_FIRST_SLOTS = 1024  # a power of two, like every size of the table
_PRIME, _OFFSET = np.uint64(0x100000001B3), np.uint64(0xCBF29CE484222325)
_EMPTY = -1


class Memo:
    """Rows of token ids with a return and a number of actions each."""

    def __init__(self, width: int) -> None:
        self._slots = np.full(_FIRST_SLOTS, _EMPTY, np.int64)
        self._rows: NDArray[np.uint8] = np.empty((_FIRST_SLOTS // 2, width), np.uint8)
        self._returns: NDArray[np.float64] = np.empty(_FIRST_SLOTS // 2)
        self._actions: NDArray[np.int64] = np.empty(_FIRST_SLOTS // 2, np.int64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def find(
        self, ids: NDArray[np.uint8], rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Look some rows up, and enter those that are unknown.

        Args:
            ids: `[N, L]`.
            rows: `[R]`: which of them.

        Returns:
            `[R]`: their entries. And `[U]`: the rows of the entries that are new, which are the
            last ones now; `fill` must be called with what they are worth.
        """
        self._make_room(len(rows))
        entries = np.empty(len(rows), np.int64)
        unknown = np.empty(len(rows), np.int64)
        ids = np.ascontiguousarray(ids)
        found = _find(ids, rows, self._slots, self._rows, self._count, entries, unknown)
        self._count += found
        return entries, unknown[:found]

    def fill(self, first: int, returns: NDArray[np.float64], actions: NDArray[np.int64]) -> None:
        """Say what entries from `first` on are worth."""
        last = first + len(returns)
        self._returns[first:last], self._actions[first:last] = returns, actions

    def read(self, entries: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Returns and actions of entries."""
        return self._returns[entries], self._actions[entries]

    def _make_room(self, more: int) -> None:
        if self._count + more <= len(self._rows):
            return
        size = len(self._slots)
        while size // 2 < self._count + more:
            size *= 2
        self._rows = _grown(self._rows, size // 2)
        self._returns = _grown(self._returns, size // 2)
        self._actions = _grown(self._actions, size // 2)
        self._slots = np.full(size, _EMPTY, np.int64)
        _enter(self._slots, self._rows, self._count)


def _grown(array: NDArray[Any], size: int) -> NDArray[Any]:
    larger = np.empty((size, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


@scalar
def _hash(row):
    """Fowler, Noll and Vo's hash, folded so that its low bits depend on all of it."""
    value = _OFFSET
    for place in range(len(row)):
        value = (value ^ np.uint64(row[place])) * _PRIME
    return value ^ (value >> np.uint64(32))


@scalar
def _is_equal(one, other):
    place = 0
    while place < len(one) and one[place] == other[place]:
        place += 1
    return place == len(one)


@kernel
def _find(ids, chosen, slots, rows, count, entries, unknown):
    """Fill in `entries` and `unknown`; returns how many are unknown. See `Memo.find`."""
    mask = np.uint64(len(slots) - 1)
    found = 0
    for item in range(len(chosen)):
        row = ids[chosen[item]]
        slot = _hash(row) & mask
        while slots[slot] != _EMPTY and not _is_equal(rows[slots[slot]], row):
            slot = (slot + np.uint64(1)) & mask
        if slots[slot] == _EMPTY:
            entry = count + found
            slots[slot] = entry
            for place in range(len(row)):
                rows[entry, place] = row[place]
            unknown[found] = chosen[item]
            found += 1
        entries[item] = slots[slot]
    return found


@kernel
def _enter(slots, rows, count):
    """Put the first `count` rows into an empty table."""
    mask = np.uint64(len(slots) - 1)
    for entry in range(count):
        slot = _hash(rows[entry]) & mask
        while slots[slot] != _EMPTY:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = entry
