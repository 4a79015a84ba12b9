"""The transition network against plain torch.nn layers with torch's own weight norm."""

import math

import numpy as np
import pytest
import torch
from plain_network import HEADS, PlainNetwork, as_floats, one_hot, random_arrays, random_inputs

from pomp.core.errors import DataFileError
from pomp.machine.config import NetworkConfig
from pomp.machine.layers import Shape, draw_weights
from pomp.machine.network import Ensemble, choose


def flat_of(shape, *members):
    return torch.from_numpy(np.stack([shape.pack(arrays) for arrays in members]))


def run_alone(shape, arrays, seen, mode):
    network = Ensemble(shape, [shape.modes], "cpu")
    logits, values = network(flat_of(shape, arrays), seen[None], mode[None])
    return logits[0], values[0]


def close(found, expected, tolerance=2e-5):
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def shape_of(modes=3, size=(8, 8), **settings):
    return Shape(NetworkConfig(**settings), *size, modes)


# ---------------------------------------------------------------- size


@pytest.mark.parametrize(
    ("hidden", "size", "modes", "count"),
    [
        (16, (8, 8), 3, 17_429),
        (16, (8, 8), 5, 17_495),
        (16, (16, 16), 3, 82_965),
        (32, (8, 8), 3, 28_133),
        (32, (8, 8), 5, 28_263),
        (32, (16, 16), 3, 159_205),
    ],
)
@pytest.mark.parametrize("norm", [True, False])
def test_networks_have_the_published_numbers_of_parameters(hidden, size, modes, count, norm):
    shape = shape_of(modes, size, hidden=hidden, weight_norm=norm)
    gains = sum(math.prod(part) for name, part in shape.parts if name.endswith(".scale"))
    # one gain for each output of all layers but the heads
    assert gains == (32 + 32 + 4 * hidden if norm else 0)
    assert shape.size - gains == count
    assert sum(p.numel() for p in PlainNetwork(shape).parameters()) == shape.size


def test_a_network_without_modes_is_the_encoder_and_two_heads():
    shape = shape_of(5, inputs="grid", weight_norm=False)
    encoder = (8 * 16 + 1) * 32 + (32 * 4 + 1) * 32 + (512 + 1) * 32
    assert shape.size == encoder + 33 * 6 + 33


def test_the_default_is_the_papers():
    config = NetworkConfig()
    assert (config.hidden, config.weight_norm, config.inputs) == (32, True, "grid+mode")


# ---------------------------------------------------------------- what it computes


@pytest.mark.parametrize("norm", [True, False])
@pytest.mark.parametrize("inputs", ["grid+mode", "grid", "perceptions+mode"])
@pytest.mark.parametrize(
    ("hidden", "size", "modes"), [(32, (8, 8), 5), (16, (16, 16), 3), (7, (14, 22), 1)]
)
def test_forward_equals_plain_layers(hidden, size, modes, inputs, norm):
    shape = shape_of(modes, size, hidden=hidden, inputs=inputs, weight_norm=norm)
    arrays = random_arrays(shape, 1)
    seen, mode = random_inputs(shape, 40, 2)
    plain = PlainNetwork(shape).load(arrays)
    logits, values = run_alone(shape, arrays, seen, mode)
    expected, expected_values = plain(as_floats(shape, seen), one_hot(mode, modes))
    assert expected.std(dim=0).min() > 1e-3  # the inputs make a difference
    close(logits, expected)
    close(values, expected_values)


def test_gradients_equal_those_of_plain_layers():
    shape = shape_of(3)
    arrays = random_arrays(shape, 3)
    seen, mode = random_inputs(shape, 30, 4)
    plain = PlainNetwork(shape).load(arrays)
    logits, values = plain(as_floats(shape, seen), one_hot(mode, 3))
    (logits.square().mean() + values.square().mean()).backward()
    flat = flat_of(shape, arrays).requires_grad_()
    ours, our_values = Ensemble(shape, [3], "cpu")(flat, seen[None], mode[None])
    (ours.square().mean() + our_values.square().mean()).backward()
    close(flat.grad[0], torch.from_numpy(plain.row("grad")), 1e-5)


def test_before_the_first_mode_the_mode_vector_is_zero():
    shape = shape_of(3, weight_norm=False)
    arrays = random_arrays(shape, 5)
    seen, _ = random_inputs(shape, 10, 6)
    other = dict(arrays)
    other["mode.weight"] = arrays["mode.weight"][:, ::-1] * 3 + 1
    nothing, third = torch.full((10,), -1), torch.full((10,), 2)
    before, _ = run_alone(shape, arrays, seen, nothing)
    assert torch.equal(before, run_alone(shape, other, seen, nothing)[0])
    assert not torch.allclose(run_alone(shape, arrays, seen, third)[0], before, atol=1e-3)
    plain = PlainNetwork(shape).load(arrays)
    close(before, plain(seen.float(), torch.zeros(10, 4))[0])


