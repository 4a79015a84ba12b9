"""Stage 1's networks, losses, rewards and fast decoder against plain loops.

Long on purpose: the method's sections 2.1 to 2.3 in order, over one set of plain networks.
"""

import math

import numpy as np
import pytest
import torch
from behaviour import (
    Limits,
    accepted_trials,
    mean_match,
    padded,
    program,
    text_of,
)
from oracle import Mask

from pomp.core.streams import Purpose, open_streams
from pomp.dsl.grammar import published_mask
from pomp.dsl.sampling import SamplerConfig, sample_programs
from pomp.dsl.vocabulary import HPRL, LEAPS
from pomp.embedding.config import HPRL_MODEL, ModelConfig, ReinforceConfig
from pomp.embedding.decoder import CpuDecoder
from pomp.embedding.demonstrations import random_worlds
from pomp.embedding.losses import (
    kl_divergence,
    latent_behaviour_reconstruction,
    normalise,
    program_behaviour_reconstruction,
    program_reconstruction,
)
from pomp.embedding.model import EmbeddingModel, Posterior, initialise
from pomp.embedding.objective import behaviour_rewards, show_originals

LOWEST = float(np.finfo(np.float32).min)
GENERATED = 45
NO_OP = 5
PAD = 4  # of the tiny vocabularies below


def uniform(*shape, seed=0, scale=1.0):
    """Random logits, float32."""
    rng = np.random.default_rng(seed)
    return torch.tensor(rng.normal(0, scale, shape), dtype=torch.float32)


def log_softmax(row):
    """Logarithms of probabilities, in double precision."""
    row = [float(value) for value in row]
    top = max(row)
    total = math.log(sum(math.exp(value - top) for value in row))
    return [value - top - total for value in row]


def answering(rows, tokens, seed=0):
    """Random logits whose largest entries are the given tokens."""
    logits = uniform(len(rows), len(rows[0]), tokens, seed=seed)
    for b, row in enumerate(rows):
        for t, token in enumerate(row):
            logits[b, t, token] = 4.0 + t / 8
    return logits


def best(row):
    """The position of the largest number."""
    return max(range(len(row)), key=lambda index: float(row[index]))


def first(row, end):
    """Where a row first holds a value; its length if it does not."""
    row = list(row)
    return row.index(end) if end in row else len(row)


def slow_reconstruction(logits, targets, end):
    """Mean cross-entropy over the steps in T or Q."""
    losses = []
    for b in range(len(targets)):
        last = first([best(row) for row in logits[b]], end)
        for t in range(len(targets[b])):
            if int(targets[b][t]) != end or t <= last:
                losses.append(-log_softmax(logits[b, t])[int(targets[b][t])])
    return sum(losses) / len(losses)


# ---------------------------------------------------------------- 2.3a: tokens


@pytest.mark.parametrize(
    ("predicted", "target"),
    [
        pytest.param([1, 2, 4, 4, 4, 4], [1, 2, 4, 4, 4, 4], id="right"),
        pytest.param([1, 4, 0, 1, 2, 3], [1, 2, 3, 0, 4, 4], id="ends too early"),
        pytest.param([4, 4, 4, 4, 4, 4], [1, 2, 3, 0, 4, 4], id="ends at once"),
        pytest.param([1, 2, 3, 0, 4, 1], [1, 2, 4, 4, 4, 4], id="ends too late"),
        pytest.param([1, 2, 3, 0, 1, 2], [1, 2, 4, 4, 4, 4], id="does not end"),
        pytest.param([1, 4, 1, 4, 1, 4], [1, 2, 0, 4, 4, 4], id="ends and goes on"),
        pytest.param([1, 2, 3, 0, 1, 2], [1, 2, 3, 0, 1, 2], id="nothing ends"),
        pytest.param([1, 2, 3, 0, 1, 4], [4, 4, 4, 4, 4, 4], id="nothing is wanted"),
    ],
)
def test_the_token_loss_counts_the_program_and_the_prediction_up_to_its_end(predicted, target):
    logits, targets = answering([predicted], 5), torch.tensor([target])
    expected = slow_reconstruction(logits, targets, PAD)
    assert program_reconstruction(logits, targets, PAD).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("predicted", "counts"),
    [
        pytest.param([1, 4, 0, 0], False, id="it ended before"),
        pytest.param([1, 2, 0, 0], True, id="it goes on"),
    ],
)
def test_the_step_of_the_wanted_end_counts_only_if_the_prediction_gets_there(predicted, counts):
    target, logits = torch.tensor([[1, 2, PAD, PAD]]), answering([predicted], 5)
    unlikelier = logits.clone()
    unlikelier[0, 2, PAD] -= 1
    before, after = (program_reconstruction(one, target, PAD) for one in (logits, unlikelier))
    assert (before.item() != after.item()) == counts


