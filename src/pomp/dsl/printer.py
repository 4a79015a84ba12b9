"""Tree -> text, on one line or indented."""

from itertools import pairwise

from pomp.dsl.syntax import Program, tokens_of
from pomp.dsl.vocabulary import ACTION_TOKENS

WIDE = 58  # characters of a line of actions
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


def lines_of(program: Program) -> list[str]:
    """A program in indented lines, with actions that follow each other side by side."""
    lines: list[str] = []
    for line in _indented(tokens_of(program)).splitlines():
        depth = len(line) - len(line.lstrip())
        last = lines[-1] if lines else ""
        is_beside = last.startswith(" " * depth) and _is_plain(last) and _is_plain(line)
        is_beside = is_beside and len(last) - len(last.lstrip()) == depth
        if is_beside and len(last) + len(line.strip()) < WIDE:
            lines[-1] = f"{last} {line.strip()}"
        else:
            lines.append(line)
    return lines


def _is_plain(line: str) -> bool:
    """Whether a line holds actions alone."""
    return all(word in ACTION_TOKENS for word in line.split())


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