def test_the_slot_of_the_end_is_never_on():
    shape = shape_of(3, weight_norm=False)
    arrays = random_arrays(shape, 7)
    other = {name: array.copy() for name, array in arrays.items()}
    other["mode.weight"][:, 3] += 5
    seen, mode = random_inputs(shape, 50, 8)
    assert set(mode.tolist()) == {-1, 0, 1, 2}
    ours, theirs = (run_alone(shape, one, seen, mode) for one in (arrays, other))
    assert torch.equal(ours[0], theirs[0])
    assert torch.equal(ours[1], theirs[1])


# ---------------------------------------------------------------- ensembles

COUNTS = (3, 5, 1, 4)


def mixed_ensemble(inputs="grid+mode", batch=12):
    """Members with different numbers of modes, alone and packed together."""
    small = [shape_of(modes, hidden=16, inputs=inputs) for modes in COUNTS]
    arrays = [random_arrays(shape, number) for number, shape in enumerate(small)]
    views = [random_inputs(shape, batch, 30 + number) for number, shape in enumerate(small)]
    big = shape_of(max(COUNTS), hidden=16, inputs=inputs)
    seen, mode = (torch.stack(column) for column in zip(*views, strict=True))
    return small, arrays, big, flat_of(big, *arrays), seen, mode


@pytest.mark.parametrize("inputs", ["grid+mode", "grid", "perceptions+mode"])
def test_members_with_different_numbers_of_modes_compute_as_alone(inputs):
    small, arrays, big, flat, seen, mode = mixed_ensemble(inputs)
    logits, values = Ensemble(big, list(COUNTS), "cpu")(flat, seen, mode)
    assert logits.shape == (4, 12, 6)
    for i, modes in enumerate(COUNTS):
        alone, alone_values = run_alone(small[i], arrays[i], seen[i], mode[i])
        close(logits[i, :, : modes + 1], alone)
        close(values[i], alone_values)
        chances = torch.softmax(logits[i], dim=1)
        assert (chances[:, modes + 1 :] == 0).all()
        close(chances[:, : modes + 1], torch.softmax(alone, dim=1))


def test_absent_modes_are_never_chosen():
    *_, big, flat, seen, mode = mixed_ensemble()
    logits, _ = Ensemble(big, list(COUNTS), "cpu")(flat * 0.1, seen, mode)
    extremes = [0.0, 2.0**-53, 0.5, 1 - 2.0**-24, 1 - 2.0**-53, None]
    draws = np.random.default_rng(1).random((200, *mode.shape))
    for number in [*extremes, *draws]:
        given = None if number is None else torch.from_numpy(np.zeros(mode.shape) + number)
        choices = choose(logits, given)
        assert (choices <= torch.tensor(COUNTS)[:, None]).all()
        assert (choices >= 0).all()


def test_absent_modes_get_no_gradient():
    *_, big, flat, seen, mode = mixed_ensemble()
    flat.requires_grad_()
    logits, values = Ensemble(big, list(COUNTS), "cpu")(flat, seen, mode)
    chances = torch.log_softmax(logits, dim=-1)
    entropy = -(chances.exp() * chances).sum(dim=-1)
    (chances[..., 0].sum() + entropy.sum() + values.sum()).backward()
    parts = big.split(flat.grad)
    assert torch.isfinite(flat.grad).all()
    for i, modes in enumerate(COUNTS):
        assert (parts["actor.weight"][i, modes + 1 :] == 0).all()
        assert (parts["actor.bias"][i, modes + 1 :] == 0).all()
        assert (parts["mode.weight"][i, :, modes + 1 :] == 0).all()
        assert (parts["actor.bias"][i, : modes + 1] != 0).all()


def test_members_do_not_touch_each_other():
    *_, big, flat, seen, mode = mixed_ensemble()
    network = Ensemble(big, list(COUNTS), "cpu")
    before = network(flat, seen, mode)
    flat[2] = float("nan")
    after = network(flat, seen, mode)
    for old, new in zip(before, after, strict=True):
        assert new[2].isnan().any()
        for member in (0, 1, 3):
            assert torch.equal(old[member], new[member])


# ---------------------------------------------------------------- packing