@pytest.mark.parametrize("seed", range(5))
def test_the_token_loss_is_one_mean_over_all_counted_steps_of_a_batch(seed):
    rng = np.random.default_rng(seed)
    targets = torch.full((6, 9), PAD)
    for row in targets:
        length = rng.integers(0, 10)
        row[:length] = torch.tensor(rng.integers(0, PAD, length))
    logits = uniform(6, 9, 5, seed=seed)
    expected = slow_reconstruction(logits, targets, PAD)
    assert program_reconstruction(logits, targets, PAD).item() == pytest.approx(expected, rel=1e-5)


def test_forced_tokens_cost_nothing():
    logits = torch.full((1, 3, 5), LOWEST)
    logits[0, 0, 1], logits[0, 1, 2], logits[0, 2, PAD] = -3.0, 7.0, 0.5
    assert program_reconstruction(logits, torch.tensor([[1, 2, PAD]]), PAD).item() == 0


def test_masked_tokens_have_no_share_in_the_token_loss():
    logits = uniform(2, 4, 5, seed=7)
    logits[:, :, 3] = LOWEST
    targets = torch.tensor([[1, 2, 4, 4], [0, 4, 4, 4]])
    expected = slow_reconstruction(logits, targets, PAD)
    assert program_reconstruction(logits, targets, PAD).item() == pytest.approx(expected, rel=1e-5)


# ---------------------------------------------------------------- 2.3a: KL


@pytest.mark.parametrize("width", [1, 7, 64, 256])
@pytest.mark.parametrize(("mean", "expected"), [(0.0, 0.0), (1.0, 0.5), (-1.0, 0.5), (2.0, 2.0)])
def test_the_divergence_at_sigma_one_is_half_the_squared_mean_whatever_the_width(
    width, mean, expected
):
    posterior = Posterior(torch.full((3, width), mean), torch.zeros(3, width))
    assert kl_divergence(posterior).item() == pytest.approx(expected, abs=1e-6)


def test_the_divergence_is_a_mean_over_batch_and_dimensions():
    mean, log_sigma = uniform(4, 3, seed=1), uniform(4, 3, seed=2)
    terms = []
    for b in range(4):
        for d in range(3):
            mu, sigma = mean[b, d].item(), math.exp(log_sigma[b, d].item())
            terms.append(mu**2 + sigma**2 - math.log(sigma**2) - 1)
    expected = 0.5 * sum(terms) / len(terms)
    got = kl_divergence(Posterior(mean, log_sigma)).item()
    assert got == pytest.approx(expected, rel=1e-5)


# ---------------------------------------------------------------- 2.3c: actions


def slow_behaviour(logits, targets):
    """L_L of demonstrations, unrolled to the longest of them and one step more."""
    longest = max(first(row.tolist(), NO_OP) for row in targets)
    steps = min(longest + 1, targets.shape[1])
    return slow_reconstruction(logits[:, :steps], targets[:, :steps], NO_OP)


@pytest.mark.parametrize(
    ("predicted", "target"),
    [
        pytest.param([0, 1, 5, 5, 5], [0, 1, 5, 5, 5], id="right"),
        pytest.param([5, 1, 2, 3, 4], [0, 1, 2, 5, 5], id="ends at once"),
        pytest.param([0, 1, 2, 5, 5], [0, 5, 5, 5, 5], id="ends after the unrolling"),
        pytest.param([0, 1, 2, 3, 4], [0, 1, 5, 5, 5], id="does not end"),
        pytest.param([0, 1, 2, 3, 4], [5, 5, 5, 5, 5], id="the demonstration is empty"),
        pytest.param([0, 1, 2, 3, 4], [0, 1, 2, 3, 4], id="the demonstration fills all steps"),
    ],
)
def test_the_action_loss_of_one_demonstration(predicted, target):
    logits, targets = answering([predicted], 6), torch.tensor([target])
    got = latent_behaviour_reconstruction(logits, targets, NO_OP).item()
    assert got == pytest.approx(slow_behaviour(logits, targets), rel=1e-5)


