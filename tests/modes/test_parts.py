"""The pieces of a search, each against something simpler."""

import json

import numpy as np
import pytest

import pomp
from pomp.cli.inputs import parse_seeds
from pomp.cli.main import main
from pomp.core.configs import changed
from pomp.core.errors import ConfigError, DataFileError
from pomp.core.streams import Purpose
from pomp.dsl.vocabulary import LEAPS
from pomp.embedding.space import Embedding
from pomp.modes.batch import Batch, text_ranks
from pomp.modes.behaviour import behaviour_vectors
from pomp.modes.config import SearchConfig
from pomp.modes.jobs import Job
from pomp.modes.memo import Memo
from pomp.modes.methods import METHODS, configure
from pomp.runs.folder import RunFolder
from pomp.runs.kept import read_run
from pomp.runs.published import published
from pomp.runs.reports import report
from pomp.runs.searched import evaluate_programs
from pomp.runs.searches import SearchRun
from pomp.runs.survey import read_charts, read_paths
from pomp.runs.work import Watch, drive
from pomp.tasks.catalog import TASKS, find_task
from starting import Starts


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with a small search of two tasks and two seeds."""
    folder = tmp_path_factory.mktemp("search") / "search"
    changes = {"proposer.iterations": 8, "proposer.population": 12, "mode.runs": 3}
    jobs = []
    for name in ("Maze", "Harvester"):
        setting = find_task(name).configure()
        config = configure("cem-diversity", "paper", setting, changes)
        jobs += [Job(setting, seed, config) for seed in (0, 4)]
    run = SearchRun(jobs, "cpu", RunFolder(folder))
    run.folder.open("search", run.describe, resume=False)
    assert drive(run, Watch(None))
    return folder


def test_a_memo_is_a_dictionary():
    draw = np.random.default_rng(5)
    memo, known = Memo(7), {}
    for _ in range(40):
        ids = draw.integers(0, 3, (200, 7)).astype(np.uint8)
        rows = np.sort(draw.choice(200, 150, replace=False))
        first = len(memo)
        entries, unknown = memo.find(ids, rows)
        fresh = []
        for row in rows:
            key = ids[row].tobytes()
            if key not in known:
                known[key] = len(known)
                fresh.append(row)
        assert unknown.tolist() == fresh
        memo.fill(first, np.arange(first, len(known)) * 0.5, np.arange(first, len(known)) + 7)
        expected = np.array([known[ids[row].tobytes()] for row in rows])
        returns, actions = memo.read(entries)
        assert (returns == expected * 0.5).all()
        assert (actions == expected + 7).all()
    assert len(memo) == len(known) > 1024  # it has grown


def test_ranks_compare_like_texts():
    ids = pomp.sample_programs(400, 3)
    texts = [" ".join(LEAPS.decode(row.tolist())) for row in ids]
    ranks = text_ranks(LEAPS.tokens)
    by_rank = sorted(range(len(ids)), key=lambda n: ranks[ids[n]].tobytes())
    assert [texts[n] for n in by_rank] == sorted(texts)


def test_behaviour_is_what_a_program_leaves_behind():
    setting = find_task("Harvester").configure()
    starts = pomp.draw_starts(setting, 2, 0)
    programs = ["DEF run m( pickMarker m)", "DEF run m( turnLeft m)", "DEF run m( turnRight m)"]
    ids = np.full((3, 8), LEAPS.pad, np.uint8)
    for row, program in zip(ids, programs, strict=True):
        tokens = LEAPS.encode(program.split())
        row[: len(tokens)] = tokens
    picked, left, right = behaviour_vectors(setting, ids, starts, "calls220")
    assert (left == right).all()  # a turn moves neither markers nor the agent
    cells = setting.height * setting.width
    assert picked.shape == (2 * 2 * cells,)
    for start in range(2):
        changes, places = picked.reshape(2, 2, cells)[start]
        here = int(starts.pose[start]) >> 2
        assert np.flatnonzero(changes).tolist() == [here]
        assert changes[here] == -1
        assert np.flatnonzero(places).tolist() == [here]


def test_a_search_and_its_report_begin_apart(monkeypatch):
    seen = Starts(monkeypatch)
    setting = find_task("Maze").configure()
    changes = {"proposer.iterations": 4, "proposer.population": 8, "mode.runs": 2}
    job = Job(setting, 0, configure("cem-diversity", "paper", setting, changes))
    batch = Batch([job], Embedding.load())
    while not batch.is_finished:
        batch.step()
    searched = seen.take()
    assert set(searched) == {Purpose.SEARCH}
    score = {"cap": "calls220", "rounds": 1, "patience": 0}
    evaluate_programs(setting, ["DEF run m( move m)"], score, 1000)
    judged = seen.take()
    assert set(judged) == {Purpose.EVALUATION}
    assert not searched[Purpose.SEARCH] & judged[Purpose.EVALUATION]


def test_a_report_evaluates_on_starts_the_search_has_not_seen(finished):
    found = report([finished], starts=20)
    assert found["method"] == "cem-diversity"
    for task, row in found["tasks"].items():
        setting = find_task(task).configure()
        worlds = pomp.draw_starts(setting, 20, 0, Purpose.EVALUATION)
        assert [job["seed"] for job in row["jobs"]] == [0, 4]
        assert row["published"] == published("cem-diversity", task)
        for job in row["jobs"]:
            lines = (finished / task / f"seed{job['seed']}" / "metrics.jsonl").read_text()
            records = [json.loads(line) for line in lines.splitlines()]
            direct = pomp.rollout(setting, [job["modes"][0]["program"]], worlds).returns.mean()
            assert job["return"] == direct
            assert job["best_of_runs"] >= job["return"]
            assert job["candidates"] == sum(record["candidates"] for record in records) > 0
        assert row["mean"] == np.mean([job["return"] for job in row["jobs"]])
        one, two = (job["return"] for job in row["jobs"])
        assert row["std"] == pytest.approx(abs(one - two) / 2)
    with pytest.raises(ConfigError, match="Harvester, seed 0, is in two"):
        report([finished, finished])


def test_what_does_not_parse_returns_nothing():
    setting = find_task("Maze").configure()
    score = {"cap": "calls220", "rounds": 1, "patience": 0}
    texts = ["DEF run m( m)", "DEF run m( move m)", "DEF run"]
    assert evaluate_programs(setting, texts, score, 4)[::2] == [0.0, 0.0]
    assert evaluate_programs(setting, texts[:1], score, 4) == [0.0]


def test_repeating_a_program_goes_on_until_done_and_no_further():
    setting = find_task("StairClimber").configure()
    step = "DEF run m( turnLeft move turnRight move m)"
    once = evaluate_programs(setting, [step], {"cap": "calls220", "rounds": 1, "patience": 0}, 30)
    again = evaluate_programs(
        setting, [step], {"cap": "calls220", "rounds": 100, "patience": 0}, 30
    )
    assert once[0] < again[0] == 1.0
    idle = evaluate_programs(
        setting, ["DEF run m( IF c( markersPresent c) i( move i) m)"],
        {"cap": "calls220", "rounds": 100_000, "patience": 0}, 3,
    )  # fmt: skip
    assert idle[0] == 0.0


def test_the_report_and_plot_commands(finished, capsys, tmp_path):
    out = tmp_path / "report.json"
    for arguments, expected in (
        (("report", str(finished), "--out", str(out)), 0),
        (("report", str(finished), "--json"), 0),
        (("report", str(tmp_path)), 2),
        (("report", str(finished), "--starts", "0"), 2),
    ):
        with pytest.raises(SystemExit) as caught:
            main(list(arguments))
        assert caught.value.code == expected, arguments
    printed = capsys.readouterr().out
    assert "Maze" in printed
    assert json.loads(out.read_text()) == report([finished])


def test_curves_grow_and_paths_lie_in_a_plane(finished):
    [chart] = read_charts(read_run(finished))
    places = [("Harvester", (0,)), ("Harvester", (4,)), ("Maze", (0,)), ("Maze", (4,))]
    assert [(curve.task, curve.seeds) for curve in chart.curves] == places
    for curve in chart.curves:
        assert (np.diff(curve.at) >= 0).all()
        assert (np.diff(curve.returns) >= 0).all()
    assert [(mean.task, mean.seeds) for mean in chart.means] == [
        ("Harvester", (0, 4)),
        ("Maze", (0, 4)),
    ]
    last = [curve.returns[-1] for curve in chart.curves if curve.task == "Maze"]
    assert chart.means[1].returns[-1] == np.mean(last)
    paths = read_paths(read_run(finished), "Maze", 4)
    assert paths is not None
    assert len(paths.points) == 3
    assert 0 < paths.share <= 1
    with pytest.raises(DataFileError, match="no paths"):
        read_paths(read_run(finished), "Snake")


def test_the_paper_is_quoted_right():
    row = {"method": "CEM+diversity", "mean": 0.8, "std": 0.07}
    assert published("cem-diversity", "Harvester") == row
    assert published("leaps", "InfHarvester") == {"method": "LEAPS", "mean": 0.12, "std": 0.0}
    assert published("annealing", "Harvester") is None


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("3", [3]), ("0,2", [0, 2]), ("0-4", [0, 1, 2, 3, 4]), ("7, 1-2", [7, 1, 2])],
)
def test_seeds_are_a_number_a_list_or_a_range(text, seeds):
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("preset", ["paper", "code", "best"])
def test_every_method_has_settings_for_every_task(method, preset):
    for task in TASKS:
        config = configure(method, preset, task.name)
        assert isinstance(config, SearchConfig)
        assert config.score.fresh_draws == (preset == "code")


def test_changes_of_a_config_are_checked():
    config = SearchConfig()
    assert changed(config, {"proposer.sigma": 1, "mode.runs": 4}).proposer.sigma == 1
    for name, value, message in (
        ("proposer.sigma", float("nan"), "sigma must be from"),
        ("mode.lists", 1, "mode.lists must be true or false"),
        ("score.starts", True, "score.starts must be something else"),
        ("score.starts", 2.5, "starts must be a whole number"),
        ("method.name", "x", "method has no fields"),
        ("score", 1, "score has fields"),
    ):
        with pytest.raises(ConfigError, match=message):
            changed(config, {name: value})
