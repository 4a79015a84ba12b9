"""Machines that a search begins with: written by a person, or found before."""

import logging
from collections.abc import Collection, Sequence
from pathlib import Path

from pomp.core.errors import ConfigError, PompError
from pomp.core.storage import as_path
from pomp.core.texts import visible
from pomp.evolution.config import EvolveConfig
from pomp.evolution.genome import Machines
from pomp.evolution.texts import from_program_machine
from pomp.machine.policy import MACHINE_FILE, ProgramMachine
from pomp.machine.text import SUFFIX, parse_machine, print_machine
from pomp.machine.zoo import load_machine
from pomp.tasks.task import Setting

LOGGER = logging.getLogger("pomp")


def read_given_machines(
    source: str | Path,
    settings: Sequence[Setting],
    config: EvolveConfig,
    allow: Collection[str] = (),
) -> tuple[str, ...]:
    """Read the machines that searches begin with.

    Of a folder, files that hold no machine, or one that these searches could not have found, are
    named in a warning and left out.

    Args:
        source: a file `*.machine`, `zoo:TASK`, a machine's folder, or a folder with such files.
        settings: the tasks.
        config: of the searches.
        allow: modules that the files may name.

    Returns:
        The machines' texts.

    Raises:
        ConfigError: there is none that could be used; says why.
        PompError: the only file cannot be read.
    """
    path = as_path(source)
    several = path.is_dir() and not (path / MACHINE_FILE).is_file()
    if not several:
        machine = load_machine(source, allow)
        try:
            return (_text_of(machine, settings, config),)
        except ConfigError as error:
            raise ConfigError(f"'{source}' cannot begin this search: {error}") from error
    files = sorted({*path.rglob(f"*{SUFFIX}"), *(one.parent for one in path.rglob(MACHINE_FILE))})
    if not files:
        raise ConfigError(f"'{path}' holds no machine; expected files *{SUFFIX} or {MACHINE_FILE}")
    texts, reasons = dict[str, None](), list[str]()
    for file in files:
        try:
            texts[_text_of(load_machine(file, allow), settings, config)] = None
        except PompError as error:
            reasons.append(f"'{visible(str(file))}': {str(error).splitlines()[0]}")
    if not texts:
        raise ConfigError(f"'{path}' holds no machine that could be used: {reasons[0]}")
    for reason in reasons:
        LOGGER.warning("left out %s", reason)
    if reasons:
        LOGGER.warning("%d of %d files were left out", len(reasons), len(files))
    return tuple(texts)


def _text_of(machine: ProgramMachine, settings: Sequence[Setting], config: EvolveConfig) -> str:
    """Return a machine's text, if it is one of the tasks' and a search could begin with it."""
    tasks = [setting.task.name for setting in settings]
    if machine.task.name not in tasks:
        raise ConfigError(
            f"it is a machine of {machine.task.name}; one of {', '.join(tasks)} was expected"
        )
    from_program_machine(machine, config)
    return print_machine(machine)


def given_for(
    setting: Setting, texts: Sequence[str], config: EvolveConfig, allow: Collection[str] = ()
) -> list[Machines]:
    """Return those of some machines that are a task's, as a search takes them."""
    machines: list[ProgramMachine] = [parse_machine(text, allow=allow) for text in texts]
    return [
        from_program_machine(machine, config)
        for machine in machines
        if machine.task.name == setting.task.name
    ]
