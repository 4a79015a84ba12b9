"""Moore machines for AALpy: minimal ones, files, what is refused."""

from dataclasses import replace

import numpy as np
import pytest

import pomp
from pomp.analysis.automata import MooreAutomaton, moore_of
from pomp.core.errors import ConfigError

PARITY = MooreAutomaton(
    ("even", "odd", "even again", "odd again", "alone"),
    ("0", "1", "0", "1", "0"),
    ("zero", "one"),
    np.array([[2, 1], [3, 0], [0, 3], [1, 2], [0, 1]]),
)


def outputs(table, inputs):
    """Return what a machine puts out at a sequence of inputs."""
    state, told = 0, [table.labels[0]]
    for one in inputs:
        state = table.successors[state, one]
        told.append(table.labels[state])
    return told


def classes_of(table):
    """Return how many states can be told apart, by splitting classes until nothing changes."""
    found = {0}
    while (more := found | set(table.successors[sorted(found)].ravel().tolist())) != found:
        found = more
    classes = {state: table.labels[state] for state in found}
    while True:
        finer = {
            state: (classes[state], *(classes[to] for to in table.successors[state].tolist()))
            for state in found
        }
        if len(set(finer.values())) == len(set(classes.values())):
            return len(set(classes.values()))
        names = {value: number for number, value in enumerate(dict.fromkeys(finer.values()))}
        classes = {state: names[value] for state, value in finer.items()}


def test_parity_has_two_states():
    minimal = PARITY.minimised()
    assert minimal.names == ("even", "odd")
    assert minimal.labels == ("0", "1")
    assert minimal.successors.tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize("seed", range(20))
def test_a_minimal_machine_puts_out_the_same_with_the_fewest_states(seed):
    rng = np.random.default_rng(seed)
    states, inputs = int(rng.integers(1, 9)), int(rng.integers(1, 4))
    table = MooreAutomaton(
        tuple(f"s{number}" for number in range(states)),
        tuple(rng.choice(["a", "b"], states).tolist()),
        tuple(f"i{number}" for number in range(inputs)),
        rng.integers(0, states, (states, inputs)),
    )
    minimal = table.minimised()
    assert len(minimal.names) == classes_of(table)
    for _ in range(20):
        sequence = rng.integers(0, inputs, 12)
        assert outputs(minimal, sequence) == outputs(table, sequence)


def test_aalpy_reads_what_was_written(tmp_path):
    from aalpy.utils import load_automaton_from_file

    (tmp_path / "parity.dot").write_text(PARITY.minimised().to_dot())
    again = load_automaton_from_file(tmp_path / "parity.dot", "moore")
    sequence = ["one", "zero", "one", "one"]
    assert again.execute_sequence(again.initial_state, sequence) == [1, 1, 0, 1]


def test_a_table_of_another_shape_is_refused():
    with pytest.raises(ConfigError, match=r"5 states and 1 inputs has a label .* got 5 labels"):
        replace(PARITY, inputs=("one",))
    with pytest.raises(ConfigError, match="numbered from 0 to 4"):
        replace(PARITY, successors=PARITY.successors + 2)


def test_only_certain_choices_of_a_table_are_a_moore_machine():
    with pytest.raises(ConfigError, match="certain choices, by a table of codes; this machine"):
        moore_of(pomp.load_machine("zoo:UpNDown/network"))
