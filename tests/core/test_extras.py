"""What an extra is, and what is said where one is missing."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

from pomp.core import MissingExtraError, PompError
from pomp.core.extras import (
    AUTOMATA,
    CUDA,
    DISTRIBUTION,
    LEARN,
    PLOTS,
    RAY,
    RESULTS,
    STUDIO,
    TENSORBOARD,
    install_line,
    is_installed,
    require,
    require_module,
)

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {LEARN, CUDA, PLOTS, TENSORBOARD, RESULTS, RAY, AUTOMATA, STUDIO}


@pytest.fixture
def without_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # as Python marks what cannot be imported


def test_the_distribution_and_its_extras_are_those_of_the_project():
    extras = PROJECT["optional-dependencies"]
    assert PROJECT["name"] == DISTRIBUTION
    assert set(extras) == {*EXTRAS, "dev"}
    assert f"{DISTRIBUTION}[{','.join(name for name in extras if name != 'dev')}]" in extras["dev"]


def test_documents_and_messages_name_nothing_else_to_install():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md")]
    for path in (*pages, *ROOT.glob("src/pomp/**/*.py")):
        named = re.findall(r"([\w.-]+)\[([a-z]+)\]'", path.read_text())
        for distribution, extra in named:
            assert distribution in (DISTRIBUTION, "."), path  # or the clone one is in
            assert extra in EXTRAS, path


def test_what_is_installed_is_not_missed():
    assert is_installed(LEARN)
    require(LEARN, "a network")
    require_module("torch", "a network")


def test_a_missing_extra_says_what_needs_it_and_how_to_install_it_in_one_line(without_torch):
    with pytest.raises(MissingExtraError) as caught:
        require(LEARN, "a network")
    assert str(caught.value) == (
        "a network needs torch, which is not installed: pip install 'pomp-rl[learn]' (without a "
        "GPU, first: pip install torch --index-url https://download.pytorch.org/whl/cpu)"
    )
    assert isinstance(caught.value, PompError | ImportError)


def test_every_extra_has_its_own_line(monkeypatch):
    modules = {PLOTS: "matplotlib", TENSORBOARD: "tensorboard", RESULTS: "duckdb"}
    for extra, module in modules.items():
        monkeypatch.setitem(sys.modules, module, None)
        assert not is_installed(extra)
        line = f"it needs {module}, which is not installed: {install_line(extra)}$"
        with pytest.raises(MissingExtraError, match=re.escape(line[:-1]) + "$"):
            require(extra, "it")


def test_a_module_of_no_extra_is_not_explained(without_torch):
    require_module("some_module_of_a_user", "a task")
    require_module(None, "a task")
    with pytest.raises(MissingExtraError, match=r"pomp\.Embedding needs torch"):
        require_module("torch", "pomp.Embedding")
