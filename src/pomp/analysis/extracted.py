"""What an extraction returns: a state machine, the minimal one, what was tried; and its files."""

import json
import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pomp.analysis.automata import END, moore_of
from pomp.analysis.code_tables import equal_modes, equal_rows, merge_equal, reachable_modes
from pomp.core.errors import ConfigError, OutputError
from pomp.core.extras import AUTOMATA, is_installed
from pomp.core.storage import check_new, write_text
from pomp.machine.code_table import CodeTable
from pomp.machine.dot import print_dot
from pomp.machine.drawing import draw_machine
from pomp.machine.evaluation import Evaluation
from pomp.machine.policy import ProgramMachine

REDUCED, MINIMAL, EXTRACTION_FILE = "machine", "minimal", "extraction.json"
AUTOMATON_FILE = "minimal.aalpy.dot"


@dataclass(frozen=True)
class TableTrial:
    """A table that was tried.

    Attributes:
        table: which.
        mean: what the machine earned with it on trial starts.
        error: the standard error of that.
        is_enough: whether it is enough, this error taken off, and episodes were ended as often.
    """

    table: CodeTable
    mean: float
    error: float
    is_enough: bool

    @property
    def observations(self) -> int:
        """How many it tells apart."""
        return self.table.probs.shape[1]

    def to_json(self) -> dict[str, Any]:
        """Return its numbers."""
        return {
            "observations": self.observations,
            "mean": self.mean,
            "error": self.error,
            "enough": self.is_enough,
        }


@dataclass(frozen=True)
class SizeTried:
    """What came of codes of one size.

    Attributes:
        units: of a code.
        codes: that were met.
        columns: that are left when codes with equal columns of the complete table are merged.
        complete: the machine with these, whose choices are the likeliest; None: it was not tried,
            since those of the network itself earn far too little.
        merged: by kind of choices, the smallest machine that was found to keep enough.
    """

    units: int
    codes: int
    columns: int
    complete: TableTrial | None
    merged: dict[str, TableTrial]

    def to_json(self) -> dict[str, Any]:
        """Return its numbers."""
        return {
            "units": self.units,
            "codes": self.codes,
            "columns": self.columns,
            "complete": self.complete.to_json() if self.complete else None,
            "merged": {kind: trial.to_json() for kind, trial in self.merged.items()},
        }


@dataclass(frozen=True)
class Extraction:
    """A state machine that was extracted from a network, and how it does beside it.

    Attributes:
        machine: the reduced machine: all modes, observations with equal columns merged.
        minimal: the same without modes that it cannot reach or tell apart, and without
            observations that make no difference then.
        choices: greedy or sampled.
        units: of its codes.
        is_enough: whether it kept enough in its trial; else it is the best that was found.
        goal: the mean return that is enough.
        sizes: everything that was tried.
        network: episodes of the network on evaluation starts, sampled.
        greedy: the same with its likeliest choices.
        found: episodes of the machine on evaluation starts.
        minimal_found: episodes of the minimal machine on evaluation starts.
    """

    machine: ProgramMachine
    minimal: ProgramMachine
    choices: str
    units: int
    is_enough: bool
    goal: float
    sizes: tuple[SizeTried, ...]
    network: Evaluation
    greedy: Evaluation
    found: Evaluation
    minimal_found: Evaluation

    @property
    def table(self) -> CodeTable:
        """The machine's table."""
        return table_of(self.machine)

    @property
    def share(self) -> float | None:
        """Which share of the network's return the machine has; None: that one earns nothing."""
        return self.found.mean / self.network.mean if self.network.mean > 0 else None

    def to_json(self) -> dict[str, Any]:
        """Return everything but the machines' weights and programs."""
        return {
            "task": self.machine.task.name,
            "units": self.units,
            "choices": self.choices,
            "enough": self.is_enough,
            "goal": self.goal,
            "share": self.share,
            "returns": {
                "network": tell_evaluation(self.network),
                "network greedy": tell_evaluation(self.greedy),
                REDUCED: tell_evaluation(self.found),
                MINIMAL: tell_evaluation(self.minimal_found),
            },
            "codes": self.table.codes.tolist(),
            REDUCED: describe_table(self.machine),
            MINIMAL: describe_table(self.minimal),
            "sizes": [size.to_json() for size in self.sizes],
        }


