"""`pomp conformance`: the golden files pass, and whatever is falsified is found."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from pomp.conformance.folder import check_folder
from pomp.core.errors import GoldenError

GOLDEN = Path(__file__).parents[1] / "golden"
FILES = sorted(path.name for path in GOLDEN.glob("*.npz"))


def copy(folder, *names):
    for name in names:
        shutil.copy(GOLDEN / name, folder / name)


def rewrite(path, **changed):
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    for name, change in changed.items():
        arrays[name] = arrays[name].copy()
        change(arrays[name])
    np.savez_compressed(path, **arrays)


def only_report(folder):
    reports = [report for report in check_folder(folder) if report.name.endswith(".npz")]
    assert len(reports) == 1
    return reports[0]


@pytest.mark.parametrize("name", FILES)
def test_a_golden_file_is_replayed_without_a_mismatch(name, tmp_path):
    copy(tmp_path, name, "programs.json")
    report = only_report(tmp_path)
    assert report.first_mismatch == ""
    assert report.mismatches == 0
    with np.load(GOLDEN / name) as file:
        if "action" in file.files:
            assert report.checked["steps"] == len(file["action"])
            assert report.checked["executions"] == len(file["seg_len"])
        else:
            assert report.checked["starts"] == 2100


@pytest.mark.parametrize("name", ["dsl.json", "programs.json"])
def test_the_language_files_are_checked_without_a_mismatch(name, tmp_path):
    copy(tmp_path, name)
    (report,) = check_folder(tmp_path)
    assert report.mismatches == 0
    assert report.checked["programs"] >= 1200


def put(index, value):
    def change(array):
        array[index] = value

    return change


def add(index, value):
    def change(array):
        array[index] += value

    return change


def first_spawn(name):
    with np.load(GOLDEN / name) as file:
        return int(np.flatnonzero(file["spawn"][:, 0] >= 0)[0])


def falsified_spawn(name, grid_too):
    """Another cell than the recorded one, in a place the task could never draw."""
    step = first_spawn(name)
    with np.load(GOLDEN / name) as file:
        row, col = file["spawn"][step]
    if not grid_too:
        return {"spawn": put(step, [row, col - 1])}

    def move_marker(grid):
        grid[step, row, col] = 0
        grid[step, 7, 7] = 1

    return {"spawn": put(step, [7, 7]), "grid": move_marker}


@pytest.mark.parametrize(
    ("name", "changed", "found"),
    [
        pytest.param("seeder.npz", {"reward": add(100, 1e-6)}, "reward: expected", id="a reward"),
        pytest.param("farmer.npz", {"grid": add((500, 3, 3), 1)}, "cell \\(3, 3\\)", id="a cell"),
        pytest.param("maze", {"facing": put(9, 0)}, "pose: expected", id="a pose"),
        pytest.param("snake.npz", {"done": put(5, 1)}, "done: expected 1, got 0", id="a done flag"),
        pytest.param(
            "farmer.npz", {"meta_continuous_marker": add(40, 1)}, "memory slot", id="a variable"
        ),
        pytest.param("doorkey.npz", {"percept": put(3, 31)}, "perceptions", id="a perception"),
        pytest.param(
            "topOff.npz", {"seg_n_calls": add(7, 1)}, "executions 7: call counter", id="a counter"
        ),
        pytest.param(
            "seesaw.npz", falsified_spawn("seesaw.npz", False), "spawn: expected", id="a spawn"
        ),
        pytest.param(
            "seesaw.npz", falsified_spawn("seesaw.npz", True), "cell", id="an impossible spawn"
        ),
        pytest.param(
            "infinite_harvester.npz",
            falsified_spawn("infinite_harvester.npz", False),
            "spawn: expected",
            id="a respawn",
        ),
        pytest.param(
            "upNdown.npz", falsified_spawn("upNdown.npz", False), "spawn: expected", id="a goal"
        ),
    ],
)
def test_a_falsified_record_is_found_and_named(name, changed, found, tmp_path):
    name = "randomMaze.npz" if name == "maze" else name
    copy(tmp_path, name, "programs.json")
    rewrite(tmp_path / name, **changed)
    report = only_report(tmp_path)
    assert report.mismatches > 0
    assert re.search(found, report.first_mismatch)


def test_a_falsified_completion_is_found(tmp_path):
    copy(tmp_path, "topOff.npz", "programs.json")
    rewrite(tmp_path / "topOff.npz", seg_completed=lambda array: np.logical_not(array, out=array))
    assert only_report(tmp_path).mismatches > 400


def test_a_falsified_action_of_a_program_is_found(tmp_path):
    copy(tmp_path, "oneStroke.npz", "programs.json")
    content = json.loads((tmp_path / "programs.json").read_text())
    for entry in content["tasks"]["oneStroke"]:
        entry["text"] = "DEF run m( turnLeft turnLeft move m)"
    (tmp_path / "programs.json").write_text(json.dumps(content))
    report = only_report(tmp_path)
    assert "executions 0: action" in report.first_mismatch


def test_a_start_that_cannot_be_drawn_is_found(tmp_path):
    copy(tmp_path, "initial_states.npz")
    rewrite(tmp_path / "initial_states.npz", doorkey_pos=put((4, 1), 5))
    report = only_report(tmp_path)
    assert "cannot start there" in report.first_mismatch


def test_a_wrong_verdict_of_the_parser_is_found(tmp_path):
    content = json.loads((GOLDEN / "dsl.json").read_text())
    content["syntax"][3]["full_program"] = not content["syntax"][3]["full_program"]
    (tmp_path / "dsl.json").write_text(json.dumps(content))
    (report,) = check_folder(tmp_path)
    assert report.mismatches == 2  # parser and compiler


def test_executions_need_the_programs_and_say_so(tmp_path):
    copy(tmp_path, "seeder.npz")
    report = only_report(tmp_path)
    assert report.mismatches == 0
    assert "programs.json" in report.note
    assert "executions" not in report.checked


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(GoldenError, match="no golden files"):
        check_folder(tmp_path)


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(GoldenError, match="no folder"):
        check_folder(tmp_path / "missing")


def test_an_unknown_file_is_refused(tmp_path):
    copy(tmp_path, "seeder.npz")
    (tmp_path / "sneeder.npz").write_bytes(b"")
    with pytest.raises(GoldenError, match=r"unknown file 'sneeder\.npz'"):
        check_folder(tmp_path)


@pytest.mark.parametrize("name", ["seeder.npz", "dsl.json", "programs.json", "initial_states.npz"])
@pytest.mark.parametrize("kept", [0, 100, 0.5])
def test_a_truncated_file_is_refused(name, kept, tmp_path):
    content = (GOLDEN / name).read_bytes()
    end = kept if isinstance(kept, int) else int(len(content) * kept)
    (tmp_path / name).write_bytes(content[:end])
    with pytest.raises(GoldenError, match=name):
        check_folder(tmp_path)


def test_a_file_without_an_array_is_refused(tmp_path):
    with np.load(GOLDEN / "seeder.npz") as file:
        arrays = {name: file[name] for name in file.files if name != "reward"}
    np.savez(tmp_path / "seeder.npz", **arrays)
    with pytest.raises(GoldenError, match="incomplete or damaged"):
        check_folder(tmp_path)
