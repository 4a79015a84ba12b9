"""Modes and machines that were found before, for a training that does not search them."""

from collections.abc import Sequence
from pathlib import Path

from pomp.core.errors import ConfigError, DataFileError, UntrustedModuleError
from pomp.core.storage import read_text
from pomp.dsl.parser import parse, split_programs
from pomp.machine.policy import ProgramMachine
from pomp.machine.text import SUFFIX, read_machine
from pomp.runs.asked import task_modules
from pomp.runs.folder import name_of
from pomp.runs.kept import MODES_FILE
from pomp.runs.searched import modes_of_results
from pomp.runs.searches import read_modes
from pomp.tasks.task import Setting

Key = tuple[str, int]
"""A task's name and a seed."""

Modes = dict[Key, tuple[str, ...]]
Machines = dict[Key, ProgramMachine]


def read_machines(
    path: Path, settings: Sequence[Setting], seeds: Sequence[int], allow: tuple[str, ...] = ()
) -> Machines:
    """Read the machines in an evolution's folder, for every task and seed.

    Args:
        path: the folder.
        settings: the tasks.
        seeds: the seeds.
        allow: modules, beside those of the tasks, that the files may name.

    Returns:
        The machines; none if the path holds none at all.

    Raises:
        ConfigError: one of them is of another task.
        DataFileError: one of them is missing or damaged.
    """
    files = {
        (setting.task.name, seed): path.joinpath(*name_of(setting, seed))
        / f"{setting.task.name}{SUFFIX}"
        for setting in settings
        for seed in seeds
    }
    if not any(file.is_file() for file in files.values()):
        return {}
    allowed = (*task_modules(settings), *allow)
    try:
        machines = {key: read_machine(file, allowed) for key, file in files.items()}
    except UntrustedModuleError as error:
        raise error.in_run() from error
    for (task, _), machine in machines.items():
        if machine.task.name != task:
            other = machine.task.name
            raise ConfigError(f"'{path}' has a machine of {other} where {task}'s should be")
    return machines


def read_given(path: Path, settings: Sequence[Setting], seeds: Sequence[int]) -> Modes:
    """Read modes from a search's folder, a file of results, or a file with a program per line.

    Returns:
        The programs for every task and seed.

    Raises:
        ConfigError: there are none, or the file cannot be read.
        ProgramSyntaxError: a line is no program.
    """
    names = [setting.task.name for setting in settings]
    if path.is_dir() and not (path / MODES_FILE).is_file():
        return {
            (setting.task.name, seed): _programs_of(path.joinpath(*name_of(setting, seed)))
            for setting in settings
            for seed in seeds
        }
    if path.is_dir() or path.suffix == ".json":
        results = modes_of_results(path)
        if results is not None:
            return {key: modes for key, modes in results.items() if key[0] in names}
        modes = _programs_of(path)
    else:
        try:
            modes = split_programs(read_text(path, "file of programs"))
        except DataFileError as error:
            raise ConfigError(f"'{path}' cannot be read as a file of programs: {error}") from error
    return same_for_all(modes, settings, seeds, f"'{path}'")


def same_for_all(
    modes: Sequence[str], settings: Sequence[Setting], seeds: Sequence[int], where: str
) -> Modes:
    """Return the same programs for every task and seed.

    Args:
        modes: the programs' texts.
        settings: the tasks.
        seeds: the seeds.
        where: where the programs come from, for an error.

    Raises:
        ConfigError: there are none.
        ProgramSyntaxError: one is no program.
    """
    if not isinstance(modes, Sequence):
        raise ConfigError(f"modes are a list of programs, or a file of them, got {modes!r:.80}")
    if not modes:
        raise ConfigError(f"{where} holds no programs")
    for text in modes:
        parse(text)
    return {(setting.task.name, seed): tuple(modes) for setting in settings for seed in seeds}


def _programs_of(file: Path) -> tuple[str, ...]:
    return tuple(mode["program"] for mode in read_modes(file)["modes"])
