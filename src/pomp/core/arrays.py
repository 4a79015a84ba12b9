"""Arrays that come from elsewhere: what they must be, and how they stay so."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pomp.core.errors import ConfigError, PompError


def check_array(
    what: str,
    array: Any,
    dtype: DTypeLike,
    shape: tuple[int | None, ...],
    error: type[PompError] = ConfigError,
) -> None:
    """Refuse what is no array, or one of another type or shape, on whatever device.

    Args:
        what: what an error calls it.
        array: what came.
        dtype: the type of its numbers.
        shape: the lengths of its axes; None: any.
        error: the error to raise.

    Raises:
        PompError: says what came and what was expected.
    """
    wanted = np.dtype(dtype)
    lengths = ", ".join("any" if length is None else str(length) for length in shape)
    expected = f"{what} must be {wanted} of shape ({lengths}{',' if len(shape) == 1 else ''})"
    if not isinstance(array, np.ndarray) and not hasattr(array, "__cuda_array_interface__"):
        raise error(f"{expected}, got a {type(array).__name__}")
    found = tuple(array.shape)
    fits = len(found) == len(shape) and all(
        length in (None, one) for length, one in zip(shape, found, strict=True)
    )
    if str(array.dtype).removeprefix("torch.") != str(wanted) or not fits:
        raise error(f"{expected}, got {array.dtype} of shape {found}")


def check_streams(streams: Any, count: int | None = None) -> NDArray[np.uint64]:
    """Return the states of random streams, `[B]` uint64.

    Args:
        streams: what came.
        count: how many there must be; None: any.

    Raises:
        ConfigError: they are none, or not as many.
    """
    check_array("random streams", streams, np.uint64, (count,))
    return np.ascontiguousarray(streams)


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return the same memory as an array, `[...]`, that cannot be written by this name."""
    view = array.view()
    view.flags.writeable = False
    return view
