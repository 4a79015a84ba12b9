"""The shipped embeddings: how good they are, how they refuse, and that batches do not matter."""

import json

import numpy as np
import pytest
import torch

import pomp
from pomp.bench.decode import decode_naively
from pomp.core.configs import from_json
from pomp.core.errors import ConfigError, DataFileError, ProgramSyntaxError, UnknownNameError
from pomp.core.storage import read_arrays, write_arrays
from pomp.embedding.config import HPRL_MODEL, HPRL_RECIPE, DatasetConfig, ModelConfig
from pomp.embedding.dataset import draw_fresh
from pomp.embedding.decoder_step import squash
from pomp.embedding.evaluate import compare_tokens, evaluate_embedding, imitate
from pomp.embedding.model import NO_OP, EmbeddingModel, initialise
from pomp.embedding.space import Embedding
from pomp.embedding.survey import embed_in_plane, first_action, map_space, walk
from pomp.embedding.weights import (
    data_of,
    find_weights,
    load_weights,
    save_weights,
    shipped_names,
)

WALK = "DEF run m( WHILE c( frontIsClear c) w( move w) putMarker m)"
TURN = "DEF run m( REPEAT R=4 r( turnLeft move r) pickMarker m)"


@pytest.fixture(scope="module")
def space():
    return Embedding.load()


@pytest.fixture(scope="module")
def fresh(space):
    data = dict(space.card["data"])
    draws = data.pop("draws")
    return draw_fresh(from_json(DatasetConfig, data), 150, 11, draws=draws)


def test_both_recipes_are_shipped_and_the_best_is_the_default():
    assert shipped_names()[:2] == ["best", "paper"]
    assert shipped_names()[2:] in ([], ["hprl"])
    assert find_weights(None) == find_weights("best")
    for name in shipped_names():
        assert find_weights(name).stat().st_size < 8_000_000


def test_an_embedding_of_a_baseline_is_never_the_default(tmp_path, monkeypatch):
    monkeypatch.setattr("pomp.embedding.weights._FOLDER", tmp_path)
    for shipped, default in (("hprl", None), ("paper", "paper"), ("best", "best")):
        (tmp_path / f"{shipped}.safetensors").touch()
        if default is None:
            with pytest.raises(DataFileError, match="no embedding is shipped"):
                find_weights(None)
        else:
            assert find_weights(None).stem == default
    assert shipped_names() == ["best", "paper", "hprl"]


@pytest.mark.parametrize("name", shipped_names())
def test_the_card_says_how_the_weights_were_made_and_the_musts_hold(name):
    card = load_weights(find_weights(name)).card
    assert {"data", "recipe", "commit", "hardware", "wall_seconds", "test"} <= card.keys()
    test = card["test"]
    assert test["program_accuracy"] >= 0.95
    assert test["token_accuracy"] >= 0.985
    if name != "hprl":  # whose policy is a quarter as wide
        assert test["action_accuracy"] >= 0.95
        assert test["demo_accuracy"] >= 0.90
    assert card["wall_seconds"] < 25 * 60


@pytest.mark.skipif("hprl" not in shipped_names(), reason="not shipped with this copy")
def test_the_embedding_of_hprl_is_of_its_recipe_and_gives_programs_back():
    space = Embedding.load("hprl")
    assert space.model.config == HPRL_MODEL
    assert space.model.parameter_counts()["total"] == 931_359
    assert data_of(space.card)[0] == HPRL_RECIPE.dataset
    assert space.texts(space.encode([WALK, TURN])) == [WALK, TURN]


@pytest.mark.slow
@pytest.mark.skipif("hprl" not in shipped_names(), reason="not shipped with this copy")
def test_the_embedding_of_hprl_gives_fresh_programs_back():
    space = Embedding.load("hprl")
    data, draws = data_of(space.card)
    fresh = draw_fresh(data, 100, 11, draws=draws)
    found = evaluate_embedding(space, fresh, seed=3)
    assert found["program_accuracy"] >= 0.95


def test_the_musts_hold_on_fresh_programs(space, fresh):
    found = evaluate_embedding(space, fresh, seed=3)
    assert found["program_accuracy"] >= 0.95
    assert found["token_accuracy"] >= 0.985
    assert found["action_accuracy"] >= 0.95
    assert found["demo_accuracy"] >= 0.90
    assert found["parse_rate"] >= 0.99
    assert found["smoothness"] >= 0.99


def test_known_programs_come_back(space):
    assert space.texts(space.encode([WALK, TURN])) == [WALK, TURN]
    assert space.texts(space.encode([pomp.parse(WALK)])) == [WALK]


