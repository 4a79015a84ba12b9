"""The machines that come with the package, one per task, and machines in folders and files.

`make zoo RUNS=...` puts the machines of finished trainings into the package, where they are better
by validation than those there.
"""

from pathlib import Path

from pomp.errors import DataFileError, UnknownNameError
from pomp.machine.policy import MACHINE_FILE, ProgramMachine
from pomp.machine.text import SUFFIX, read_machine
from pomp.tasks.catalog import TASKS

ZOO = Path(__file__).with_name("zoo_machines")
PREFIX = "zoo:"


def zoo_tasks() -> list[str]:
    """Tasks with a machine in the zoo, in the catalog's order."""
    return [task.name for task in TASKS if (ZOO / task.name / MACHINE_FILE).is_file()]


def find_machine(name: str) -> ProgramMachine:
    """A machine by its folder, its file (`*.machine`), by `zoo:TASK`, or by a task's name.

    Raises:
        UnknownNameError: no such machine in the zoo.
        DataFileError: no machine in the folder or file, or one that cannot be used.
    """
    named = {task.name.lower(): task.name for task in TASKS}
    task = name.removeprefix(PREFIX).replace("-", "").lower()
    if name.startswith(PREFIX) or (task in named and not Path(name).exists()):
        if named.get(task) not in zoo_tasks():
            raise UnknownNameError("machine of the zoo", name.removeprefix(PREFIX), zoo_tasks())
        return ProgramMachine.load(ZOO / named[task])
    if not Path(name).exists():
        known = ", ".join(zoo_tasks()) or "none yet"
        raise DataFileError(
            f"'{name}' does not exist; expected a machine's folder, a file *{SUFFIX} or "
            f"{PREFIX}TASK ({known})"
        )
    if name.endswith(SUFFIX) and Path(name).is_file():
        return read_machine(name)
    return ProgramMachine.load(name)


def add_to_zoo(run: Path, zoo: Path = ZOO) -> list[str]:
    """Take over the machines of a training that are better by validation than the zoo's.

    Args:
        run: the folder of `pomp train`.
        zoo: where to put them.

    Returns:
        The tasks that have a new machine.
    """
    taken = []
    for found in sorted(run.glob(f"*/seed*/machine/{MACHINE_FILE}")):
        machine = ProgramMachine.load(found.parent)
        place = zoo / machine.task
        if _validation(machine) > (
            _validation(ProgramMachine.load(place)) if place.exists() else 0
        ):
            machine.save(place)
            taken.append(machine.task)
    return sorted(set(taken))


def _validation(machine: ProgramMachine) -> float:
    return float(machine.provenance.get("validation") or 0.0)
