"""The help of every command: what is expected, in words."""

import subprocess
import sys
from typing import get_args

import pytest

from pomp.cli import main as command_line
from pomp.cli.plain_help import _field_texts

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


def test_help_names_the_values_between_which_one_chooses(capsys):
    shown = show(capsys, "evolve")
    assert "--sensors {perceptions,compass}" in shown
    assert "--device {cpu,cuda,auto}" in shown
    assert "--preset {paper,code,best}" in show(capsys, "train")
    with pytest.raises(SystemExit):
        command_line.main(["train", "--out", "x", "--preset", "fast"])
    assert "('paper', 'code', 'best')" in " ".join(
        capsys.readouterr().err.replace("│", " ").split()
    )


def test_texts_wait_to_be_wrapped_but_entries_of_a_list_stay_apart():
    assert all("\n" not in text for text in _field_texts("pomp.cli.train")["Train"].values())
    assert len(_field_texts("pomp.cli.bench")["Bench"]["what"].splitlines()) == 6


def test_every_recipe_of_an_embedding_is_described(capsys):
    shown = show(capsys, "embedding", "train")
    assert "(default: as-begun)" in shown
    assert "arguments" not in shown
    assert "recipe that the folder was begun with" in " ".join(shown.replace("│", " ").split())


def complete(script, *words):
    """What a shell offers for the last word."""
    program = script.split("PYTHON_EOF' || true\n")[1].split("\nPYTHON_EOF")[0]
    given = [sys.executable, "-", "pomp", *words, str(len(words))]
    found = subprocess.run(given, input=program, capture_output=True, text=True, check=True)
    return [line.split("\t")[0] for line in found.stdout.splitlines()]


def test_shells_complete_values_and_nothing_else(capsys):
    with pytest.raises(SystemExit):
        command_line.main(["--tyro-print-completion", "bash"])
    script = capsys.readouterr().out
    assert complete(script, "train", "--preset", "") == ["paper", "code", "best"]
    assert complete(script, "bench", "e") == ["engine", "env", "evolve"]
    assert "--device" in complete(script, "bench", "env", "--")
    offered = complete(script, "embedding", "train", "paper", "")
    assert all(word.startswith("-") for word in offered), offered
