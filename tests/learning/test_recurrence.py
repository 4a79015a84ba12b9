"""The GRU of recurrent policies, and the loss of PPO for vectors, against PyTorch's own."""

import math

import pytest
import torch
from torch import nn

from pomp.learning.clipped_loss import LossSettings
from pomp.learning.gaussian_loss import (
    DrawnVectors,
    GaussianOutputs,
    gaussian_loss,
    log_densities,
)
from pomp.learning.recurrence import gru_step, unroll_episodes


def parts_of(cell):
    """The parameters of PyTorch's cell, as those of an ensemble of one."""
    return {
        "gru.input.weight": cell.weight_ih[None],
        "gru.input.bias": cell.bias_ih[None],
        "gru.memory.weight": cell.weight_hh[None],
        "gru.memory.bias": cell.bias_hh[None],
    }


@pytest.fixture
def cell():
    torch.manual_seed(0)
    return nn.GRUCell(3, 4).double()


def test_a_step_is_that_of_pytorch(cell):
    inputs, memory = torch.randn(5, 3).double(), torch.randn(5, 4).double()
    found = gru_step(parts_of(cell), inputs[None], memory[None])[0]
    assert torch.allclose(found, cell(inputs, memory))


def test_episodes_side_by_side_are_those_step_by_step_and_so_are_gradients(cell):
    """Episodes of up to three steps, the first of which began before the rollout."""
    goes_on = torch.tensor([[1.0, 1, 0, 1, 1, 0, 0, 1], [0, 1, 1, 0, 1, 1, 0, 1]]).double()
    inputs, first = torch.randn(2, 8, 3).double(), torch.randn(2, 4).double()
    weights = torch.randn(2, 8, 4).double()
    memory, slow = first, []
    for step in range(8):
        memory = cell(inputs[:, step], memory * goes_on[:, step, None])
        slow.append(memory)
    slow = torch.stack(slow, dim=1)
    fast = unroll_episodes(parts_of(cell), inputs[None], first[None], goes_on[None], 3)[0]
    assert torch.allclose(fast, slow)
    for one, other in zip(
        torch.autograd.grad((fast * weights).sum(), list(cell.parameters())),
        torch.autograd.grad((slow * weights).sum(), list(cell.parameters())),
        strict=True,
    ):
        assert torch.allclose(one, other)


def plain_loss(outputs, drawn, settings):
    """The loss of a mini-batch as it is written in the paper of PPO, by tensors."""
    spread = torch.distributions.Normal(outputs.means, outputs.log_stds.exp().unsqueeze(1))
    log_probs = spread.log_prob(drawn.vectors).sum(dim=-1)
    ratio = (log_probs - drawn.log_probs).exp()
    clipped = ratio.clamp(1 - settings.clip_ratio, 1 + settings.clip_ratio)
    policy = -torch.minimum(ratio * drawn.advantages, clipped * drawn.advantages)
    moved = (outputs.values - drawn.values).clamp(-settings.clip_ratio, settings.clip_ratio)
    errors = (outputs.values - drawn.returns) ** 2
    value = 0.5 * torch.maximum(errors, (drawn.values + moved - drawn.returns) ** 2)
    entropy = spread.entropy().sum(dim=-1)
    whole = policy + settings.value_weight * value - settings.entropy_weight * entropy
    return whole.mean(dim=1).sum(), torch.stack([policy, value, entropy])


def test_the_loss_of_vectors_and_its_gradients_are_those_of_tensors():
    draw = torch.Generator().manual_seed(1)
    settings = LossSettings(0.2, True, 0.5, 0.1)

    def normal(*shape):
        return torch.randn(shape, generator=draw)

    means, log_stds, values = normal(2, 6, 3), 0.3 * normal(2, 3), normal(2, 6)
    vectors = means + log_stds.exp().unsqueeze(1) * normal(2, 6, 3)
    before = log_densities(vectors, means, log_stds) + 0.2 * normal(2, 6)
    drawn = DrawnVectors(vectors, before, values + 0.2 * normal(2, 6), normal(2, 6), normal(2, 6))
    outputs = GaussianOutputs(*(one.requires_grad_() for one in (means, log_stds, values)))
    loss, terms = plain_loss(outputs, drawn, settings)
    expected = torch.autograd.grad(loss, outputs)
    found = gaussian_loss(0, settings, GaussianOutputs(*(one.detach() for one in outputs)), drawn)
    assert torch.allclose(found.terms, terms.detach(), atol=1e-5)
    grads = (found.grad_means, found.grad_log_stds.sum(dim=1), found.grad_values)
    for one, other in zip(grads, expected, strict=True):
        assert torch.allclose(one, other, atol=1e-6)
    assert (found.grad_means.abs().sum(dim=-1) == 0).any()  # some steps are clipped


def test_a_density_of_a_standard_normal_vector_is_known():
    zeros = torch.zeros(1, 1, 4)
    assert log_densities(zeros, zeros, torch.zeros(1, 4)).item() == pytest.approx(
        -2 * math.log(2 * math.pi)
    )
