"""Every exception raised on purpose. The command line prints them in one line, status 2."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from pomp.core.texts import visible

_SHOWN_TOKENS = 12  # how much of a long program an error quotes on either side
_SHOWN_CHARACTERS = 60  # and of a long line of a machine's file


class PompError(Exception):
    """The base of all errors a user can cause and mend."""

    def __str__(self) -> str:
        """Return what is wrong; what it quotes of files cannot steer a terminal."""
        return visible(super().__str__())


class ConfigError(PompError, ValueError):
    """A setting has a value it cannot have."""


class UnknownNameError(PompError, LookupError):
    """A name that is not in the list it should come from."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names, name = list(known), str(name)  # a caller may have given anything
        folded = {known_name.lower(): known_name for known_name in names}
        close = get_close_matches(name.lower(), folded, n=1, cutoff=0.5)
        hint = f" Did you mean '{folded[close[0]]}'?" if close else ""
        listed = ", ".join(names) if names else "none"
        super().__init__(f"unknown {kind} '{abridge(name)}'.{hint} Known: {listed}")


class UntrustedModuleError(ConfigError):
    """A file names something in a module, and nobody allowed that module to be run.

    Attributes:
        kind: what is named, as `task`.
        source: its `module:NAME`.
        module: the one that would have to be allowed.
    """

    def __init__(self, kind: str, source: str, module: str, *, in_run: bool = False) -> None:
        self.kind, self.source, self.module = kind, source, module
        allowed = f"allow=['{abridge(module)}']"
        in_python = f"out=pomp.runs.RunFolder(path, {allowed})" if in_run else allowed
        super().__init__(
            f"the {kind} '{abridge(source)}' is code in the module {abridge(module)}, which a "
            f"file may not run; if you trust it: --allow {abridge(module)} (in Python {in_python})"
        )

    def in_run(self) -> "UntrustedModuleError":
        """Return the error of a run, which is told in another way what to allow."""
        return UntrustedModuleError(self.kind, self.source, self.module, in_run=True)


class UnloadableError(ConfigError):
    """A module of one's own cannot be imported, or has nothing of the name that is looked for."""


class ProgramSyntaxError(PompError, ValueError):
    """Text or token ids that are not a program.

    Attributes:
        position: index of the offending token; the number of tokens if the text ended too early.
        found: the token there, or None at the end of the text.
        expected: the tokens that could have come.
        reason: what is wrong, without the place.
    """

    def __init__(
        self, tokens: Sequence[str], position: int, expected: Sequence[str], reason: str = ""
    ) -> None:
        self.position = position
        self.found = tokens[position] if position < len(tokens) else None
        self.expected = tuple(expected)
        came = "the end of the program" if self.found is None else f"'{abridge(self.found)}'"
        self.reason = reason or f"expected {_any_of(self.expected)}, got {came}"
        super().__init__(f"{self.reason} (token {position})\n{_pointer(tokens, position)}")


class WorldError(PompError, ValueError):
    """A map, a state or an array that is not a usable world."""


class GoldenError(PompError, ValueError):
    """A folder or a file of recorded traces that cannot be replayed."""


class MissingExtraError(PompError, ImportError):
    """A part of pomp needs what comes with an extra that is not installed."""


class CudaError(PompError, RuntimeError):
    """CUDA cannot be used, or an array is not what a kernel on it takes."""


class DeviceMemoryError(CudaError, MemoryError):
    """The GPU has too little memory for what was asked for."""


class TooLargeError(PompError, MemoryError):
    """What was asked for does not fit into memory."""


class EnvironmentMisuseError(PompError, RuntimeError):
    """An environment was used in an order it does not allow."""


class DataFileError(PompError, ValueError):
    """A file with data or weights that cannot be used."""


class MachineSyntaxError(DataFileError):
    """A text that is no machine.

    Attributes:
        line: the offending line's number, from 1.
        column: the character in it, from 1.
        reason: what is wrong, without the place.
    """

    def __init__(self, file: str, line: int, column: int, text: str, reason: str) -> None:
        self.line, self.column, self.reason = line, column, reason
        first = max(0, column - 1 - _SHOWN_CHARACTERS)
        lead, tail = "... " if first else "", text[column - 1 + _SHOWN_CHARACTERS :]
        shown = text[first : column - 1 + _SHOWN_CHARACTERS].replace("\t", " ")
        pointer = " " * (len(lead) + column - 1 - first) + "^"
        quoted = f"{lead}{shown}{' ...' if tail else ''}".rstrip()
        super().__init__(f"{file}:{line}:{column}: {reason}\n  {quoted}\n  {pointer}")


class OutputError(PompError, OSError):
    """A file cannot be written where it was asked for."""


class FolderInUseError(OutputError):
    """Another process works in a run's folder."""

    def __init__(self, folder: object) -> None:
        super().__init__(
            f"'{folder}' is in use by another process; wait until that one ends, or stop it "
            "(Ctrl-C saves)"
        )


def abridge(text: str, limit: int = 40) -> str:
    """Return a text, cut to `limit` characters if it is longer."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _any_of(names: Sequence[str]) -> str:
    """Return names as an enumeration, the last after `or`."""
    quoted = [f"'{name}'" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def _pointer(tokens: Sequence[str], position: int) -> str:
    """Return the tokens around `position`, and a caret below it."""
    first = max(0, position - _SHOWN_TOKENS)
    before = " ".join(abridge(token) for token in tokens[first:position])
    after = " ".join(abridge(token) for token in tokens[position : position + _SHOWN_TOKENS])
    lead = "... " if first else ""
    offset = len(lead) + len(before) + (1 if before else 0)
    tail = " ..." if position + _SHOWN_TOKENS < len(tokens) else ""
    return f"  {lead}{before}{' ' if before else ''}{after}{tail}\n  {' ' * offset}^"


class ClusterError(PompError, ConnectionError):
    """A cluster does not answer, or one of its nodes cannot compute what it is asked for."""


class TrainingError(PompError, ArithmeticError):
    """Training cannot go on: a loss is not a number any more."""
