"""What HPRL does to random programs before it keeps them."""

import numpy as np
from numpy.typing import NDArray

from pomp.core.compiling import kernel, scalar
from pomp.dsl.vocabulary import Vocabulary

_INVERSES = (("turnLeft", "turnRight"), ("pickMarker", "putMarker"))
LONGEST_REPEAT = 8
"""A program in which more tokens than these stand in two places is not kept."""


def tidy(ids: NDArray[np.uint8], vocabulary: Vocabulary) -> NDArray[np.uint8]:
    """Tidied copies of padded programs; those that are not kept are all padding.

    Of two neighbouring actions that undo each other the first is deleted, until there are none. Not
    kept is a program with a run of nine tokens or more that stands in two places (they may
    overlap), or with a loop around nothing but picking or putting a marker.
    """
    inverse = np.full(len(vocabulary), -1, np.int64)
    for pair in _INVERSES:
        one, two = vocabulary.encode(pair)
        inverse[one], inverse[two] = two, one
    pick, put, opener, closer = vocabulary.encode(("pickMarker", "putMarker", "w(", "w)"))
    tidied = np.full_like(ids, vocabulary.pad)
    _tidy_batch(ids, inverse, pick, put, opener, closer, vocabulary.pad, tidied)
    return tidied


@scalar
def _collapse(ids, inverse, pad, tidied):
    """Copy a program without actions that the next one undoes; returns its length."""
    length = 0
    for place in range(len(ids)):
        token = np.int64(ids[place])
        if token == pad:
            break
        while length and tidied[length - 1] == inverse[token]:
            length -= 1
        tidied[length] = token
        length += 1
    return length


@scalar
def _has_idle_loop(program, length, pick, put, opener, closer):
    """Whether a WHILE only picks or only puts a marker."""
    for place in range(1, length - 1):
        is_marker = program[place] == pick or program[place] == put
        if is_marker and program[place - 1] == opener and program[place + 1] == closer:
            return True
    return False


@scalar
def _repeats(program, length):
    """Whether a long run of tokens stands in two places."""
    for first in range(length):
        for second in range(first + 1, length - LONGEST_REPEAT):
            shared = 0
            while second + shared < length and program[first + shared] == program[second + shared]:
                shared += 1
            if shared > LONGEST_REPEAT:
                return True
    return False


@kernel
def _tidy_batch(ids, inverse, pick, put, opener, closer, pad, tidied):
    """Tidy every row into `tidied`, which begins as padding."""
    for row in range(len(ids)):
        program = tidied[row]
        length = _collapse(ids[row], inverse, pad, program)
        if _has_idle_loop(program, length, pick, put, opener, closer) or _repeats(program, length):
            length = 0
        for place in range(length, len(program)):
            program[place] = pad
