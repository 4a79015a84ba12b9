"""Rules distilled from networks: what they keep, what is written, what is refused."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

import pomp
from commands import call
from networks import STEP, TURN, of_network
from pomp.analysis.distillation import DistillationConfig, distill
from pomp.analysis.distilled import save_distillation
from pomp.analysis.extraction import ExtractionConfig, extract
from pomp.analysis.list_trials import ListTrials
from pomp.analysis.rule_search import RuleSearch, leave_rules_out
from pomp.analysis.rule_trees import Forest, RuleLessons, collect, see
from pomp.analysis.trials import Trials
from pomp.analysis.watching import watch
from pomp.core.errors import ConfigError, OutputError
from pomp.karel.sensors import SENSORS
from pomp.machine.bottleneck import OpenedNetwork
from pomp.machine.config import BottleneckConfig
from pomp.machine.sensors import COUNT_NAMES
from pomp.machine.text import print_machine
from pomp.machine.transitions import DecisionList, Rule

QUICK = DistillationConfig(episodes=8, trials=8, fits=2, search=3)
FEW = ("--episodes", 8, "--trials", 8, "--search", 0)
COLUMNS = [*(sensor.name for sensor in SENSORS), *COUNT_NAMES]


@pytest.fixture(scope="module")
def found():
    return distill(pomp.load_machine("zoo:UpNDown/network"), QUICK)


def test_rules_earn_what_the_network_does_with_its_modes(found):
    network = pomp.load_machine("zoo:UpNDown/network")
    assert found.is_enough
    assert not found.was_searched
    assert found.found.mean >= 0.95 * found.network.mean
    assert found.machine.modes == network.modes
    assert found.machine.names == ("M1",)
    assert found.rules.after == ((Rule(None, ("no marker anywhere",)), Rule(0)),)


def test_fidelity_is_agreement_in_fresh_states(found):
    assert found.fidelity.likeliest > 0.99
    assert 0.9 < found.fidelity.drawn <= found.fidelity.most <= 1.0
    assert found.fidelity.states > 100


def test_the_same_seed_gives_the_same_text(found):
    again = distill(pomp.load_machine("zoo:UpNDown/network"), QUICK)
    assert print_machine(again.machine) == print_machine(found.machine)
    assert again.to_json() == found.to_json()


def test_the_file_is_an_ordinary_text_machine(found, tmp_path, capsys):
    save_distillation(found, tmp_path / "up.machine")
    again = pomp.load_machine(tmp_path / "up.machine")
    assert again.transition == found.machine.transition
    assert pomp.evaluate(again).returns.tolist() == found.found.returns.tolist()
    status, out, _ = call(capsys, "explain", tmp_path / "up.machine", "--episodes", 4)
    assert status == 0
    assert "stops if no other cell has a marker; else repeats itself" in re.sub(r"\s+", " ", out)


@pytest.mark.parametrize(
    ("modes", "bias"),
    [
        pytest.param([STEP, TURN], (9.0, -9.0, -9.0), id="never leaves a mode, never ends"),
        pytest.param([STEP, TURN], (-9.0, -9.0, 9.0), id="ends at once"),
        pytest.param([STEP, TURN], (), id="two modes"),
        pytest.param([STEP, STEP, TURN], (), id="a program twice"),
    ],
)
def test_odd_machines_keep_their_modes(modes, bias):
    machine = of_network(modes, bias)
    found = distill(machine, QUICK)
    assert found.machine.modes == machine.modes
    assert found.machine.episode == machine.episode
    assert len(found.rules.after) == len(modes)


@pytest.mark.parametrize("inputs", ["grid", "perceptions+mode"])
def test_networks_with_other_inputs_can_be_distilled(inputs):
    found = distill(of_network([STEP, TURN], inputs=inputs), replace(QUICK, fits=1))
    assert 0.0 < found.fidelity.likeliest <= 1.0


# Trees.


def lessons_of(rule):
    """RuleLessons of which a rule, that takes rows of columns by name, says what is chosen."""
    draw = np.random.default_rng(0)
    seen = draw.integers(0, 2, (600, len(COLUMNS))).astype(np.int32)
    seen[:, len(SENSORS) :] = draw.integers(0, 9, (600, len(COUNT_NAMES)))
    choices = [rule(dict(zip(COLUMNS, row, strict=True))) for row in seen.tolist()]
    return RuleLessons(seen, np.zeros(600, np.int64), np.eye(3)[choices])


def test_a_forest_finds_the_rule_behind_choices():
    forest = Forest(lessons_of(lambda row: 2 if row["markers"] >= 5 else int(row["idle"])), 8)
    assert forest.splits == 2
    assert forest.rules(2).after[0] in (
        (Rule(None, ("markers at least 5",)), Rule(1, ("idle",)), Rule(0)),
        (Rule(None, ("markers at least 5",)), Rule(0, ("not idle",)), Rule(1)),
    )
    assert forest.rules(0) == DecisionList((Rule(None),), ((Rule(None),), (Rule(None),)))


def test_rules_read_off_a_tree_choose_what_it_says():
    lessons = lessons_of(lambda row: (row["row"] // 3 + row["idle"] * row["column"] // 4) % 3)
    forest = Forest(lessons, 64)
    readings = (lessons.seen[:, : len(SENSORS)] << np.arange(len(SENSORS))).sum(axis=1)
    rules = forest.rules(forest.splits)
    chosen = rules.choices(readings, lessons.seen[:, len(SENSORS) :])[1]
    assert (chosen == lessons.weights.argmax(axis=1)).all()


# Trials and searches.


@pytest.fixture(scope="module")
def study():
    """Trials and lessons of Harvester's network."""
    machine = pomp.load_machine("zoo:Harvester/network")
    assert isinstance(machine.transition, pomp.machine.NetworkTransition)
    met = watch(machine, OpenedNetwork(machine.transition), 8, 10, 0, see=see)
    return ListTrials(Trials(machine, 0.95, 8, 0)), collect([met]), machine


