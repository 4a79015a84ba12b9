"""Known returns of programs, looked up in compiled code: a hash table of rows of token ids.

Arrays of the table: `slots` `[S]` int64 holds at a row's hash (or at one of the next slots) the
number of its entry, or -1; `rows` `[S / 2, L]` uint8 holds the entries' token ids.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.core.compiling import kernel, scalar

_FIRST_SLOTS = 1024  # a power of two, like every size of the table
_PRIME, _OFFSET = np.uint64(0x100000001B3), np.uint64(0xCBF29CE484222325)
_EMPTY = -1


class Memo:
    """A table of programs with a return and a number of actions each."""

    def __init__(self, width: int) -> None:
        """Make an empty table for programs of `width` token ids."""
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
            ids: `[N, L]` uint8, token ids.
            rows: `[M]` int64, which rows of them are looked up.

        Returns:
            `[M]` int64, their entries; and `[U]` int64, the rows that were unknown, each once.
            These are the table's last entries now, and `fill` must be called with their returns.
        """
        self._reserve(len(rows))
        entries = np.empty(len(rows), np.int64)
        unknown = np.empty(len(rows), np.int64)
        ids = np.ascontiguousarray(ids)
        found = _find(ids, rows, self._slots, self._rows, self._count, entries, unknown)
        self._count += found
        return entries, unknown[:found]

    def fill(self, first: int, returns: NDArray[np.float64], actions: NDArray[np.int64]) -> None:
        """Set `returns` `[U]` float64 and `actions` `[U]` int64 of the entries from `first` on."""
        last = first + len(returns)
        self._returns[first:last], self._actions[first:last] = returns, actions

    def read(self, entries: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the returns and actions, `[M]` each, of `entries` `[M]` int64."""
        return self._returns[entries], self._actions[entries]

    def _reserve(self, more: int) -> None:
        """Grow the table until so many more entries fit."""
        if self._count + more <= len(self._rows):
            return
        size = len(self._slots)
        while size // 2 < self._count + more:
            size *= 2
        self._rows = _grown(self._rows, size // 2)
        self._returns = _grown(self._returns, size // 2)
        self._actions = _grown(self._actions, size // 2)
        self._slots = np.full(size, _EMPTY, np.int64)
        _rehash(self._slots, self._rows, self._count)


def _grown(array: NDArray[Any], size: int) -> NDArray[Any]:
    """Return a copy of `array` `[N, ...]` with room behind it, `[size, ...]`."""
    larger = np.empty((size, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


@scalar
def _hash(row):
    """Return Fowler, Noll and Vo's hash of `row` `[L]` uint8, its high half folded into its low."""
    value = _OFFSET
    for place in range(len(row)):
        value = (value ^ np.uint64(row[place])) * _PRIME
    return value ^ (value >> np.uint64(32))


@scalar
def _is_equal(one, other):
    """Whether two rows, `one` `[L]` and `other` `[L]`, are the same."""
    place = 0
    while place < len(one) and one[place] == other[place]:
        place += 1
    return place == len(one)


@kernel
def _find(ids, chosen, slots, rows, count, entries, unknown):
    """Look rows up, and enter those that are unknown behind the first `count` entries.

    Args:
        ids: `[N, L]` uint8, read.
        chosen: `[M]` int64, the rows of `ids` to look up.
        slots: `[S]` int64, written.
        rows: `[S / 2, L]` uint8, written.
        count: entries before.
        entries: `[M]` int64, written: the entry of each chosen row.
        unknown: `[M]` int64, written: the rows that were unknown.

    Returns:
        How many were unknown.
    """
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
def _rehash(slots, rows, count):
    """Put the first `count` entries into empty slots."""
    mask = np.uint64(len(slots) - 1)
    for entry in range(count):
        slot = _hash(rows[entry]) & mask
        while slots[slot] != _EMPTY:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = entry
