"""Frozen dataclasses as settings: ranges of their fields, sizes, changes by name, JSON."""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any, Literal, TypeVar, get_args, get_type_hints

import numpy as np

from pomp.core.errors import ConfigError, UnknownNameError

MOST = 1_000_000_000
"""The largest count that a setting may have."""
MOST_SEED = (1 << 63) - 1

ADDED: Mapping[str, bool] = {"added": True}
"""Metadata of a field that earlier versions did not have: JSON leaves it out at its default. So
what they wrote is read, and what is written has the same fingerprint."""

Preset = Literal["paper", "code", "best"]
"""Whose settings: the paper's; the published code's, where the paper is silent; the best known."""

Config = TypeVar("Config")


def check_preset(preset: object) -> None:
    """Refuse what is no `Preset`.

    Raises:
        UnknownNameError: says which there are.
    """
    if preset not in get_args(Preset):
        raise UnknownNameError("preset", str(preset), get_args(Preset))


def check_ranges(config: object, **ranges: tuple[float, float]) -> None:
    """Refuse fields outside their ranges, and NaN; a whole number where the low end is one.

    Raises:
        ConfigError: names the field, what it must be and what came.
    """
    for name, (low, high) in ranges.items():
        value = getattr(config, name)
        is_number = isinstance(value, int if isinstance(low, int) else int | float)
        if isinstance(value, bool) or not is_number or not low <= value <= high:
            whole = "a whole number " if isinstance(low, int) else ""
            raise ConfigError(f"{name} must be {whole}from {low:g} to {high:g}, got {value}")


def check_count(what: str, value: object, least: int = 1, most: int = MOST) -> int:
    """Return a whole number in a range.

    Raises:
        ConfigError: says what came.
    """
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_whole or not least <= int(value) <= most:  # type: ignore[call-overload]  # it is whole
        expected = f"at least {least} and at most {most}, a whole number"
        raise ConfigError(f"{what} must be {expected}, got {value!r:.80}")
    return int(value)  # type: ignore[call-overload]  # it is whole


def parse_size(text: str) -> tuple[int, int]:
    """`HxW` -> (height, width).

    Raises:
        ConfigError: the text is something else.
    """
    match = re.fullmatch(r"([0-9]{1,4})[xX]([0-9]{1,4})", text)
    if not match:
        raise ConfigError(f"a size is HEIGHTxWIDTH, as in 12x12, got '{text:.40}'")
    return int(match[1]), int(match[2])


def check_flags(config: object, *names: str) -> None:
    """Refuse fields that are neither True nor False.

    Raises:
        ConfigError: names the field and what came.
    """
    for name in names:
        if not isinstance(getattr(config, name), bool):
            raise ConfigError(f"{name} must be true or false, got {getattr(config, name)}")


def check_parts(config: object, **kinds: type) -> None:
    """Refuse fields that are no settings of their kinds.

    Raises:
        ConfigError: names the field and what came.
    """
    for name, kind in kinds.items():
        value = getattr(config, name)
        if not isinstance(value, kind):
            raise ConfigError(f"{name} must be of the type {kind.__name__}, got {value!r:.80}")


def check_call(what: str, value: object) -> None:
    """Refuse what cannot be called.

    Raises:
        ConfigError: says what came.
    """
    if not callable(value):
        raise ConfigError(f"{what} must be a function, got {value!r:.80}")


def check_choices(config: object, **choices: Any) -> None:
    """Refuse fields that are none of a `Literal`'s values.

    Raises:
        UnknownNameError: with the nearest value.
    """
    for name, literal in choices.items():
        value, known = getattr(config, name), get_args(literal)
        if value not in known:
            raise UnknownNameError(name, str(value), tuple(map(str, known)))


def check_settings(kind: object) -> None:
    """Refuse a class of settings that could not be written down and changed by name.

    Raises:
        ConfigError: it is no dataclass, or a setting has no default that JSON can hold.
    """
    if not isinstance(kind, type) or not dataclasses.is_dataclass(kind):
        raise ConfigError(f"its settings must be a dataclass, got {kind!r}")
    defaults = kind()
    for entry in fields(kind):
        value = getattr(defaults, entry.name)
        if not isinstance(value, bool | int | float | str):
            got = type(value).__name__
            raise ConfigError(
                f"the setting {entry.name} must be a number, a text or a flag, got {got}"
            )