def test_fast_decoding_gives_the_tokens_of_the_plain_loop(space, fresh):
    latents = torch.from_numpy(space.encode(fresh.ids))
    far = torch.randn((100, 256), generator=torch.Generator().manual_seed(0))
    both = torch.cat([latents, far])
    assert (space.decode(both)[:, 1:] == decode_naively(space.model, both)).all()


def test_what_else_is_in_the_batch_changes_nothing(space):
    latents = np.random.default_rng(0).normal(size=(1500, 256)).astype(np.float32)
    latents[::2] *= 0.5
    whole = space.decode(latents)
    order = np.random.default_rng(1).permutation(len(latents))
    assert (space.decode(latents[order]) == whole[order]).all()
    for batch in (1, 2, 17, 65, 333):
        parts = [space.decode(latents[at : at + batch]) for at in range(0, 10 * batch, batch)]
        found = np.concatenate(parts)[: len(latents)]
        assert (found == whole[: len(found)]).all(), batch


@pytest.mark.slow
def test_a_hundred_thousand_latents_decode_alike_in_any_batch(space):
    latents = np.random.default_rng(2).normal(size=(100_000, 256)).astype(np.float32)
    whole = space.decode(latents)
    order = np.random.default_rng(3).permutation(len(latents))
    assert (space.decode(latents[order]) == whole[order]).all()
    parts = [space.decode(latents[at : at + 65]) for at in range(0, len(latents), 65)]
    assert (np.concatenate(parts) == whole).all()


def test_encoding_does_not_depend_on_the_batch(space, fresh):
    whole = space.encode(fresh.ids)
    assert (space.encode(fresh.ids[::-1]) == whole[::-1]).all()
    assert (space.encode(fresh.ids[3:4]) == whole[3:4]).all()


def test_views_of_arrays_are_decoded_too(space):
    latents = np.random.default_rng(5).normal(size=(6, 256))
    assert (space.decode(latents[::-1]) == space.decode(latents.astype(np.float32))[::-1]).all()


def test_no_latents_and_no_programs_are_fine(space):
    assert space.decode(np.zeros((0, 256))).shape == (0, 46)
    assert space.encode([]).shape == (0, 256)


def test_tanh_is_right_to_the_rounding_of_float32():
    x = np.linspace(-12, 12, 20_001).astype(np.float32)
    plain = getattr(squash, "py_func", squash)
    found = np.array([plain(value) for value in x])
    assert found.dtype == np.float32
    assert np.abs(found - np.tanh(x.astype(np.float64))).max() < 5e-7


@pytest.mark.parametrize(
    ("latents", "message"),
    [
        (np.zeros((3, 255)), r"shape \[programs, 256\], got \[3, 255\]"),
        (np.zeros(256), "shape"),
        (np.full((2, 256), np.nan), "finite"),
        (np.full((2, 256), np.inf), "finite"),
        (None, "real numbers"),
        (["a"], "real numbers"),
        ([[1.0], [1.0, 2.0]], "real numbers"),
        (np.zeros((2, 256), complex), "real numbers"),
    ],
)
def test_bad_latents_are_refused(space, latents, message):
    with pytest.raises(ConfigError, match=message):
        space.decode(latents)


def test_what_is_no_program_is_not_encoded(space):
    with pytest.raises(ProgramSyntaxError):
        space.encode(["DEF run m( m)"])
    for odd in (None, [None], [5], 3):
        with pytest.raises(ConfigError, match="a list of texts or trees"):
            space.encode(odd)
    with pytest.raises(ConfigError, match="put brackets"):
        space.encode(WALK)
    with pytest.raises(ConfigError, match="at most 46 tokens, got 64"):
        space.encode(["DEF run m( " + "move " * 60 + "m)"])
    with pytest.raises(ConfigError, match="row 1"):
        space.encode(np.array([[0, 1, 2, 4, 3], [0, 1, 2, 3, 50]]))


# Files.


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.5, 0.999])
def test_truncated_weights_are_refused_in_one_line(tmp_path, share):
    content = find_weights("paper").read_bytes()
    path = tmp_path / "cut.safetensors"
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(DataFileError) as caught:
        Embedding.load(str(path))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_weights_of_another_shape_or_vocabulary_are_refused(tmp_path):
    arrays, header = read_arrays(find_weights("paper"), "embedding")
    for field, value in (("width", 128), ("vocabulary", "hprl"), ("latent", 64)):
        path = tmp_path / f"{field}.safetensors"
        write_arrays(path, arrays, {**header, "model": {**header["model"], field: value}})
        with pytest.raises(DataFileError, match="does not fit its model"):
            Embedding.load(str(path))
    write_arrays(tmp_path / "no.safetensors", arrays, {**header, "format": 99})
    with pytest.raises(DataFileError, match="format 99"):
        Embedding.load(str(tmp_path / "no.safetensors"))
    write_arrays(tmp_path / "bare.safetensors", arrays, {**header, "card": None})
    with pytest.raises(DataFileError, match="card must be an object"):
        Embedding.load(str(tmp_path / "bare.safetensors"))
    broken = {name: np.full_like(array, np.nan) for name, array in arrays.items()}
    write_arrays(tmp_path / "nan.safetensors", broken, header)
    with pytest.raises(DataFileError, match="must be finite numbers"):
        Embedding.load(str(tmp_path / "nan.safetensors"))
    write_arrays(tmp_path / "odd.safetensors", arrays, {**header, "model": {"latent": "many"}})
    with pytest.raises(DataFileError, match="does not describe its model"):
        Embedding.load(str(tmp_path / "odd.safetensors"))


