"""What `--help` says of options: what is expected, and a default only where there is one."""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from inspect import cleandoc
from itertools import pairwise
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from tyro.conf import Positional, arg
from tyro.constructors import PrimitiveConstructorSpec

_POSITIONAL = get_args(Positional[str])[1]
_WRAPPED = re.compile(r"\n(?!\w+: )")  # not the end of a list's entry


def speak_plainly(commands: Any) -> None:
    """Let the help of commands name what options expect; their annotations are written.

    Args:
        commands: a dataclass, or a union of such, each perhaps `Annotated`.
    """
    for command in _classes_of(commands):
        hints = get_type_hints(command, include_extras=True)
        told = _field_texts(command.__module__).get(command.__name__, {})
        for field in fields(command):
            hint = _described(field, hints[field.name], told.get(field.name))
            command.__annotations__[field.name] = hint


def _classes_of(commands: Any) -> Iterator[Any]:
    """Yield the dataclasses of a union."""
    if isinstance(commands, type) and is_dataclass(commands):
        yield commands
    for part in get_args(commands):
        yield from _classes_of(part)


@cache
def _field_texts(module: str) -> dict[str, dict[str, str]]:
    """Return the texts under the fields of a module's classes, each in one line."""
    source = Path(str(sys.modules[module].__file__)).read_text()
    return {
        node.name: {
            before.target.id: _WRAPPED.sub(" ", cleandoc(text))
            for before, after in pairwise(node.body)
            if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name)
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            if isinstance(text := after.value.value, str)
        }
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef)
    }


def _described(field: "Field[Any]", hint: Any, told: str | None) -> Any:
    """Return a field's annotation with what its help says; what the field itself says counts.

    Args:
        field: of a command.
        hint: its annotation.
        told: the text under it.
    """
    kind, *said = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    words: dict[str, Any] = {"help": told} if told else {}
    choices = _choices_of(kind)
    if kind is str or (NoneType in get_args(kind) and not choices):
        name = field.name.upper().replace("_", "-")
        is_optional = _POSITIONAL in said and field.default is not MISSING
        words["metavar"] = f"[{name}]" if is_optional else name
    elif kind == tuple[str, ...]:
        words["metavar"] = field.name.upper() + "..."
    if field.default is None or field.default is False or field.default == ():
        words["help_behavior_hint"] = ""
    elif get_origin(kind) is tuple and field.default is MISSING and _POSITIONAL in said:
        words["help_behavior_hint"] = "(required)"
    if choices:
        said.append(_one_of(choices))
    return Annotated[kind, arg(**words), *said] if words else hint


def _choices_of(kind: Any) -> tuple[str, ...]:
    """Return the values between which an annotation lets choose; None aside."""
    parts = [part for part in get_args(kind) if part is not NoneType]
    if NoneType in get_args(kind) and len(parts) == 1 and get_origin(parts[0]) is Literal:
        return get_args(parts[0])
    return ()


def _one_of(choices: tuple[str, ...]) -> PrimitiveConstructorSpec[str | None]:
    """Return what reads one of some values, or leaves None where there is none."""
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="{" + ",".join(choices) + "}",
        instance_from_str=lambda texts: texts[0],
        is_instance=lambda value: value is None or value in choices,
        str_from_instance=lambda value: [str(value)],
        choices=choices,
    )
