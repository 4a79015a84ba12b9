"""`pomp evolve`: its folder, its answers to bad input, and going on after an interruption."""

import json
import os
import signal
from pathlib import Path

import pytest

from pomp.cli.main import main
from pomp.evolution.population import is_robust
from pomp.machine.text import read_machine
from processes import run_until

QUICK = (
    "--set", "chains=8", "--set", "starts=4", "--set", "validation_starts=8", "--set", "steps=30"
)  # fmt: skip


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["evolve", *arguments])
    return int(ended.value.code or 0)


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_machines_that_need_not_be_clean_are_searched_if_asked(tmp_path, capsys):
    out = str(tmp_path / "run")
    assert call("StairClimber", "--rounds", "1", "--no-clean", *QUICK, "--out", out) == 0
    assert json.loads((tmp_path / "run" / "config.json").read_text())["evolve"]["clean"] is False
    assert call("--out", out, "--resume") == 0
    assert "was finished before" in capsys.readouterr().out


def test_a_run_leaves_one_machine_per_seed(tmp_path, capsys):
    out = tmp_path / "run"
    assert call("StairClimber", "--seeds", "0,2", "--out", str(out), "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["finished"]
    assert told == {"finished": True, **json.loads((out / "summary.json").read_text())}
    row = told["tasks"]["StairClimber"]
    assert (row["mean"], row["std"], row["seeds"], row["ceiling"]) == (1.0, 0.0, 2, 1.0)
    assert [one["seed"] for one in row["machines"]] == [0, 2]
    for one in row["machines"]:
        folder = out / "StairClimber" / f"seed{one['seed']}"
        assert [path.name for path in folder.glob("*.machine")] == ["StairClimber.machine"]
        names = {"evaluation.json", "metrics.jsonl", "machine.txt", "machine.svg", "episode.gif"}
        names |= {"StairClimber.machine", "machine", "programs.txt", "state.safetensors"}
        assert names == {path.name for path in folder.iterdir()}
        assert one["mean"] == pytest.approx(1.0)
        assert set(one["budgets"]) == {"216", "218", "221", "223"}
        assert one["clean"]
        assert one["sensors"] == "perceptions only"
        assert not one["budget-dependent"]
        machine = read_machine(folder / "StairClimber.machine")
        assert all(len(mode.split()) <= 45 for mode in machine.modes)
    assert call("StairClimber", "--seeds", "0,2", "--out", str(out), "--resume") == 0
    shown = capsys.readouterr().out
    assert "was finished before" in shown
    assert "start " in shown
    assert "return 1.0000 of 1" in shown
    assert "paper's POMP 1.00 ± 0.00" in shown
    assert shown.splitlines()[-1] == "return=1.000 ± 0.000 over 2 seeds"


def test_by_rounds_a_run_is_the_same_twice(tmp_path, capsys):
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        arguments = ("Farmer", "--rounds", "3", "--out", str(folder), *QUICK)
        assert call(*arguments) == 0
    one, two = map(files_of, folders)
    assert one == two
    lines = [json.loads(line) for line in one["Farmer/seed0/metrics.jsonl"].splitlines()]
    assert [line["round"] for line in lines] == [1, 2, 3]
    assert lines[-1]["evaluated"] > 3 * 8 * 9
    capsys.readouterr()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_goes_on_to_the_same_machine(tmp_path, capsys, how):
    """SIGTERM goes to all of its processes, as when a system shuts down."""
    arguments = ("Farmer", "--rounds", "4", *QUICK)
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert call(*arguments, "--out", str(whole)) == 0
    status, output, errors = run_until(
        *(("state.safetensors", 2), how, "evolve", *arguments, "--out", cut),
        to_group=how == signal.SIGTERM,
    )
    assert status == (-how if how == signal.SIGKILL else 128 + how), errors
    if how != signal.SIGKILL:
        assert f"go on with: pomp evolve --out {cut} --resume" in output
        assert "was killed" not in errors
    assert (cut / "Farmer" / "seed0" / "state.safetensors").exists()
    assert not (cut / "Farmer" / "seed0" / "Farmer.machine").exists()
    assert call("--out", str(cut), "--resume") == 0
    assert files_of(cut) == files_of(whole)
    capsys.readouterr()


def test_a_process_of_a_search_that_dies_is_told_and_the_others_end(tmp_path):
    status, _, errors = run_until(
        *(("state.safetensors", 1), signal.SIGKILL, "evolve", "Farmer", "--rounds", "60", *QUICK),
        *("--set", "teams=2", "--out", tmp_path / "run"),
        to_child=True,
    )
    assert status == 2, errors
    assert "a process of the search was killed" in errors


def test_a_run_killed_before_its_first_round_begins_again(tmp_path, capsys):
    arguments = ("Farmer", "--rounds", "1", "--out", str(tmp_path / "run"), *QUICK)
    (tmp_path / "run").mkdir()
    assert call(*arguments, "--resume") == 0
    assert "finished" in capsys.readouterr().out


def test_little_time_is_enough_for_one_round(tmp_path, capsys):
    out = tmp_path / "run"
    assert call("Farmer", "--minutes", "0.000001", "--out", str(out), *QUICK) == 0
    assert len((out / "Farmer" / "seed0" / "metrics.jsonl").read_text().splitlines()) == 1
    capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("Farmr",), "Did you mean"),
        ((), "name a task"),
        (("Farmer", "Farmer"), "named twice"),
        (("Farmer", "--modes", "0"), "modes"),
        (("Farmer", "--minutes", "0"), "--minutes must be positive"),
        (("Farmer", "--minutes", "nan"), "--minutes must be positive"),
        (("Farmer", "--rounds", "0"), "rounds must be at least 1"),
        (("Farmer", "--seeds", "4-0"), "range of seeds goes up"),
        (("Farmer", "--set", "lenght=3"), "lenght"),
        (("Farmer", "--set", "tokens=2"), "tokens"),
        (("Farmer", "--set", "starts=none"), "starts"),
        (("Farmer", "--variant", "none"), "variant"),
    ],
)
def test_bad_input_is_told_in_one_line(tmp_path, capsys, arguments, says):
    assert call(*arguments, "--out", str(tmp_path / "run")) == 2
    told = capsys.readouterr()
    assert says in told.err
    assert len(told.err.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_folders_that_do_not_fit_are_refused(tmp_path, capsys):
    out = str(tmp_path / "run")
    assert call("Farmer", "--resume", "--out", out) == 2
    assert "no run that could be resumed" in capsys.readouterr().err
    assert call("Farmer", "--rounds", "1", "--out", out, *QUICK) == 0
    assert call("Farmer", "--rounds", "1", "--out", out, *QUICK) == 2
    assert "exists" in capsys.readouterr().err
    assert call("Farmer", "--set", "chains=9", "--out", out, "--resume") == 2
    assert "otherwise: chains (8 before, 9 now)" in capsys.readouterr().err


def test_a_damaged_checkpoint_is_told(tmp_path, capsys):
    out = tmp_path / "run"
    arguments = ("Farmer", "--rounds", "1", "--out", str(out), *QUICK)
    assert call(*arguments) == 0
    seed = out / "Farmer" / "seed0"
    os.unlink(seed / "evaluation.json")
    (seed / "state.safetensors").write_bytes(b"no checkpoint")
    assert call(*arguments, "--resume") == 2
    assert "delete it to begin anew" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("low", "high", "fits"),
    [(0.5, 0.5, True), (0.495, 0.51, True), (0.47, 0.5, False), (0.5, 0.53, False)],
)
def test_returns_must_not_depend_on_the_budget(low, high, fits):
    assert is_robust({216: low, 218: 0.5, 221: high}) is fits
