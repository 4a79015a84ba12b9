"""What `--help` says of options: what is expected, and a default only where there is one."""

from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from tyro.conf import Positional, arg

_POSITIONAL = get_args(Positional[str])[1]


def speak_plainly(commands: Any) -> None:
    """Let the help of commands name what options expect; their annotations are written.

    Args:
        commands: a dataclass, or a union of such, each perhaps `Annotated`.
    """
    for command in _classes_of(commands):
        hints = get_type_hints(command, include_extras=True)
        for field in fields(command):
            command.__annotations__[field.name] = _described(field, hints[field.name])


def _classes_of(commands: Any) -> Iterator[Any]:
    """Yield the dataclasses of a union."""
    if isinstance(commands, type) and is_dataclass(commands):
        yield commands
    for part in get_args(commands):
        yield from _classes_of(part)


def _described(field: "Field[Any]", hint: Any) -> Any:
    """Return a field's annotation with what its help says; what the field itself says counts."""
    kind, *said = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    words: dict[str, Any] = {}
    if kind is str or NoneType in get_args(kind):
        name = field.name.upper().replace("_", "-")
        is_optional = _POSITIONAL in said and field.default is not MISSING
        words["metavar"] = f"[{name}]" if is_optional else name
    if field.default is None or field.default is False or field.default == ():
        words["help_behavior_hint"] = ""
    elif get_origin(kind) is tuple and field.default is MISSING and _POSITIONAL in said:
        words["help_behavior_hint"] = "(required)"
    return Annotated[kind, arg(**words), *said] if words else hint