def test_a_prediction_that_overruns_counts_up_to_the_longest_demonstration_and_one_step():
    targets = torch.tensor([[0, 5, 5, 5, 5, 5], [0, 1, 2, 5, 5, 5]])
    logits = answering([[0, 1, 2, 3, 4, 0], [0, 1, 2, 5, 5, 5]], 6)
    costs = [-log_softmax(logits[0, t])[int(targets[0, t])] for t in range(4)]
    costs += [-log_softmax(logits[1, t])[int(targets[1, t])] for t in range(4)]
    got = latent_behaviour_reconstruction(logits, targets, NO_OP).item()
    assert got == pytest.approx(sum(costs) / 8, rel=1e-5)


def test_steps_past_the_unrolling_do_not_count():
    targets = torch.tensor([[0, 5, 5, 5, 5], [0, 1, 5, 5, 5]])
    logits = answering([[0, 1, 2, 3, 4], [3, 3, 3, 3, 3]], 6)
    changed = logits.clone()
    changed[:, 3:] = uniform(2, 2, 6, seed=9, scale=5.0)
    losses = [latent_behaviour_reconstruction(one, targets, NO_OP) for one in (logits, changed)]
    assert losses[0].item() == losses[1].item()


@pytest.mark.parametrize("seed", range(5))
def test_the_action_loss_is_one_mean_over_all_counted_steps_of_a_batch(seed):
    rng = np.random.default_rng(seed)
    targets = torch.full((7, 12), NO_OP)
    for row in targets:
        length = rng.integers(0, 9)
        row[:length] = torch.tensor(rng.integers(0, NO_OP, length))
    logits = uniform(7, 12, 6, seed=seed)
    got = latent_behaviour_reconstruction(logits, targets, NO_OP).item()
    assert got == pytest.approx(slow_behaviour(logits, targets), rel=1e-5)


# ---------------------------------------------------------------- 2.3b: REINFORCE


def slow_reinforce(logits, tokens, rewards, pad, weight):
    """L_R without its KL term."""
    gains, entropies = [], []
    for b in range(len(tokens)):
        steps = min(first(tokens[b].tolist(), pad) + 1, len(tokens[b]))
        total = 0.0
        for t in range(steps):
            logs = log_softmax(logits[b, t])
            total += logs[int(tokens[b, t])]
            entropies.append(-sum(math.exp(log) * log for log in logs if math.exp(log) > 0))
        gains.append(float(rewards[b]) * total)
    return -sum(gains) / len(gains) - weight * sum(entropies) / len(entropies)


@pytest.mark.parametrize("weight", [0.0, 0.1, 2.0])
@pytest.mark.parametrize(
    "tokens",
    [
        pytest.param([[1, 2, 4, 4], [0, 4, 4, 4]], id="both end"),
        pytest.param([[1, 2, 3, 0], [0, 1, 4, 4]], id="one does not end"),
        pytest.param([[4, 4, 4, 4], [1, 2, 3, 4]], id="one ends at once, one at last"),
    ],
)
def test_the_reinforce_loss_looks_up_to_the_first_padding(tokens, weight):
    logits, tokens, rewards = uniform(2, 4, 5), torch.tensor(tokens), torch.tensor([1.5, -0.5])
    expected = slow_reinforce(logits, tokens, rewards, PAD, weight)
    got = program_behaviour_reconstruction(logits, tokens, rewards, PAD, weight).item()
    assert got == pytest.approx(expected, rel=1e-5)


def test_steps_behind_the_first_padding_have_no_share_in_the_reinforce_loss():
    tokens, rewards = torch.tensor([[1, 4, 4, 4]]), torch.tensor([1.0])
    logits = uniform(1, 4, 5)
    changed = logits.clone()
    changed[0, 2:] = uniform(2, 5, seed=3, scale=4.0)
    losses = [
        program_behaviour_reconstruction(one, tokens, rewards, PAD, 0.1)
        for one in (logits, changed)
    ]
    assert losses[0].item() == losses[1].item()


def test_masked_tokens_have_no_share_in_the_reinforce_loss():
    logits = uniform(2, 4, 5, seed=5)
    logits[:, :, 3] = LOWEST
    logits[:, 1, :3] = LOWEST  # nothing but padding is left
    tokens, rewards = torch.tensor([[1, 4, 4, 4], [2, 4, 4, 4]]), torch.tensor([0.3, 0.9])
    expected = slow_reinforce(logits, tokens, rewards, PAD, 0.1)
    got = program_behaviour_reconstruction(logits, tokens, rewards, PAD, 0.1).item()
    assert got == pytest.approx(expected, rel=1e-5)


