"""A task of one's own, in a module of the current folder, through every command."""

import json
import sys

import pytest

import pomp
from commands import bring, call, change
from pomp.core import ConfigError, UntrustedModuleError
from pomp.machine import DecisionList, Rule, parse_machine, print_machine
from pomp.tasks import Task
from pomp.tasks.catalog import source_of

MOW = "DEF run m( WHILE c( frontIsClear c) w( pickMarker move w) pickMarker m)"
TEXT = f"machine lawn:LAWN\nstart mow\nmode mow: {MOW}\n  else -> stop\n"
SMALL = ("chains=4", "starts=2", "validation_starts=2", "steps=10")
TINY = ("ppo.total=64", "ppo.actors=4", "ppo.steps=16", "ppo.minibatch=32", "validation.every=1")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty current folder with what is one's own in it."""
    return bring(tmp_path, monkeypatch, "lawn")


def test_every_command_takes_it(capsys, here):
    def done(*given):
        status, output, errors = call(capsys, *given)
        assert status == 0, errors
        return output

    assert "mean return 1.0" in done("run", "lawn:LAWN", MOW)
    evolve = ("evolve", "lawn:LAWN", "--out", "evolved", "--rounds", "1", *change(SMALL))
    assert "return=" in done(*evolve)
    assert "was finished before" in done(*evolve, "--resume")
    assert "Lawn" in done("report", "evolved", "--allow", "lawn")
    (here / "mow.machine").write_text(TEXT)
    machine = ("mow.machine", "--allow", "lawn")
    assert json.loads(done("eval", *machine, "--json"))["mean"] == 1.0
    assert "Lawn" in done("bound", *machine)
    assert "mow" in done("explain", *machine)
    assert "machine lawn:LAWN" in done("simplify", *machine)
    search = ("search", "lawn:LAWN", "--method", "annealing", "--out", "searched")
    done(*search, "--set", "proposer.candidates=200")
    assert "Lawn" in done("report", "searched", "--allow", "lawn")
    (here / "modes.txt").write_text(f"{MOW}\nDEF run m( move m)\n")
    train = ("train", "lawn:LAWN", "--preset", "paper", "--out", "trained", *change(TINY))
    assert "return=" in done(*train, "--modes", "modes.txt")
    assert "was finished before" in done(*train, "--modes", "modes.txt", "--resume")
    both = ("train", "lawn:LAWN", "--out", "both", *change(TINY), "--modes", "evolved")
    assert "Lawn: " in done(*both)
    saved = "trained/Lawn/seed0/machine"
    assert done("eval", saved, "--allow", "lawn", "--episodes", "2")


@pytest.mark.parametrize("command", ["eval", "bound", "explain", "simplify"])
def test_a_file_does_not_choose_what_is_imported(capsys, here, command):
    (here / "lawn.py").write_text("raise SystemExit('was run')")
    (here / "mow.machine").write_text(TEXT)
    status, _, errors = call(capsys, command, "mow.machine")
    assert status == 2
    assert errors.splitlines()[-1].endswith(
        "which a file may not run; if you trust it: --allow lawn (in Python allow=['lawn'])"
    )
    assert "lawn" not in sys.modules
    with pytest.raises(UntrustedModuleError):
        pomp.load_machine("mow.machine", allow=["other"])


def test_a_saved_machine_and_a_search_do_not_choose_either(capsys, here):
    folder = here / "machine"
    parse_machine(TEXT, allow=["lawn"]).save(folder)
    assert json.loads((folder / "machine.json").read_text())["task"] == "lawn:LAWN"
    status, _, errors = call(capsys, "eval", "machine")
    assert (status, "--allow lawn" in errors) == (2, True)
    job = here / "searched" / "Lawn" / "seed0"
    job.mkdir(parents=True)
    (job / "config.json").write_text(
        json.dumps({"task": "evil:TASK", "variant": None, "options": {}})
    )
    whole = {"kind": "search", "searches": {"Lawn/seed0": {}}}
    (here / "searched" / "config.json").write_text(json.dumps(whole))
    modes = {"task": "Lawn", "method": "cem", "seed": 0, "modes": [{"program": MOW}]}
    (job / "modes.json").write_text(json.dumps(modes))
    for command in ("report", "bound"):
        place = "searched" if command == "report" else job
        status, _, errors = call(capsys, command, place)
        assert (status, "--allow evil" in errors) == (2, True), errors


