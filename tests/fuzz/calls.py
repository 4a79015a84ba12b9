"""No tests: the trial of public calls that are misused. A case is the name of a misuse.

What must come of it: an error of a line, or a harmless answer where the value happens to mean
something.
"""

import traceback
from dataclasses import FrozenInstanceError
from pathlib import Path

from misuses import KINDS
from workers import OK, REFUSED, TRACEBACK

_HERE = Path(__file__).parent


def kinds(seed):
    """Return the kinds of misuses."""
    return list(KINDS)


def why_not(kind):
    """Return nothing: the calls need what pomp needs."""


def prepare(kind, root):
    """Do nothing: each misuse makes what it needs."""


def judge(kind, case, seed, root):
    """Try a misuse in this process."""
    from pomp.core.errors import PompError

    try:
        KINDS[kind][case]()
    except PompError as error:
        text = str(error)
    except Exception as error:
        if not _is_clear(error):
            return TRACEBACK, "", _told(error)
        text = str(error)
    except BaseException as error:
        return TRACEBACK, "", _told(error)
    else:
        return OK, "", ""
    return (REFUSED if 0 < len(text) < 1000 else TRACEBACK), "", text.replace("\n", " ")


def _is_clear(error):
    """Whether an error that is not pomp's own is as clear as those are.

    Python itself says what a frozen object or a read-only array cannot take, where it was tried.
    Where Python's protocols want it, pomp raises an IndexError or a TypeError on purpose.
    An unknown keyword means that the table of misuses is wrong: nothing was tried.
    """
    if isinstance(error, FrozenInstanceError) or "mappingproxy" in str(error):
        return True
    if not isinstance(error, IndexError | TypeError | ValueError) or "keyword" in str(error):
        return False
    frame = traceback.extract_tb(error.__traceback__)[-1]
    is_here = Path(frame.filename).parent == _HERE
    return is_here or ("/pomp/" in frame.filename and (frame.line or "").startswith("raise"))


def _told(error):
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno})"
