"""Tables of choices, made smaller: what is merged, and in which order."""

import numpy as np
import pytest

from pomp.analysis.code_tables import (
    be_certain,
    equal_modes,
    equal_rows,
    gather,
    merge_alike,
    merge_equal,
    reachable_modes,
    settle,
    sharpen,
)


def table_of(rows):
    """Return certain choices, given as a list of numbers for each row."""
    return np.eye(len(rows))[np.array(rows)]


def test_codes_with_equal_columns_are_one_observation():
    table = table_of([[0, 1, 0, 1], [2, 2, 2, 1], [0, 0, 0, 0]])
    assert merge_equal(table).tolist() == [0, 1, 0, 2]


def test_codes_that_agree_where_both_were_met_are_merged_first():
    choices = table_of([[0, 1, 0], [1, 0, 1], [2, 2, 0]])
    visits = np.array([[5, 5, 0], [1, 4, 3], [0, 2, 2]])  # code 2 agrees with 0, but not with 1
    merges = merge_alike(choices * visits[..., None])
    assert merges.groups(2).tolist() == [0, 1, 0]
    assert merges.groups(1).tolist() == [0, 0, 0]
    assert merges.groups(3).tolist() == [0, 1, 2]


def test_merging_leaves_what_was_counted_as_it_was():
    rng = np.random.default_rng(0)
    weights = rng.random((3, 20, 3)).transpose(0, 1, 2)
    for given in (weights, np.asfortranarray(weights), weights.transpose(2, 1, 0)):
        before = given.copy()
        merge_alike(given)
        assert (given == before).all()


def test_every_merge_costs_least_of_all_pairs():
    rng = np.random.default_rng(1)
    weights = rng.random((2, 7, 2))

    def unsure(groups):
        probs = gather(weights, groups)
        return -(weights * np.log(probs[:, groups])).sum()

    merges = merge_alike(weights)
    for count in range(7, 1, -1):
        groups = merges.groups(count)
        others = [
            unsure(np.unique(np.where(groups == b, a, groups), return_inverse=True)[1])
            for a in range(count)
            for b in range(a + 1, count)
        ]
        assert unsure(merges.groups(count - 1)) == pytest.approx(min(others), abs=1e-7)


def test_groups_choose_what_their_codes_chose_together():
    weights = np.array([[[3.0, 1.0], [1.0, 3.0], [0.0, 2.0]]])
    weights = np.concatenate([weights, weights])
    probs = gather(weights, np.array([0, 0, 1]))
    assert probs[0].tolist() == [[0.5, 0.5], [0.0, 1.0]]
    assert be_certain(probs)[0].tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_codes_that_end_differently_are_merged_last():
    weights = np.array([[[50.0, 50.0, 0.0], [50.0, 46.0, 4.0], [80.0, 20.0, 0.0]]] * 3)
    assert merge_alike(weights).groups(2).tolist() == [0, 0, 1]
    assert merge_alike(weights, end_weight=20.0).groups(2).tolist() == [0, 1, 0]


def test_codes_move_to_the_group_that_explains_them_best():
    weights = np.array([[[9.0, 1.0], [1.0, 9.0], [8.0, 2.0], [2.0, 8.0], [9.0, 1.0]]] * 2)
    assert settle(weights, np.array([0, 1, 1, 1, 0])).tolist() == [0, 1, 0, 1, 0]
    assert settle(weights, np.array([0, 1, 2, 2, 2])).max() <= 2


def test_settling_never_explains_less():
    rng = np.random.default_rng(2)
    weights = rng.random((3, 30, 3))

    def explained(groups):
        return (weights * np.log(gather(weights, groups)[:, groups])).sum()

    for seed in range(5):
        first = np.unique(np.random.default_rng(seed).integers(0, 5, 30), return_inverse=True)[1]
        assert explained(settle(weights, first)) >= explained(first)


def test_sharper_choices_leave_the_end_as_likely_as_it_was():
    probs = np.array([[[0.6, 0.3, 0.1], [0.0, 0.0, 1.0]]])
    sharp = sharpen(probs, 2.0)
    assert sharp[0, 0].tolist() == pytest.approx([0.72, 0.18, 0.1])
    assert sharp[0, 1].tolist() == [0.0, 0.0, 1.0]
    assert sharpen(probs, 1.0) == pytest.approx(probs)
    assert sharpen(probs, np.inf).tolist() == be_certain(probs).tolist()


def test_a_mode_that_nothing_leads_to_is_not_reached():
    assert reachable_modes(table_of([[0], [3], [2], [1]])) == [0]
    assert reachable_modes(table_of([[2], [3], [0], [1]])) == [0, 1, 2]
    assert reachable_modes(table_of([[1], [0]])) == []


def test_modes_with_equal_programs_are_one_if_they_lead_to_the_same():
    same = table_of([[0, 1], [2, 1], [2, 0], [3, 2]])
    assert equal_modes(same, ["a", "a", "b"]).tolist() == [0, 0, 1]
    assert equal_modes(same, ["a", "c", "b"]).tolist() == [0, 1, 2]
    other = table_of([[0, 1], [2, 1], [3, 0], [3, 2]])
    assert equal_modes(other, ["a", "a", "b"]).tolist() == [0, 1, 2]


def test_modes_differ_if_what_they_lead_to_differs_much_later():
    chain = table_of([[0], [1], [2], [3], [4]])  # 0 -> 1 -> 2 -> 3 -> end
    assert equal_modes(chain, ["a"] * 4).tolist() == [0, 1, 2, 3]


def test_rows_that_choose_the_same_everywhere_are_named_together():
    assert equal_rows(table_of([[0, 1], [1, 1], [0, 1]])) == [[0, 2]]
