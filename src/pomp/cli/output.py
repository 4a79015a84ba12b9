"""What commands print: every text passes here, and none of it can steer the terminal."""

import sys
from typing import Any

from pomp.core.texts import visible


def say(*lines: Any, end: str = "\n", to_errors: bool = False) -> None:
    """Print lines, with control characters made visible, and let them be seen at once.

    Args:
        lines: texts, or what has one; each is a line, or several.
        end: what stands behind the last one.
        to_errors: whether to print to standard error.
    """
    stream = sys.stderr if to_errors else sys.stdout
    print(*(visible(str(line)) for line in lines), sep="\n", end=end, file=stream, flush=to_errors)


def say_styled(line: str) -> None:
    """Print a line with a command's own colours, made by `pomp.cli.frames.style`."""
    print(line)
