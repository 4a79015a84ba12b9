"""No tests: the trial of files. Each format's example is changed at random and read.

A case is a number. What must come of it: the file is read, or refused in a line; and if the format
has a checksum, damage is noticed.
"""

import contextlib
import importlib.util
import shutil
import tempfile
import traceback
from pathlib import Path

from formats import FORMATS, make_example
from mutations import DAMAGES, drawing, mutate
from workers import OK, REFUSED, TRACEBACK, UNNOTICED, WHOLE


def kinds(seed):
    """Return the names of the formats."""
    return list(FORMATS)


def why_not(kind):
    """Return what is missing here that a format's reader needs, or nothing."""
    needed = FORMATS[kind].needs
    return needed and not importlib.util.find_spec(needed) and f"{needed} is not installed"


def prepare(kind, root):
    """Make the example of a format, and read it, so that what is needed is compiled."""
    make_example(kind, root)
    return judge(kind, WHOLE, 0, root)


def judge(kind, case, seed, root):
    """Change and read one file in this process."""
    from pomp.core.errors import PompError

    shape, draw = FORMATS[kind], drawing(seed, kind, case)
    with tempfile.TemporaryDirectory(dir=root) as scratch:
        folder = Path(scratch) / "it"
        shutil.copytree(make_example(kind, root), folder)
        how = "" if case == WHOLE else mutate(folder / shape.file, draw)
        try:
            with contextlib.chdir(folder):
                shape.read(Path())
        except PompError as error:
            text = str(error)
            is_line = 0 < len(text) < 2000 and len(text.splitlines()) <= 3  # a place may be shown
            return (REFUSED if is_line else TRACEBACK), how, text
        except BaseException:
            return TRACEBACK, how, traceback.format_exc(limit=-4)
    is_unnoticed = shape.has_checksum and how in DAMAGES
    return (UNNOTICED if is_unnoticed else OK), how, ""
