"""What a launch runs: lists of programs, candidates that stand in them, and worlds."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pomp.dsl.bytecode import Code
from pomp.dsl.vocabulary import Action
from pomp.engine.lanes import CANDIDATE, UnitArrays
from pomp.karel.interpreter import Cap
from pomp.karel.world import WorldBatch
from pomp.tasks.task import Setting

__all__ = ["ACTION_COUNT", "CANDIDATE", "DEFAULT_CAP", "Launch", "Units"]

DEFAULT_CAP = "calls220"

ACTION_COUNT = len(Action)
"""How many primitive actions there are; they are numbered from 0."""


_ALONE, _NO_TABLE = np.array([[CANDIDATE]], np.int32), np.empty((0, 3), np.int32)


@dataclass(frozen=True)
class Units:
    """Q units of work: each runs one list of programs on `span` worlds.

    Attributes:
        lists: `[T, M]` int32: rows of program numbers, `CANDIDATE` for the unit's own program, -1
            behind the last. The programs of a row run one after the other, each from the state the
            last one left, each with a fresh cap.
        table: `[Q, 3]` int32: each unit's list, candidate and first world; `[0, 3]`: every unit
            runs the first list from the first world, with the program of its own number.
        span: how many worlds each runs on, one after the other from the first.
        salts: `[Q]` uint64, joined to the worlds' random streams; empty: none.
        rounds: how often a list is run; above 1 only until the task is done or nothing is done.
        patience: actions without progress after which no further round begins; 0: never mind.
        programs: how many units there are if the table is empty.
    """

    lists: NDArray[np.int32]
    table: NDArray[np.int32]
    span: int
    salts: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    rounds: int = 1
    patience: int = 0
    programs: int = 0

    def __len__(self) -> int:
        return len(self.table) or self.programs

    @property
    def lanes(self) -> int:
        """Episodes in all; unit u's are u * span and those after it."""
        return len(self) * self.span

    @property
    def most_runs(self) -> int:
        """Programs that one lane runs at most."""
        return self.lists.shape[1] * self.rounds

    @property
    def arrays(self) -> UnitArrays:
        """The same as compiled code takes it."""
        return UnitArrays(
            self.lists, self.table, self.salts, len(self), self.span, self.rounds, self.patience
        )

    @classmethod
    def alone(cls, programs: int, worlds: int, *, rounds: int = 1, patience: int = 0) -> "Units":
        """Each of so many programs by itself on every world: nothing has to be listed."""
        return cls(_ALONE, _NO_TABLE, worlds, rounds=rounds, patience=patience, programs=programs)

    @classmethod
    def crossed(cls, lists: NDArray[np.int32], worlds: int) -> "Units":
        """Every list on every world."""
        return cls(lists, _table(np.arange(len(lists)), 0), worlds)

    @classmethod
    def paired(cls, lists: NDArray[np.int32]) -> "Units":
        """List i on world i."""
        return cls(lists, _table(np.arange(len(lists)), np.arange(len(lists))), 1)


@dataclass(frozen=True)
class Launch:
    """Units of one task, ready to run; that their numbers fit is the caller's promise.

    Attributes:
        setting: the task.
        code: the programs.
        units: what runs where.
        worlds: the start states; they are not changed.
        cap: how long one program may run.
    """

    setting: Setting
    code: Code
    units: Units
    worlds: WorldBatch
    cap: Cap | str = DEFAULT_CAP

    @property
    def limits(self) -> Cap:
        """The cap as compiled code takes it."""
        return Cap.of(self.cap)


def _table(rows: NDArray[np.integer], first: NDArray[np.integer] | int) -> NDArray[np.int32]:
    """Return the table of units without candidates, `[Q, 3]` int32.

    Args:
        rows: `[Q]`: the list of each unit.
        first: `[Q]`: its first world, or one number for all.
    """
    table = np.zeros((len(rows), 3), np.int32)
    table[:, 0], table[:, 2] = rows, first
    return table
