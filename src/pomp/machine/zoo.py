"""The machines that come with the package, and machines in folders and files.

For a task there is the best machine with rules, `zoo:TASK/text`, and the best one with a network,
`zoo:TASK/network`; `zoo:TASK` is the better of the two, or without torch the one with rules. `make
zoo RUNS=...` puts the machines of finished runs into the package, where they are better than those
there. What is better, validation says (`pomp.machine.evaluation.play_validation`): a clean machine
is better than any other, and of two alike, the one that earns more.
"""

import logging
from collections.abc import Collection
from dataclasses import replace
from math import inf
from pathlib import Path

from pomp.core.errors import DataFileError, UnknownNameError
from pomp.core.extras import LEARN, is_installed
from pomp.core.schemas import NUMBER, Record
from pomp.core.storage import as_path, read_json
from pomp.machine.evaluation import play_validation
from pomp.machine.policy import MACHINE_FILE, ProgramMachine
from pomp.machine.text import SUFFIX, read_machine
from pomp.machine.transitions import DecisionList
from pomp.tasks.catalog import TASKS

LOGGER = logging.getLogger("pomp")
ZOO = Path(__file__).with_name("zoo_machines")
PREFIX = "zoo:"
KINDS = TEXT, NETWORK = ("text", "network")
_VALIDATED = Record({"provenance": Record({"validation": NUMBER}, is_open=True)}, is_open=True)


def zoo_tasks() -> list[str]:
    """Tasks with a machine in the zoo, in the catalog's order."""
    return [task.name for task in TASKS if any(ZOO.glob(f"{task.name}/*/{MACHINE_FILE}"))]


def load_machine(name: str | Path, allow: Collection[str] = ()) -> ProgramMachine:
    """Load a machine by its folder, its file (`*.machine`), `zoo:TASK` or a task's name.

    `zoo:TASK` is the best of the task's machines by validation, of those that are clean if any is,
    or the one with rules if torch is not installed; `zoo:TASK/text` and `zoo:TASK/network` name one
    of a kind.

    Args:
        name: what to load.
        allow: modules that a file may name as the homes of its task and its sensors; none may
            unless they are listed, so that opening a stranger's file runs no code.

    Raises:
        UnknownNameError: no such machine in the zoo.
        DataFileError: no machine in the folder or file, or one that cannot be used.
        UntrustedModuleError: one of these is in a module that is not allowed.
        MissingExtraError: the machine has a network, and torch is not installed.
    """
    name = str(name)
    named = {task.name.lower(): task.name for task in TASKS}
    asked, _, kind = name.removeprefix(PREFIX).partition("/")
    task = asked.replace("-", "").lower()
    if name.startswith(PREFIX) or (task in named and not as_path(name).exists()):
        if named.get(task) not in zoo_tasks():
            raise UnknownNameError("machine of the zoo", asked, zoo_tasks())
        found = _ranks(ZOO / named[task])
        if kind and kind not in found:
            raise UnknownNameError(f"kind of machine for {named[task]}", kind, list(found))
        return ProgramMachine.load(ZOO / named[task] / (kind or best_kind(named[task])))
    if not as_path(name).exists():
        known = ", ".join(zoo_tasks()) or "none yet"
        raise DataFileError(
            f"'{name}' does not exist; expected a machine's folder, a file *{SUFFIX} or "
            f"{PREFIX}TASK ({known})"
        )
    if name.endswith(SUFFIX) and not Path(name).is_dir():
        return read_machine(name, allow)
    return ProgramMachine.load(name, allow)


def add_to_zoo(run: Path, zoo: Path = ZOO) -> list[str]:
    """Take over the machines of a run that are better by validation than the zoo's.

    Args:
        run: the folder of `pomp train` or `pomp evolve`.
        zoo: where to put them.

    Returns:
        The machines that are new, as `Farmer/text`.
    """
    found = [
        ProgramMachine.load(file.parent)
        for file in sorted(run.glob(f"**/seed*/machine/{MACHINE_FILE}"))
    ]
    for file in sorted(run.glob(f"**/seed*/*{SUFFIX}")):
        origin = {"search": "text", "seed": int(file.parent.name.removeprefix("seed"))}
        found.append(replace(read_machine(file), provenance=origin))
    taken = set[str]()
    for machine in found:
        kind = KINDS[not isinstance(machine.transition, DecisionList)]
        task = machine.task.name
        played = play_validation(machine)
        if (played.is_clean, played.mean) > _ranks(zoo / task).get(kind, (False, -inf)):
            told = {"validation": played.mean, "clean": played.is_clean}
            machine.provenance = {**machine.provenance, **told}
            machine.save(zoo / task / kind)
            taken.add(f"{task}/{kind}")
    return sorted(taken)


def best_kind(task: str) -> str:
    """Return which kind of a task's machines `zoo:TASK` is: the best that can be played here."""
    ranks = _ranks(ZOO / task)
    best = max(ranks, key=lambda kind: ranks[kind])
    if best == NETWORK and TEXT in ranks and not is_installed(LEARN):
        LOGGER.info("torch is not installed: taking %s%s/text, not the network", PREFIX, task)
        return TEXT
    return best


def _ranks(folder: Path) -> dict[str, tuple[bool, float]]:
    """Whether each kind of machine in a folder of the zoo was clean in validation, and its return.

    One that was put there before machines were asked whether they are clean counts as not clean.
    """
    files = {kind: folder / kind / MACHINE_FILE for kind in KINDS}
    told = {
        kind: read_json(file, "machine", _VALIDATED)["provenance"]
        for kind, file in files.items()
        if file.is_file()
    }
    return {
        kind: (bool(one.get("clean", False)), float(one["validation"]))
        for kind, one in told.items()
    }