def test_masked_tokens_leave_finite_gradients():
    logits = uniform(2, 4, 5, seed=5)
    logits[:, :, 3] = LOWEST
    logits.requires_grad_()
    tokens, rewards = torch.tensor([[1, 4, 4, 4], [2, 0, 4, 4]]), torch.tensor([0.3, 0.9])
    program_behaviour_reconstruction(logits, tokens, rewards, PAD, 0.1).backward()
    assert torch.isfinite(logits.grad).all()


def test_a_step_down_the_reinforce_loss_makes_a_rewarded_program_likelier():
    logits = uniform(2, 3, 5).requires_grad_()
    tokens = torch.tensor([[1, 2, 4], [3, 0, 4]])
    loss = program_behaviour_reconstruction(logits, tokens, torch.tensor([1.0, -1.0]), PAD, 0.0)
    loss.backward()
    after = logits.detach() - 0.1 * logits.grad

    def likelihoods(scores):
        chances = scores.log_softmax(-1).gather(-1, tokens[:, :, None])
        return chances.sum(dim=(1, 2)).tolist()

    old, new = likelihoods(logits.detach()), likelihoods(after)
    assert new[0] > old[0]
    assert new[1] < old[1]


def test_rewards_are_normalised_by_mean_and_deviation():
    rewards = uniform(512, seed=4, scale=0.3) + 0.7  # as many as one update has
    values = rewards.numpy().astype(float)
    expected = (values - values.mean()) / (values.std() + 1e-5)
    # n or n - 1 is not said: for 512 rewards they are 0.1 % apart
    assert normalise(rewards).numpy() == pytest.approx(expected, rel=1.2e-3, abs=1e-6)


def test_equal_rewards_are_normalised_to_nothing():
    assert normalise(torch.full((16,), 0.01)).abs().max().item() < 1e-3


def test_almost_equal_rewards_are_not_blown_up():
    rewards = torch.tensor([0.0, 2e-6] * 256)
    expected = 1e-6 / (1e-6 + 1e-5)
    assert normalise(rewards).abs().max().item() == pytest.approx(expected, rel=0.01)


# ---------------------------------------------------------------- 2.3b: rewards


REINFORCE = ReinforceConfig()


def shown_originals(ids, seed=0):
    streams = open_streams(Purpose.TRAINING, seed, worlds=len(ids))
    return show_originals(ids, streams, LEAPS, REINFORCE)


@pytest.fixture(scope="module")
def originals():
    """Random programs, each once, and the worlds on which they are compared."""
    ids = np.unique(sample_programs(80, 11, SamplerConfig(max_tokens=44)), axis=0)
    ids = np.pad(ids, ((0, 0), (0, 2)), constant_values=LEAPS.pad)
    shown = shown_originals(ids)
    kept = shown.starts.found > 0
    assert kept.mean() > 0.9
    return ids[kept], shown_originals(ids[kept])


def rewards_of(originals, sampled):
    return behaviour_rewards(originals[1], sampled, LEAPS, REINFORCE)


def test_programs_are_compared_on_worlds_found_by_the_rule_of_demonstrations():
    ids = sample_programs(40, 12, SamplerConfig(max_tokens=44))
    streams = open_streams(Purpose.TRAINING, 3, worlds=len(ids))
    starts = show_originals(ids, streams.copy(), LEAPS, REINFORCE).starts
    limits = Limits(trials=1000, least_states=1, most_states=100, stop_on_error=False)
    for p, stream in enumerate(streams):
        trials, _ = accepted_trials(text_of(ids[p]), stream, random_worlds(0.25, 0.1), limits)
        assert starts.found[p] == len(trials)
        for cells, pose, trial in zip(starts.cells[p], starts.pose[p], trials, strict=False):
            assert cells.tobytes() == trial.cells
            assert pose == trial.pose


def test_the_program_itself_is_worth_one_and_a_bonus(originals):
    assert rewards_of(originals, originals[0]) == pytest.approx(1.1, abs=1e-6)


def test_another_program_is_worth_its_mean_match_and_a_bonus(originals):
    ids, shown = originals
    others = np.roll(ids, 1, axis=0)
    rng = np.random.default_rng(1)
    for p in range(0, len(ids), 2):  # every other one differs in an action only
        others[p] = ids[p]
        places = np.flatnonzero((ids[p] >= 4) & (ids[p] <= 8))
        others[p, rng.choice(places)] = rng.integers(4, 9)
    expected = [
        mean_match(text_of(ids[p]), text_of(others[p]), shown.starts, p) + 0.1
        for p in range(len(ids))
    ]
    assert rewards_of(originals, others) == pytest.approx(expected, abs=1e-6)


