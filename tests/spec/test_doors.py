"""The tests of this folder see the package as a stranger does: by what its packages export."""

import ast
import importlib
from pathlib import Path

import pytest

FILES = sorted(
    path for name in ("spec", "oracles") for path in Path(__file__).parents[1].glob(f"{name}/*.py")
)


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_only_exported_names_are_imported(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] == "pomp":
            package = importlib.import_module(node.module)
            assert hasattr(package, "__path__"), f"{node.module} is a module, not a package"
            inside = {alias.name for alias in node.names} - set(package.__all__)
            assert not inside, f"{node.module} does not export {inside}"
        if isinstance(node, ast.Import):
            assert not [alias.name for alias in node.names if alias.name.startswith("pomp.")]
