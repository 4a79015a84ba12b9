"""What the checkpoint of an ensemble may hold, checked before anything computes with it."""

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from pomp.core.schemas import (
    NUMBER,
    Array,
    Listed,
    Maybe,
    Record,
    Row,
    Schema,
    Whole,
    check_arrays,
    like,
)

KEPT = "kept"  # what the names of the best parameters' arrays begin with


def check_values(values: Mapping[str, Any], members: int, updates: int) -> None:
    """Refuse values of a checkpoint that are none.

    Args:
        values: as JSON gives them.
        members: of the ensemble, E.
        updates: of the whole training.

    Raises:
        DataFileError: says which.
    """
    update = Whole(0, updates)

    def one_each(schema: Schema) -> Listed:
        return Listed(schema, members, members)

    Record(
        {
            "update": update,
            "gradient_steps": Whole(0, 1 << 62),
            "kept": one_each(Row((Maybe(NUMBER), update))),
            "finished_at": one_each(Maybe(update)),
            "diverged": Listed(Whole(0, members - 1), most=members),
        },
        is_open=True,
    ).check(dict(values))


def check_arrays_of_states(
    arrays: Mapping[str, NDArray[Any]], fresh: Mapping[str, NDArray[Any]], scores: Sequence[Any]
) -> None:
    """Refuse arrays of a checkpoint that are not as those of a training that begins.

    Args:
        arrays: those of the checkpoint, `[...]` each.
        fresh: those of the training before its first update, `[...]` each.
        scores: for every member the score of its best parameters; None: it has none yet.

    Raises:
        DataFileError: says which.
    """
    # Numbers of a network may be anything: a loss that is none is told by the training itself.
    schemas = {
        name: like(array, is_finite=False, may_be_nan=array.dtype.kind == "f")
        for name, array in fresh.items()
    }
    size = fresh["parameters"].shape[1]
    best = Array("float32", (size,), is_finite=False, may_be_nan=True)
    schemas |= {f"{KEPT}{place}": best for place, score in enumerate(scores) if score is not None}
    check_arrays(arrays, schemas)
