"""Commands called in this process, and examples as modules of the current folder; no tests."""

import shutil
import sys
from pathlib import Path

import pytest

from pomp.cli.main import main

EXAMPLES = Path(__file__).parents[1] / "examples"


def call(capsys, *given):
    """Call the command line; returns status, standard output and standard error."""
    with pytest.raises(SystemExit) as caught:
        main([str(part) for part in given])
    captured = capsys.readouterr()
    return caught.value.code, captured.out, captured.err


def change(settings, prefix=""):
    """Return `--set` options for settings given as `name=value`."""
    return [part for one in settings for part in ("--set", prefix + one)]


def bring(folder, monkeypatch, *names):
    """Make a folder the current one, with examples in it that nothing has imported."""
    for name in names:
        shutil.copy(EXAMPLES / f"{name}.py", folder)
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one])
    return folder
