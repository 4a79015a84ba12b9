"""State machines out of networks: what they earn, what is written, what is refused."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

import pomp
from commands import call
from networks import STEP, TURN, of_network
from pomp.analysis.automata import moore_of
from pomp.analysis.extracted import minimise, save_extraction, table_of
from pomp.analysis.extraction import EVALUATED, ExtractionConfig, extract
from pomp.core.errors import ConfigError, DataFileError, OutputError
from pomp.machine.code_table import CodeTable
from pomp.machine.config import BottleneckConfig
from pomp.machine.policy import ProgramMachine

QUICK = ExtractionConfig(sizes=(2, 3), episodes=8, trials=8, bottleneck=BottleneckConfig(steps=300))
FEW = ("--sizes", 2, "--episodes", 8, "--trials", 8)


@pytest.fixture(scope="module")
def found():
    return extract(pomp.load_machine("zoo:UpNDown/network"), QUICK)


def test_a_state_machine_earns_what_the_network_does(found):
    assert found.is_enough
    assert found.choices == "greedy"
    assert found.table.is_sure
    assert found.found.mean >= 0.95 * found.network.mean
    assert len(found.table.observations) == 2
    assert [size.units for size in found.sizes] == [2, 3]


def test_evaluation_is_the_same_after_saving(found, tmp_path):
    found.machine.save(tmp_path / "machine")
    again = pomp.load_machine(tmp_path / "machine")
    assert isinstance(again.transition, CodeTable)
    played = pomp.evaluate(again, episodes=EVALUATED)
    assert played.returns.tolist() == found.found.returns.tolist()


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes(found, tmp_path):
    twin = extract(pomp.load_machine("zoo:UpNDown/network"), QUICK)
    save_extraction(found, tmp_path / "a")
    save_extraction(twin, tmp_path / "b")
    files = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*.*"))
    assert len(files) == 10
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_a_folder_holds_machines_graphs_and_numbers(found, tmp_path):
    save_extraction(found, tmp_path / "out")
    told = json.loads((tmp_path / "out" / "extraction.json").read_text())
    assert set(told["machine"]["table"]) == {"start", "M1"}
    assert set(told["machine"]["table"]["M1"].values()) == {"M1", "end"}
    groups = told["machine"]["observations"]
    numbers = sorted(number for group in groups.values() for number in group)
    assert numbers == list(range(len(told["codes"])))
    dot = (tmp_path / "out" / "machine.dot").read_text()
    assert "start -> mode1" in dot
    assert "mode1 -> end" in dot
    assert "<svg" in (tmp_path / "out" / "minimal.svg").read_text()


def test_another_library_finds_as_many_states(found):
    automaton = moore_of(found.machine)
    assert automaton.names == ("start", "M1", "end")
    assert len(automaton.minimised().names) == len(found.minimal.modes) + 2


def test_a_folder_that_exists_is_refused(found, tmp_path):
    with pytest.raises(OutputError, match="exists; name a new folder"):
        save_extraction(found, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_code_is_taken_for_the_first_of_the_nearest(found):
    machine = found.machine
    table = table_of(machine)
    probs = np.zeros((2, 3, 2))
    probs[:, 0, 0] = probs[:, 1, 1] = probs[:, 2, 1] = 1.0
    ends_if = {
        "near": [[1, 1], [-1, -1], [-1, 1]],
        "far": [[-1, -1], [1, 1], [-1, 1]],
    }
    weights = dict(table.weights)
    weights["encoder.1.weight"] = np.zeros((2, 16), np.float32)
    weights["encoder.1.bias"] = np.full(2, 5.0, np.float32)  # every code is 1, 1
    for name, codes in ends_if.items():
        known = np.array(codes, np.int8)[:, :2]
        blind = replace(table, weights=weights, codes=known, groups=np.arange(3), probs=probs)
        played = pomp.evaluate(replace(machine, transition=blind), episodes=2)
        assert (played.programs == 0).all() == (name == "far")
    known = np.array([[-1, 0], [0, -1], [-1, -1]], np.int8)  # 0 and 1 are equally near
    blind = replace(table, weights=weights, codes=known, groups=np.arange(3), probs=probs)
    assert (pomp.evaluate(replace(machine, transition=blind), episodes=2).programs > 0).all()


def test_choices_can_be_drawn():
    machine = of_network([STEP, TURN])
    found = extract(machine, replace(QUICK, sizes=(2,), choices="sampled"))
    assert found.choices == "sampled"
    assert not found.table.is_sure
    assert found.sizes[0].complete is None
    assert found.to_json()["sizes"][0]["complete"] is None
    paths = pomp.evaluate(found.machine, episodes=50).paths
    assert len(np.unique(paths[:, 0])) > 1
    greedy = pomp.evaluate(found.machine, episodes=50, greedy=True).paths
    assert len(np.unique(greedy[:, 0])) == 1


@pytest.mark.parametrize(
    ("modes", "bias"),
    [
        pytest.param([STEP, TURN], (9.0, -9.0, -9.0), id="never leaves a mode, never ends"),
        pytest.param([STEP, TURN], (-9.0, -9.0, 9.0), id="ends at once"),
        pytest.param([STEP], (), id="one mode"),
        pytest.param([STEP, STEP, TURN], (), id="a program twice"),
    ],
)
def test_odd_machines_are_extracted_and_minimised_without_a_change(modes, bias):
    found = extract(of_network(modes, bias), replace(QUICK, sizes=(2,)))
    assert found.minimal_found.mean == pytest.approx(found.found.mean, abs=1e-9)
    assert len(found.minimal.modes) <= len(modes)
    assert len(found.minimal.transition.observations) <= len(found.table.observations)


@pytest.mark.parametrize("inputs", ["grid", "perceptions+mode"])
def test_networks_with_other_inputs_can_be_extracted(inputs):
    found = extract(of_network([STEP, TURN], inputs=inputs), replace(QUICK, sizes=(3,)))
    assert found.found.returns.shape == found.network.returns.shape or found.found.is_exact


def test_the_recipe_of_the_paper_is_an_option():
    quick = replace(BottleneckConfig.of("paper"), epochs=2)
    found = extract(of_network([STEP, TURN]), replace(QUICK, sizes=(2,), bottleneck=quick))
    assert found.units == 2


def test_modes_that_are_not_reached_or_not_told_apart_are_left_out(found):
    table = table_of(found.machine)
    probs = np.eye(5)[np.array([[0, 1], [1, 4], [0, 4], [2, 2], [0, 0]])]
    machine = ProgramMachine(
        "UpNDown",
        (STEP, STEP, TURN, TURN),
        replace(table, modes=4, probs=probs, groups=np.arange(len(table.codes)) % 2),
    )
    minimal = minimise(machine)
    assert minimal.modes == (STEP,)
    assert minimal.transition.probs.tolist() == [[[1, 0], [1, 0]], [[1, 0], [0, 1]]]


def test_a_machine_with_rules_has_nothing_to_extract(capsys, tmp_path):
    status, out, err = call(capsys, "extract", "zoo:UpNDown/text", "--out", tmp_path / "x")
    assert status == 2
    assert not out
    assert err.startswith("pomp: a state machine is extracted from a network, and this machine has")
    assert err.count("\n") == 1
    assert not (tmp_path / "x").exists()


def test_the_command_refuses_a_folder_that_exists(capsys, tmp_path):
    status, _, err = call(capsys, "extract", "zoo:UpNDown/network", "--out", tmp_path)
    assert status == 2
    assert err == f"pomp: '{tmp_path}' exists; name a new folder\n"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--sizes", 0), "sizes are different whole numbers from 1 to 64, got 0"),
        (("--sizes", 2, 2), "sizes are different whole numbers from 1 to 64, got 2 2"),
        (("--keep", 1.5), "keep must be from 0 to 1, got 1.5"),
        (("--episodes", 1), "episodes must be a whole number from 4 to 100000, got 1"),
        (("--seed", -1), "--seed must not be negative, got -1"),
    ],
)
def test_wrong_numbers_are_refused_in_one_line(capsys, tmp_path, given, said):
    where = ("--out", tmp_path / "x")
    status, _, err = call(capsys, "extract", "zoo:UpNDown/network", *where, *given)
    assert (status, err) == (2, f"pomp: {said}\n")


def test_the_command_prints_json(capsys, tmp_path):
    where = tmp_path / "x"
    status, out, _ = call(capsys, "extract", "zoo:UpNDown/network", "--out", where, *FEW, "--json")
    told = json.loads(out)
    assert status == 0
    assert told["units"] == 2
    assert told["returns"]["machine"]["mean"] == told["returns"]["minimal"]["mean"]
    assert (where / "machine" / "machine.json").is_file()
    status, out, _ = call(capsys, "explain", where / "machine")
    assert status == 0
    assert "a table of codes chooses" in out


def test_a_size_without_certain_choices_says_so(capsys, tmp_path):
    given = ("--out", tmp_path / "x", *FEW, "--choices", "sampled")
    status, out, _ = call(capsys, "extract", "zoo:UpNDown/network", *given)
    assert status == 0
    assert re.search(r"\n    2 +\d+ +\d+ \(-\) +sampled \d+ \(0\.\d{4}\)\n", out)


def test_a_damaged_table_is_refused(found, tmp_path):
    table = table_of(found.machine)
    for broken in (
        replace(table, groups=table.groups + 1),
        replace(table, codes=table.codes[:-1]),
        replace(table, probs=table.probs / 2),
        replace(table, weights={}),
        replace(table, codes=table.codes.astype(np.int64)),
    ):
        replace(found.machine, transition=broken).save(tmp_path / "machine")
        with pytest.raises(
            DataFileError, match=r"usable machine: (its table has|the (table|array) )"
        ):
            pomp.load_machine(tmp_path / "machine")


def test_what_was_not_extracted_has_no_table():
    with pytest.raises(ConfigError, match="was not extracted"):
        minimise(of_network([STEP]))