def tell_evaluation(found: Evaluation) -> dict[str, Any]:
    """Return the statistics of an evaluation without its single returns."""
    told = found.to_json()
    del told["returns"]
    return told


def describe_table(machine: ProgramMachine) -> dict[str, Any]:
    """Return an extracted machine's table for JSON.

    Returns:
        The modes' names; by observation, the numbers of its codes; by decision point and
        observation, what comes next, or how likely each is if that is drawn; and decision points
        after which always the same is chosen.
    """
    table = table_of(machine)
    points, targets = ("start", *machine.signs), (*machine.signs, END)
    names = table.observations

    def entry(row: int, column: int) -> Any:
        probs = table.probs[row, column]
        if probs.max() == 1.0:
            return targets[int(probs.argmax())]
        return {to: float(prob) for to, prob in zip(targets, probs, strict=True) if prob}

    return {
        "modes": list(machine.signs),
        "observations": {
            name: np.flatnonzero(table.groups == number).tolist()
            for number, name in enumerate(names)
        },
        "table": {
            point: {name: entry(row, column) for column, name in enumerate(names)}
            for row, point in enumerate(points)
        },
        "equal rows": [[points[row] for row in rows] for rows in equal_rows(table.probs)],
    }


def table_of(machine: ProgramMachine) -> CodeTable:
    """Return the table of an extracted machine.

    Raises:
        ConfigError: it has none.
    """
    if not isinstance(machine.transition, CodeTable):
        raise ConfigError(f"this machine was not extracted; its transitions: {machine.headline}")
    return machine.transition


def minimise(machine: ProgramMachine) -> ProgramMachine:
    """Return an extracted machine without what makes no difference to what it does.

    Modes go that its table cannot lead to, and all but one of those that it cannot tell apart; then
    observations with equal columns are merged.

    Raises:
        ConfigError: the machine was not extracted.
    """
    table = table_of(machine)
    classes = equal_modes(table.probs, machine.modes)
    firsts = [int(np.argmax(classes == one)) for one in range(int(classes.max()) + 1)]
    ends = len(machine.modes)
    probs = np.zeros_like(table.probs)
    for choice in range(ends + 1):
        to = choice if choice == ends else firsts[classes[choice]]
        probs[..., to] += table.probs[..., choice]
    kept = reachable_modes(probs) or [0]  # a machine has a mode, even if it ends at once
    rows, columns = [0, *(mode + 1 for mode in kept)], [*kept, ends]
    probs = probs[rows][..., columns]
    groups = merge_equal(probs)
    _, first = np.unique(groups, return_index=True)
    return replace(
        machine,
        modes=tuple(machine.modes[mode] for mode in kept),
        names=machine.names and tuple(machine.names[mode] for mode in kept),
        transition=replace(
            table,
            modes=len(kept),
            groups=groups[table.groups],
            probs=np.ascontiguousarray(probs[:, first]),
        ),
    )


def check_new_folder(folder: str | Path) -> Path:
    """Return a folder that can be made.

    Raises:
        OutputError: it exists, or nothing can be written beside it.
    """
    path = Path(folder)
    check_new(path, "folder")
    return path


def save_extraction(extraction: Extraction, folder: str | Path) -> None:
    """Write both machines, their graphs and all numbers into a new folder.

    If AALpy is installed and nothing is drawn, the minimal machine is there for it, too. The folder
    is made under another name first, so that it is there as a whole or not at all.

    Raises:
        OutputError: the folder exists, or cannot be written.
    """
    path = check_new_folder(folder)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.mkdir()
        for name, machine, found in (
            (REDUCED, extraction.machine, extraction.found),
            (MINIMAL, extraction.minimal, extraction.minimal_found),
        ):
            machine.save(draft / name)
            write_text(draft / f"{name}.dot", print_dot(machine))
            write_text(draft / f"{name}.svg", draw_machine(machine, found))
        if table_of(extraction.minimal).is_sure and is_installed(AUTOMATA):
            write_text(draft / AUTOMATON_FILE, moore_of(extraction.minimal).to_dot())
        told = json.dumps(extraction.to_json(), indent=1)
        write_text(draft / EXTRACTION_FILE, told + "\n")
        draft.rename(path)
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write '{path}': {error.strerror or error}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)  # nothing is there if all went well
