"""Reports and plots of runs of every kind: finished, cut short, damaged, and none at all."""

import json
import shutil

import pytest

import pomp
from commands import call
from edited import edit_json
from pomp.core import ConfigError, DataFileError
from pomp.runs.kept import read_run
from pomp.runs.reports import report
from pomp.runs.survey import read_charts

EVOLVE = {"chains": 8, "starts": 4, "validation_starts": 8, "steps": 40}
MODES = ("DEF run m( turnLeft move turnRight move m)", "DEF run m( turnLeft m)")
TRAIN = {
    "ppo.total": 512, "ppo.actors": 8, "ppo.steps": 16, "ppo.minibatch": 32,
    "validation.every": 2, "validation.episodes": 8,
}  # fmt: skip


@pytest.fixture(scope="module")
def evolved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "evolved"
    pomp.evolve("Farmer", rounds=2, seeds=(0, 1), settings=EVOLVE, out=folder)
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "trained"
    settings = {**TRAIN, "learning_rates": (1e-3, 1e-2)}
    asked = {"preset": "paper", "modes": MODES, "seeds": (0, 3), "settings": settings}
    pomp.train("UpNDown", **asked, out=folder)
    return folder


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def cut_short(folder, to, *, task):
    """A copy of a run of which the second seed is not finished."""
    shutil.copytree(folder, to)
    (to / "summary.json").unlink()
    seed = sorted((to / task).iterdir())[1]
    (seed / "evaluation.json").unlink()
    metrics = seed / "metrics.jsonl"
    lines = metrics.read_text().splitlines(keepends=True)
    metrics.write_text(lines[0] + lines[1][:20])
    return to


def test_the_curve_of_an_evolution_is_its_best_machine_over_machines_tried(evolved):
    [chart] = read_charts(read_run(evolved))
    assert chart.what == "best score so far (validation, penalties included)"
    assert [curve.seeds for curve in chart.curves] == [(0,), (1,)]
    for curve in chart.curves:
        records = lines_of(evolved / "Farmer" / f"seed{curve.seeds[0]}" / "metrics.jsonl")
        assert curve.at == [record["evaluated"] for record in records]
        assert curve.returns == [record["score"] for record in records]
    [mean] = chart.means
    assert mean.seeds == (0, 1)
    assert mean.at[0] == max(curve.at[0] for curve in chart.curves)
    assert mean.returns[-1] == sum(curve.returns[-1] for curve in chart.curves) / 2


def test_the_curves_of_a_training_are_those_of_the_member_that_validation_prefers(trained):
    validation, training = read_charts(read_run(trained))
    assert (validation.is_best, "macro steps" in validation.over) == (False, True)
    for curve in validation.curves:
        records = lines_of(trained / "UpNDown" / f"seed{curve.seeds[0]}" / "metrics.jsonl")
        rates = {record["learning_rate"] for record in records}
        last = {record["learning_rate"]: record["best"] or 0.0 for record in records}
        kept = [rate for rate in rates if last[rate] == max(last.values())]
        returns = [[one["return"] for one in records if one["learning_rate"] == r] for r in kept]
        assert curve.at == [256, 512]
        assert curve.returns in returns
    assert [mean.seeds for mean in training.means] in ([(0, 3)], [])


def test_reports_repeat_what_the_run_said(capsys, evolved, trained):
    for folder, kind in ((evolved, "evolve"), (trained, "train")):
        found = report([folder])
        method = found.pop("method")
        assert (found.pop("kind"), found.pop("finished"), found.pop("unfinished")) == (
            kind,
            True,
            [],
        )
        assert found == json.loads((folder / "summary.json").read_text())
        status, output, _ = call(capsys, "report", folder)
        [task] = found["tasks"]
        title = {"evolve": "evolve", "train": f"train, method {method}"}[kind]
        assert (status, output.splitlines()[0]) == (0, f"{title}; published: the paper's POMP")
        assert f"{found['tasks'][task]['mean']:.3f} ±" in output.splitlines()[2]


@pytest.mark.parametrize("kind", ["evolve", "train"])
def test_a_run_that_is_not_finished_is_reported_as_far_as_it_is(
    capsys, tmp_path, evolved, trained, kind
):
    folder, task = (evolved, "Farmer") if kind == "evolve" else (trained, "UpNDown")
    cut = cut_short(folder, tmp_path / "cut", task=task)
    found = report([cut])
    assert not found["finished"]
    assert found["tasks"][task]["seeds"] == 1
    [left] = found["unfinished"]
    told = "round 1, best score" if kind == "evolve" else "stage 3, 256 macro steps"
    assert left["so_far"].startswith(told)
    _, output, _ = call(capsys, "report", cut)
    mean = found["tasks"][task]["mean"]
    assert f" {mean:.3f}  " in output.splitlines()[2], "one seed has no standard deviation"
    assert "not finished; go on with --resume" in output.splitlines()
    picture = tmp_path / "picture.svg"
    status, _, errors = call(capsys, "plot", cut, "--out", picture)
    assert status == 0, errors
    assert picture.stat().st_size > 10_000


def test_a_training_that_is_still_searching_shows_its_search(tmp_path, evolved):
    run = tmp_path / "run"
    run.mkdir()
    shutil.copy(evolved / "config.json", run)
    edit_json(run / "config.json", kind="train")
    assert {one["so_far"] for one in report([run])["unfinished"]} == {"not begun"}
    with pytest.raises(DataFileError, match="has come far enough to be drawn"):
        read_charts(read_run(run))
    cut_short(evolved, run / "search", task="Farmer")
    told = [one["so_far"] for one in report([run])["unfinished"]]
    assert told[0] == "stage 2 is finished"
    assert told[1].startswith("stage 2, round 1, best score")
    assert [chart.over for chart in read_charts(read_run(run))] == ["machines tried"]


def test_folders_that_are_no_runs_are_refused_in_a_line(capsys, tmp_path, evolved):
    (tmp_path / "empty").mkdir()
    for name, config in {"foreign": {"name": "app"}, "kindless": {"kind": "x"}}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(config))
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "config.json").write_text('{"kind": "evolve", "tas')
    for folder in ("missing", "empty", "foreign", "kindless", "damaged"):
        for command in ("report", "plot"):
            status, output, errors = call(capsys, command, tmp_path / folder)
            assert (status, output) == (2, "")
            assert f"{folder}' holds no run" in errors.splitlines()[0]
            assert len(errors.splitlines()) == 1
    cut = tmp_path / "cut"
    shutil.copytree(evolved, cut)
    (cut / "Farmer" / "seed0" / "evaluation.json").write_text("{}")
    (cut / "Farmer" / "seed0" / "metrics.jsonl").write_text('{"evaluated": [], "score": 1}\n')
    for command in ("report", "plot"):
        status, _, errors = call(capsys, command, cut)
        assert (status, "damaged, or of another version" in errors) == (2, True)
    assert not list(tmp_path.glob("*.png"))


def test_runs_that_do_not_go_together_are_refused(tmp_path, evolved, trained):
    with pytest.raises(ConfigError, match="runs of one kind"):
        report([evolved, trained])
    with pytest.raises(ConfigError, match="Farmer, seed 0, is in two"):
        report([evolved, evolved])
    other = tmp_path / "other"
    shutil.copytree(trained, other)
    edit_json(other / "config.json", seeds=[7, 8], method="drl")
    with pytest.raises(ConfigError, match=r"of one method .* got \['drl', 'given'\]"):
        report([trained, other])
    with pytest.raises(ConfigError, match="only searches are evaluated on --starts"):
        report([evolved], starts=10)
