"""What HPRL does to random programs before it keeps them."""

import numpy as np
from numpy.typing import NDArray

from pomp.core.compiling import kernel, scalar
from pomp.dsl.vocabulary import Vocabulary

_INVERSES = (("turnLeft", "turnRight"), ("pickMarker", "putMarker"))
LONGEST_REPEAT = 8
"""A program in which more tokens than these stand in two places is not kept."""


def tidy(ids: NDArray[np.uint8], vocabulary: Vocabulary) -> NDArray[np.uint8]:
    """Return tidied copies of padded programs; those that are not kept are all padding.

    Of two neighbouring actions that undo each other the first is deleted, until there are none. Not
    kept is a program with a run of nine tokens or more that stands in two places (they may
    overlap), or with a loop around nothing but picking or putting a marker.

    Args:
        ids: `[P, L]` uint8.
        vocabulary: the dialect.

    Returns:
        `[P, L]` uint8.
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
    """Copy a program without actions that the next one undoes.

    Args:
        ids: `[L]` uint8, read.
        inverse: `[V]` int64: the action that undoes each token, or -1.
        pad: the padding.
        tidied: `[L]` uint8, written.

    Returns:
        The length of the copy.
    """
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
    """Whether a WHILE of a `program` `[L]` uint8 only picks or only puts a marker."""
    for place in range(1, length - 1):
        is_marker = program[place] == pick or program[place] == put
        if is_marker and program[place - 1] == opener and program[place + 1] == closer:
            return True
    return False


@scalar
def _repeats(program, length):
    """Whether a long run of tokens of a `program` `[L]` uint8 stands in two places."""
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
    """Tidy every row of `ids` `[P, L]` uint8 into `tidied` `[P, L]` uint8.

    That begins as padding. `inverse` is `[V]` int64: the action that undoes each token, or -1.
    """
    for row in range(len(ids)):
        program = tidied[row]
        length = _collapse(ids[row], inverse, pad, program)
        if _has_idle_loop(program, length, pick, put, opener, closer) or _repeats(program, length):
            length = 0
        for place in range(length, len(program)):
            program[place] = pad