def test_unknown_names_and_missing_files_are_told_apart(tmp_path):
    with pytest.raises(UnknownNameError, match="Did you mean 'paper'"):
        Embedding.load("papr")
    with pytest.raises(DataFileError, match="does not exist"):
        Embedding.load(str(tmp_path / "none.safetensors"))
    (tmp_path / "text.safetensors").write_text("no weights at all")
    with pytest.raises(DataFileError, match="no pomp embedding"):
        Embedding.load(str(tmp_path / "text.safetensors"))


def test_the_hprl_model_saves_loads_and_decodes(tmp_path):
    model = EmbeddingModel(HPRL_MODEL)
    initialise(model, 0)
    save_weights(tmp_path / "hprl.safetensors", model, {"note": "untrained"})
    space = Embedding.load(str(tmp_path / "hprl.safetensors"))
    latents = space.encode(["DEF run m( REPEAT R=3 r( move r) m)"])
    assert latents.shape == (1, 64)
    assert np.abs(latents).max() <= 1  # it is squashed
    assert (
        space.decode(latents)[:, 1:] == decode_naively(space.model, torch.from_numpy(latents))
    ).all()


# Measures.


def test_token_accuracy_counts_the_program_and_what_was_generated_too_much():
    pad = 50
    ids = np.full((3, 44), pad, np.uint8)
    ids[:, :6] = [0, 1, 2, 4, 4, 3]  # DEF run m( move move m)
    generated = np.full((3, 45), pad, np.uint8)
    generated[0, :5] = [1, 2, 4, 4, 3]  # right
    generated[1, :4] = [1, 2, 4, 3]  # too short: one token wrong, one missing
    generated[2, :6] = [1, 2, 4, 4, 4, 3]  # too long: wrong, one too many, its end
    right, share = compare_tokens(generated, ids, pad)
    assert right.tolist() == [True, False, False]
    assert share.tolist() == pytest.approx([1.0, 3 / 5, 5 / 7])


def test_imitation_is_judged_against_the_demonstrations(space, fresh):
    few = fresh.take(np.arange(20))
    latents = space.encode(few.ids)
    shares, is_all = imitate(space, few, latents)
    assert len(shares) == 200
    assert ((shares == 1.0) == is_all).all()
    wrong, _ = imitate(space, few, latents[::-1].copy())
    assert wrong.mean() < 0.7 * shares.mean()
    assert NO_OP == 5


def test_a_map_of_the_space_is_the_same_every_time(space, fresh):
    one, two = map_space(space, fresh), map_space(space, fresh)
    assert one.points.shape == (150, 2)
    assert (one.points == two.points).all()
    assert (one.kind == first_action(fresh)).all()


def test_the_layout_keeps_clusters_together():
    draw = torch.Generator().manual_seed(0)
    centres = 20 * torch.randn((3, 8), generator=draw)
    vectors = torch.cat([centre + torch.randn((30, 8), generator=draw) for centre in centres])
    points = embed_in_plane(vectors).reshape(3, 30, 2)
    within = (points - points.mean(dim=1, keepdim=True)).norm(dim=2).mean()
    between = torch.pdist(points.mean(dim=1)).min()
    assert between > 2 * within


def test_a_walk_begins_and_ends_at_its_programs(space):
    points = walk(space, [WALK, TURN], 5)
    assert [point.program for point in points][:: len(points) - 1] == [WALK, TURN]
    assert points[0].like_first == points[-1].like_second == 1.0
    assert points[0].like_second < 0.5
    assert [point.share for point in points] == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_configs_round_trip_through_json():
    config = ModelConfig(latent=8, tanh=True)
    assert from_json(ModelConfig, json.loads(json.dumps(load_config(config)))) == config
    with pytest.raises(ConfigError, match="differing: colour"):
        from_json(ModelConfig, {**load_config(config), "colour": 1})


def load_config(config):
    from pomp.core.configs import to_json

    return to_json(config)