@pytest.mark.parametrize(
    ("source", "text", "says"),
    [
        ("nothing:LAWN", "", "No module named 'nothing'"),
        ("mine:NOTHING", "", "mine has no 'NOTHING'"),
        ("mine:NUMBER", "NUMBER = 3", "is a int, not a pomp Task"),
        ("mine:TASK", "TASK = 1 / 0", "ZeroDivisionError: division by zero"),
        ("mine:TASK", "def f(:", "SyntaxError"),
        (".mine:TASK", "", "is module:NAME"),
        ("mine:", "", "is module:NAME"),
        (
            "mine:TASK",
            "from dataclasses import replace\nfrom lawn import LAWN, begin\n"
            "TASK = replace(LAWN, step=begin)",
            "needs step(cells, constants, pose, memory, stream, action), got",
        ),
        (
            "mine:TASK",
            "from dataclasses import replace\nfrom lawn import LAWN\n"
            "TASK = replace(LAWN, step=lambda *_: 0)",
            "step of task Lawn is not compiled: put @scalar on it",
        ),
        (
            "mine:TASK",
            "from dataclasses import replace\nfrom lawn import LAWN\n"
            "TASK = replace(LAWN, name='My Lawn')",
            "a task's name has letters and digits alone",
        ),
        (
            "mine:TASK",
            "from dataclasses import replace\nfrom lawn import LAWN, scalar\n"
            "@scalar\ndef begin(cells, constants, pose, memory):\n    return memory.nothing\n"
            "TASK = replace(LAWN, begin=begin)",
            "task Lawn cannot be compiled",
        ),
        (
            "mine:TASK",
            "from dataclasses import replace\nfrom lawn import LAWN, scalar\n"
            "@scalar\ndef step(cells, constants, pose, memory, stream, action):\n"
            "    return memory.nothing\nTASK = replace(LAWN, step=step)",
            "task Lawn cannot be compiled: Unknown attribute 'nothing'",
        ),
        *(
            (
                "mine:TASK",
                "from dataclasses import replace\nfrom lawn import LAWN, Constants, begin\n"
                f"TASK = replace(LAWN, {change})",
                says,
            )
            for change, says in [
                ("size='6x10'", "the size of task Lawn is rows and columns, as (8, 8), got '6x10'"),
                ("constants=lambda s: 3", "constants of task Lawn must return Constants, got 3"),
                ("constants=lambda s: Constants(pay=0.5)", "pay is a Fraction, got 0.5"),
                ("wrong_size=None", "wrong_size of task Lawn is a function, got None"),
                (
                    "draw_start=begin",
                    "needs draw_start(cells, constants, memory, stream), got draw_start(cells, ",
                ),
            ]
        ),
    ],
)
def test_what_a_task_lacks_is_told_before_any_work(capsys, here, monkeypatch, source, text, says):
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    (here / "mine.py").write_text(text + "\n")
    status, _, errors = call(capsys, "evolve", source, "--out", "run")
    told = [line for line in errors.splitlines() if "compiling" not in line]
    assert (status, len(told)) == (2, 1), errors
    assert says in told[0]
    assert not (here / "run").exists()


def test_a_task_is_passed_as_an_object(here):
    task = pomp.find_task("lawn:LAWN")
    assert isinstance(task, Task)
    assert source_of(task) == "lawn:LAWN"
    machine = pomp.ProgramMachine(task, (MOW,), DecisionList((Rule(0),), ((Rule(None),),)))
    assert pomp.evaluate(machine, episodes=2).mean == 1.0
    assert print_machine(machine).startswith("machine lawn:LAWN\n")


def test_a_task_without_a_home_stays_in_memory(here, tmp_path):
    from dataclasses import replace

    task = replace(pomp.find_task("lawn:LAWN"), summary="the same, found nowhere")
    settings = {name: int(value) for name, _, value in (one.partition("=") for one in SMALL)}
    assert pomp.evolve(task, rounds=1, settings=settings).is_finished
    with pytest.raises(ConfigError, match="is no name at the top of an imported module"):
        pomp.evolve(task, rounds=1, settings=settings, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_playing_a_task_without_a_machine_says_how_to_act(capsys, here):
    for given in ((), ("--print",)):
        status, _, errors = call(capsys, "play", "lawn:LAWN", *given)
        assert status == 2
        assert "there is no machine for Lawn in the zoo: act yourself with --manual" in errors
    status, _, errors = call(capsys, "play", "Maze")
    assert (status, "also with --manual; without one, --print" in errors) == (2, True)
    status, _, errors = call(capsys, "play", "nowhere")
    assert (status, "--manual" in errors) == (2, False)
