"""Text machines: a machine of programs and rules as a file a person reads and edits.

`docs/MACHINES.md` has the grammar. Reading and printing are inverses for machines whose modes have
names; provenance alone has no place in the text.
"""

import logging
from collections.abc import Collection
from dataclasses import fields
from pathlib import Path

from pomp.core.errors import ConfigError
from pomp.core.storage import as_path, read_text, write_text
from pomp.dsl.parser import parse
from pomp.dsl.printer import lines_of
from pomp.machine.config import EpisodeConfig
from pomp.machine.policy import STOP, ProgramMachine
from pomp.machine.text_reader import ARROW, TextReader
from pomp.machine.transitions import DecisionList, Rule, unreachable
from pomp.tasks.catalog import source_of

LOGGER = logging.getLogger("pomp")
SUFFIX = ".machine"
MAX_BYTES = 1 << 20
_WIDE = 100  # columns of a line with a program


def parse_machine(text: str, file: str = "text", allow: Collection[str] = ()) -> ProgramMachine:
    """Read a machine from its text.

    Args:
        text: the whole file.
        file: what errors call it.
        allow: modules that the text may name as the homes of its task and its sensors.

    Raises:
        MachineSyntaxError: the text is no machine; carries the place.
        UntrustedModuleError: one of these is in a module that is not allowed.
    """
    return TextReader(text, file, allow).machine()


def read_machine(path: str | Path, allow: Collection[str] = ()) -> ProgramMachine:
    """Read a machine's file; modes that cannot be reached are told to the logger `pomp`.

    Args:
        path: the file.
        allow: modules that the file may name as the homes of its task and its sensors.

    Raises:
        MachineSyntaxError: the text is no machine; carries the place.
        UntrustedModuleError: one of these is in a module that is not allowed.
        DataFileError: the file cannot be read.
    """
    reader = TextReader(read_text(path, "machine", MAX_BYTES), str(path), allow)
    machine = reader.machine()
    for number in unreachable_modes(machine):
        name = reader.modes[number].name
        place = f"{path}:{name.line}:{name.column}"
        LOGGER.warning("%s: warning: no rule leads from the start to mode '%s'", place, name.text)
    return machine


def write_machine(machine: ProgramMachine, path: str | Path) -> None:
    """Write a machine as text.

    Raises:
        ConfigError: it has no rules.
        OutputError: it cannot be written there.
    """
    write_text(as_path(path), print_machine(machine))


def unreachable_modes(machine: ProgramMachine) -> list[int]:
    """Modes to which no rules lead from the start, whatever is sensed."""
    rules = _rules_of(machine)
    return unreachable(rules.start, rules.after)


def print_machine(machine: ProgramMachine) -> str:
    """The text of a machine with rules; modes without names get `mode1`, `mode2`, ...

    Raises:
        ConfigError: it has a network, no rules.
    """
    rules = _rules_of(machine)
    names = machine.names or tuple(f"mode{n + 1}" for n in range(len(machine.modes)))
    targets: dict[int | None, str] = {None: STOP, **dict(enumerate(names))}
    lines = [*_comment_lines(machine, ""), f"machine {source_of(machine.task)}"]
    lines.append(f"sensors {rules.sensors}")
    lines += [f"sensor {source}" for source in rules.known.sources()]
    if machine.variant is not None:
        lines.append(f"variant {machine.variant}")
    lines += [f"option {name} {value}" for name, value in machine.options.items()]
    if machine.size is not None:
        lines.append("size {}x{}".format(*machine.size))
    lines += _episode_lines(machine.episode)
    start = [print_rule(rule, targets) for rule in rules.start]
    start = [f"start {one}" for one in start] if len(start) > 1 else []
    lines += start or [f"start {targets[rules.start[0].to]}"]
    for name, mode, after in zip(names, machine.modes, rules.after, strict=True):
        lines += ["", *_comment_lines(machine, name), *_program_lines(name, mode)]
        lines += [f"  {print_rule(rule, targets)}" for rule in after]
    return "\n".join(lines) + "\n"


def _rules_of(machine: ProgramMachine) -> DecisionList:
    if not isinstance(machine.transition, DecisionList):
        kind = machine.transition.kind
        raise ConfigError(f"only a machine with rules is a text; this one's transitions: {kind}")
    return machine.transition


def _comment_lines(machine: ProgramMachine, about: str) -> list[str]:
    return [f"# {line}".rstrip() for line in machine.comments.get(about, ())]


def _episode_lines(episode: EpisodeConfig) -> list[str]:
    given = [(field, getattr(episode, field.name)) for field in fields(episode)]
    changed = {field.name: value for field, value in given if value != field.default}
    return [
        f"{name} {('off', 'on')[value] if isinstance(value, bool) else value}"
        for name, value in changed.items()
    ]


def _program_lines(name: str, mode: str) -> list[str]:
    line = f"mode {name}: {mode}"
    if len(line) <= _WIDE:
        return [line]
    return [f"mode {name}:", *(f"    {part}" for part in lines_of(parse(mode)))]


def print_rule(rule: Rule, targets: dict[int | None, str]) -> str:
    """The text of a rule, given what its targets are called."""
    head = f"if {' and '.join(rule.when)}" if rule.when else "else"
    return f"{head} {ARROW} {targets[rule.to]}"
