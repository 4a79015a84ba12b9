"""Moore machines: out of a quantised memory, made minimal, as JSON and as graphs.

A Moore machine goes from state to state by its inputs and puts out the label of each state that it
comes to. The first state is the start, whose own label matters only where it is come back to. The
axes are S states, N codes, and O inputs, of which each is one code or several.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pomp.analysis.code_tables import number_groups
from pomp.machine.dot import quote

UNLABELLED = -1
"""The label of a start that nothing leads back to."""
_MOST_NAMED = 8  # inputs that a graph names at an edge


@dataclass(frozen=True)
class MooreMachine:
    """States and what follows them.

    Attributes:
        following: `[S, O]` int64, the next state; the first state is the start.
        labels: `[S]` int64, what is put out in each state; `UNLABELLED` for a start that nothing
            leads back to.
        groups: `[N]` int64, the input that each code is.
        is_closed: whether all states are there that the inputs lead to; else unknown ones were
            taken for the nearest known.
    """

    following: NDArray[np.int64]
    labels: NDArray[np.int64]
    groups: NDArray[np.int64]
    is_closed: bool = True

    @property
    def states(self) -> int:
        """S, how many there are."""
        return len(self.following)

    @property
    def inputs(self) -> int:
        """O, how many differ in what they lead to."""
        return int(self.following.shape[1])

    def run(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the labels, `[T, B]` int64, put out on numbers of `codes`, `[T, B]` int64."""
        state, found = np.zeros(codes.shape[1], np.int64), np.empty_like(codes)
        for step, inputs in enumerate(self.groups[codes]):
            state = self.following[state, inputs]
            found[step] = self.labels[state]
        return found

    def to_json(self, names: Sequence[str]) -> dict[str, Any]:
        """Return it for JSON, with the `names` of its labels."""
        return {
            "states": self.states,
            "inputs": self.inputs,
            "codes": len(self.groups),
            "closed": self.is_closed,
            "labels": [_name(names, label) for label in self.labels],
            "following": self.following.tolist(),
            "groups": self.groups.tolist(),
        }


class AskedMemory(Protocol):
    """What can be asked for codes of states: `pomp.machine.quantised_memory.QuantisedMemory`."""

    def start_code(self) -> NDArray[np.int8]:
        """Return the code of the state before the first step, `[H]` int8."""

    def codes_after(self, state: NDArray[np.int8], seen: NDArray[np.int8]) -> NDArray[np.int8]:
        """Return the codes, `[N, H]` int8, that follow a state at each code of what is seen.

        Args:
            state: `[H]` int8.
            seen: `[N, G]` int8.
        """

    def choices_at(self, states: NDArray[np.int8]) -> NDArray[np.int64]:
        """Return the likeliest choices, `[S]` int64, in `states`, `[S, H]` int8."""


def tabulate(memory: AskedMemory, seen: NDArray[np.int8], most_states: int) -> MooreMachine:
    """Ask a quantised memory for what follows each state at each code, until nothing new follows.

    Where there would be more states than `most_states`, an unknown one is taken for the nearest
    known: the one with the smallest sum of absolute differences, of equal ones the first.

    Args:
        memory: what is asked.
        seen: `[N, G]` int8, the codes of what is seen.
        most_states: how many there may be, beside the start.
    """
    found, reached, rows = _States(most_states), memory.start_code(), list[list[int]]()
    while True:
        after = memory.codes_after(reached, seen)
        rows.append([found.number(code.tobytes()) for code in after])
        if len(rows) > len(found.known):
            break
        reached = np.frombuffer(found.known[len(rows) - 1], np.int8)
    following = np.array(rows, np.int64)
    known = _decode(found.known)
    if found.beyond:
        distances = (np.abs(known - code).sum(axis=1) for code in _decode(found.beyond))
        nearest = np.array([int(one.argmin()) + 1 for one in distances])
        is_beyond = following < 0
        following[is_beyond] = nearest[-following[is_beyond] - 1]
    labels = np.append(UNLABELLED, memory.choices_at(known))
    return MooreMachine(following, labels, np.arange(len(seen)), not found.beyond)


