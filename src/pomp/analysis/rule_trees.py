"""Decision lists fitted to a network's choices: trees that grow, and rules read off them.

After each mode, and at the start, grows a tree whose splits ask for a sensor or compare a count.
All of them grow together, the split that tells most first, so that the first n splits are the lists
of n more rules. F is the number of sensors and counts, K that of modes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pomp.analysis.watching import Met
from pomp.engine.rule_lists import count_worlds
from pomp.karel.sensors import SENSORS
from pomp.machine.episodes import Episodes
from pomp.machine.sensors import COUNT_NAMES, NOT, Threshold
from pomp.machine.transitions import DecisionList, Rule

_COLUMNS = len(SENSORS) + len(COUNT_NAMES)
_COUNTED = 0.98  # of a sensor's gain must a count have: a sensor is read more easily
_LEAST_GAIN = 1e-6


def see(running: Episodes) -> NDArray[np.int32]:
    """Return sensors, as 0 and 1, and counts in the worlds of episodes, `[B, F]` int32."""
    readings = np.asarray(running.sense(), np.int32)
    sensed = readings[:, None] >> np.arange(len(SENSORS), dtype=np.int32) & 1
    return np.concatenate([sensed, count_worlds(running.setting, running.worlds)], axis=1)


@dataclass(frozen=True)
class Split:
    """A question: whether a column, a sensor or a count, is at least a number."""

    column: int
    number: int

    def condition(self, holds: bool) -> str:
        """Return the condition that it holds, or that it does not."""
        if self.column < len(SENSORS):
            return NOT * (not holds) + SENSORS[self.column].name
        return str(Threshold(self.column - len(SENSORS), self.number, not holds))


@dataclass(frozen=True)
class RuleLessons:
    """What is to be learned, one row for all that rules cannot tell apart: N rows.

    Attributes:
        seen: `[N, F]` int32, sensors and counts.
        modes: `[N]` int64, the last modes; -1 before the first.
        weights: `[N, K + 1]` float64, how often what would be chosen.
    """

    seen: NDArray[np.int32]
    modes: NDArray[np.int64]
    weights: NDArray[np.float64]


def collect(met: Sequence[Met]) -> RuleLessons:
    """Return what was met as lessons; each of `met` weighs the same."""
    rows = np.concatenate([np.column_stack([one.modes, one.seen]) for one in met]).astype(np.int32)
    probs = np.concatenate([one.probs / len(one.probs) for one in met])
    whole = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.strides[0]))).ravel()
    _, first, which = np.unique(whole, return_index=True, return_inverse=True)
    weights = np.zeros((len(first), probs.shape[1]))
    np.add.at(weights, which.reshape(-1), probs)
    return RuleLessons(rows[first, 1:], rows[first, 0].astype(np.int64), weights)


@dataclass(eq=False)
class _Node:
    """A part of the rows.

    Attributes:
        rows: `[n]` int64, which.
        total: `[K + 1]` float64, how often what would be chosen there.
        split: the best question to ask about them; None: they are all alike.
        gain: what that tells.
        order: how many splits were made before this one; None: it was not made.
        children: those where it holds, and those where it does not.
    """

    rows: NDArray[np.int64]
    total: NDArray[np.float64]
    split: Split | None = None
    gain: float = 0.0
    order: int | None = None
    children: tuple["_Node", ...] = field(default=())


class Forest:
    """A tree for each last mode, and one for the start.

    Attributes:
        splits: how many were made.
    """

    def __init__(self, lessons: RuleLessons, most: int) -> None:
        """Grow trees with up to so many splits in all."""
        self._lessons, self.splits = lessons, 0
        modes = lessons.weights.shape[1] - 1
        self._roots = [
            self._plant(np.flatnonzero(lessons.modes == n - 1)) for n in range(modes + 1)
        ]
        leaves = list(self._roots)
        while self.splits < most:
            best = max(leaves, key=lambda node: node.gain)
            if best.split is None or best.gain < _LEAST_GAIN:
                break
            holds = lessons.seen[best.rows, best.split.column] >= best.split.number
            best.children = self._plant(best.rows[holds]), self._plant(best.rows[~holds])
            best.order = self.splits
            self.splits += 1
            leaves.remove(best)
            leaves += best.children

    def _plant(self, rows: NDArray[np.int64]) -> _Node:
        """Return a leaf of these `rows`, `[n]`, with the best question to ask about them."""
        node = _Node(rows, self._lessons.weights[rows].sum(axis=0))
        seen, weights = self._lessons.seen[rows], self._lessons.weights[rows]
        for column in range(_COLUMNS):
            values = seen[:, column]
            if not len(rows) or values.min() == values.max():
                continue
            least = int(values.min())
            sums = np.zeros((int(values.max()) - least + 1, weights.shape[1]))
            np.add.at(sums, values - least, weights)
            below = sums.cumsum(axis=0)[:-1]
            gains = _impurity(node.total) - _impurity(below) - _impurity(node.total - below)
            place = int(gains.argmax())
            gain = float(gains[place]) * (1.0 if column < len(SENSORS) else _COUNTED)
            if gain > node.gain:
                node.split, node.gain = Split(column, least + place + 1), gain
        return node

    def rules(self, splits: int) -> DecisionList:
        """Return the rules of the first so many splits."""
        start, *after = (self._read(root, splits) for root in self._roots)
        return DecisionList(start, tuple(after))

    def _read(self, root: _Node, splits: int) -> tuple[Rule, ...]:
        """Return a tree as a list; what its default says anyway is not said before it."""
        rules = list(self._walk(root, splits, ()))
        while len(rules) > 1 and rules[-2].to == rules[-1].to:
            del rules[-2]
        return tuple(rules)

    def _walk(self, node: _Node, splits: int, when: tuple[str, ...]) -> list[Rule]:
        """Return the rules of a node under conditions.

        The smaller child comes first, under the split's condition; for the rules of the other
        nothing need be said, because the first child's last rule holds wherever the split does.
        """
        if node.order is None or node.order >= splits or node.split is None:
            ends = len(node.total) - 1
            to = int(node.total.argmax()) if node.total.any() else ends  # where nothing was met
            return [Rule(None if to == ends else to, when)]
        sizes = [_leaves(child, splits) for child in node.children]
        holds = sizes[0] <= sizes[1]
        first, other = node.children if holds else node.children[::-1]
        condition = node.split.condition(holds)
        return [
            *self._walk(first, splits, (*when, condition)),
            *self._walk(other, splits, when),
        ]


def _leaves(node: _Node, splits: int) -> int:
    """Return how many leaves are below a node, or 1 if it is one."""
    if node.order is None or node.order >= splits:
        return 1
    return sum(_leaves(child, splits) for child in node.children)


def _impurity(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Gini impurity of rows of `weights`, `[..., K + 1]`, times their sums, `[...]`."""
    sums = weights.sum(axis=-1)
    squares = (weights**2).sum(axis=-1)
    return sums - np.divide(squares, sums, out=np.zeros_like(squares), where=sums > 0)
