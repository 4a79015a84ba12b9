"""What requests name: machines of the zoo, machines and runs below the root, texts, tasks.

A request names nothing by a path of its own and nothing by a module: files are those below the
root, once all links are followed, and what they name in modules is refused.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from pomp.core.configs import parse_size
from pomp.core.errors import (
    ConfigError,
    DataFileError,
    MachineSyntaxError,
    PompError,
    ProgramSyntaxError,
    UnknownNameError,
)
from pomp.dsl.parser import parse
from pomp.machine.policy import ProgramMachine
from pomp.machine.text import parse_machine
from pomp.machine.transitions import DecisionList, Rule
from pomp.machine.zoo import load_machine
from pomp.studio.limits import LIMITS
from pomp.tasks.catalog import TASKS
from pomp.tasks.task import Task

ZOO_NAME = re.compile(r"zoo:[A-Za-z]+(/text|/network)?")
RUN_PREFIX = "run:"
_COMMENT = re.compile(r"#[^\n]*")
_PROGRAM = "program"


class Root:
    """The folder below which run folders and machines are served; none may be given."""

    def __init__(self, path: Path | None) -> None:
        self.path = None if path is None else path.resolve()

    def inside(self, name: str) -> Path:
        """Return a path below the root.

        Raises:
            DataFileError: there is no root, nothing is there, or it is elsewhere.
        """
        missing = DataFileError(f"there is no '{name:.200}' below the root of this studio")
        if self.path is None or "\0" in name or Path(name).is_absolute():
            raise missing
        try:
            path = (self.path / name).resolve(strict=True)
        except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
            raise missing from error
        if not path.is_relative_to(self.path):
            raise missing
        return path


def find_machine(name: str, root: Root) -> ProgramMachine:
    """Return the machine that a request names.

    Raises:
        UnknownNameError: no such machine in the zoo.
        DataFileError: no such file below the root, or one that holds no machine.
        ConfigError: it is no name of a machine.
    """
    if ZOO_NAME.fullmatch(name):
        return load_machine(name)
    if name.startswith(RUN_PREFIX):
        return load_machine(root.inside(name.removeprefix(RUN_PREFIX)))
    raise ConfigError(f"a machine is named zoo:TASK or run:PATH, got '{name:.80}'")


def find_named_task(name: str) -> Task:
    """Return a task of the catalog.

    Raises:
        UnknownNameError: there is none of that name.
    """
    named = {task.name: task for task in TASKS}
    if name not in named:
        raise UnknownNameError("task", name, named)
    return named[name]


def read_text_machine(text: str, task: str | None) -> ProgramMachine:
    """Return the machine that a text describes; a program alone runs once, then it stops.

    Args:
        text: a program, which begins with `DEF`, or a machine.
        task: in which a program acts.

    Raises:
        ConfigError: the text is too long, or a program has no task.
        ProgramSyntaxError: it is no program.
        MachineSyntaxError: it is no machine.
    """
    if len(text) > LIMITS.text:
        raise ConfigError(f"a text has at most {LIMITS.text:,} characters, got {len(text):,}")
    if not means_program(text):
        return parse_machine(text)
    program = parse(without_comments(text))
    if task is None:
        raise ConfigError("a program acts in a task: name one")
    rules = DecisionList((Rule(0),), ((Rule(None),),))
    return ProgramMachine(find_named_task(task), (str(program),), rules, names=(_PROGRAM,))


def means_program(text: str) -> bool:
    """Whether a text is meant as a program and not as a machine."""
    return without_comments(text).split(maxsplit=1)[:1] == ["DEF"]


def without_comments(text: str) -> str:
    """Return a text with blanks in place of its comments, so that every place stays."""
    return _COMMENT.sub(lambda found: " " * len(found[0]), text)


def set_up(
    machine: ProgramMachine, task: str | None, size: tuple[int, int] | None
) -> ProgramMachine:
    """Return a machine in another task or on a grid of another size.

    Raises:
        UnknownNameError: there is no such task.
        ConfigError: the grid is too large.
    """
    if task is not None and task != machine.task.name:
        there = find_named_task(task)
        machine = replace(machine, task=there, variant=None, options={}, size=None)
    return machine if size is None else replace(machine, size=check_size(size))


def check_size(size: tuple[int, int]) -> tuple[int, int]:
    """Return rows and columns of a grid.

    Raises:
        ConfigError: the grid is larger than this studio shows.
    """
    if max(size) > LIMITS.side or size[0] * size[1] > LIMITS.cells:
        got = f"{size[0]}x{size[1]}"
        raise ConfigError(f"a grid in the studio has at most {LIMITS.cells} cells, got {got}")
    return size


def size_of(text: str | None) -> tuple[int, int] | None:
    """Return the size that `8x8` says.

    Raises:
        ConfigError: it says none, or too large a one.
    """
    if text is None:
        return None
    return check_size(parse_size(text))


def place_of(error: PompError, text: str) -> dict[str, int] | None:
    """Return where in a text an error is, if it says so."""
    if isinstance(error, ProgramSyntaxError):
        words = list(re.finditer(r"\S+", without_comments(text)))
        if error.position < len(words):
            return _place(text, *words[error.position].span())
        end = words[-1].end() if words else 0
        return _place(text, end, end)
    if isinstance(error, MachineSyntaxError):
        lines = text.split("\n")
        first = sum(len(line) + 1 for line in lines[: error.line - 1]) + error.column - 1
        word = re.compile(r"\S*").match(text, first)
        return _place(text, first, word.end() if word else first)
    return None


def _place(text: str, first: int, last: int) -> dict[str, int]:
    line = text.count("\n", 0, first) + 1
    column = first - (text.rfind("\n", 0, first) + 1) + 1
    return {"line": line, "column": column, "from": first, "to": last}


def tell_error(error: PompError) -> str:
    """Return what is wrong in one line, without the place."""
    reason: Any = getattr(error, "reason", None)
    return str(reason or error).splitlines()[0]
