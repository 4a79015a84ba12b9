"""The GRU of networks that remember: torch's own, member by member, with episodes that begin."""

import numpy as np
import pytest
import torch

from pomp.machine.config import NetworkConfig
from pomp.machine.layers import Shape, draw_weights
from pomp.machine.memory import run_gru
from pomp.machine.network import Ensemble

MEMBERS, STEPS, BATCH, UNITS, INPUTS = 2, 5, 3, 4, 6


def random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture(name="given")
def fixture_given():
    """Gates, first states, recurrent weights and biases."""
    return (
        random(STEPS, MEMBERS, BATCH, 3 * UNITS),
        random(MEMBERS, BATCH, UNITS, seed=1),
        random(MEMBERS, 3 * UNITS, UNITS, seed=2),
        random(MEMBERS, 3 * UNITS, seed=3),
    )


def test_it_is_the_gru_of_torch_for_each_member(given):
    gates, start, weight, bias = given
    goes_on = torch.ones(STEPS, MEMBERS, BATCH, dtype=torch.bool)
    found = run_gru(gates, start, weight, bias, goes_on)
    for member in range(MEMBERS):
        gru = torch.nn.GRU(3 * UNITS, UNITS, dtype=torch.float64)
        with torch.no_grad():
            gru.weight_ih_l0.copy_(torch.eye(3 * UNITS))  # the gates as they are
            gru.bias_ih_l0.zero_()
            gru.weight_hh_l0.copy_(weight[member])
            gru.bias_hh_l0.copy_(bias[member])
        wanted, _ = gru(gates[:, member], start[member][None])
        torch.testing.assert_close(found[:, member], wanted, rtol=0, atol=1e-12)


def test_its_gradients_are_those_of_small_differences(given):
    goes_on = random(STEPS, MEMBERS, BATCH, seed=4) > -0.5
    inputs = [part.requires_grad_() for part in given]
    assert torch.autograd.gradcheck(lambda *parts: run_gru(*parts, goes_on), inputs)


def test_where_an_episode_begins_nothing_before_matters(given):
    gates, start, weight, bias = given
    goes_on = torch.ones(STEPS, MEMBERS, BATCH, dtype=torch.bool)
    goes_on[2] = False
    found = run_gru(gates, start, weight, bias, goes_on)
    later = run_gru(gates[2:], torch.zeros_like(start), weight, bias, goes_on[2:])
    assert torch.equal(found[2:], later)


def test_a_sequence_at_once_is_its_steps_one_after_the_other():
    config = NetworkConfig(inputs="perceptions+mode", hidden=8, memory=4)
    shape = Shape(config, 8, 8, 3)
    rows = [shape.pack(draw_weights(shape, np.uint64(seed))) for seed in (1, 2)]
    parameters = torch.stack([torch.from_numpy(row) for row in rows]) * 3
    network = Ensemble(shape, [3, 3], "cpu")
    senses = torch.arange(2 * STEPS * BATCH).view(2, STEPS * BATCH).to(torch.int16) % 16
    modes = torch.arange(2 * STEPS * BATCH).view(2, STEPS * BATCH) % 4 - 1
    states = torch.ones(2, BATCH, 4)
    logits, values, after = network.recall(parameters, senses, modes, states, STEPS)
    for step in range(STEPS):
        part = slice(step * BATCH, (step + 1) * BATCH)
        own, value, states = network.recall(parameters, senses[:, part], modes[:, part], states, 1)
        torch.testing.assert_close(own, logits[:, part])
        torch.testing.assert_close(value, values[:, part])
    torch.testing.assert_close(states, after)
    assert len({tuple(row) for row in logits[0].tolist()}) == STEPS * BATCH  # nothing is alike


def test_only_what_was_changed_of_a_later_setting_is_written():
    from pomp.core.configs import from_json, to_json

    plain, recurrent = NetworkConfig(), NetworkConfig(memory=4)
    assert set(to_json(plain)) == {"inputs", "hidden", "weight_norm"}
    assert to_json(recurrent)["memory"] == 4
    assert [from_json(NetworkConfig, to_json(one)) for one in (plain, recurrent)] == [
        plain,
        recurrent,
    ]
