"""`mode.select=bound`: the runs are those of the paper's choice, and a stop loses none of them."""

import json

import pytest

import pomp
from commands import call
from pomp.core.errors import ConfigError

FEW = {"mode.runs": 3, "proposer.iterations": 4, "proposer.population": 16, "score.starts": 3}
ASKED = {"modes": 2, "seeds": (0, 1), "settings": {**FEW, "mode.select": "bound"}}


def texts_of(found):
    return [[mode["program"] for mode in one["modes"]] for one in found.searches]


def test_only_the_last_choice_differs(tmp_path):
    by_score = pomp.search("UpNDown", out=tmp_path / "score", modes=2, seeds=(0, 1), settings=FEW)
    by_bound = pomp.search("UpNDown", out=tmp_path / "bound", **ASKED)
    for seed in range(2):
        score, bound = (
            (tmp_path / name / "UpNDown" / f"seed{seed}" / "metrics.jsonl").read_text()
            for name in ("score", "bound")
        )
        assert score == bound
        pool = [json.loads(line)["program"] for line in bound.splitlines()]
        assert set(texts_of(by_bound)[seed]) <= set(pool)
    setting = pomp.find_task("UpNDown").configure()
    for chosen, before in zip(texts_of(by_bound), texts_of(by_score), strict=True):
        worth = [pomp.analysis.estimate(setting, modes, episodes=16) for modes in (chosen, before)]
        assert worth[0].value >= worth[1].value


def test_a_search_left_while_it_chooses_goes_on_to_the_same_modes(tmp_path):
    whole = pomp.search("UpNDown", **ASKED)
    folder, choices = tmp_path / "run", []

    def stop(event):
        has_runs = event.progress.finished == event.progress.total
        choices.append(has_runs)
        return sum(choices) == 4

    left = pomp.search("UpNDown", out=folder, on_event=stop, **ASKED)
    assert not left.is_finished
    assert left.done == left.total
    written = sorted(path.parent.name for path in folder.rglob("modes.json"))
    found = pomp.search(out=folder, resume=True)
    assert found.is_finished
    assert texts_of(found) == texts_of(whole)
    assert len(written) < 2
    again = pomp.search(out=folder, resume=True)
    assert again.was_finished


def test_a_choice_from_one_round_is_refused():
    with pytest.raises(ConfigError, match="select=bound has none"):
        pomp.search("UpNDown", method="cem-diversity-topk", settings={"mode.select": "bound"})


def test_tasks_that_have_no_bound_are_refused_before_the_search(capsys, tmp_path):
    given = ("search", "Harvester", "--variant", "leaps", "--out", str(tmp_path / "run"))
    status, _, errors = call(capsys, *given, "--set", "mode.select=bound")
    assert (status, errors.count("\n")) == (2, 1)
    assert "do not add up" in errors
    assert not (tmp_path / "run").exists()
