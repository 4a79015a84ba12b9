"""Tree -> text, on one line or indented."""

from itertools import pairwise

from pomp.dsl.syntax import Program, tokens_of
from pomp.dsl.vocabulary import ACTION_TOKENS

DEEPEST_INDENT = 40  # bodies nested deeper than this stand at the same margin

_OPENERS = ("m(", "w(", "r(", "i(", "e(")
_CLOSERS = ("m)", "w)", "r)", "i)", "e)")


def print_program(program: Program, *, indent: bool = False) -> str:
    """The text of a program; both layouts parse to the same tree.

    Args:
        program: the tree.
        indent: a line per statement, bodies indented by two blanks.
    """
    tokens = tokens_of(program)
    return _indented(tokens) if indent else " ".join(tokens)


def _indented(tokens: list[str]) -> str:
    lines: list[str] = []
    line: list[str] = []
    depth = 0

    def flush() -> None:
        if line:
            lines.append("  " * min(depth, DEEPEST_INDENT) + " ".join(line))
            line.clear()

    for token, following in pairwise([*tokens, ""]):
        if token in _CLOSERS:
            flush()
            depth -= 1
            line.append(token)
            if following != "ELSE":
                flush()
        elif token in _OPENERS:
            line.append(token)
            flush()
            depth += 1
        else:
            line.append(token)
            if token in ACTION_TOKENS:
                flush()
    flush()
    return "\n".join(lines)
