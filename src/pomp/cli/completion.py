"""Shell completion: tyro's script, which also offers the values of positional arguments."""

import ast
import re
from dataclasses import fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

_SPEC = re.compile(r"^COMPLETION_SPEC = (.*)$", re.MULTILINE)


def improve_completion(script: str, commands: Any) -> str:
    """Return a script that completes the first argument of commands such as `pomp bench`, too.

    Args:
        script: for bash or zsh, as tyro prints it.
        commands: a union of dataclasses, each `Annotated` with its name.
    """
    found = _SPEC.search(script)
    if found is None:
        return script
    spec = ast.literal_eval(found[1])
    for command in get_args(commands):
        kind, named, *_ = get_args(command)
        for value in _first_values(kind):
            known = spec["subcommands"][named.name]
            known["subcommands"][value] = {**known, "description": value, "subcommands": {}}
    return script[: found.start(1)] + repr(_in_lines(spec)) + script[found.end(1) :]


def _first_values(command: Any) -> tuple[str, ...]:
    """Return the values that the first argument of a command may have, if they can be listed."""
    hints = get_type_hints(command, include_extras=True) if isinstance(command, type) else {}
    for field in fields(command)[:1] if hints else ():
        kind = get_args(hints[field.name])[:1]
        if kind and get_origin(kind[0]) is Literal:
            return get_args(kind[0])
    return ()


def _in_lines(part: Any) -> Any:
    """Return a part of the script's table in which every text is one line, as shells read it."""
    if isinstance(part, dict):
        return {name: _in_lines(value) for name, value in part.items()}
    if isinstance(part, list):
        return [_in_lines(one) for one in part]
    return " ".join(part.split()) if isinstance(part, str) else part
