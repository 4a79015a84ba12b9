"""A machine at several levels of simplification, and what each of them costs.

The first level is the machine itself. Below a network come the state machine that was extracted
from it, the minimal one, and rules that were distilled from it, as far as they are given.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pomp.analysis.explanation import Explanation, explain
from pomp.analysis.extracted import MINIMAL, REDUCED
from pomp.core.errors import ConfigError
from pomp.machine.code_table import CodeTable
from pomp.machine.policy import ProgramMachine
from pomp.machine.transitions import DecisionList, NetworkTransition
from pomp.machine.zoo import load_machine

if TYPE_CHECKING:
    from pomp.analysis.extracted import Extraction

STATES, MINIMAL_STATES, RULES = "state machine", "minimal state machine", "rules"


@dataclass(frozen=True)
class Level:
    """A machine, as far simplified as it is.

    Attributes:
        name: what it is called beside the others.
        machine: which.
        explained: what it does and did.
        share: of the first level's return; None: that one earns nothing, or is this one.
        is_same: whether nothing could be left out, so that it is the level before it.
    """

    name: str
    machine: ProgramMachine
    explained: Explanation
    share: float | None = None
    is_same: bool = False

    @property
    def heading(self) -> str:
        """What stands above it."""
        return f"As {self.name}" if self.name == RULES else f"As a {self.name}"

    @property
    def size(self) -> str:
        """How large it is, in words."""
        count = len(self.machine.modes)
        modes, by = _count(count, "mode"), self.machine.transition
        if isinstance(by, NetworkTransition):
            return f"{modes}, {_count(sum(one.size for one in by.arrays.values()), 'weight')}"
        if isinstance(by, CodeTable):
            drawn = "" if by.is_sure else ", choices drawn"
            return f"{modes}, {_count(len(by.observations), 'observation')}{drawn}"
        if isinstance(by, DecisionList):
            rules = sum(map(len, (by.start, *by.after)))
            conditions = _count(len(list(by.conditions)), "condition")
            return f"{modes}, {_count(rules, 'rule')}, {conditions}"
        return modes

    def to_json(self) -> dict[str, Any]:
        """Return its numbers, and what comes after each mode in words."""
        return {
            "name": self.name,
            "size": self.size,
            "mean": self.explained.found.mean,
            "share": self.share,
            "start": self.explained.start,
            "after": {mode.title: mode.rules for mode in self.explained.modes},
        }


def _count(number: int, what: str) -> str:
    """Return a number of things in words."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def compare_levels(
    machine: ProgramMachine,
    explained: Explanation,
    simpler: Sequence[tuple[str, ProgramMachine]],
    *,
    episodes: int | None = None,
    seed: int | None = None,
) -> list[Level]:
    """Play simplified machines as the machine itself was played.

    Args:
        machine: the first level.
        explained: what it does and did.
        simpler: the others, by name.
        episodes: how many; None: as `explain` does.
        seed: of the starts and the choices.

    Raises:
        ConfigError: one is for another task.
    """
    first = explained.found.mean
    levels = [Level(machine.transition.kind, machine, explained)]
    for name, other in simpler:
        if other.task.name != machine.task.name:
            raise ConfigError(
                f"what is shown beside a machine for {machine.task.name} must be for the same "
                f"task; the {name} given: {other.task.name}"
            )
        found = explain(other, episodes=episodes, seed=seed)
        share = found.found.mean / first if first > 0 else None
        is_same = _is_same_table(other, levels[-1].machine)
        levels.append(Level(name, other, found, share, is_same))
    return levels


def _is_same_table(machine: ProgramMachine, other: ProgramMachine) -> bool:
    """Whether two extracted machines have the same modes, codes and choices."""
    one, two = machine.transition, other.transition
    if not isinstance(one, CodeTable) or not isinstance(two, CodeTable):
        return False
    return (
        machine.modes == other.modes
        and np.array_equal(one.groups, two.groups)
        and np.array_equal(one.probs, two.probs)
    )


def read_extracted(
    machine: ProgramMachine, folder: str | Path, allow: Collection[str] = ()
) -> list[tuple[str, ProgramMachine]]:
    """Return the state machine in a folder that `save_extraction` wrote, and the minimal one.

    Args:
        machine: from which it was extracted.
        folder: which.
        allow: modules that its files may name.

    Raises:
        ConfigError: they belong to another machine.
        DataFileError: the folder holds none.
    """
    states = load_machine(Path(folder) / REDUCED, allow)
    if states.modes != machine.modes:
        raise ConfigError(
            f"'{folder}' holds a state machine of another machine: its modes are others; "
            "extract one from this machine: pomp extract MACHINE --out FOLDER"
        )
    return [(STATES, states), (MINIMAL_STATES, load_machine(Path(folder) / MINIMAL, allow))]


def levels_of(extraction: "Extraction") -> list[tuple[str, ProgramMachine]]:
    """Return the state machine that was just extracted, and the minimal one."""
    return [(STATES, extraction.machine), (MINIMAL_STATES, extraction.minimal)]
