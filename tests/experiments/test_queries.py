"""Results asked in SQL, and written as files: what is found, and what a query cannot reach."""

import gzip
import json
import sys
import tempfile

import duckdb
import pytest

from commands import call
from pomp.core import ConfigError, DataFileError, OutputError
from pomp.experiments import read_results
from pomp.experiments.queries import TABLES, export_results, query_results
from pomp.experiments.store import CellResult, pack
from stores import finish, keep, make_cell, seeds_of


def farmers():
    """Five seeds of POMP on Farmer, the last with three episodes, a curve and costs."""
    last = finish(
        make_cell(seed=4),
        (0.5, 0.7, 0.9),
        ceiling=0.875,
        curve=[[10, 0.1], [200, 0.4]],
        cost={"candidates": 7, "seconds": 1.5, "shared_by": 2},
        made={"commit": "beef"},
        settings={"learning": {"ppo": {"total": 2000}}},
        validation=0.65,
        endings={"by choice": 3},
    )
    return [*seeds_of("pomp", "Farmer", (0.1, 0.2, 0.3, 0.4)), last]


@pytest.fixture
def store(tmp_path):
    return keep(tmp_path / "store", farmers())


def ask(sql, results=None):
    return query_results(farmers() if results is None else results, sql).rows


def test_there_is_a_row_for_each_cell():
    sql = "select method, task, count(*), avg(mean), max(seed) from cells group by all"
    [(method, task, count, mean, seed)] = ask(sql)
    assert (method, task, count, seed) == ("pomp", "Farmer", 5, 4)
    assert mean == pytest.approx(0.34)


def test_a_cell_has_what_its_file_has():
    sql = """select mean, sd, ceiling, fraction, validation, best_of_runs, candidates, seconds,
        shared_by, actions, "commit", numpy_version, torch_version, hardware, date, device,
        published_mean, published_sd, label, kind, settings->'$.learning.ppo.total',
        other->>'$.endings."by choice"', programs[1], settings_id, engine_revision
        from cells where seed = 4"""
    [row] = ask(sql)
    assert row == (
        pytest.approx(0.7), 0.0, 0.875, pytest.approx(0.8), 0.65, None, 7, 1.5,
        2, None, "beef", "2.0.0", None, "an abacus", "2026-01-31", "cpu",
        0.62, 0.02, "POMP", "modes", "2000",
        "3", "DEF run m( move m)", "pomp-Farmer-policy-x1", 1,
    )  # fmt: skip


def test_a_longer_task_and_a_search_stand_beside_no_published_number():
    cells = (make_cell(scale=2), make_cell(stage="search"))
    results = [finish(cells[0]), finish(cells[1], ())]
    assert ask("select published_mean, scale, stage from cells order by scale", results) == (
        (None, 1, "search"),
        (None, 2, "policy"),
    )
    assert ask("select count(*) from episodes", results) == ((1,),)


def test_episodes_and_curves_are_tables_of_their_own():
    sql = "select seed, episode, return from episodes where seed > 2 order by all"
    assert ask(sql) == ((3, 0, 0.4), (4, 0, 0.5), (4, 1, 0.7), (4, 2, 0.9))
    assert ask("select cell, executions, best from curves order by all") == (
        ("paper/pomp/Farmer/seed4", 10, 0.1),
        ("paper/pomp/Farmer/seed4", 200, 0.4),
    )


@pytest.mark.parametrize("table", TABLES)
def test_a_table_has_its_columns_also_without_results(table):
    found = query_results([], f"select * from {table}")
    assert found.columns == tuple(TABLES[table])
    assert found.rows == ()


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("select * from read_csv('/etc/passwd')", "no files"),
        ("select * from read_text('/etc/passwd')", "no files"),
        ("select * from glob('/etc/*')", "no files"),
        ("select * from '/etc/passwd.csv'", "no files"),
        ("copy cells to '{folder}/out.csv'", "only reads"),
        ("copy (select 1) to '{folder}/out.csv'", "only reads"),
        ("export database '{folder}/out.csv'", "only reads"),
        ("attach '{folder}/out.csv'", "only reads"),
        ("install httpfs", "only reads"),
        ("load httpfs", "only reads"),
        ("set enable_external_access = true", "only reads"),
        ("drop table cells", "only reads"),
        ("select 1; select 2", "one statement, as in 'select \\* from cells'; got 2"),
        ("select 1; copy cells to '{folder}/out.csv'", "got 2"),
        ("", "got none"),
        ("  -- nothing", "got none"),
        ("selec 1", 'syntax error at or near "selec"'),
        ("select nope from cells", 'column "nope" not found'),
        ("select * from results", "results does not exist"),
        ("select mean / 'x' from cells", "Could not convert"),
    ],
)
def test_a_query_that_does_not_work_says_so_in_one_line(sql, message, store, tmp_path, capsys):
    with pytest.raises(ConfigError, match=message) as caught:
        ask(sql.format(folder=tmp_path))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out.csv").exists()
    asked = call(capsys, "results", "query", sql.format(folder=tmp_path), "--store", store)
    assert asked == (2, "", f"pomp: {caught.value}\n")


