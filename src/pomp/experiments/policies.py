"""The policies of cells: those that execute one program, and all of them as files."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from pomp.core.errors import PompError
from pomp.experiments.cells import Cell
from pomp.experiments.store import Files
from pomp.machine.config import EpisodeConfig
from pomp.machine.policy import ProgramMachine
from pomp.machine.transitions import DecisionList, Rule
from pomp.machine.zoo import load_machine

if TYPE_CHECKING:
    from pomp.hprl.policy import MetaPolicy

_IDLE = "DEF run m( turnLeft m)"  # the mode of a machine that never runs it


def executed_once(cell: Cell, program: str) -> ProgramMachine:
    """Return the machine that executes a program once; what is no program is not executed."""
    task = cell.setting.task
    end = (Rule(to=None),)
    try:
        return ProgramMachine(
            task=task,
            modes=(program,),
            transition=DecisionList(start=(Rule(to=0),), after=(end,)),
            episode=EpisodeConfig(cap=cell.search.score.cap),
        )
    except PompError:
        return ProgramMachine(
            task=task, modes=(_IDLE,), transition=DecisionList(start=end, after=(end,))
        )


def load_policy(cell: Cell, files: Files) -> "ProgramMachine | MetaPolicy":
    """Return the policy of a cell, given the files in which it is saved."""
    with TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        if cell.row.kind == "latents":
            from pomp.hprl.policy import MetaPolicy

            return MetaPolicy.load(folder)
        return load_machine(folder)


def files_of(machine: "ProgramMachine | MetaPolicy") -> Files:
    """Return the files in which a policy is saved."""
    with TemporaryDirectory() as folder:
        machine.save(folder)
        return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}