def test_packing_and_cutting_are_inverse():
    small, big = shape_of(3, hidden=16), shape_of(5, hidden=16)
    arrays = random_arrays(small, 9)
    back = big.cut(big.pack(arrays), 3)
    assert back.keys() == arrays.keys()
    assert all(np.array_equal(back[name], arrays[name]) for name in arrays)
    whole = small.unpack(small.pack(arrays))
    assert all(np.array_equal(whole[name], arrays[name]) for name in arrays)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("actor.weight", (7, 32)),
        ("actor.weight", (3, 40)),  # fewer rows, but too wide
        ("mode.weight", (16, 9)),
        ("trunk.0.bias", (32, 1)),
        ("critic.weight", None),
    ],
)
def test_weights_that_do_not_fit_are_refused(name, size):
    shape = shape_of(5)
    arrays = random_arrays(shape, 10)
    del arrays[name]
    if size is not None:
        arrays[name] = np.zeros(size, np.float32)
    with pytest.raises(DataFileError):
        shape.pack(arrays)


# ---------------------------------------------------------------- first weights

GAINS = {"actor": 0.01, "critic": 1.0}


@pytest.mark.parametrize(("modes", "size", "hidden"), [(3, (8, 8), 32), (5, (16, 16), 16)])
@pytest.mark.parametrize("norm", [True, False])
def test_first_weights_are_orthogonal_and_biases_zero(modes, size, hidden, norm):
    shape = shape_of(modes, size, hidden=hidden, weight_norm=norm)
    arrays = draw_weights(shape, np.uint64(77))
    assert {name: array.shape for name, array in arrays.items()} == dict(shape.parts)
    layers = [name.removesuffix(".weight") for name in arrays if name.endswith(".weight")]
    assert len(layers) == 8
    for name in layers:
        matrix = arrays[f"{name}.weight"].reshape(len(arrays[f"{name}.weight"]), -1)
        matrix = matrix.astype(np.float64)
        gain = GAINS.get(name, math.sqrt(2))
        product = matrix @ matrix.T if len(matrix) <= matrix.shape[1] else matrix.T @ matrix
        np.testing.assert_allclose(product, gain**2 * np.eye(len(product)), atol=1e-5 * gain**2)
        assert (arrays[f"{name}.bias"] == 0).all()
        if norm and name not in HEADS:  # the gain of the weight norm does not change the weight
            lengths = np.linalg.norm(matrix, axis=1)
            np.testing.assert_allclose(arrays[f"{name}.scale"], lengths, rtol=1e-5)


def test_first_weights_are_drawn_uniformly_over_orientations():
    shape = shape_of(3)
    rows = [draw_weights(shape, np.uint64(seed * 977))["critic.weight"][0] for seed in range(400)]
    signs = np.array(rows) > 0
    assert np.abs(signs.mean(axis=0) - 0.5).max() < 4 * 0.5 / math.sqrt(400)
    assert np.abs(np.corrcoef(np.array(rows).T) - np.eye(32)).max() < 5 / math.sqrt(400)


def test_first_weights_belong_to_their_stream():
    shape = shape_of(3)
    first, again, other = (draw_weights(shape, np.uint64(seed)) for seed in (5, 5, 6))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.allclose(first["trunk.1.weight"], other["trunk.1.weight"])
    assert not np.allclose(first["trunk.1.weight"][:, :4], first["mode.weight"])


def test_an_untrained_network_chooses_almost_uniformly():
    shape = shape_of(5)
    seen, mode = random_inputs(shape, 64, 11)
    logits, _ = run_alone(shape, draw_weights(shape, np.uint64(3)), seen, mode)
    assert torch.softmax(logits, dim=1).sub(1 / 6).abs().max() < 0.02


# ---------------------------------------------------------------- choosing


def test_a_draw_is_turned_into_a_choice_by_the_inverse_of_the_distribution():
    draw = np.random.default_rng(12)
    logits = draw.normal(size=(300, 6)) * 2
    numbers = draw.random(300)
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    edges = chances.cumsum(axis=1)
    expected = (numbers[:, None] >= edges).sum(axis=1)
    assert np.abs(numbers[:, None] - edges).min() > 1e-6  # no draw is a matter of rounding
    found = choose(torch.from_numpy(logits).float(), torch.from_numpy(numbers))
    assert found.dtype == torch.int64
    assert found.tolist() == expected.tolist()


def test_choices_have_the_networks_distribution():
    draw = np.random.default_rng(13)
    logits = torch.from_numpy(draw.normal(size=(1, 4))).float()
    count = 40_000
    choices = choose(logits.expand(count, 4), torch.from_numpy(draw.random(count)))
    shares = np.bincount(choices.numpy(), minlength=4) / count
    chances = torch.softmax(logits[0], dim=0).numpy()
    assert (np.abs(shares - chances) < 4 * np.sqrt(chances * (1 - chances) / count)).all()


def test_without_draws_the_likeliest_is_chosen():
    logits = torch.tensor([[[0.0, 3.0, 1.0], [2.0, -1.0, 1.0]], [[-5.0, -4.0, -3.0], [0, 1, 0]]])
    assert choose(logits, None).tolist() == [[1, 0], [2, 1]]
