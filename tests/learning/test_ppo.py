"""PPO against NumPy loops, torch's own Adam and Stable-Baselines3.

Long on purpose: each step is compared with the loops of the section before it.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from plain_network import PlainNetwork, one_hot, random_arrays, random_inputs
from torch import nn

from pomp.learning.config import PpoConfig
from pomp.learning.ppo import (
    Learner,
    RolloutBatch,
    estimate_advantages,
    normalise_advantages,
    ppo_loss,
)
from pomp.machine.config import NetworkConfig
from pomp.machine.layers import Shape
from pomp.machine.network import Ensemble

MODES = 3


def tensor(array):
    return torch.from_numpy(np.ascontiguousarray(array))


# ---------------------------------------------------------------- advantages


def advantages_by_hand(rewards, values, ended, last, discount, gae_lambda):
    """`[T]` of one actor: every advantage as a sum of the errors that follow it."""
    steps = len(rewards)
    errors = []
    for t in range(steps):
        following = last if t == steps - 1 else values[t + 1]
        errors.append(rewards[t] + (0 if ended[t] else discount * following) - values[t])
    found = []
    for t in range(steps):
        total, weight = 0.0, 1.0
        for later in range(t, steps):
            total += weight * errors[later]
            weight *= discount * gae_lambda
            if ended[later]:
                break
        found.append(total)
    return found


@pytest.mark.parametrize(
    ("discount", "gae_lambda"), [(0.99, 0.95), (1.0, 1.0), (0.9, 0.0), (0.0, 0.5)]
)
@pytest.mark.parametrize("often", [0.0, 0.2, 1.0])
def test_advantages_follow_their_definition(discount, gae_lambda, often):
    draw = np.random.default_rng(1)
    members, steps, actors = 2, 9, 4
    rewards, values = draw.normal(size=(2, members, steps, actors))
    ended = draw.random((members, steps, actors)) < often
    last = draw.normal(size=(members, actors))
    given = map(tensor, (rewards, values, ended, last))
    found = estimate_advantages(*given, discount, gae_lambda).numpy()
    for e, a in np.ndindex(members, actors):
        parts = (rewards[e, :, a], values[e, :, a], ended[e, :, a], last[e, a])
        expected = advantages_by_hand(*parts, discount, gae_lambda)
        np.testing.assert_allclose(found[e, :, a], expected, rtol=1e-10, atol=1e-12)


def test_nothing_behind_an_end_counts():
    rewards, values = torch.zeros(2, 1, 3, 1, dtype=torch.float64)
    ended = torch.tensor([False, True, False]).view(1, 3, 1)
    for behind in (0.0, 1e6):
        values[0, 2], rewards[0, 2] = behind, behind
        last = torch.full((1, 1), behind, dtype=torch.float64)
        found = estimate_advantages(rewards, values, ended, last, 0.99, 0.95)
        assert found[0, :2].abs().max() == 0


def test_advantages_are_normalised_over_all_steps_of_a_member():
    draw = np.random.default_rng(2)
    raw = draw.normal(size=(3, 1024)) * [[0.01], [1.0], [50.0]] + [[5.0], [0.0], [-3.0]]
    found = normalise_advantages(tensor(raw)).numpy()
    for row, own in zip(found, raw, strict=True):
        expected = (own - own.mean()) / (own.std() + 1e-5)
        np.testing.assert_allclose(row, expected, rtol=1e-3, atol=1e-6)


def test_the_deviation_has_1e5_added():
    raw = tensor(np.tile([1e-5, -1e-5], 512)[None])
    assert normalise_advantages(raw).abs().max() == pytest.approx(0.5, rel=1e-3)
    assert normalise_advantages(torch.full((1, 64), 0.25)).abs().max() < 1e-6


# ---------------------------------------------------------------- losses


def random_steps(draw, members, count, seen=None, mode=None, spread=0.3):
    """A rollout that is some way from what the network does now; double precision."""
    seen = np.zeros((members, count), np.uint8) if seen is None else seen
    mode = np.zeros((members, count), np.int64) if mode is None else mode
    choices = draw.integers(0, MODES + 1, (members, count))
    log_probs = np.log(1 / (MODES + 1)) + spread * draw.normal(size=(members, count))
    values, advantages, returns = draw.normal(size=(3, members, count))
    return RolloutBatch(*map(tensor, (seen, mode, choices, log_probs, values, advantages, returns)))


def losses_of(logits, values, steps, config):
    """What `ppo_loss` gives, as means `[3, E]`."""
    return ppo_loss(logits, values, steps, 0, config).terms.mean(dim=2)


def losses_in_torch(logits, values, steps, config):
    """The same in operations that torch differentiates."""
    log_probs = torch.log_softmax(logits, dim=-1)
    chosen = log_probs.gather(-1, steps.choices.unsqueeze(-1)).squeeze(-1)
    ratio = (chosen - steps.log_probs).exp()
    clipped = ratio.clamp(1 - config.clip_ratio, 1 + config.clip_ratio)
    gained = torch.minimum(ratio * steps.advantages, clipped * steps.advantages)
    error = (values - steps.returns).square()
    if config.clip_value:
        moved = (values - steps.values).clamp(-config.clip_ratio, config.clip_ratio)
        error = torch.maximum(error, (steps.values + moved - steps.returns).square())
    entropy = -(log_probs.exp() * log_probs).sum(dim=-1)
    return torch.stack([-gained.mean(dim=1), 0.5 * error.mean(dim=1), entropy.mean(dim=1)])


def losses_by_hand(logits, values, steps, member, config):
    policy, value, entropy = [], [], []
    for n in range(logits.shape[1]):
        log_probs = np.exp(logits[member, n]) / np.exp(logits[member, n]).sum()
        then, now = steps.values[member, n].item(), values[member, n]
        target, gain = steps.returns[member, n].item(), steps.advantages[member, n].item()
        ratio = log_probs[steps.choices[member, n]] / math.exp(steps.log_probs[member, n])
        clipped = min(max(ratio, 1 - config.clip_ratio), 1 + config.clip_ratio)
        policy.append(-min(ratio * gain, clipped * gain))
        near = then + min(max(now - then, -config.clip_ratio), config.clip_ratio)
        errors = [(now - target) ** 2, (near - target) ** 2]
        value.append(0.5 * (max(errors) if config.clip_value else errors[0]))
        entropy.append(-(log_probs * np.log(log_probs)).sum())
    return [np.mean(policy), np.mean(value), np.mean(entropy)]


@pytest.mark.parametrize("clip", [0.05, 0.2])
@pytest.mark.parametrize("clip_value", [True, False])
def test_losses_follow_their_definition(clip, clip_value):
    draw = np.random.default_rng(3)
    config = PpoConfig(clip_ratio=clip, clip_value=clip_value)
    steps = random_steps(draw, 2, 200)
    logits = draw.normal(size=(2, 200, MODES + 1))
    values = steps.values.numpy() + draw.normal(size=(2, 200)) * 0.1
    found = losses_of(tensor(logits), tensor(values), steps, config)
    assert found.shape == (3, 2)
    for member in range(2):
        expected = losses_by_hand(logits, values, steps, member, config)
        np.testing.assert_allclose(found[:, member], expected, rtol=1e-10)


@pytest.mark.parametrize("clip", [0.05, 0.2])
@pytest.mark.parametrize("clip_value", [True, False])
def test_gradients_are_those_torch_finds(clip, clip_value):
    draw = np.random.default_rng(8)
    config = PpoConfig(clip_ratio=clip, clip_value=clip_value, entropy=0.3, value_weight=0.7)
    steps = random_steps(draw, 2, 200)
    logits = tensor(draw.normal(size=(2, 60, MODES + 1))).requires_grad_()
    logits.data[1, :, 2] = -1e9  # a mode that the second member does not have
    steps.choices[1][steps.choices[1] == 2] = 0
    values = (steps.values[:, 70:130] + 0.1 * tensor(draw.normal(size=(2, 60)))).requires_grad_()
    part = RolloutBatch(*(column[:, 70:130] for column in steps.parts))
    policy, value, entropy = losses_in_torch(logits, values, part, config)
    loss = policy + config.value_weight * value - config.entropy * entropy
    expected = torch.autograd.grad(loss.sum(), (logits, values))
    found = ppo_loss(logits, values, steps, 70, config)
    for ours, theirs in zip(found, expected, strict=False):
        assert theirs.abs().max() > 1e-3
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-14)


def one_step(value, then, target, config, advantage=0.0, chance=0.25):
    given = ([[0]], [[-1]], [[1]], [[math.log(chance)]], [[then]], [[advantage]], [[target]])
    steps = RolloutBatch(*map(torch.tensor, given))
    return losses_of(torch.zeros(1, 1, 4), torch.tensor([[value]]), steps, config)[:, 0].tolist()


def test_the_value_loss_takes_the_larger_error_and_one_half():
    config = PpoConfig(clip_ratio=0.05)
    # towards the target by 0.5, of which 0.05 count: the clipped value is farther off
    assert one_step(0.5, 0.0, 1.0, config)[1] == pytest.approx(0.5 * 0.95**2)
    # away from it: the value itself is farther off
    assert one_step(-0.5, 0.0, 1.0, config)[1] == pytest.approx(0.5 * 1.5**2)
    plain = replace(config, clip_value=False)
    assert one_step(0.5, 0.0, 1.0, plain)[1] == pytest.approx(0.5 * 0.5**2)


@pytest.mark.parametrize(
    ("advantage", "chance", "ratio"),
    [(1.0, 0.2, 1.05), (1.0, 0.5, 0.5), (-1.0, 0.2, 1.25), (-1.0, 0.5, 0.95)],
)
def test_the_policy_loss_is_clipped_only_where_it_would_gain(advantage, chance, ratio):
    found = one_step(0.0, 0.0, 0.0, PpoConfig(clip_ratio=0.05), advantage, chance)
    assert found[0] == pytest.approx(-ratio * advantage)
    assert found[2] == pytest.approx(math.log(4))


# ---------------------------------------------------------------- whole updates


class Policy(nn.Module):
    """Two small layers in double precision; what is seen are 6 numbers."""

    def __init__(self, row=None):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 5), nn.Linear(5, MODES + 1), nn.Linear(5, 1)])
        self.double()
        if row is not None:
            nn.utils.vector_to_parameters(row.clone(), self.parameters())

    def forward(self, seen, mode):
        hidden = torch.tanh(self.layers[0](seen))
        return self.layers[1](hidden), self.layers[2](hidden).squeeze(-1)


def policies(flat, seen, mode):
    """The same for members whose parameters are rows; what `Learner` calls."""
    template = Policy()
    names, logits, values = [name for name, _ in template.named_parameters()], [], []
    sizes = [part.numel() for part in template.parameters()]
    for row, own in zip(flat, seen, strict=True):
        pieces = torch.split(row, sizes)
        parts = {
            name: piece.view(part.shape)
            for name, piece, part in zip(names, pieces, template.parameters(), strict=True)
        }
        one, other = torch.func.functional_call(template, parts, (own, None))
        logits.append(one)
        values.append(other)
    return torch.stack(logits), torch.stack(values)


SMALL = PpoConfig(
    total=4 * 24, actors=4, steps=6, minibatch=8, epochs=2, clip_ratio=0.05, learning_rate=1e-2
)


def learn_plainly(module, forward, rollouts, orders, config, rate):
    """The whole procedure for one member with torch's own optimiser."""
    optimiser = torch.optim.Adam(module.parameters(), lr=rate, eps=config.adam_epsilon)
    told = []
    for update, (steps, order) in enumerate(zip(rollouts, orders, strict=True)):
        fall = 1 - update / (config.total // config.rollout) if config.decay else 1.0
        optimiser.param_groups[0]["lr"] = rate * fall
        told.append([])
        for rows in (part for epoch in order for part in epoch.split(config.minibatch)):
            part = RolloutBatch(*(column[:, rows] for column in steps.parts))
            logits, values = forward(module, part)
            losses = losses_in_torch(logits[None], values[None], part, config)[:, 0]
            loss = losses[0] + config.value_weight * losses[1] - config.entropy * losses[2]
            optimiser.zero_grad()
            loss.backward()
            length = nn.utils.clip_grad_norm_(module.parameters(), config.gradient_norm)
            optimiser.step()
            told[-1].append([*losses.tolist(), float(length)])
    return np.array(told).mean(axis=1)


def rollouts_for(draw, members, config, updates):
    """Rollouts and the orders they are gone through."""
    count, rollouts, orders = config.rollout, [], []
    for _ in range(updates):
        seen = draw.normal(size=(members, count, 6))
        rollouts.append(random_steps(draw, members, count, seen=seen))
        keys = draw.random((config.epochs, members, count))
        orders.append(tensor(keys.argsort(axis=2)))
    return rollouts, orders


def member_of(steps, member):
    return RolloutBatch(*(column[member : member + 1] for column in steps.parts))


def first_rows(draw, members):
    size = sum(part.numel() for part in Policy().parameters())
    return tensor(draw.normal(size=(members, size)))


CHANGES = {
    "as it is": {},
    "no decay": {"decay": False},
    "short gradients": {"gradient_norm": 1e-3},
    "any gradient": {"gradient_norm": 1e9, "clip_value": False},
    "much entropy": {"entropy": 0.5, "value_weight": 2.0, "adam_epsilon": 1e-2},
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_whole_updates_equal_torchs_adam(changes):
    draw = np.random.default_rng(4)
    config = replace(SMALL, **changes)
    rollouts, orders = rollouts_for(draw, 1, config, 4)
    first = first_rows(draw, 1)
    learner = Learner(config, policies, first, torch.tensor([0.01], dtype=torch.float64))
    told = [
        learner.learn(steps, order, update)[0].tolist()
        for update, (steps, order) in enumerate(zip(rollouts, orders, strict=True))
    ]
    plain = Policy(first[0])
    expected = learn_plainly(
        plain,
        lambda module, part: module(part.observations[0], None),
        rollouts,
        [order[:, 0] for order in orders],
        config,
        0.01,
    )
    row = nn.utils.parameters_to_vector(plain.parameters()).detach()
    assert (row - first[0]).abs().max() > 1e-2  # something has been learned
    np.testing.assert_allclose(learner.parameters[0].detach(), row, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(told, expected, rtol=1e-8, atol=1e-11)
    assert learner.gradient_steps == 4 * config.epochs * config.rollout // config.minibatch


def test_the_learning_rate_falls_in_a_line_to_zero():
    draw = np.random.default_rng(5)
    config = replace(SMALL, total=10 * 24, epochs=1, minibatch=24)
    rollouts, orders = rollouts_for(draw, 1, config, 1)
    first = first_rows(draw, 1)
    moved = []
    for update in (0, 5, 9, 10):
        learner = Learner(config, policies, first, torch.tensor([0.01], dtype=torch.float64))
        learner.learn(rollouts[0], orders[0], update)
        moved.append(float((learner.parameters - first).detach().norm()))
    assert moved[1:] == pytest.approx([0.5 * moved[0], 0.1 * moved[0], 0.0])


def test_the_published_run_has_19531_updates():
    assert PpoConfig().updates == 19_531
    assert PpoConfig().rollout == 1024


def test_together_members_learn_what_each_learns_alone():
    draw = np.random.default_rng(6)
    rollouts, orders = rollouts_for(draw, 3, SMALL, 3)
    rollouts = [  # the second has gradients a thousand times as long
        replace(one, returns=one.returns * torch.tensor([[1.0], [1e3], [1.0]])) for one in rollouts
    ]
    first, rates = first_rows(draw, 3), torch.tensor([1e-2, 1e-3, 0.1], dtype=torch.float64)
    together = Learner(SMALL, policies, first, rates)
    alone = [
        Learner(SMALL, policies, first[i : i + 1], rates[i : i + 1]) for i in range(len(first))
    ]
    for update, (steps, order) in enumerate(zip(rollouts, orders, strict=True)):
        told = together.learn(steps, order, update)
        for i, learner in enumerate(alone):
            own = learner.learn(member_of(steps, i), order[:, i : i + 1], update)
            np.testing.assert_allclose(told[i], own[0], rtol=1e-9)
    for i, learner in enumerate(alone):
        np.testing.assert_allclose(
            together.parameters[i].detach(), learner.parameters[0].detach(), rtol=1e-9, atol=1e-12
        )


def test_a_learner_goes_on_from_its_arrays():
    draw = np.random.default_rng(7)
    rollouts, orders = rollouts_for(draw, 2, SMALL, 4)
    first, rates = first_rows(draw, 2), torch.tensor([1e-2, 1e-3], dtype=torch.float64)
    one = Learner(SMALL, policies, first, rates)
    for update in range(2):
        one.learn(rollouts[update], orders[update], update)
    kept = {name: np.array(array) for name, array in one.to_arrays().items()}
    other = Learner(SMALL, policies, first_rows(draw, 2), rates)
    other.restore(kept, one.gradient_steps)
    for update in (2, 3):
        for learner in (one, other):
            learner.learn(rollouts[update], orders[update], update)
    assert torch.equal(one.parameters, other.parameters)


# ---------------------------------------------------------------- with the real network

SHAPE = Shape(NetworkConfig(hidden=16), 8, 8, MODES)


def network_rollout(seed, count):
    """What a rollout of our network looks like, in single precision."""
    draw = np.random.default_rng(seed)
    seen, mode = random_inputs(SHAPE, count, seed)
    steps = random_steps(draw, 1, count, seen[None].numpy(), mode[None].numpy())
    floats = {
        name: getattr(steps, name).float()
        for name in ("log_probs", "values", "advantages", "returns")
    }
    return replace(steps, **floats)


def plain_forward(module, part):
    return module(part.observations[0].float(), one_hot(part.modes[0], MODES))


def test_the_network_learns_as_a_plain_one():
    config = PpoConfig(total=3 * 64, actors=8, steps=8, minibatch=16, epochs=2)
    arrays = random_arrays(SHAPE, 8)
    rollouts = [network_rollout(seed, 64) for seed in range(3)]
    draw = np.random.default_rng(9)
    orders = [tensor(draw.random((2, 1, 64)).argsort(axis=2)) for _ in rollouts]
    flat = tensor(SHAPE.pack(arrays)[None])
    learner = Learner(config, Ensemble(SHAPE, [MODES], "cpu"), flat, torch.tensor([1e-3]))
    for update, (steps, order) in enumerate(zip(rollouts, orders, strict=True)):
        learner.learn(steps, order, update)
    plain = PlainNetwork(SHAPE).load(arrays)
    own = [order[:, 0] for order in orders]
    learn_plainly(plain, plain_forward, rollouts, own, config, 1e-3)
    assert (learner.parameters - flat).abs().max() > 5e-3
    np.testing.assert_allclose(learner.parameters[0].detach(), plain.row(), atol=1e-4)


# ---------------------------------------------------------------- Stable-Baselines3


def sb3_model(arrays, count, **settings):
    """Its PPO with a policy that holds our weights; what it sees: planes, then the mode vector."""
    sb3 = pytest.importorskip("stable_baselines3")
    import gymnasium
    from stable_baselines3.common.logger import Logger
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

    space = gymnasium.spaces.Box(0, 1, (8 * 64 + MODES + 1,), np.float32)

    class Nothing(gymnasium.Env):
        observation_space, action_space = space, gymnasium.spaces.Discrete(MODES + 1)

        def reset(self, **_):
            return np.zeros(space.shape, np.float32), {}

    class Features(BaseFeaturesExtractor):
        def __init__(self, space):
            super().__init__(space, SHAPE.config.hidden)
            self.network = PlainNetwork(SHAPE).load(arrays)

        def forward(self, seen):
            return self.network.features(seen[:, : 8 * 64].view(-1, 8, 8, 8), seen[:, 8 * 64 :])

    model = sb3.PPO(
        "MlpPolicy",
        Nothing(),
        n_steps=count,
        batch_size=count,
        normalize_advantage=False,
        clip_range_vf=None,
        device="cpu",
        policy_kwargs={
            "features_extractor_class": Features,
            "net_arch": [],
            "ortho_init": False,
        },
        **settings,
    )
    model.set_logger(Logger(None, []))
    network = model.policy.features_extractor.network
    for head, name in ((model.policy.action_net, "actor"), (model.policy.value_net, "critic")):
        head.load_state_dict(network.layer(name).state_dict())
        network.layers[name] = head
    return model, network


def fill(buffer, steps):
    """Its buffer with our rollout."""
    seen = steps.observations[0].float().flatten(1)
    buffer.observations[:, 0] = torch.cat([seen, one_hot(steps.modes[0], MODES)], dim=1).numpy()
    buffer.actions[:, 0, 0] = steps.choices[0]
    for own, name in (
        ("values", "values"),
        ("log_probs", "log_probs"),
        ("advantages", "advantages"),
        ("returns", "returns"),
    ):
        getattr(buffer, own)[:, 0] = getattr(steps, name)[0]
    buffer.pos, buffer.full = buffer.buffer_size, True


COUNT = 64
COINCIDE = PpoConfig(  # our value loss has one half of its own
    total=COUNT, actors=1, steps=COUNT, minibatch=COUNT, epochs=3, clip_value=False,
    value_weight=1.0, decay=False, entropy=0.01, gradient_norm=0.5,
)  # fmt: skip
THEIRS = {"clip_range": 0.05, "vf_coef": 0.5, "ent_coef": 0.01, "learning_rate": 1e-3}


@pytest.mark.parametrize("seed", range(3))
def test_loss_and_gradients_equal_those_of_stable_baselines(seed):
    arrays, steps = random_arrays(SHAPE, seed), network_rollout(seed + 20, COUNT)
    model, network = sb3_model(arrays, COUNT, n_epochs=1, max_grad_norm=1e9, **THEIRS)
    fill(model.rollout_buffer, steps)
    model.train()
    told = model.logger.name_to_value
    flat = tensor(SHAPE.pack(arrays)[None]).requires_grad_()
    logits, values = Ensemble(SHAPE, [MODES], "cpu")(flat, steps.observations, steps.modes)
    found = ppo_loss(logits, values, steps, 0, COINCIDE)
    policy, value, entropy = found.terms.mean(dim=2)[:, 0]
    loss = policy + COINCIDE.value_weight * value - COINCIDE.entropy * entropy
    assert policy.item() == pytest.approx(told["train/policy_gradient_loss"], abs=1e-5)
    assert 2 * value.item() == pytest.approx(told["train/value_loss"], abs=1e-5)
    assert -entropy.item() == pytest.approx(told["train/entropy_loss"], abs=1e-5)
    assert loss.item() == pytest.approx(told["train/loss"], abs=1e-5)
    (gradient,) = torch.autograd.grad((logits, values), flat, found[:2])
    assert gradient.abs().max() > 0.01
    np.testing.assert_allclose(gradient[0], network.row("grad"), atol=1e-5)


def test_gradient_steps_equal_those_of_stable_baselines():
    arrays, steps = random_arrays(SHAPE, 30), network_rollout(31, COUNT)
    model, network = sb3_model(arrays, COUNT, n_epochs=3, max_grad_norm=0.5, **THEIRS)
    fill(model.rollout_buffer, steps)
    model.train()
    flat = tensor(SHAPE.pack(arrays)[None])
    learner = Learner(COINCIDE, Ensemble(SHAPE, [MODES], "cpu"), flat, torch.tensor([1e-3]))
    learner.learn(steps, torch.arange(COUNT).expand(3, 1, COUNT), 0)
    assert (learner.parameters - flat).abs().max() > 1e-3
    np.testing.assert_allclose(learner.parameters[0].detach(), network.row(), atol=2e-5)


def test_advantages_equal_those_of_stable_baselines():
    pytest.importorskip("stable_baselines3")
    from gymnasium.spaces import Box, Discrete
    from stable_baselines3.common.buffers import RolloutBuffer

    draw = np.random.default_rng(10)
    steps, actors = 32, 5
    buffer = RolloutBuffer(
        steps, Box(0, 1, (1,)), Discrete(2), gae_lambda=0.95, gamma=0.99, n_envs=actors
    )
    rewards, values = draw.normal(size=(2, steps, actors)).astype(np.float32)
    ended, last = draw.random((steps, actors)) < 0.1, draw.normal(size=actors).astype(np.float32)
    buffer.rewards[:], buffer.values[:] = rewards, values
    buffer.episode_starts[1:] = ended[:-1]
    buffer.compute_returns_and_advantage(tensor(last), ended[-1])
    given = (tensor(array)[None] for array in (rewards, values, ended, last))
    found = estimate_advantages(*given, 0.99, 0.95)[0].numpy()
    np.testing.assert_allclose(found, buffer.advantages, atol=1e-5)
    np.testing.assert_allclose(found + values, buffer.returns, atol=1e-5)
