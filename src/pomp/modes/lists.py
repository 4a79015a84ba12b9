"""Compatibility: random lists of programs in which a candidate is tried with the modes so far."""

import numpy as np
from numpy.typing import NDArray

from pomp.core.compiling import kernel
from pomp.core.streams import below, branch
from pomp.engine.units import CANDIDATE
from pomp.modes.config import LeastList

LONGEST = 512
"""Longer lists are drawn again; even with twelve modes only one in 1e16 is that long."""


def least_length(rule: LeastList, modes: int) -> int:
    """Return the length of the shortest list allowed while so many modes are fixed."""
    return 10 if rule == "ten" else modes * modes


def draw_lists(modes: int, least: int, stream: np.uint64) -> NDArray[np.int32]:
    """Draw `2 ** modes` lists of mode numbers and `CANDIDATE`.

    A list is drawn program by program, all equally likely. Once the candidate has been drawn, the
    end of the list can be drawn as well, with the probability of one program, and ends it. A list
    shorter than `least` is drawn again.

    Args:
        modes: how many are fixed.
        least: length of the shortest list.
        stream: the random stream.

    Returns:
        `[2 ** modes, M]` int32, each row filled up with -1; M is the length of the longest list.
    """
    count = 2**modes
    lists = np.full((count, LONGEST), -1, np.int32)
    _draw(branch(np.atleast_1d(stream), np.arange(count)), modes, least, lists)
    longest = int((lists != -1).sum(axis=1).max())
    return np.ascontiguousarray(lists[:, :longest])


ONE_EXECUTION = np.array([[CANDIDATE]], np.int32)
"""`[1, 1]` int32: the list of a search without compatibility, the candidate once."""


@kernel
def _draw(streams, modes, least, lists):
    """Draw a list into every row.

    Args:
        streams: `[D]` uint64, the rows' random streams, written.
        modes: how many modes are fixed.
        least: length of the shortest list.
        lists: `[D, LONGEST]` int32, all -1, written.
    """
    end, candidate = modes + 1, modes
    for row in range(len(lists)):
        stream = streams[row : row + 1]
        length = 0
        while length < max(least, 1):  # too short, or longer than a row: draw again
            for place in range(length):
                lists[row, place] = -1
            length, has_candidate = 0, False
            while length <= lists.shape[1]:
                drawn = below(stream, modes + 2 if has_candidate else modes + 1)
                if drawn == end:
                    break
                has_candidate = has_candidate or drawn == candidate
                if length < lists.shape[1]:
                    lists[row, length] = CANDIDATE if drawn == candidate else drawn
                length += 1
            if length > lists.shape[1]:
                length = 0
