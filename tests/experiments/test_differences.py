"""Two stores compared cell by cell."""

import json

import pytest

from commands import call
from pomp.experiments.differences import compare_stores
from stores import finish, keep, make_cell, seeds_of

CELL = make_cell()
RETURNS = (0.5, 0.25, 0.75)


def test_equal_results_are_the_same_whatever_they_were_computed_on():
    ours = finish(CELL, RETURNS, cost={"seconds": 1.0, "shared_by": 1, "steps": 5})
    theirs = finish(
        CELL,
        RETURNS,
        cost={"seconds": 2.0, "shared_by": 25, "steps": 5},
        made={"hardware": "a GPU", "commit": "beef"},
    )
    found = compare_stores([ours], [theirs])
    assert found.is_none
    assert found.same == ("paper/pomp/Farmer/seed0",)


def test_episodes_that_differ_are_named_with_both_returns():
    [found] = compare_stores([finish(CELL, RETURNS)], [finish(CELL, (0.5, 0.5, 0.625))]).differing
    assert found.returns == {1: (0.25, 0.5), 2: (0.75, 0.625)}
    assert found.most == 0.25
    assert found.means == (0.5, pytest.approx(0.5417, abs=1e-4))
    assert (found.fingerprint, found.settings, found.fields) == ({}, {}, ("fraction", "mean"))


def test_an_episode_that_one_has_not_differs():
    [found] = compare_stores([finish(CELL, RETURNS)], [finish(CELL, RETURNS[:2])]).differing
    assert found.returns == {2: (0.75, None)}
    assert (found.most, found.episodes) == (0.0, 3)


def test_fingerprints_and_settings_that_differ_are_named():
    ours = finish(CELL, fingerprint={"method": 1, "settings": "a"}, settings={"a": {"b": [1, 2]}})
    theirs = finish(
        CELL,
        fingerprint={"method": 2, "settings": "b"},
        settings={"a": {"b": [1], "c": [{"d": 3}]}},
    )
    [found] = compare_stores([ours], [theirs]).differing
    assert found.fingerprint == {"method": (1, 2), "settings": ("a", "b")}
    assert found.settings == {"a.b": ([1, 2], [1]), "a.c.0.d": (None, 3)}
    assert found.returns == {}


def test_modes_and_counts_that_differ_are_named():
    cell = make_cell(stage="search")
    ours, theirs = finish(cell, (), cost={"steps": 1}), finish(cell, (), programs=["DEF run m( m)"])
    [found] = compare_stores([ours], [theirs]).differing
    assert found.fields == ("programs", "cost.steps")


def test_the_command_ends_with_one_if_they_differ(tmp_path, capsys):
    first = keep(tmp_path / "a", seeds_of("pomp", "Farmer", (0.5, 0.75)))
    other = [
        finish(make_cell(seed=1), (0.5,), fingerprint={"method": 2}),
        finish(make_cell(seed=2), (0.5,)),
    ]
    second = keep(tmp_path / "b", other)
    status, printed, _ = call(capsys, "results", "diff", first, second)
    assert status == 1
    assert printed.splitlines() == [
        f"only in {first}: 1 cell",
        "  paper/pomp/Farmer/seed0",
        f"only in {second}: 1 cell",
        "  paper/pomp/Farmer/seed2",
        "differing: 1 cell",
        "  paper/pomp/Farmer/seed1",
        "    returns of 1 of 1 episodes (0), by at most 0.25; mean 0.75 -> 0.5",
        "    fingerprint: method 1 -> 2",
        "    other fields: fraction, mean",
        "same: 0 cells",
    ]
    assert call(capsys, "results", "diff", first, first) == (0, "same: 2 cells\n", "")


def test_the_command_tells_all_as_json(tmp_path, capsys):
    first = keep(tmp_path / "a", [finish(CELL, RETURNS)])
    second = keep(tmp_path / "b", [finish(CELL, (0.5, 0.25, 0.5))])
    status, printed, _ = call(capsys, "results", "diff", first, second, "--json")
    found = json.loads(printed)
    assert status == 1
    assert found["differing"][0]["returns"] == {"2": [0.75, 0.5]}
    assert (found["only_in_first"], found["only_in_second"], found["same"]) == ([], [], [])


def test_what_is_no_store_is_refused(tmp_path, capsys):
    store = keep(tmp_path / "a", [finish(CELL)])
    status, _, told = call(capsys, "results", "diff", store, tmp_path / "none")
    assert (status, "there are no results in" in told) == (2, True)
