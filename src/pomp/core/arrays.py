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
    is_array = isinstance(array, np.ndarray) or hasattr(array, "__cuda_array_interface__")
    found = tuple(array.shape) if is_array else ()
    fits = len(found) == len(shape) and all(
        length in (None, one) for length, one in zip(shape, found, strict=True)
    )
    if is_array and fits and _is_of(array, np.dtype(dtype)):
        return
    lengths = ", ".join("any" if length is None else str(length) for length in shape)
    comma = "," if len(shape) == 1 else ""
    got = f"{array.dtype} of shape {found}" if is_array else f"a {type(array).__name__}"
    raise error(f"{what} must be {np.dtype(dtype)} of shape ({lengths}{comma}), got {got}")


def _is_of(array: Any, dtype: np.dtype[Any]) -> bool:
    """Whether an array has numbers of a type; one on a device may be of another library."""
    if isinstance(array, np.ndarray):
        return array.dtype == dtype
    return str(array.dtype).removeprefix("torch.") == str(dtype)


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
