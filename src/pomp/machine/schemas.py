"""What the files of machines may hold: the JSON of a folder, rules, and the weights of networks."""

from typing import Any

from numpy.typing import NDArray

from pomp.core.schemas import (
    FREE,
    NAME,
    TEXT,
    Array,
    Listed,
    Maybe,
    Named,
    Record,
    Row,
    Whole,
    check_arrays,
)
from pomp.karel.world import LARGEST, SMALLEST
from pomp.machine.config import MAX_MODES

FORMAT = 1
"""Rises when files of this version could not be read by earlier ones."""

SIZE = Row((Whole(SMALLEST, LARGEST),) * 2)
"""Rows and columns of a grid."""

VERSIONED = Record({"format": Whole(1)}, is_open=True)
"""A machine of any version."""

MACHINE = Record(
    {
        "format": Whole(1, FORMAT),
        "task": NAME,
        "variant": Maybe(NAME),
        "options": Named(NAME, most=100),
        "size": Maybe(SIZE),
        "modes": Listed(TEXT, 1, MAX_MODES),
        "episode": FREE,
        "transition": Record({"kind": NAME}, is_open=True),
        "provenance": Named(FREE),
    },
    {"names": Maybe(Listed(NAME, 1, MAX_MODES)), "comments": Named(Listed(TEXT))},
)
"""A machine of this version; what its transition has, that one's class checks."""

WEIGHTS = Record({"kind": NAME})
"""The header of a file of weights."""

NETWORK = Record({"config": FREE, "size": SIZE, "modes": Whole(1, MAX_MODES)})
"""What is said of a network beside its weights."""

SENSORS = Listed(NAME, most=100)
"""Sensors of one's own, by `module:NAME`."""

_RULES = Listed(Record({"when": Listed(NAME, most=100), "to": FREE}), 1, 10_000)
LISTS = Record({"start": _RULES, "after": Listed(_RULES, 1, MAX_MODES)})
"""The rules of a machine; where they lead, depends on how many modes there are."""


def check_weights(arrays: dict[str, NDArray[Any]], shapes: dict[str, tuple[int, ...]]) -> None:
    """Refuse weights of another network.

    Args:
        arrays: by name, `[outputs, ...]` each.
        shapes: the names and shapes that they must have.

    Raises:
        DataFileError: says which weights do not fit, or are no numbers.
    """
    check_arrays(arrays, {name: Array("float32", shape) for name, shape in shapes.items()})