def test_lists_that_are_tried_together_earn_what_they_earn_alone(study):
    trials, lessons, machine = study
    forest = Forest(lessons, 12)
    lists = [forest.rules(size) for size in (0, 2, 5, 12)]
    together = trials.run(lists)
    assert together == [one for rules in lists for one in trials.run([rules])]
    ends = [one for one in together if one.ended == 1.0]
    assert ends
    for one in ends:
        assert pomp.evaluate(replace(machine, transition=one.rules)).mean == one.mean


def test_a_search_makes_lists_better_and_repeats_itself(study):
    trials, lessons, _ = study
    poor = trials.run([Forest(lessons, 0).rules(0)])
    searches = [RuleSearch(trials, lessons, poor, seed=3) for _ in range(2)]
    for search in searches:
        search.run(30, lambda: None)
    assert searches[0].best == searches[1].best
    assert searches[0].best.score > poor[0].score


def test_what_is_left_out_is_not_missed(study):
    trials, lessons, _ = study
    forest = Forest(lessons, 64)
    given = max(
        trials.run([forest.rules(size) for size in (12, 24, 64)]), key=lambda one: one.score
    )
    way = leave_rules_out(trials, replace(given, is_enough=True))
    words = [one.words for one in way]
    assert words == sorted(words, reverse=True)
    assert all(one.is_enough for one in way)


# The command.


def test_the_command_prints_json(capsys, tmp_path):
    where = tmp_path / "up.machine"
    status, out, _ = call(capsys, "distill", "zoo:UpNDown/network", "--out", where, *FEW, "--json")
    told = json.loads(out)
    assert status == 0
    assert (told["task"], told["modes"], told["enough"]) == ("UpNDown", 1, True)
    assert told["returns"]["rules"]["mean"] == pomp.evaluate(where).mean
    assert set(told["fidelity"]) == {"likeliest", "drawn", "most", "states"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("zoo:UpNDown/text", "--out", "x.machine"), "it is a text machine already; pomp simplify"),
        (("zoo:UpNDown/network", "--out", "x"), "'x' is no name of a text machine; it ends in"),
        (("zoo:UpNDown/network", "--out", "no/x.machine"), "there is no folder 'no'; make it"),
        (("zoo:UpNDown/network", "--out", "there.machine"), "exists; name a new file"),
        (("zoo:UpNDown/network", "--out", "x.machine", "--keep", 2), "keep must be from 0 to 1"),
        (("zoo:UpNDown/network", "--out", "x.machine", "--seed", -1), "must not be negative"),
        (("zoo:NoTask/network", "--out", "x.machine"), "unknown machine of the zoo 'NoTask'"),
    ],
)
def test_bad_input_is_refused_in_one_line(capsys, tmp_path, monkeypatch, given, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.machine").write_text("mine")
    status, out, err = call(capsys, "distill", *given)
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["there.machine"]


def test_a_file_that_exists_is_not_written_over(found, tmp_path):
    (tmp_path / "up.machine").write_text("mine")
    with pytest.raises(OutputError, match="exists; name a new file"):
        save_distillation(found, tmp_path / "up.machine")
    assert (tmp_path / "up.machine").read_text() == "mine"


def test_an_extracted_machine_has_nothing_to_distil():
    quick = BottleneckConfig(steps=20)
    config = ExtractionConfig(sizes=(2,), episodes=4, trials=4, bottleneck=quick)
    table = extract(of_network([STEP, TURN]), config).machine
    with pytest.raises(ConfigError, match=r"this machine has none: .* distil the machine it came"):
        distill(table)
