"""The statistics of an evaluation, against values that can be computed by hand."""

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest

from pomp.analysis.explanation import explain
from pomp.cli.shares import count_episodes
from pomp.core.streams import Purpose, draw_units, open_streams
from pomp.learning.random_transition import randomise
from pomp.machine import DecisionList, ProgramMachine, Rule
from pomp.machine.evaluation import (
    Evaluation,
    begin_exactly,
    bootstrap,
    evaluate,
    evaluate_exactly,
)
from pomp.machine.zoo import load_machine
from pomp.tasks.catalog import find_task


def evaluation(returns, weights=None):
    count = len(returns)
    ones, paths = np.ones(count, np.int64), np.zeros((count, 1), np.int16)
    weights = None if weights is None else np.array(weights)
    setting = find_task("StairClimber").configure()
    ended = np.ones(count, np.bool_)
    return Evaluation(setting, np.array(returns, float), ones, ones, ended, paths, weights)


def test_mean_and_deviation_of_drawn_episodes():
    found = evaluation([0.2, 0.4, 0.9])
    assert found.mean == pytest.approx(0.5)
    assert found.std == pytest.approx(sqrt((0.09 + 0.01 + 0.16) / 3))
    told = found.to_json()
    assert (told["mean"], told["std"]) == (found.mean, found.std)


def test_mean_and_deviation_of_exact_starts_go_by_their_probabilities():
    found = evaluation([0.0, 1.0], weights=[0.25, 0.75])
    assert found.mean == 0.75
    assert found.std == pytest.approx(sqrt(0.75 * 0.25))
    assert found.interval == (0.75, 0.75)


def test_the_interval_leaves_out_a_fortieth_on_either_side():
    """Means of 8 draws from eight halves are binomial: 0.4 % of them are 0, 3.5 % at most 1/8."""
    assert bootstrap([0.0, 1.0] * 4) == (1 / 8, 7 / 8)
    assert evaluation([0.0, 1.0] * 4).interval == (1 / 8, 7 / 8)


def test_the_interval_is_as_wide_as_the_normal_distribution_says():
    returns = np.random.default_rng(0).normal(3.0, 2.0, 400)
    low, high = bootstrap(returns)
    half = 1.96 * returns.std() / sqrt(400)
    assert low == pytest.approx(returns.mean() - half, abs=0.03)
    assert high == pytest.approx(returns.mean() + half, abs=0.03)


def test_the_interval_of_equal_returns_is_their_value():
    assert evaluation([0.25] * 30).interval == (0.25, 0.25)


MOVE = "DEF run m( move m)"
ALWAYS = DecisionList(start=(Rule(to=0),), after=((Rule(to=None),),))


def test_every_start_is_played_where_nothing_else_is_random():
    machine = ProgramMachine(task="OneStroke", modes=(MOVE,), transition=ALWAYS)
    found = evaluate(machine)
    assert (len(found.returns), found.is_exact) == (36, True)
    assert found.mean == evaluate_exactly(machine).mean
    assert found.interval == (found.mean, found.mean)
    assert count_episodes(found.to_json()) == "all 36 starts"


@pytest.mark.parametrize(("asked", "count"), [({"episodes": 5}, 5), ({"seed": 0}, 32)])
def test_starts_are_drawn_if_their_number_or_a_seed_is_given(asked, count):
    machine = ProgramMachine(task="OneStroke", modes=(MOVE,), transition=ALWAYS)
    found = evaluate(machine, **asked)
    assert (len(found.returns), found.is_exact) == (count, False)
    assert count_episodes(found.to_json()) == f"{count} episodes"


WAIT = "DEF run m( WHILE c( noMarkersPresent c) w( turnLeft w) m)"
IDLE = "DEF run m( WHILE c( noMarkersPresent c) w( IF c( markersPresent c) i( move i) w) m)"


@pytest.mark.parametrize(
    ("mode", "cap", "cuts"),
    [
        pytest.param(MOVE, "calls3", 0, id="a budget that is spent, not exceeded"),
        pytest.param(WAIT, "calls220", 1, id="calls are spent"),
        pytest.param(WAIT, "actions7", 1, id="actions are spent"),
        pytest.param(IDLE, "actions7", 1, id="a loop that can never end"),
        pytest.param(IDLE, "calls10000", 1, id="a loop that can never end, by calls"),
    ],
)
def test_a_program_that_its_cap_stops_is_a_cut(mode, cap, cuts):
    machine = ProgramMachine(task="OneStroke", modes=(mode,), transition=ALWAYS)
    found = evaluate(machine, cap=cap)
    assert found.cuts.tolist() == [cuts] * 36
    told = found.to_json()
    assert (told["cuts"], told["clean"], found.is_clean) == (cuts, cuts == 0, cuts == 0)


def test_a_machine_that_never_ends_is_not_clean():
    forever = DecisionList(start=(Rule(to=0),), after=((Rule(to=0),),))
    found = evaluate(ProgramMachine(task="OneStroke", modes=(MOVE,), transition=forever))
    assert found.to_json()["endings"] == {"by choice": 0, "at the limit": 36}
    assert (found.cuts.any(), found.is_clean) == (False, False)


def test_starts_are_drawn_where_something_else_is_random(monkeypatch):
    machine = ProgramMachine(task="OneStroke", modes=(MOVE,), transition=ALWAYS)
    setting = machine.configure()
    drawing = replace(setting, task=replace(setting.task, draws=lambda setting: True))
    assert begin_exactly(machine, drawing) is None
    chancy = randomise(machine)
    assert begin_exactly(chancy, setting) is None
    assert begin_exactly(chancy, setting, greedy=True) is not None
    monkeypatch.setattr("pomp.machine.evaluation.MOST_LISTED", 35)
    assert begin_exactly(machine, setting) is None


def test_unequal_starts_weigh_as_they_are_likely():
    setting = find_task("TopOff").configure()
    machine = ProgramMachine(task="TopOff", modes=(MOVE,), transition=ALWAYS)
    _, weights = begin_exactly(machine, setting)
    assert len(set(weights)) > 1
    assert weights.sum() == pytest.approx(1.0)


def test_an_explanation_plays_what_an_evaluation_plays():
    machine = ProgramMachine(task="OneStroke", modes=(MOVE,), transition=ALWAYS)
    assert explain(machine).found.to_json() == evaluate(machine).to_json()


def test_the_bootstrap_is_its_definition():
    returns = np.random.default_rng(0).normal(size=777)
    streams = open_streams(Purpose.EVALUATION, 0, 2, worlds=2000)
    rows = (draw_units(streams, 777) * 777).astype(np.int64)
    low, high = np.quantile(returns[rows].mean(axis=0), [0.025, 0.975])
    assert bootstrap(returns) == (low, high)


@pytest.mark.parametrize("choose", [lambda machine: machine, randomise], ids=["by rules", "drawn"])
def test_episodes_played_in_parts_are_the_same(monkeypatch, choose):
    machine = choose(load_machine("zoo:UpNDown/text"))
    whole = evaluate(machine, episodes=30, seed=3)
    seen = []
    monkeypatch.setattr("pomp.machine.evaluation.AT_ONCE", 8)
    parts = evaluate(machine, episodes=30, seed=3, watch=lambda steps, over: seen.append(over))
    for name in ("returns", "programs", "actions", "ended", "cuts"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))
    assert parts.to_json() == whole.to_json()
    assert max(seen) >= 24
