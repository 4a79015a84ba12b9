"""What a file may hold, declared as values: types, ranges, sizes and depth of JSON and of arrays.

A schema is declared beside the code that reads the file and checked before anything computes with
what was read. `check` raises a `SchemaError`, which names the place and what was expected there;
the readers of `pomp.core.storage` add the file.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pomp.core.configs import MOST, MOST_SEED
from pomp.core.errors import DataFileError, abridge

LONGEST_TEXT = 1 << 20
"""Characters that a text in a file may have, unless its schema says less."""
_DEEPEST = 24  # lists and objects, one in the other
_SHOWN = 40  # characters of a value that an error quotes


class SchemaError(DataFileError):
    """A file holds something else than its schema says."""

    def __init__(self, place: str, expected: str, value: Any) -> None:
        self.place, self.expected, self.value = place, expected, value
        super().__init__(f"{abridge(place or 'it', 80)} must be {expected}, got {_show(value)}")

    def within(self, place: str) -> "SchemaError":
        """Return the error of what holds the value, which stands at a place there."""
        inner = self.place if self.place[:1] in ("", "[", ".") else f".{self.place}"
        return SchemaError(place + inner, self.expected, self.value)


class Schema(Protocol):
    """What a value may be."""

    def check(self, value: Any, place: str = "") -> None:
        """Refuse a value that is something else.

        Args:
            value: as JSON gives it, or an array `[...]`.
            place: where it stands, as `modes[3]`.

        Raises:
            SchemaError: says where and what was expected.
        """


@dataclass(frozen=True)
class Whole:
    """A whole number."""

    low: int = 0
    high: int = MOST_SEED

    def check(self, value: Any, place: str = "") -> None:
        """Refuse what is no whole number in the range."""
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if not is_whole or not self.low <= value <= self.high:
            raise SchemaError(place, f"a whole number from {self.low} to {self.high}", value)


@dataclass(frozen=True)
class Number:
    """A number; infinite only if the range is and this is said."""

    low: float = -inf
    high: float = inf
    is_finite: bool = True

    def check(self, value: Any, place: str = "") -> None:
        """Refuse what is no number in the range, and NaN."""
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        is_inside = is_number and self.low <= value <= self.high
        if not is_inside or (self.is_finite and not isfinite(value)):
            limits = "" if self.low == -inf else f" from {self.low:g} to {self.high:g}"
            raise SchemaError(place, f"a number{limits}", value)


@dataclass(frozen=True)
class Text:
    """A text of bounded length."""

    least: int = 0
    most: int = LONGEST_TEXT

    def check(self, value: Any, place: str = "") -> None:
        """Refuse what is no text, or too long."""
        if not isinstance(value, str) or not self.least <= len(value) <= self.most:
            limits = f"{self.least} to {self.most}"
            raise SchemaError(place, f"a text of {limits} characters", value)


@dataclass(frozen=True)
class Flag:
    """True or false."""

    def check(self, value: Any, place: str = "") -> None:
        """Refuse what is neither."""
        if not isinstance(value, bool):
            raise SchemaError(place, "true or false", value)


@dataclass(frozen=True)
class OneOf:
    """One of some texts or numbers."""

    values: tuple[Any, ...]

    def check(self, value: Any, place: str = "") -> None:
        """Refuse anything else."""
        if not any(type(value) is type(one) and value == one for one in self.values):
            raise SchemaError(place, " or ".join(map(repr, self.values)), value)


@dataclass(frozen=True)
class Scalar:
    """A number, a short text or a flag: the value of a setting."""

    def check(self, value: Any, place: str = "") -> None:
        """Refuse anything else."""
        is_short = not isinstance(value, str) or len(value) <= 1000
        if not isinstance(value, bool | int | float | str) or not is_short:
            raise SchemaError(place, "a number, a short text or a flag", value)


@dataclass(frozen=True)
class Maybe:
    """Nothing (null), or what another schema says."""

    schema: Schema

    def check(self, value: Any, place: str = "") -> None:
        """Refuse what is neither."""
        if value is not None:
            self.schema.check(value, place)


@dataclass(frozen=True)
class Listed:
    """A list whose items are alike."""

    schema: Schema
    least: int = 0
    most: int = MOST

    def check(self, value: Any, place: str = "") -> None:
        """Refuse what is no such list."""
        if not isinstance(value, list) or not self.least <= len(value) <= self.most:
            raise SchemaError(place, f"a list of {self.least} to {self.most} items", value)
        check, number = self.schema.check, 0
        try:
            for number, item in enumerate(value):  # noqa: B007 - for the error
                check(item)
        except SchemaError as error:
            raise error.within(f"{place}[{number}]") from error


@dataclass(frozen=True)
class Row:
    """A list of fixed length whose items differ."""

    items: tuple[Schema, ...]

    def check(self, value: Any, place: str = "") -> None:
        """Refuse what is no such list."""
        if not isinstance(value, list) or len(value) != len(self.items):
            raise SchemaError(place, f"a list of {len(self.items)} items", value)
        for number, (schema, item) in enumerate(zip(self.items, value, strict=True)):
            schema.check(item, f"{place}[{number}]")


@dataclass(frozen=True)
class Named:
    """Values that are alike, by any names."""

    schema: Schema
    most: int = 100_000

    def check(self, value: Any, place: str = "") -> None:
        """Refuse what is no such object."""
        if not isinstance(value, dict) or len(value) > self.most:
            raise SchemaError(place, f"an object with at most {self.most} names", value)
        for name, item in value.items():
            self.schema.check(item, f"{place}.{name}" if place else name)


@dataclass(frozen=True)
class Record:
    """An object with known fields and no others, unless it says so.

    Attributes:
        fields: those that must be there.
        others: those that may be.
        is_open: whether it may have further fields, whose values are any JSON.
    """

    fields: Mapping[str, Schema]
    others: Mapping[str, Schema] = field(default_factory=dict)
    is_open: bool = False

    def check(self, value: Any, place: str = "") -> None:
        """Refuse what is no such object."""
        if not isinstance(value, dict):
            raise SchemaError(place, "an object with named fields", value)
        known = {**self.others, **self.fields}
        if missing := [name for name in self.fields if name not in value]:
            raise SchemaError(_join(place, missing[0]), "there", None)
        for name, item in value.items():
            if name not in known and not self.is_open:
                raise SchemaError(_join(place, name), "absent (there is no such field)", item)
            known.get(name, FREE).check(item, _join(place, name))


@dataclass(frozen=True)
class Free:
    """Any JSON that is not nested too deeply."""

    def check(self, value: Any, place: str = "") -> None:
        """Refuse what is nested too deeply."""
        level: list[Any] = [[value]]
        depth = 0
        while level := [
            item
            for holder in level
            for item in (holder.values() if isinstance(holder, dict) else holder)
            if isinstance(item, dict | list)
        ]:
            depth += 1
            if depth > _DEEPEST:
                raise SchemaError(place, f"nested at most {_DEEPEST} times", Quoted("more"))


FREE = Free()
COUNT = Whole()
TEXT = Text()
NAME = Text(least=1, most=200)
"""A name, or `module:NAME`; errors quote it."""
NUMBER = Number()
SCORE = Number(is_finite=False)
"""A score, which is minus infinity as long as nothing was scored."""


@dataclass(frozen=True)
class Array:
    """An array of one type, with a shape and a range.

    Attributes:
        dtype: its type's name, as `uint8`.
        shape: how long each axis is; None: any length.
        low: the smallest number in it.
        high: the largest one.
        is_finite: whether infinite numbers are refused; NaN is, unless `may_be_nan`.
        may_be_nan: whether numbers may be missing.
    """

    dtype: str
    shape: tuple[int | None, ...]
    low: float = -inf
    high: float = inf
    is_finite: bool = True
    may_be_nan: bool = False

    def check(self, value: Any, place: str = "") -> None:
        """Refuse another type, shape or range; `value` is an array `[...]`."""
        lengths = ["any" if one is None else str(one) for one in self.shape]
        wanted = f"{self.dtype} of shape ({', '.join(lengths)})"
        found = f"{value.dtype} of shape ({', '.join(map(str, value.shape))})"
        fits = len(value.shape) == len(self.shape) and all(
            want in (None, got) for want, got in zip(self.shape, value.shape, strict=True)
        )
        if value.dtype.name != self.dtype or not fits:
            raise SchemaError(place, wanted, Quoted(found))
        if value.size and value.dtype.kind in "fiu":
            self._check_range(value, place)

    def _check_range(self, array: NDArray[Any], place: str) -> None:
        """Refuse an `array` `[...]` with numbers outside the range."""
        known = array[~np.isnan(array)] if self.may_be_nan else array
        if not known.size:
            return
        low, high = known.min(), known.max()
        told = Quoted(f"{low} to {high}")
        if self.is_finite and not (np.isfinite(low) and np.isfinite(high)):
            raise SchemaError(place, "finite numbers", told)
        if not (self.low <= low and high <= self.high):  # so that NaN does not pass
            raise SchemaError(place, f"numbers from {self.low:g} to {self.high:g}", told)


class Quoted(str):
    """A description of a value, which an error shows as it is."""

    __slots__ = ()


def like(array: NDArray[Any], **limits: Any) -> Array:
    """Return the schema of arrays of the same type and shape as `array` `[...]`."""
    return Array(array.dtype.name, array.shape, **limits)


def check_arrays(arrays: Mapping[str, NDArray[Any]], schemas: Mapping[str, Array]) -> None:
    """Refuse `arrays` of other names, types, shapes `[...]` or ranges than the schemas say.

    Raises:
        SchemaError: says which.
    """
    for name, schema in schemas.items():
        if name not in arrays:
            raise SchemaError(f"the array {name}", "there", None)
        schema.check(arrays[name], f"the array {name}")
    if unknown := sorted(set(arrays) - set(schemas)):
        raise SchemaError(
            f"the array {unknown[0]}", "absent (there is no such array)", Quoted("it")
        )


def _join(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _show(value: Any) -> str:
    """Return what an error says of a value."""
    if isinstance(value, Quoted):
        return str(value)
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return f"an object with {len(value)} names"
    return "nothing" if value is None else abridge(repr(value)[: 4 * _SHOWN], _SHOWN)
