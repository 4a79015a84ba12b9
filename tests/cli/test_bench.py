"""`pomp bench --against`: measurements are made up, nothing is timed."""

import json

import pytest

from pomp.bench.engine import EngineSpeed
from pomp.bench.env import EnvSpeed
from pomp.cli.main import main

MACHINE = {"date": "2026-01-01", "processor": "Abacus 3", "python": "3", "pomp": "0"}


def speed(one, every):
    return EngineSpeed(
        engine_1_thread_actions_per_second=one,
        engine_all_threads_actions_per_second=every,
        reference_actions_per_second=7.0,
        threads=2,
        actions_per_run=3.0,
    )


@pytest.fixture
def bench(monkeypatch, capsys):
    monkeypatch.setattr("pomp.core.hardware.describe_hardware", lambda device: MACHINE)
    monkeypatch.setattr("pomp.bench.engine.measure", lambda task, config: speed(100.0, 190.0))
    env = EnvSpeed(
        vector_env_steps_per_second=50.0,
        minigrid_steps_per_second=None,
        ratio_to_minigrid=None,
        torch_env_steps_per_second=None,
    )
    monkeypatch.setattr("pomp.bench.env.measure_env", lambda cuda: env)

    def call(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(["bench", *map(str, arguments)])
        out, err = capsys.readouterr()
        return ended.value.code, out, err

    return call


@pytest.fixture
def stored(tmp_path):
    def write(**changes):
        rows = {
            "engine_1_thread_actions_per_second": 100.0,
            "engine_all_threads_actions_per_second": 200.0,
            "reference_actions_per_second": 70.0,
            "threads": 4,
        }
        table = {"machine": MACHINE, "tasks": {"Maze": rows, "Snake": rows}}
        file = tmp_path / "table.json"
        file.write_text(json.dumps(table | changes))
        return file

    return write


def test_a_lost_speed_ends_with_status_1(bench, stored):
    status, out, _ = bench("engine", "--task", "Maze", "--against", stored())
    assert status == 1
    assert "Maze   1.00x              100              100  engine_1_thread" in out
    assert "Maze   0.95x              190              200  engine_all_threads" in out
    assert out.count("below 0.97\n") == 2  # the row, and the sum
    assert out.endswith("1 of 2 ratios are below 0.97\n")


def test_a_lower_ratio_can_be_good_enough(bench, stored):
    status, out, _ = bench("engine", "--task", "Maze", "--against", stored(), "--least", "0.9")
    assert (status, out.splitlines()[-1]) == (0, "0 of 2 ratios are below 0.9")


def test_ratios_as_json(bench, stored):
    status, out, _ = bench("engine", "--task", "Maze", "--against", stored(), "--json")
    assert status == 1
    told = json.loads(out)
    assert told["tasks"]["Maze"]["threads"] == 2
    assert [ratio["ratio"] for ratio in told["against"]["ratios"]] == [1.0, 0.95]
    assert told["against"]["least"] == 0.97


def test_what_json_prints_can_be_stored(bench, tmp_path):
    for what in ("engine", "env"):
        _, out, _ = bench(what, "--task", "Maze", "--json")
        (tmp_path / "own.json").write_text(out)
        status, out, _ = bench(what, "--task", "Maze", "--against", tmp_path / "own.json")
        assert (status, "1.00x" in out) == (0, True)


def test_a_table_of_other_hardware_needs_force(bench, stored):
    other = stored(machine=MACHINE | {"processor": "Abacus 2"})
    arguments = ("engine", "--task", "Maze", "--against", other)
    status, out, err = bench(*arguments)
    assert (status, out) == (2, "")
    assert "was measured on Abacus 2, this is Abacus 3: such ratios say little; --force" in err
    assert bench(*arguments, "--force", "--least", "0.5")[0] == 0


@pytest.mark.parametrize("place", ["machine", "rows"])
def test_a_table_of_another_number_of_threads_needs_force(bench, stored, monkeypatch, place):
    here = MACHINE | {"threads": "2"}
    monkeypatch.setattr("pomp.core.hardware.describe_hardware", lambda device: here)
    other = stored(machine=MACHINE | ({"threads": "4"} if place == "machine" else {}))
    arguments = ("engine", "--task", "Maze", "--against", other)
    status, out, err = bench(*arguments)
    assert (status, out) == (2, "")
    assert "on Abacus 3 with 4 threads, this is Abacus 3 with 2 threads: such ratios" in err
    assert bench(*arguments, "--force", "--least", "0.5")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("env", "--against", "FILE"), "is a table of engine, not of env"),
        (("evolve", "--against", "FILE"), "is a table of engine, not of evolve"),
        (("engine", "--task", "Seesaw", "--against", "FILE"), "no row in common"),
        (("engine", "--against", "nowhere.json"), "'nowhere.json' does not exist"),
        (("engine", "--least", "0.9"), "go with --against FILE"),
        (("engine", "--against", "FILE", "--least", "-1"), "--least must be a ratio above 0"),
    ],
)
def test_what_cannot_be_compared_is_refused(bench, stored, arguments, reason):
    status, out, err = bench(*(stored() if one == "FILE" else one for one in arguments))
    assert (status, out) == (2, "")
    assert reason in err


@pytest.mark.parametrize("content", ["[]", "{", '{"machine": {}}', '{"machine": {"processor": 1}}'])
def test_a_file_that_is_no_table_is_refused(bench, tmp_path, content):
    (tmp_path / "table.json").write_text(content)
    status, _, err = bench("engine", "--against", tmp_path / "table.json")
    assert (status, "table" in err) == (2, True)
