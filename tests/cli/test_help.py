"""The help of every command: what is expected, in words."""

from typing import get_args

import pytest

from pomp.cli import main as command_line

NESTED = {
    "embedding": ("dataset", "train", "info", "eval", "space", "interpolation"),
    "results": ("query", "export", "diff"),
}


def names():
    for command in get_args(command_line.Command):
        name = command.__metadata__[0].name
        yield (name,)
        yield from ((name, part) for part in NESTED.get(name, ()))


def show(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        command_line.main([*arguments, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("command", [*names()], ids="-".join)
def test_help_is_free_of_types_and_empty_defaults(command, capsys):
    shown = " ".join(show(capsys, *command).replace("│", " ").split())
    assert f"usage: pomp {' '.join(command)}" in shown
    for noise in ("{None}", "STR", "(default: )", "(default: None)", "(default: False)", "()"):
        assert noise not in shown


def test_help_names_what_is_expected(capsys):
    shown = show(capsys, "train")
    assert "--variant VARIANT" in shown
    assert "TASK..." in shown
    assert "[NAME]" in show(capsys, "embedding", "info")
    assert "unless --resume is given. (required)" in " ".join(shown.replace("│", " ").split())
