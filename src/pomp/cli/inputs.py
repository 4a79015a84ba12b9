"""What commands read and where they write: checked before anything is compiled or run."""

import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, UseAppendAction, arg

from pomp.core.errors import ConfigError, DataFileError, OutputError, abridge
from pomp.core.storage import read_bytes

if TYPE_CHECKING:
    from pomp.tasks.task import Setting

TaskNames = Annotated[Positional[tuple[str, ...]], arg(metavar="TASK...")]
"""One or more tasks, by name or `module:NAME`."""

Changes = Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="NAME=VALUE")]
"""Settings to change, or options."""

Allowed = Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="MODULE")]
"""Modules that a file may name as the homes of its task and its sensors, or a run's folder of its
method."""

OwnSensors = Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="MODULE:NAME")]
"""Sensors of one's own."""

Device = Literal["cpu", "cuda", "auto"]
"""Where something runs; auto: on CUDA where it can be used, else on the CPU."""

MAX_BYTES = 1 << 20
MOST_SEEDS = 10_000
MOST_EPISODES = 1_000_000


def read_program(argument: str) -> str:
    """The text of a program given as text (it begins with `DEF`), `-` (standard input) or a file.

    Comments in a file (`#` to the end of the line) are left out.

    Raises:
        ConfigError: no such file, not UTF-8, or far too long for a program.
    """
    if argument.split(maxsplit=1)[:1] == ["DEF"]:
        return argument
    if argument == "-":
        content, name = sys.stdin.buffer.read(MAX_BYTES + 1), "standard input"
    else:
        content, name = (
            _read_file(argument, "a program's text begins with DEF, - is standard input"),
            f"'{argument}'",
        )
    from pomp.dsl.parser import strip_comments

    return strip_comments(_decode(content, name))


def read_map(path: str) -> str:
    """The text of a map file."""
    return _decode(_read_file(path, "expected a text file with a map"), f"'{path}'")


def _read_file(path: str, hint: str) -> bytes:
    if not path:
        raise ConfigError(f"cannot read a file without a name ({hint})")
    try:
        return read_bytes(path, "program or map", MAX_BYTES)
    except DataFileError as error:
        raise ConfigError(f"cannot read file {abridge(str(error), 200)} ({hint})") from error


def _decode(content: bytes, name: str) -> str:
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{name} has over {MAX_BYTES} bytes: too long for a program or a map")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name} is not UTF-8 text (byte {error.start})") from error


def check_episodes(episodes: int | None) -> None:
    """Refuse a number of episodes that is none, or far too many."""
    if episodes is not None and not 1 <= episodes <= MOST_EPISODES:
        raise ConfigError(f"--episodes must be from 1 to {MOST_EPISODES:,}, got {episodes}")


def check_seed(seed: int | None) -> None:
    """Refuse a negative seed."""
    if seed is not None and seed < 0:
        raise ConfigError(f"--seed must not be negative, got {seed}")


def check_output(path: str) -> Path:
    """A file that can be written.

    Raises:
        OutputError: its folder is missing, or it is a folder, or writing is not allowed.
    """
    file = Path(path)
    folder = file.parent
    if not folder.is_dir():
        raise OutputError(f"cannot write '{path}': there is no folder '{folder}'; make it first")
    if file.exists() and not file.is_file():
        what = "a folder" if file.is_dir() else "no regular file"
        raise OutputError(f"cannot write '{path}': it is {what}; name a file")
    if not os.access(folder, os.W_OK) or (file.exists() and not os.access(file, os.W_OK)):
        raise OutputError(f"cannot write '{path}': permission denied")
    return file


def read_tasks(names: tuple[str, ...], variant: str | None) -> "list[Setting] | None":
    """Return the tasks named on a command line, in a variant or each in its default; None: none."""
    from pomp.tasks.catalog import find_task

    if not names:
        if variant is not None:
            raise ConfigError("--variant goes with the names of tasks")
        return None
    return [find_task(name).configure(variant) for name in names]


def take_one(option: str, given: tuple[str, ...], instead: str) -> str | None:
    """Return the value of an option that goes once; None: it was not given.

    Args:
        option: as it is typed.
        given: the values that it was given.
        instead: what to do with several.

    Raises:
        ConfigError: there are several.
    """
    if len(given) > 1:
        raise ConfigError(f"{option} goes once, got it {len(given)} times; {instead}")
    return given[0] if given else None


def parse_options(texts: tuple[str, ...], example: str = "lag=off") -> dict[str, str]:
    """`K=V` pairs -> options.

    Raises:
        ConfigError: a text has no `=`, or a name comes twice.
    """
    options: dict[str, str] = {}
    for text in texts:
        name, sign, chosen = text.partition("=")
        if not sign or not name:
            raise ConfigError(f"an option is NAME=VALUE, as in {example}, got '{text}'")
        if name in options:
            raise ConfigError(f"option {name} is given twice")
        options[name] = chosen
    return options


def parse_changes(texts: tuple[str, ...], example: str) -> dict[str, Any]:
    """`K=V` pairs -> settings to change: numbers, true or false, or else texts.

    Raises:
        ConfigError: a text has no `=`, or a name comes twice.
    """
    return {name: _read_value(text) for name, text in parse_options(texts, example).items()}


def parse_seeds(text: str) -> list[int]:
    """`3`, `0,2` or `0-4` -> numbers.

    Raises:
        ConfigError: it is something else.
    """
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,18})(?:-(\d{1,18}))?\s*", part)
        if not match:
            raise ConfigError(f"seeds are a number, a list (0,3) or a range (0-4), got '{text}'")
        first, last = int(match[1]), int(match[2] or match[1])
        if not 0 <= last - first < MOST_SEEDS:
            raise ConfigError(
                f"a range of seeds goes up, at most {MOST_SEEDS} of them, got '{part}'"
            )
        seeds += range(first, last + 1)
    if len(set(seeds)) < len(seeds):
        raise ConfigError(f"a seed comes twice in '{text}'")
    return seeds


def _read_value(text: str) -> Any:
    """A number, true or false, or else the text itself."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, bool | int | float) else text
