"""The `pomp` command."""

import errno
import logging
import os
import sys
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from typing import Annotated

import tyro
from tyro.conf import FlagCreatePairsOff, subcommand

from pomp.cli.bench import Bench
from pomp.cli.bound import BoundCommand
from pomp.cli.check import Check
from pomp.cli.completion import improve_completion
from pomp.cli.conformance import Conformance
from pomp.cli.distill import Distill
from pomp.cli.embedding import Embedding, EmbeddingTrain
from pomp.cli.evaluate import Eval
from pomp.cli.evolve import Evolve
from pomp.cli.explain import Explain
from pomp.cli.extract import Extract
from pomp.cli.output import say
from pomp.cli.plain_help import speak_plainly
from pomp.cli.play import Play
from pomp.cli.plot import Plot
from pomp.cli.report import Report
from pomp.cli.reproduce import Reproduce
from pomp.cli.results import Results
from pomp.cli.run import Run
from pomp.cli.sample import Sample
from pomp.cli.search import Search
from pomp.cli.simplify import Simplify
from pomp.cli.studio import Studio
from pomp.cli.tasks import Tasks
from pomp.cli.train import Train
from pomp.cli.verify import Verify
from pomp.cli.version import Version
from pomp.core.errors import PompError
from pomp.version import __version__

_RESULTS = "Results of `pomp reproduce`: ask in SQL, write as a file, compare two stores."
_COMPLETION = "--tyro-print-completion"
_EMBEDDING = "The space of programs: make data, train, describe, measure, look into it."
Command = (
    Annotated[Run, subcommand("run")]
    | Annotated[Tasks, subcommand("tasks")]
    | Annotated[Check, subcommand("check")]
    | Annotated[Sample, subcommand("sample")]
    | Annotated[Conformance, subcommand("conformance")]
    | Annotated[Embedding, subcommand("embedding", description=_EMBEDDING)]
    | Annotated[Search, subcommand("search")]
    | Annotated[Train, subcommand("train")]
    | Annotated[Evolve, subcommand("evolve")]
    | Annotated[Eval, subcommand("eval")]
    | Annotated[Verify, subcommand("verify")]
    | Annotated[BoundCommand, subcommand("bound")]
    | Annotated[Explain, subcommand("explain")]
    | Annotated[Simplify, subcommand("simplify")]
    | Annotated[Extract, subcommand("extract")]
    | Annotated[Distill, subcommand("distill")]
    | Annotated[Play, subcommand("play")]
    | Annotated[Studio, subcommand("studio")]
    | Annotated[Report, subcommand("report")]
    | Annotated[Reproduce, subcommand("reproduce")]
    | Annotated[Results, subcommand("results", description=_RESULTS)]
    | Annotated[Plot, subcommand("plot")]
    | Annotated[Bench, subcommand("bench")]
    | Annotated[Version, subcommand("version")]
)
_DESCRIPTION = (
    "Program machine policies: state machines whose modes are readable Karel programs. "
    "pomp --version prints the version, pomp version those of what it stands on, too."
)


class _LogHandler(logging.Handler):
    """Prints what the library logs as commands print everything else."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record."""
        say(f"pomp: {record.getMessage()}", to_errors=True)


def main(arguments: list[str] | None = None) -> None:
    """Parse, run, exit: 0 done, 1 a check failed, 2 bad input, 130 interrupted."""
    given = sys.argv[1:] if arguments is None else arguments
    if given == ["--version"]:
        say(f"pomp {__version__}")
        sys.exit(0)
    logging.basicConfig(handlers=[_LogHandler()])
    logging.getLogger("pomp").setLevel(logging.INFO)
    speak_plainly(Command)
    if _COMPLETION in given:
        sys.exit(_print_completion(given))
    try:
        command = _parse(given)
        if isinstance(command, EmbeddingTrain):
            command = replace(command, arguments=tuple(given))
        status = command.run()
        sys.stdout.flush()
    except PompError as error:
        say(f"pomp: {error}", to_errors=True)
        status = 2
    except MemoryError as error:
        told = f": {error}" if str(error) else ""
        say(f"pomp: not enough memory{told}; ask for less at once", to_errors=True)
        status = 2
    except KeyboardInterrupt:
        say("pomp: interrupted", to_errors=True)
        status = 130
    except BrokenPipeError:  # the reader has seen enough
        _drop_output()
        status = 0
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EIO):
            raise
        _drop_output()
        say(f"pomp: cannot write the output: {error.strerror}", to_errors=True)
        status = 2
    sys.exit(status)


def _parse(arguments: list[str]) -> Command:
    """Return the command that is asked for, or exit with help or with what is wrong."""
    return tyro.cli(
        Command,
        prog="pomp",
        description=_DESCRIPTION,
        args=arguments,
        config=(FlagCreatePairsOff,),
    )


def _print_completion(arguments: list[str]) -> int:
    """Print the script that completes commands in a shell; returns the status to exit with."""
    script, status = StringIO(), 0
    try:
        with redirect_stdout(script):
            _parse(arguments)
    except SystemExit as ended:
        status = int(ended.code or 0)
    except ImportError:  # for shells that tyro has no script for
        say(f"pomp: {_COMPLETION} takes bash or zsh", to_errors=True)
        return 2
    say(improve_completion(script.getvalue(), Command), end="")
    return status


def _drop_output() -> None:
    """Let nothing more reach standard output, not even what is still in its buffer."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
