"""Print programs, on one line or indented."""

from itertools import pairwise

from pomp.dsl.syntax import Program, tokens_of
from pomp.dsl.vocabulary import ACTION_TOKENS

WIDE = 58  # characters of a line of actions
DEEPEST_INDENT = 40  # bodies nested deeper than this stand at the same margin

OPENERS = ("m(", "w(", "r(", "i(", "e(")
CLOSERS = ("m)", "w)", "r)", "i)", "e)")


def print_program(program: Program, *, indent: bool = False) -> str:
    """Return the text of a program; with or without indentation it parses to the same tree.

    Args:
        program: the tree.
        indent: a line per statement, bodies indented by two blanks.
    """
    tokens = tokens_of(program)
    return _indented(tokens) if indent else " ".join(tokens)


def lines_of(program: Program) -> list[str]:
    """Return a program in few indented lines: actions in a row share one, and so do short loops."""
    lines: list[str] = []
    for line in _indented(tokens_of(program)).splitlines():
        parts = _parts_to_join(lines, line)
        inner = [part.strip() for part in [*lines[len(lines) - parts + 1 :], line]]
        joined = " ".join([lines[-parts], *inner]) if parts else ""
        if parts and len(joined) < WIDE:
            lines[-parts:] = [joined]
        else:
            lines.append(line)
    return lines


def _parts_to_join(lines: list[str], line: str) -> int:
    """Return how many of the latest lines the next one may join.

    An action joins a line of actions; the end of a body joins the two lines before it.
    """
    depth = _depth(line)
    if lines and _is_plain(lines[-1]) and _is_plain(line) and _depth(lines[-1]) == depth:
        return 1
    is_body = len(lines) > 1 and _is_plain(lines[-1]) and _depth(lines[-2]) == depth
    is_body = is_body and lines[-2].endswith("(") and "ELSE" not in lines[-2]
    return 2 if is_body and line.strip() in CLOSERS else 0


def _depth(line: str) -> int:
    """Return the blanks before a line."""
    return len(line) - len(line.lstrip())


def _is_plain(line: str) -> bool:
    """Whether a line holds actions alone."""
    return all(word in ACTION_TOKENS for word in line.split())


def _indented(tokens: list[str]) -> str:
    """Return tokens with a line for each statement, bodies indented."""
    lines: list[str] = []
    line: list[str] = []
    depth = 0

    def flush() -> None:
        if line:
            lines.append("  " * min(depth, DEEPEST_INDENT) + " ".join(line))
            line.clear()

    for token, following in pairwise([*tokens, ""]):
        if token in CLOSERS:
            flush()
            depth -= 1
            line.append(token)
            if following != "ELSE":
                flush()
        elif token in OPENERS:
            line.append(token)
            flush()
            depth += 1
        else:
            line.append(token)
            if token in ACTION_TOKENS:
                flush()
    flush()
    return "\n".join(lines)