def test_variables_of_the_process_are_out_of_reach():
    secrets = duckdb.sql("select 42 as answer")
    assert secrets is not None
    with pytest.raises(ConfigError, match="secrets does not exist"):
        ask("select * from secrets")


def test_a_value_that_no_column_can_hold_is_named():
    with pytest.raises(DataFileError, match="damaged, or of another version"):
        ask("select 1", [finish(make_cell(), cost={"steps": "many"})])


def test_numbers_that_are_none_are_null():
    [result] = seeds_of("pomp", "Farmer", (0.5,), validation=float("nan"))
    assert ask("select validation from cells", [result]) == ((None,),)


def test_the_command_prints_a_table_or_json(store, capsys):
    sql = "select seed, mean, date, programs from cells where seed > 2 order by seed"
    status, printed, _ = call(capsys, "results", "query", sql, "--store", store)
    assert status == 0
    assert printed.splitlines() == [
        "seed  mean  date        programs",
        '   3   0.4  2026-01-31  ["DEF run m( move m)"]',
        '   4   0.7  2026-01-31  ["DEF run m( move m)"]',
    ]
    status, printed, _ = call(capsys, "results", "query", sql, "--store", store, "--json")
    assert json.loads(printed)[0] == {
        "seed": 3, "mean": 0.4, "date": "2026-01-31", "programs": ["DEF run m( move m)"],
    }  # fmt: skip


def test_what_is_printed_cannot_steer_the_terminal(tmp_path, capsys):
    store = keep(tmp_path / "store", [finish(make_cell(), programs=["\x1b[2J" + "x" * 99])])
    call_of = ("results", "query", "select programs[1] as p from cells", "--store", store)
    _, printed, _ = call(capsys, *call_of)
    assert printed == "p\n" + ("?[2J" + "x" * 53) + "...\n"


# Files


def test_a_packed_file_is_the_same_store(store, tmp_path, capsys):
    packed = tmp_path / "all.jsonl.gz"
    status, printed, _ = call(capsys, "results", "export", "--store", store, "--out", packed)
    assert (status, printed) == (0, f"{packed}: 5 cells, {packed.stat().st_size:,} bytes\n")
    assert packed.read_bytes() == pack(read_results(store))
    sql = "select * from cells order by seed"
    assert ask(sql, read_results(packed)) == ask(sql, read_results(store))


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_a_table_as_a_file_is_read_by_others(suffix, store, tmp_path, capsys, monkeypatch):
    odd = tmp_path / "it's odd"
    odd.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(odd))
    out, tables = tmp_path / f"all{suffix}", duckdb.connect()
    given = ("results", "export", "--store", store, "--out", out)
    assert call(capsys, *given)[0] == 0
    read = f"select seed, mean from '{out}' order by seed"
    assert tables.sql(read).fetchall() == [(n, farmers()[n].mean) for n in range(5)]
    assert call(capsys, *given, "--table", "episodes")[0] == 0
    assert tables.sql(f"select count(*), max(return) from '{out}'").fetchall() == [(7, 0.9)]
    assert list(odd.iterdir()) == []


def test_bad_files_are_refused(store, tmp_path, capsys):
    given = ("results", "export", "--store", store, "--out")
    for name, more, message in (
        ("all.xlsx", (), "ends in .parquet, .csv or .jsonl.gz"),
        ("all.jsonl.gz", ("--table", "curves"), "--table goes with .parquet and .csv"),
        ("missing/all.csv", (), "there is no folder"),
    ):
        status, _, told = call(capsys, *given, tmp_path / name, *more)
        assert (status, message in told) == (2, True), told
    with pytest.raises(ConfigError, match="a table is cells, episodes, curves"):
        export_results(farmers(), tmp_path / "all.csv", "results")
    with pytest.raises(OutputError, match="cannot write"):
        export_results(farmers(), tmp_path / "missing" / "all.csv")
    status, _, told = call(capsys, "results", "query", "select 1", "--store", tmp_path / "none")
    assert (status, "there are no results in" in told) == (2, True)


def test_without_duckdb_the_line_says_what_to_install(store, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    line = (
        "pomp: a table of results needs duckdb, which is not installed: "
        "pip install 'pomp-rl[results]'\n"
    )
    assert call(capsys, "results", "query", "select 1", "--store", store) == (2, "", line)
    out = tmp_path / "all.parquet"
    assert call(capsys, "results", "export", "--store", store, "--out", out) == (2, "", line)
    packed = tmp_path / "all.jsonl.gz"
    assert call(capsys, "results", "export", "--store", store, "--out", packed)[0] == 0
    assert call(capsys, "results", "diff", store, packed)[0] == 0


def test_a_file_of_results_cannot_name_code_to_run(tmp_path, monkeypatch):
    (tmp_path / "trap.py").write_text("raise SystemExit('the trap has sprung')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    good = finish(make_cell())
    values = {**good.values, "cell": {**good.values["cell"], "task": "trap:TASK"}}
    packed = tmp_path / "all.jsonl.gz"
    packed.write_bytes(gzip.compress(CellResult(good.cell, values).to_text().encode()))
    with pytest.raises(DataFileError, match="holds no results, or is damaged"):
        read_results(packed)
    assert "trap" not in sys.modules