def to_json(config: Any) -> dict[str, Any]:
    """Return a config as plain values, for JSON; added fields only where they were changed."""
    values = asdict(config)
    for entry in fields(config):
        value = getattr(config, entry.name)
        if entry.metadata == ADDED and value == _default_of(entry):
            del values[entry.name]
        elif dataclasses.is_dataclass(value):
            values[entry.name] = to_json(value)
    return values


def _default_of(entry: "dataclasses.Field[Any]") -> Any:
    """Return what a field is if nobody says otherwise."""
    make = entry.default_factory
    return entry.default if make is dataclasses.MISSING else make()


def from_json(kind: type[Config], values: Any) -> Config:
    """Make a config from the plain values that `to_json` returned.

    Raises:
        ConfigError: a field is missing, unknown or has a value it cannot have.
    """
    entries = fields(kind)  # type: ignore[arg-type]  # a dataclass
    known = {entry.name for entry in entries}
    added = {entry.name for entry in entries if entry.metadata == ADDED}
    if not isinstance(values, dict) or set(values) | added != known:
        is_named = isinstance(values, dict)
        got = ", ".join(sorted((set(values) | added) ^ known)) if is_named else "nothing"
        raise ConfigError(f"{kind.__name__} needs its fields and no others; differing: {got}")
    kinds = get_type_hints(kind)
    for name, value in values.items():
        if not _is_of(kinds[name], value):
            wanted = getattr(kinds[name], "__name__", kinds[name])
            raise ConfigError(f"{name} of {kind.__name__} must be {wanted}, got {value!r:.40}")
    parts = {
        name: from_json(kinds[name], value) if dataclasses.is_dataclass(kinds[name]) else value
        for name, value in values.items()
    }
    try:
        return kind(**parts)
    except UnknownNameError as error:
        raise ConfigError(str(error)) from error
    except TypeError as error:
        raise ConfigError(f"{kind.__name__} has a field of the wrong type: {error}") from error


def check_changes(changes: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the fields to change, by name; none if there are none.

    Raises:
        ConfigError: they are no mapping.
    """
    if changes is not None and not isinstance(changes, Mapping):
        raise ConfigError(f"settings are a mapping of names to values, got {changes!r:.80}")
    return changes or {}


def _is_of(kind: Any, value: Any) -> bool:
    """Whether a value in JSON is of a field's plain type; other types are not checked here."""
    plain = {bool: bool, int: int, float: int | float, str: str}
    if kind not in plain:
        return True
    return isinstance(value, plain[kind]) and (kind is bool or not isinstance(value, bool))


def changed(config: Any, changes: Mapping[str, Any]) -> Any:
    """Return a config with some fields changed; nested ones are named as in `proposer.sigma`.

    Raises:
        UnknownNameError: there is no such field.
        ConfigError: the value does not fit.
    """
    together: dict[str, Any] = {}
    for name, value in check_changes(changes).items():
        head, _, rest = name.partition(".")
        known = [entry.name for entry in fields(config)]
        if head not in known:
            raise UnknownNameError("setting", head, known)
        if rest:
            together.setdefault(head, {})[rest] = value
        elif dataclasses.is_dataclass(getattr(config, head)):
            raise ConfigError(f"{head} has fields; change one of them, as {head}.NAME")
        else:
            together[head] = value
    for head, value in together.items():
        together[head] = _fitting(head, getattr(config, head), value)
    return replace(config, **together)


def _fitting(name: str, before: Any, value: Any) -> Any:
    """Return a new value for a field, converted to the field's type where that is no question."""
    if dataclasses.is_dataclass(before):
        try:
            return changed(before, value)
        except ConfigError as error:
            is_about_field = str(error).split()[0] in {entry.name for entry in fields(before)}
            raise ConfigError(f"{name}.{error}" if is_about_field else str(error)) from error
    if isinstance(value, dict):
        raise ConfigError(f"{name} has no fields")
    if isinstance(before, bool) is not isinstance(value, bool):
        wanted = "true or false" if isinstance(before, bool) else "something else"
        raise ConfigError(f"{name} must be {wanted}, got {value}")
    if isinstance(before, str):
        return str(value)
    is_whole = isinstance(before, int) and isinstance(value, float) and value.is_integer()
    return int(value) if is_whole else value
