"""Tables computed cell by cell: the same numbers however the work is cut, and nothing twice."""

import json
import random
import resource
import signal
from pathlib import Path

import pytest

from commands import call
from pomp.analysis import choose_modes
from pomp.core.errors import ConfigError, DataFileError, OutputError
from pomp.core.locks import locked
from pomp.experiments.backends import ProcessPool
from pomp.experiments.cells import Cell
from pomp.experiments.outcomes import COSTS
from pomp.experiments.reproduction import reproduce
from pomp.experiments.specs import list_cells
from pomp.experiments.store import CellResult, ResultStore, check_alike, pack, read_results
from processes import run_pomp, run_until

SMALL = {"seeds": [0, 1], "tasks": ["UpNDown"], "budget": 0.0005}
CHEAP = ("hill-climbing", "annealing")
ASKED = (
    *("reproduce", "table2", "--budget", "0.0005", "--seeds", "0-1", "--tasks", "UpNDown"),
    *("--methods", *CHEAP, "psmp"),
)


def means(results):
    return {one.cell.name: one.values.get("returns", one.programs) for one in results}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A small part of a table, computed in one go."""
    folder = tmp_path_factory.mktemp("whole") / "store"
    found = reproduce(list_cells("table2", methods=[*CHEAP, "psmp"], **SMALL), out=folder)
    assert found.is_finished
    return found


def test_every_cell_has_a_file_that_says_all_about_it(whole):
    assert whole.computed == len(whole.cells) == 2 * (len(CHEAP) + 2)
    for one in whole.results:
        text = (whole.path / "cells" / f"{one.cell.name}.json").read_text()
        values = json.loads(text)
        assert Cell.from_json(values["cell"]) == one.cell
        assert {"settings", "fingerprint", "variant", "cap", "programs", "curve"} <= set(values)
        assert set(values["cost"]) == {*COSTS, "shared_by"}
        assert values["cost"]["seconds"] > 0
        assert {"pomp", "commit", "python", "numpy", "device", "hardware", "date"} <= set(
            values["made"]
        )
        if one.cell.stage == "policy":
            assert len(values["returns"]) == values["episodes"] == 100
            assert one.mean == pytest.approx(sum(values["returns"]) / 100)
            assert values["evaluation_seed"] == 0
            assert values["ceiling"] == 0.91


def test_a_training_says_what_it_took(whole):
    [learned] = [one for one in whole.results if one.cell.stage == "learn" and one.cell.seed == 0]
    [policy] = [
        one
        for one in whole.results
        if one.cell.method == "psmp" and one.cell.stage == "policy" and one.cell.seed == 0
    ]
    assert learned.values["cost"]["steps"] == learned.values["asked_steps"] == 9 * 1024
    assert learned.values["ended"] == "all steps"
    assert policy.values["cost"] == learned.values["cost"]
    assert policy.values["validation"] == learned.values["validation"]
    assert set(ResultStore(whole.path).files(learned.cell)) == {
        "machine.json",
        "machine.safetensors",
    }


def test_all_of_several_tries_are_paid_for(tmp_path):
    asked = {**SMALL, "seeds": [0], "methods": ["psmp"], "settings": {"tries": 3}}
    found = reproduce(list_cells("table2", **asked), out=tmp_path)
    [best] = [one for one in found.results if one.cell.stage == "learn"]
    assert best.values["cost"]["steps"] == best.values["asked_steps"] == 3 * 9 * 1024
    metrics = next(tmp_path.rglob("metrics.jsonl")).read_text().splitlines()
    assert len(metrics) == 3 * best.values["validations"]


def test_a_finished_table_is_not_computed_again(whole):
    before = {path: path.stat().st_mtime_ns for path in whole.path.rglob("*.json")}
    again = reproduce(whole.cells, out=whole.path)
    assert again.is_finished
    assert again.computed == 0
    assert {path: path.stat().st_mtime_ns for path in whole.path.rglob("*.json")} == before


def test_processes_give_the_same_numbers(whole, tmp_path):
    found = reproduce(whole.cells, out=tmp_path / "store", backend=ProcessPool(2))
    assert found.is_finished
    assert means(found.results) == means(whole.results)


def test_a_table_that_is_left_again_and_again_has_the_same_numbers(whole, tmp_path):
    calls = 0
    while calls < 200:
        calls += 1
        events = iter(range(6))
        found = reproduce(
            whole.cells,
            out=tmp_path / "store",
            on_event=lambda event, left=events: next(left, None) is None,
        )
        if found.is_finished:
            break
    assert calls > 3
    assert means(found.results) == means(whole.results)


def kill_and_finish(folder, moments):
    """Kill a driver whenever it has put so many files in place, then let it finish."""
    for times in moments:
        status, _, _ = run_until(
            ("", times), signal.SIGKILL, *ASKED, "--out", folder, is_hasty=True
        )
        assert status in (-signal.SIGKILL, 0)
    status, out, err = run_pomp(*ASKED, "--out", folder, "--json")
    assert status == 0, err
    return json.loads(out)


def test_a_killed_driver_loses_nothing(whole, tmp_path):
    told = kill_and_finish(tmp_path / "store", (2, 9, 17))
    assert told["finished"]
    assert told["cells"] == len(whole.cells)
    assert means(ResultStore(tmp_path / "store")) == means(whole.results)


@pytest.mark.slow
def test_a_driver_killed_at_twenty_random_moments_loses_nothing(whole, tmp_path):
    draw = random.Random(0)
    told = kill_and_finish(tmp_path / "store", [draw.randint(1, 12) for _ in range(20)])
    assert told["finished"]
    assert told["cells"] == len(whole.cells) == len(told["results"])
    assert means(ResultStore(tmp_path / "store")) == means(whole.results)


def test_a_damaged_file_is_named_set_aside_and_computed_again(whole, tmp_path, caplog):
    folder = tmp_path / "store"
    cells = list_cells("table2", methods=["annealing"], **SMALL)
    first = reproduce(cells, out=folder)
    place = ResultStore(folder).place(cells[0])
    place.write_text(place.read_text().replace("0.0", "0.1", 1))
    again = reproduce(cells, out=folder)
    assert f"'{place}' is damaged" in caplog.text
    assert again.computed == 1
    assert means(again.results) == means(first.results)
    assert [path.name for path in (folder / "set-aside").rglob("*.json")] == ["seed0.json"]


def test_a_cell_that_was_computed_otherwise_is_refused_unless_asked_for(tmp_path, monkeypatch):
    cells = list_cells("table2", methods=["annealing"], **SMALL)[:1]
    reproduce(cells, out=tmp_path / "store")
    monkeypatch.setattr("pomp.experiments.cells.ENGINE_REVISION", 2)
    with pytest.raises(ConfigError, match=r"was computed with other engine than now.* --again"):
        reproduce(cells, out=tmp_path / "store")
    assert reproduce(cells, out=tmp_path / "store", again=True).computed == 1


def test_longer_horizons_use_the_policy_that_was_learned(tmp_path):
    cells = list_cells(
        "generalisation", methods=["text"], tasks=["Farmer"], seeds=[0], budget=0.0001
    )
    found = reproduce(cells, out=tmp_path / "store")
    assert [one.cell.scale for one in found.results] == [1, 2, 4, 8, 16]
    assert len({one.programs for one in found.results}) == 1


def test_only_the_stages_that_are_asked_for_are_computed(tmp_path):
    cells = list_cells("table2", methods=["psmp"], **SMALL)
    found = reproduce(cells, out=tmp_path / "store", stages=["learn"])
    assert {one.cell.stage for one in found.results} == {"learn"}
    assert not found.is_finished
    assert reproduce(cells, out=tmp_path / "store").is_finished


def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path):
    folder, small = tmp_path / "store", 2048
    asked = [part for part in ASKED if part not in ("psmp", "annealing")]
    status, _, err = run_pomp(
        *(*asked, "--out", folder),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (small, small)),
    )
    assert status == 2, err
    assert "cannot write" in err.strip().splitlines()[-1]
    assert "Traceback" not in err
    assert run_pomp(*asked, "--out", folder)[0] == 0


# Stores


def result(values=None, **fields):
    one = Cell(**{"method": "annealing", "task": "Maze", "seed": 0, **fields})
    told = {"cell": one.to_json(), "fingerprint": one.fingerprint(), "programs": [], "mean": 0.5}
    return CellResult(one, {**told, **(values or {})})


def test_results_go_through_their_file_and_through_a_packed_one(tmp_path):
    store, kept = ResultStore(tmp_path / "store"), [result(seed=seed) for seed in range(3)]
    for one in kept:
        store.write(one)
    assert list(ResultStore(tmp_path / "store")) == kept
    file = tmp_path / "results.jsonl.gz"
    file.write_bytes(pack(reversed(kept)))
    assert read_results(file) == kept
    assert pack(kept) == file.read_bytes()


def test_results_that_do_not_belong_together_are_refused():
    other = {"engine": 7, "method": 1, "settings": "x", "preset": "paper", "budget": 1.0}
    check_alike([result(), result(seed=1), result(task="Snake")])
    with pytest.raises(ConfigError, match=r"its engine is 7, the other's 1"):
        check_alike([result(), result({"fingerprint": other}, seed=1)])
    with pytest.raises(ConfigError, match=r"its budget is 0.5"):
        check_alike([result(), result(seed=1, budget=0.5)])
    own = {**result().fingerprint, "settings": "other"}
    with pytest.raises(ConfigError, match=r"its settings is"):
        check_alike([result(), result({"fingerprint": own}, seed=1)])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "it has no readable store.json"),
        ('{"format": 99}', "begun by another version of pomp"),
        ("{", "it has no readable store.json"),
    ],
)
def test_a_folder_of_something_else_is_refused(tmp_path, content, message):
    (tmp_path / "notes.txt").write_text("mine")
    if content is not None:
        (tmp_path / "store.json").write_text(content)
    with pytest.raises(DataFileError, match=message):
        ResultStore(tmp_path)
    with pytest.raises(DataFileError, match="no folder of results"):
        ResultStore(tmp_path / "notes.txt")


def test_a_folder_in_use_is_refused(tmp_path):
    ResultStore(tmp_path / "store").make()
    cells = list_cells("table2", methods=["annealing"], **SMALL)
    with locked(tmp_path / "store"), pytest.raises(OutputError, match="in use"):
        reproduce(cells, out=tmp_path / "store")


# The command


def test_the_command_tells_what_there_is(whole, capsys):
    status, out, _ = call(capsys, *ASKED, "--out", whole.path)
    assert status == 0
    assert "PSMP" in out
    assert f"{len(whole.cells)} of {len(whole.cells)} cells, 0 of them new" in out


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--methods", "pom"), "unknown method 'pom'"),
        (("--tasks", "Farmers"), "unknown task 'Farmers'"),
        (("--budget", "0"), "a budget is from 0.0001 to 1"),
        (("--processes", "0"), "processes are from 1 to 1024"),
        (("--device", "cuda"), "CUDA"),
        (("--minutes", "-1"), "--minutes must be positive"),
        (("--set", "ppo.nothing=1"), "unknown"),
    ],
)
def test_bad_input_is_one_line_and_makes_nothing(given, message, tmp_path, capsys):
    folder = tmp_path / "store"
    status, _, err = call(
        capsys, "reproduce", "table1", "--seeds", "0", "--out", folder, "--methods", "drl", *given
    )
    assert status == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert not Path(folder).exists()


def test_modes_by_bound_are_chosen_from_the_runs_of_pomp(tmp_path):
    asked = {**SMALL, "seeds": [0], "settings": {"search.mode.runs": 2}}
    cells = list_cells("table2", methods=["pomp-bound"], **asked)
    found = reproduce(cells, out=tmp_path / "store", stages=("search",))
    searched, chosen = sorted(found.results, key=lambda one: one.cell.method)
    assert (searched.cell.method, chosen.cell.method) == ("pomp", "pomp-bound")
    assert set(searched.programs) <= set(searched.values["pool"])
    assert len(searched.values["pool"]) == 6  # three modes, two runs each
    before = [searched.values["pool"].index(text) for text in searched.programs]
    again = choose_modes(chosen.cell.setting, searched.values["pool"], before)
    assert chosen.programs == tuple(searched.values["pool"][number] for number in again)
    assert chosen.values["settings"]["search"]["mode"]["select"] == "bound"
    assert searched.values["settings"]["search"]["mode"]["select"] == "diversified"
    assert chosen.values["cost"]["candidates"] == searched.values["cost"]["candidates"] > 0


def test_a_row_that_is_taught_learns_from_the_modes_of_another(tmp_path):
    asked = {**SMALL, "seeds": [0], "settings": {"search.mode.runs": 1, "teaching.choices": 1}}
    cells = list_cells("table2", methods=["pomp-taught"], **asked)
    found = reproduce(cells, out=tmp_path / "store", stages=("search", "learn"))
    assert not found.failed
    results = {(one.cell.method, one.cell.stage): one for one in found.results}
    assert set(results) == {("pomp", "search"), ("pomp-bound", "search"), ("pomp-taught", "learn")}
    learned = results["pomp-taught", "learn"]
    assert learned.programs == results["pomp-bound", "search"].programs
    assert learned.values["settings"]["learning"]["teaching"]["steps"] == 4000 * SMALL["budget"]
    assert learned.values["validations"] == 2  # of what was taught, and at the end
