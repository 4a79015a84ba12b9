"""Programs that a search in program space begins with: written by a person or a language model."""

import logging
from dataclasses import replace
from pathlib import Path

from pomp.core.errors import ConfigError, PompError
from pomp.core.storage import read_text
from pomp.core.texts import visible
from pomp.dsl.parser import check_tokens, parse, split_programs
from pomp.dsl.printer import print_program
from pomp.modes.config import ClimbConfig, SearchConfig

FROM = "from"
"""The setting that says what a search begins with."""

LOGGER = logging.getLogger("pomp")


def with_programs(config: SearchConfig, path: str | Path) -> SearchConfig:
    """Return the settings of a search that begins with the programs of a file.

    Programs that cannot be used are named in a warning and left out.

    Args:
        config: the settings.
        path: the file, a program per line.

    Raises:
        ConfigError: the method does not search in program space, or no program can be used.
        DataFileError: the file cannot be read.
    """
    proposer = config.proposer
    if not isinstance(proposer, ClimbConfig):
        raise ConfigError(
            f"--from goes with methods that search in program space, as annealing; {config.method} "
            "searches in a latent space"
        )
    texts = split_programs(read_text(path, "file of programs"))
    programs, reasons = dict[str, None](), list[str]()
    for number, text in enumerate(texts, 1):
        try:
            programs[_usable(text, proposer.max_tokens)] = None
        except PompError as error:
            reasons.append(
                f"program {number}, {visible(text[:40])!r}: {str(error).splitlines()[0]}"
            )
    if not programs:
        what = reasons[0] if reasons else "it is empty"
        raise ConfigError(f"'{path}' holds no program that could be used: {what}")
    for reason in reasons:
        LOGGER.warning("left out %s", reason)
    if reasons:
        LOGGER.warning("%d of %d programs were left out", len(reasons), len(texts))
    return replace(config, proposer=replace(proposer, given="\n".join(programs)))


def _usable(text: str, most: int) -> str:
    """Return a program's text on one line, if a search could have found it."""
    program = print_program(parse(text))
    tokens = program.split()
    check_tokens(tokens)
    if len(tokens) > most:
        raise ConfigError(f"it has {len(tokens)} tokens, at most {most} fit (proposer.max_tokens)")
    return program
