"""What the documents say is true."""

import re
import subprocess
import sys
from pathlib import Path

import pomp

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_the_python_of_the_readme_runs():
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    printed = [
        subprocess.run([sys.executable, "-c", block], capture_output=True, check=True)
        .stdout.decode()
        .strip()
        for block in blocks
    ]
    assert printed[0] == "[0.13888889 0.13888889]"
    first, _, last = printed[1].splitlines()
    assert first in blocks[1]
    assert last in blocks[1]


def test_the_readme_lists_the_public_names():
    listed = README.split("public door:")[1].split(".\n\n")[0]
    assert set(re.findall(r"`(\w+)`", listed)) == set(pomp.__all__)
    for name in pomp.__all__:
        assert getattr(pomp, name) is not None


def test_an_unknown_public_name_is_an_attribute_error():
    assert not hasattr(pomp, "rollercoaster")
    assert set(dir(pomp)) == set(pomp.__all__)


def test_the_architecture_names_every_module():
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    for folder in ("dsl", "karel", "tasks", "embedding", "search", "machine"):
        for path in (ROOT / "src" / "pomp" / folder).glob("*.py"):
            assert path.name in text or path.name == "__init__.py", path


def test_importing_the_package_is_instant_because_nothing_heavy_comes_with_it():
    code = "import sys, pomp; print({'numba', 'numpy', 'torch'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert result.stdout.decode().strip() == "set()"