def test_the_shortest_program_is_a_program(originals):
    ids, shown = originals
    others = padded([program("turnLeft")] * len(ids))
    expected = [
        mean_match(text_of(ids[p]), program("turnLeft"), shown.starts, p) + 0.1
        for p in range(len(ids))
    ]
    assert rewards_of(originals, others) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("DEF run m( m)", id="an empty program"),
        pytest.param("DEF run m( WHILE c( frontIsClear c) w( w) move m)", id="an empty body"),
        pytest.param("DEF run m( " + "move " * 43, id="no end within 46 tokens"),
        pytest.param("DEF run m( move", id="padding before the end"),
        pytest.param("DEF", id="nothing"),
    ],
)
def test_what_does_not_parse_is_worth_a_hundredth(originals, text):
    others = padded([text] * len(originals[0]))
    assert rewards_of(originals, others) == pytest.approx(0.01, abs=1e-7)


# ---------------------------------------------------------------- 2.1: networks


def drawn_model(config, seed=0):
    """A model whose weights are all random, those that start at zero too."""
    model = EmbeddingModel(config)
    initialise(model, seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weights in model.parameters():
            weights.add_(0.05 * torch.randn(weights.shape, generator=generator))
        model.decoder.output.weight.mul_(4)
    return model.eval()


CONFIGS = {"leaps": ModelConfig(), "hprl": HPRL_MODEL}
VOCABULARIES = {"leaps": LEAPS, "hprl": HPRL}
each_kind = pytest.mark.parametrize("kind", ["leaps", "hprl"])


@pytest.fixture(scope="module")
def models():
    return {kind: drawn_model(config) for kind, config in CONFIGS.items()}


def linear(layer, values):
    return values @ layer.weight.T + layer.bias


def cell_of(gru):
    """The same weights as a cell that is called step by step."""
    cell = torch.nn.GRUCell(gru.input_size, gru.hidden_size)
    for name, weights in cell.named_parameters():
        weights.data.copy_(getattr(gru, f"{name}_l0"))
    return cell


def slow_step(model, cell, wide, token, hidden):
    """One step of the decoder: the next hidden state and the logits, not masked."""
    decoder = model.decoder
    embedded = decoder.embed.weight[token]
    hidden = cell(torch.cat([embedded, wide], dim=1), hidden)
    layer = torch.tanh(linear(decoder.hidden, torch.cat([hidden, embedded, wide], dim=1)))
    return hidden, linear(decoder.output, layer)


def widened(model, kind, latent):
    return linear(model.widen, latent) if kind == "hprl" else latent


def read_by(mask, vocabulary, legal):
    """The mask's legal tokens as a row of truth values."""
    legal[:] = False
    legal[[vocabulary.id_of[token] for token in mask.legal]] = True


@torch.no_grad()
def slow_decode(model, kind, latent, noise=None):
    """Tokens behind DEF, one step after the other; the likeliest with the noise added."""
    vocabulary = VOCABULARIES[kind]
    wide = widened(model, kind, latent)
    cell, hidden = cell_of(model.decoder.gru), wide
    masks = [Mask(vocabulary.counts) for _ in latent]
    token = torch.zeros(len(latent), dtype=torch.long)
    tokens = torch.zeros(len(latent), GENERATED, dtype=torch.long)
    legal = np.zeros((len(latent), len(vocabulary)), bool)
    for step in range(GENERATED):
        for mask, last, row in zip(masks, token.tolist(), legal, strict=True):
            mask.read(vocabulary.tokens[last])
            read_by(mask, vocabulary, row)
        hidden, logits = slow_step(model, cell, wide, token, hidden)
        if noise is not None:
            logits = logits + noise[step]
        token = torch.where(torch.tensor(legal), logits, -math.inf).argmax(dim=1)
        tokens[:, step] = token
    return tokens


@pytest.mark.parametrize(
    ("config", "counts"),
    [
        pytest.param(
            ModelConfig(),
            {
                "encoder": 239_913,
                "decoder": 594_012,
                "posterior": 131_584,
                "policy": 874_346,
                "total": 1_839_855,
            },
            id="leaps",
        ),
        pytest.param(HPRL_MODEL, {"total": 931_359}, id="hprl"),
    ],
)
def test_a_model_has_as_many_parameters_as_published(config, counts):
    model = EmbeddingModel(config)
    got = model.parameter_counts()
    assert {name: got[name] for name in counts} == counts
    assert sum(weights.numel() for weights in model.parameters()) == counts["total"]


@pytest.fixture(scope="module")
def programs():
    """Token ids of random programs in both dialects, and their lengths."""
    sampled = {}
    for kind, vocabulary in VOCABULARIES.items():
        config = SamplerConfig(max_tokens=40)
        ids = torch.tensor(sample_programs(30, 17, config, vocabulary).astype(np.int64))
        sampled[kind] = ids, (ids != vocabulary.pad).sum(dim=1)
    return sampled


@each_kind
@torch.no_grad()
def test_the_encoder_reads_a_program_token_by_token(models, programs, kind):
    model, (ids, lengths) = models[kind], programs[kind]
    posterior = model.posterior(ids, lengths)
    cell = cell_of(model.encoder.gru)
    for row, length, mean, log_sigma in zip(ids, lengths, *posterior, strict=True):
        hidden = torch.zeros(1, 256)
        for token in row[:length]:
            hidden = cell(model.encoder.embed.weight[token][None], hidden)
        if kind == "hprl":
            hidden = linear(model.squeeze, hidden)
        assert torch.allclose(linear(model.mean, hidden)[0], mean, atol=1e-5)
        assert torch.allclose(linear(model.log_sigma, hidden)[0], log_sigma, atol=1e-5)


@each_kind
@torch.no_grad()
def test_padding_does_not_leak_into_the_encoder(models, programs, kind):
    model, (ids, lengths) = models[kind], programs[kind]
    junk = ids.clone()
    behind = torch.arange(ids.shape[1]) >= lengths[:, None]
    generator = torch.Generator().manual_seed(1)
    random = torch.randint(0, len(VOCABULARIES[kind]), ids.shape, generator=generator)
    junk[behind] = random[behind]
    wider = torch.nn.functional.pad(ids, (0, 9), value=3)
    plain = model.posterior(ids, lengths)
    for other in (junk, wider):
        for before, after in zip(plain, model.posterior(other, lengths), strict=True):
            assert torch.allclose(before, after, atol=1e-6)


@torch.no_grad()
def test_a_latent_is_mean_plus_sigma_times_noise(models):
    posterior = Posterior(uniform(3, 256, seed=1), uniform(3, 256, seed=2))
    noise = uniform(3, 256, seed=3)
    expected = posterior.mean + posterior.log_sigma.exp() * noise
    assert torch.allclose(models["leaps"].sample(posterior, noise), expected, atol=1e-6)


@torch.no_grad()
def test_an_hprl_latent_has_a_tenth_of_the_noise_and_is_squashed(models):
    posterior = Posterior(uniform(3, 64, seed=1), uniform(3, 64, seed=2))
    noise = uniform(3, 64, seed=3)
    expected = torch.tanh(posterior.mean + posterior.log_sigma.exp() * 0.1 * noise)
    assert torch.allclose(models["hprl"].sample(posterior, noise), expected, atol=1e-6)


def grammar_states(ids, vocabulary):
    """The state of the package's mask after each token, and the legal tokens by the slow one."""
    automaton = published_mask(vocabulary)
    states = np.zeros(ids.shape, np.int64)
    legal = np.zeros((*ids.shape, len(vocabulary)), bool)
    for b, row in enumerate(ids.tolist()):
        state, stack, mask = automaton.start, [], Mask(vocabulary.counts)
        for t, token in enumerate(row):
            state = automaton.read(state, stack, token)
            mask.read(vocabulary.tokens[token])
            states[b, t] = state
            read_by(mask, vocabulary, legal[b, t])
    return torch.tensor(states), torch.tensor(legal)


@each_kind
@torch.no_grad()
def test_the_decoder_fed_with_tokens_is_a_loop_of_gru_steps(models, programs, kind):
    model, (ids, _) = models[kind], programs[kind]
    latent = uniform(len(ids), CONFIGS[kind].latent, seed=5)
    states, legal = grammar_states(ids, VOCABULARIES[kind])
    got = model.token_logits(latent, ids, states)
    wide = widened(model, kind, latent)
    cell, hidden = cell_of(model.decoder.gru), wide
    for t in range(ids.shape[1]):
        hidden, logits = slow_step(model, cell, wide, ids[:, t], hidden)
        allowed = legal[:, t]
        assert torch.allclose(got[:, t][allowed], logits[allowed], atol=1e-4)


@each_kind
@torch.no_grad()
def test_forbidden_tokens_have_the_lowest_logit(models, programs, kind):
    model, (ids, _) = models[kind], programs[kind]
    states, legal = grammar_states(ids, VOCABULARIES[kind])
    latent = uniform(len(ids), CONFIGS[kind].latent, seed=5)
    got = model.token_logits(latent, ids, states)
    assert got.isfinite().all()
    assert (got[~legal] <= 0.999 * LOWEST).all()
    assert (got[legal] > -1e6).all()


@each_kind
@torch.no_grad()
def test_no_forbidden_token_wins_however_much_it_is_liked(programs, kind):
    model, (ids, _) = drawn_model(CONFIGS[kind]), programs[kind]
    vocabulary = VOCABULARIES[kind]
    states, legal = grammar_states(ids, vocabulary)
    latent = uniform(len(ids), CONFIGS[kind].latent, seed=5)
    for token in ("<pad>", "m)", "move", "DEF"):
        model.decoder.output.bias.zero_()
        model.decoder.output.bias[vocabulary.id_of[token]] = 1e6
        winners = model.token_logits(latent, ids, states).argmax(dim=-1)
        assert legal.gather(-1, winners[..., None]).all()


@each_kind
@torch.no_grad()
def test_the_condition_policy_is_two_convolutions_a_gru_and_a_head(models, kind):
    model, config = models[kind], CONFIGS[kind]
    policy, width = model.policy, config.policy_width
    latent = uniform(3, config.latent, seed=6)
    planes = (uniform(15, config.channels, 8, 8, seed=7) > 0.5).float()
    previous = torch.tensor([[NO_OP, 0, 1, 2, 3], [NO_OP, 4, 4, 5, 5], [NO_OP, 3, 1, 0, 2]])
    logits, last = policy(latent, policy.see(planes).reshape(3, 5, width), previous)

    first_filters, second_filters, joined = policy.see[0], policy.see[2], policy.see[5]
    convolve = torch.nn.functional.conv2d
    features = torch.relu(convolve(planes, first_filters.weight, first_filters.bias))
    features = torch.relu(convolve(features, second_filters.weight, second_filters.bias))
    features = torch.relu(linear(joined, features.reshape(15, 512))).reshape(3, 5, width)
    cell, hidden = cell_of(policy.gru), latent
    for t in range(5):
        acted = policy.embed.weight[previous[:, t]]
        hidden = cell(torch.cat([latent, features[:, t], acted], dim=1), hidden)
        layer = torch.tanh(linear(policy.head[0], hidden))
        layer = torch.tanh(linear(policy.head[2], layer))
        assert torch.allclose(logits[:, t], linear(policy.head[4], layer), atol=1e-4)
    assert torch.allclose(last, hidden, atol=1e-5)


# ---------------------------------------------------------------- 2.1: first weights


def initial(config, seed, before):
    """A model of a seed, made while PyTorch's own generator stood somewhere."""
    torch.manual_seed(before)
    model = EmbeddingModel(config)
    initialise(model, seed)
    return model


@each_kind
def test_a_seed_fixes_the_first_weights(kind):
    one, two = (initial(CONFIGS[kind], 3, before).state_dict() for before in (0, 1))
    assert all(torch.equal(one[name], two[name]) for name in one)


@each_kind
def test_another_seed_gives_other_first_weights(kind):
    one, two = (initial(CONFIGS[kind], seed, 0) for seed in (3, 4))
    for (name, weights), other in zip(one.named_parameters(), two.parameters(), strict=True):
        if weights.detach().any():
            assert not torch.equal(weights, other), name


def is_orthogonal(weights, gain):
    """Whether rows, or columns if they are fewer, are orthogonal and of one length."""
    flat = weights.detach().flatten(1).double()
    product = flat @ flat.T if flat.shape[0] <= flat.shape[1] else flat.T @ flat
    return torch.allclose(product, gain**2 * torch.eye(len(product)).double(), atol=1e-4)


@each_kind
@pytest.mark.parametrize("part", ["encoder", "decoder", "policy"])
def test_grus_begin_orthogonal_and_without_bias(kind, part):
    gru = getattr(initial(CONFIGS[kind], 0, 0), part).gru
    for name, weights in gru.named_parameters():
        if "bias" in name:
            assert not weights.detach().any()
        else:
            assert is_orthogonal(weights, 1)


@each_kind
def test_decoder_head_and_policy_begin_orthogonal_with_gain_root_two_and_without_bias(kind):
    model = initial(CONFIGS[kind], 0, 0)
    layers = [model.decoder.hidden, model.decoder.output]
    layers += [model.policy.see[place] for place in (0, 2, 5)]
    layers += [model.policy.head[place] for place in (0, 2, 4)]
    for layer in layers:
        assert is_orthogonal(layer.weight, math.sqrt(2))
        assert not layer.bias.detach().any()


def test_posterior_and_embeddings_begin_at_the_default_of_pytorch():
    model = initial(ModelConfig(), 0, 0)
    for layer in (model.mean, model.log_sigma):
        for weights in (layer.weight, layer.bias):
            assert 0.95 / 16 < weights.abs().max() <= 1 / 16  # uniform within 1 / sqrt(256)
    for table in (model.encoder.embed, model.decoder.embed):
        assert abs(table.weight.mean()) < 0.08
        assert table.weight.std().item() == pytest.approx(1, abs=0.06)


# ---------------------------------------------------------------- 2.2: the fast decoder


@each_kind
def test_the_fast_decoder_writes_what_a_plain_loop_writes(models, kind):
    latent = uniform(100, CONFIGS[kind].latent, seed=8)
    got = CpuDecoder(models[kind]).decode(latent)
    expected = slow_decode(models[kind], kind, latent)
    assert got.shape == (100, GENERATED)
    assert got.dtype == torch.uint8
    assert len({tuple(row) for row in expected.tolist()}) > 50
    assert torch.equal(got.long(), expected)


def test_the_fast_decoder_writes_what_a_plain_loop_writes_with_the_first_weights():
    model = initial(ModelConfig(), 0, 0)
    latent = uniform(100, 256, seed=9)
    assert torch.equal(CpuDecoder(model).decode(latent).long(), slow_decode(model, "leaps", latent))


def test_some_decoded_programs_end_and_nothing_follows_their_end(models):
    tokens = CpuDecoder(models["leaps"]).decode(uniform(300, 256, seed=10)).tolist()
    ended = [row for row in tokens if LEAPS.id_of["m)"] in row[:-1]]
    assert ended
    for row in ended:
        end = row.index(LEAPS.id_of["m)"]) + 1
        assert row[end:] == [LEAPS.pad] * (GENERATED - end)


def test_a_latent_gives_the_same_tokens_alone_and_in_any_batch(models):
    decoder = CpuDecoder(models["leaps"])
    latent = uniform(300, 256, seed=11)
    order = np.random.default_rng(0).permutation(300)
    whole = decoder.decode(latent)
    shuffled = decoder.decode(latent[order])
    assert torch.equal(whole[order], shuffled)
    assert torch.equal(whole[:65], decoder.decode(latent[:65]))
    for row in range(0, 300, 15):
        assert torch.equal(whole[row : row + 1], decoder.decode(latent[row : row + 1]))


def gumbel(seed, rows, vocabulary=LEAPS):
    """Noise whose largest sum with logits falls on a token with its softmax probability."""
    draws = np.random.default_rng(seed).gumbel(size=(GENERATED, rows, len(vocabulary)))
    return torch.tensor(draws, dtype=torch.float32)


@each_kind
def test_noise_is_added_to_the_logits_of_every_step(models, kind):
    latent = uniform(60, CONFIGS[kind].latent, seed=12)
    noise = gumbel(0, 60, VOCABULARIES[kind])
    got = CpuDecoder(models[kind]).decode(latent, noise)
    assert torch.equal(got.long(), slow_decode(models[kind], kind, latent, noise))


@torch.no_grad()
def test_sampled_tokens_come_as_often_as_the_masked_softmax_says():
    model, rows = initial(ModelConfig(), 1, 0), 4000
    latent = uniform(1, 256, seed=13)
    tokens = CpuDecoder(model).decode(latent.repeat(rows, 1), gumbel(1, rows))
    read = LEAPS.encode(["DEF", "run", "m("])
    assert tokens[:, :2].tolist() == [read[1:]] * rows

    mask, cell, hidden = Mask(LEAPS.counts), cell_of(model.decoder.gru), latent
    for token in read:
        mask.read(LEAPS.tokens[token])
        hidden, logits = slow_step(model, cell, latent, torch.tensor([token]), hidden)
    legal = sorted(LEAPS.encode(mask.legal))
    chances = logits[0, legal].softmax(dim=0).double()
    shares = torch.tensor([(tokens[:, 2] == token).double().mean() for token in legal])
    errors = (chances * (1 - chances) / rows).sqrt()
    assert len(legal) == 10
    assert ((shares - chances).abs() < 4 * errors).all()
    assert shares.sum().item() == pytest.approx(1)