class _States:
    """Codes of states as they are reached; each is its bytes.

    Attributes:
        known: those that have a number: from 1, since the start is 0.
        beyond: those that came when there were enough; they count down from -1.
    """

    def __init__(self, most: int) -> None:
        self._most, self._numbers = most, dict[bytes, int]()
        self.known, self.beyond = list[bytes](), list[bytes]()

    def number(self, code: bytes) -> int:
        """Return the number of a code, perhaps a new one."""
        if code not in self._numbers:
            is_known = len(self.known) < self._most
            (self.known if is_known else self.beyond).append(code)
            self._numbers[code] = len(self.known) if is_known else -len(self.beyond)
        return self._numbers[code]


def _decode(codes: list[bytes]) -> NDArray[np.int8]:
    """Return `codes` as numbers, `[S, H]` int8."""
    return np.stack([np.frombuffer(code, np.int8) for code in codes])


def minimise_moore(machine: MooreMachine) -> MooreMachine:
    """Return the smallest machine that puts out the same.

    States are one if they have one label and lead, at every input, to the same states; inputs are
    one if they lead to the same states everywhere. A start that has no label is one with a state
    that leads where it leads. States are numbered in the order in which inputs reach them.

    Args:
        machine: a complete one, all of whose states are reached from the start.
    """
    groups, columns = _merge_columns(machine.following)
    following, labels = machine.following[:, columns], machine.labels
    classes = number_groups(labels.tolist())
    while True:
        rows = np.column_stack([classes, classes[following]])
        finer = number_groups([row.tobytes() for row in rows])
        if finer.max() == classes.max():
            break
        classes = finer
    _, firsts = np.unique(classes, return_index=True)
    following, labels = classes[following[firsts]], labels[firsts]
    start = 0
    if labels[0] == UNLABELLED:
        alike = np.flatnonzero((following[1:] == following[0]).all(axis=1)) + 1
        start = int(alike[0]) if len(alike) else 0
    order = _order_states(following, start)
    numbers = np.zeros(len(following), np.int64)
    numbers[order] = np.arange(len(order))
    following = numbers[following[order]]
    again, columns = _merge_columns(following)
    return MooreMachine(
        following[:, columns], labels[order], again[groups][machine.groups], machine.is_closed
    )


def _merge_columns(following: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the group of each equal column of `following`, `[S, O]`, and the first of each."""
    groups = number_groups([column.tobytes() for column in following.T.copy()])
    return groups, np.unique(groups, return_index=True)[1]


def _order_states(following: NDArray[np.int64], start: int) -> NDArray[np.int64]:
    """Return the states, `[S]` int64, in the order in which `following`, `[S, O]`, reaches them."""
    order = {start: None}
    pending = [start]
    for state in pending:
        new = [to for to in dict.fromkeys(following[state].tolist()) if to not in order]
        order.update(dict.fromkeys(new))
        pending += new
    return np.array(list(order), np.int64)


def print_moore(machine: MooreMachine, names: Sequence[str]) -> str:
    """Return a Moore machine as a graph in the language of Graphviz.

    Args:
        machine: which.
        names: of its labels.
    """
    lines = ["digraph moore {", "  node [shape=box];", "  start [shape=circle];"]
    for state, label in enumerate(machine.labels):
        lines.append(f"  s{state} [label={quote(f'{state + 1}: {_name(names, label)}')}];")
    lines.append("  start -> s0;")
    for state, row in enumerate(machine.following):
        for to in np.unique(row):
            named = [f"O{number + 1}" for number in np.flatnonzero(row == to)]
            more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
            label = quote(", ".join(named[:_MOST_NAMED]) + more)
            lines.append(f"  s{state} -> s{to} [label={label}];")
    return "\n".join([*lines, "}"]) + "\n"


def _name(names: Sequence[str], label: int) -> str:
    """Return the name of a label; a start without one is called so."""
    return "start" if label == UNLABELLED else names[label]
