"""The public names of a package, loaded on first use, so that importing it costs nothing.

A package's `__init__.pyi` lists what it exports, as `from pomp.machine.zoo import load_machine as
load_machine`. Type checkers read that file; `open_door` reads it too, so that no name is listed
twice.
"""

import ast
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def open_door(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return the `__getattr__`, `__dir__` and `__all__` of a package with an `__init__.pyi`.

    Args:
        package: its `__name__`; it is being imported.
    """
    file = sys.modules[package].__file__
    assert file is not None
    homes = {
        alias.asname or alias.name: node.module
        for node in ast.parse(Path(file).with_suffix(".pyi").read_text()).body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        try:
            home = importlib.import_module(homes[name])
        except ModuleNotFoundError as error:
            from pomp.core.extras import require_module

            require_module(error.name, f"{package}.{name}")
            raise
        return getattr(home, name)

    names = sorted(homes)
    return get, lambda: names, names
