"""Moore machines: tables that are asked for until they are closed, and the smallest of them."""

import numpy as np
import pytest

from pomp.analysis.moore import UNLABELLED, MooreMachine, minimise_moore, print_moore, tabulate
from pomp.core.streams import Purpose, draw_units, open_streams

LETTERS = np.array([[0], [1]], np.int8)


def draw_below(end, count, seed):
    numbers = draw_units(open_streams(Purpose.TRAINING, seed, worlds=1), count)[:, 0]
    return (numbers * end).astype(np.int64)


def make(following, labels):
    following = np.array(following, np.int64)
    return MooreMachine(following, np.array(labels, np.int64), np.arange(following.shape[1]))


class Counter:
    """Counts ones up to a number, in two units, and says whether the count is odd."""

    def __init__(self, most):
        self._most = most

    def start_code(self):
        return np.array([0, -1], np.int8)

    def codes_after(self, state, seen):
        count = (int(state[0]) + seen[:, 0]) % self._most
        return np.stack([count, np.zeros_like(count)], axis=1).astype(np.int8)

    def choices_at(self, states):
        return states[:, 0].astype(np.int64) % 2


def blow_up(machine, copies, seed):
    """Return the same machine with several copies of every state, and every input twice."""
    states = machine.states
    following = np.tile(machine.following, (copies, 2))
    shifts = draw_below(copies, following.size, seed).reshape(following.shape)
    return make(following + states * shifts, np.tile(machine.labels, copies))


def test_a_table_is_closed_and_its_smallest_machine_counts_only_what_matters():
    whole = tabulate(Counter(6), LETTERS, most_states=100)
    assert (whole.states, whole.is_closed) == (7, True)  # the start is not the count of zero
    found = minimise_moore(whole)
    assert found.following[:, found.groups].tolist() == [[0, 1], [1, 0]]
    assert found.labels.tolist() == [0, 1]


def test_beyond_the_most_states_the_nearest_known_one_is_taken():
    whole = tabulate(Counter(6), LETTERS, most_states=4)
    assert (whole.states, whole.is_closed) == (5, False)
    assert whole.following[-1].tolist() == [4, 4]  # 3 + 1 is nearest to 3


@pytest.mark.parametrize("seed", range(5))
def test_the_smallest_machine_is_found_again_among_copies_of_its_states(seed):
    states, inputs = 6, 3
    small = make(draw_below(states, states * inputs, seed).reshape(states, inputs), [0, 1] * 3)
    found = minimise_moore(small)
    again = minimise_moore(blow_up(small, 4, seed))
    assert again.following.tolist() == found.following.tolist()
    assert again.labels.tolist() == found.labels.tolist()
    words = draw_below(inputs, 200, seed + 99).reshape(20, 10)
    assert (again.run(words) == small.run(words)).all()


def test_a_start_without_a_label_is_the_state_that_leads_where_it_leads():
    whole = make([[1, 2], [1, 2], [2, 1]], [UNLABELLED, 0, 1])
    found = minimise_moore(whole)
    assert (found.following.tolist(), found.labels.tolist()) == ([[0, 1], [1, 0]], [0, 1])


def test_a_start_that_no_state_is_like_stays():
    whole = make([[1, 2], [1, 1], [2, 2]], [UNLABELLED, 0, 1])
    found = minimise_moore(whole)
    assert found.labels.tolist() == [UNLABELLED, 0, 1]
    assert "start" in found.to_json(["no", "yes"])["labels"]


@pytest.mark.parametrize("seed", range(3))
def test_another_library_finds_nothing_left_to_merge(seed):
    automata = pytest.importorskip("aalpy.automata")
    small = make(draw_below(5, 10, seed).reshape(5, 2), [0, 1, 1, 0, 1])
    found = minimise_moore(small)
    setup = {
        str(state): (int(found.labels[state]), {k: str(to) for k, to in enumerate(row)})
        for state, row in enumerate(found.following.tolist())
    }
    other = automata.MooreMachine.from_state_setup(setup)
    other.minimize()
    assert other.size == found.states


def test_a_graph_has_an_edge_for_each_pair_of_states_with_the_inputs_between():
    text = print_moore(make([[0, 1, 1], [1, 1, 0]], [0, 1]), ["even", "odd"])
    assert '  s0 [label="1: even"];' in text
    assert '  s0 -> s1 [label="O2, O3"];' in text
    assert text.count("->") == 5  # and one from the start
