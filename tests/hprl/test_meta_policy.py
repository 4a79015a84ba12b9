"""Meta-policies: what they see, what they run, what they learn, and what is kept of them."""

import json
import os

import numpy as np
import pytest
import torch

from edited import read_values
from pomp.core.errors import ConfigError, DataFileError, PompError
from pomp.core.storage import through_file
from pomp.core.streams import Purpose
from pomp.embedding.config import HPRL_MODEL
from pomp.embedding.model import EmbeddingModel, initialise
from pomp.embedding.space import Embedding
from pomp.embedding.weights import save_weights
from pomp.engine.lanes import BY_LIMIT, BY_TASK
from pomp.engine.rollouts import rollout
from pomp.engine.starts import draw_starts
from pomp.hprl.config import MetaConfig, configure_hprl
from pomp.hprl.episodes import LatentViews, ProgramEpisodes, draw_counters
from pomp.hprl.network import MetaShape
from pomp.hprl.policy import MetaPolicy
from pomp.hprl.training import MetaTraining, meta_member
from pomp.tasks.catalog import find_task
from spaces import NONE, Signs

MOVE, TURN, PUT = (
    "DEF run m( WHILE c( frontIsClear c) w( putMarker move w) m)",
    "DEF run m( turnLeft m)",
    "DEF run m( putMarker move m)",
)
SPACE = Signs(MOVE, TURN, PUT, NONE)
TINY = {"ppo.actors": 4, "ppo.steps": 8, "ppo.minibatch": 16, "validation.every": 2}
SEEDER = find_task("Seeder").configure()
DOOR_KEY = find_task("DoorKey").configure()


def settings(**changes):
    return configure_hprl("paper", {**TINY, **{"ppo.total": 4 * 32}, **changes})


def training(members, config=None, space=SPACE):
    config = config or settings()
    return MetaTraining([meta_member(*one, config) for one in members], config, "cpu", space)


def finish(one):
    records = []
    while not one.is_finished:
        records += one.step()
    return records


def playing(setting, worlds, config=None, space=SPACE):
    config = config or MetaConfig()
    episodes = ProgramEpisodes(setting, worlds, config, restarts=False)
    return LatentViews([episodes], 1, space, config), episodes


def signs(*numbers):
    """Latents that stand for texts of the space, by their numbers."""
    return torch.tensor([[[1.0 if n & 2 else -1, 1.0 if n & 1 else -1] for n in numbers]])


@pytest.mark.parametrize(("size", "count"), [((8, 8), 70_337), ((16, 16), 332_481)])
def test_a_network_has_so_many_parameters(size, count):
    shape = MetaShape(*size, latent=64, hidden=64)
    assert shape.size == count
    first = shape.draw(np.uint64(3))
    assert not first["log_std"].any()
    assert first["gru.memory.weight"].shape == (192, 64)


def test_the_programs_of_latents_are_decoded_greedily_from_their_tanh():
    model = EmbeddingModel(HPRL_MODEL)
    initialise(model, 1)
    space = Embedding(model)
    views, _ = playing(SEEDER, draw_starts(SEEDER, 6, 0, Purpose.TRAINING), space=space)
    latents = 3 * torch.randn((1, 6, 64), generator=torch.Generator().manual_seed(0))
    views.play(latents)
    assert (views.ids == space.decode(torch.tanh(latents[0]))).all()
    assert (views.ids != space.decode(latents[0])).any()


def test_rewards_of_an_episode_add_up_to_what_its_programs_earn_one_after_another():
    chosen = np.array([[0, 1, 1, 0, 2], [1, 0, 2, 2, 0], [3, 0, 1, 3, 0]])
    worlds = draw_starts(SEEDER, 3, 0, Purpose.TRAINING)
    lists = np.where(chosen == 3, 1, chosen)  # a program that moves nothing; its row is left out
    found = rollout(SEEDER, [MOVE, TURN, PUT], worlds, lists=lists[:2])
    views, episodes = playing(SEEDER, worlds)
    total, valid = np.zeros(3), []
    for step in range(5):
        valid.append(views.play(signs(*chosen[:, step])).is_program[0].tolist())
        total += episodes.rewards
    assert total == pytest.approx(episodes.returns)
    assert total[:2] == pytest.approx(found.returns.diagonal())
    assert total[0] > 0
    assert ((chosen != 3) == np.array(valid).T).all()


def test_no_program_does_nothing_and_costs_a_thousandth_in_training():
    one = training([(SEEDER, 0)], space=Signs(NONE, NONE, NONE, NONE))
    batch, outcomes = one.rollouts.collect()
    assert not outcomes.returns.any()
    assert not one.rollouts.spent.any()
    ends = outcomes.ending[0].T != 0  # [A, T]
    last = batch.returns[0].numpy()[ends]
    assert last == pytest.approx(-0.001, abs=1e-6)  # nothing comes after the last program


def test_an_episode_ends_when_a_short_task_is_done_and_a_long_one_goes_on():
    go = "DEF run m( WHILE c( noMarkersPresent c) w( turnLeft move turnRight move w) m)"
    setting = find_task("StairClimber").configure()
    views, episodes = playing(
        setting, draw_starts(setting, 8, 0, Purpose.TRAINING), space=Signs(go, TURN, TURN, TURN)
    )
    views.play(signs(*[0] * 8))
    done = episodes.returns >= 1
    assert done.any()
    assert (episodes.ending[done] == BY_TASK).all()
    assert (episodes.taken[done] == 1).all()
    long = find_task("UpNDown").configure()
    views, episodes = playing(long, draw_starts(long, 2, 0, Purpose.TRAINING))
    for _ in range(4):
        views.play(signs(0, 1))
        assert not episodes.ending.any()
    views.play(signs(0, 1))
    assert (episodes.ending == BY_LIMIT).all()


def test_a_counter_shows_as_many_agents_and_markers_as_programs_ran():
    config = MetaConfig(observation="step_counter")
    views, _ = playing(SEEDER, draw_starts(SEEDER, 2, 0, Purpose.TRAINING), config)
    for count in range(6):
        planes = views.look()[0].numpy()
        assert (planes == draw_counters(5, 8, 8)[count]).all()
        assert planes[:, [1, 6]].sum(axis=(2, 3)).tolist() == [[count, count]] * 2
        assert planes.sum() == 4 * count
        assert planes[:, 1, :, 1:].sum() == 0  # the first column comes first
        views.play(signs(0, 3))


def test_a_resumed_training_ends_with_the_same_bytes():
    members = [(SEEDER, 0), (SEEDER, 1), (DOOR_KEY, 0)]
    whole, half, rest = training(members), training(members), training(members)
    records = finish(whole)
    told = [half.step(), half.step()]
    rest.restore(*through_file(*half.to_arrays()))
    assert [one for step in told for one in step] + finish(rest) == records
    arrays, values = whole.to_arrays()
    again, same = rest.to_arrays()
    assert values == same
    assert {name: one.tobytes() for name, one in arrays.items()} == {
        name: one.tobytes() for name, one in again.items()
    }
    assert arrays["memory"].any()


def test_members_learn_alike_alone_and_together():
    together = training([(SEEDER, 0), (DOOR_KEY, 5)])
    alone = [training([(SEEDER, 0)]), training([(DOOR_KEY, 5)])]
    shared = finish(together)
    own = [finish(one) for one in alone]
    for number, one in enumerate(alone):
        returns = [record["return"] for record in shared[number::2]]
        assert returns == [record["return"] for record in own[number]]
        ours, theirs = together.learner.parameters[number], one.learner.parameters[0]
        assert torch.allclose(ours, theirs, atol=1e-6)


def test_what_rollouts_cost_is_counted():
    one = training([(SEEDER, 0), (DOOR_KEY, 0)], space=Signs(TURN, TURN, TURN, NONE))
    batch, _ = one.rollouts.collect()
    none = (batch.latents > 0).all(dim=-1).sum(dim=(1, 2)).numpy()
    assert one.rollouts.spent.tolist() == [[32 - n, 32 - n] for n in none]  # a turn is an action


def test_the_best_is_kept_even_if_it_earns_less_than_nothing():
    setting = find_task("UpNDown").configure()
    one = training([(setting, 0)], space=Signs(TURN, TURN, TURN, TURN))
    records = finish(one)
    assert records[0]["best"] == records[0]["return"] < 0
    assert one.kept[0].parameters is not None


def test_a_policy_learns_which_programs_pay():
    changes = {"ppo.learning_rate": 0.01, "ppo.entropy": 0.0, "ppo.clip_ratio": 0.2}
    sizes = {"ppo.actors": 16, "ppo.steps": 10, "ppo.minibatch": 40, "ppo.total": 40 * 160}
    config = configure_hprl("paper", {**changes, **sizes, "validation.every": 5})
    one = training([(SEEDER, 0)], config)
    before = one.policy(0, {}).evaluate(episodes=32, embedding=SPACE).mean
    records = finish(one)
    after = one.policy(0, {"note": "best"}).evaluate(episodes=32, embedding=SPACE)
    assert before < 0.3
    assert after.mean > before + 0.15
    assert records[-1]["best"] == max(record["return"] for record in records)
    assert after.written[0][0] in SPACE.texts


@pytest.fixture(scope="module")
def embedding(tmp_path_factory):
    """A file of an embedding of HPRL's that was never trained."""
    model = EmbeddingModel(HPRL_MODEL)
    initialise(model, 0)
    path = tmp_path_factory.mktemp("space") / "weights.safetensors"
    save_weights(path, model, {"note": "untrained"})
    return path


@pytest.fixture
def policy(embedding):
    config = settings(**{"policy.embedding": str(embedding)})
    return training([(SEEDER, 0)], config, None).policy(0, {"seed": 0})


def test_a_policy_is_played_alike_after_it_was_saved(policy, tmp_path):
    policy.save(tmp_path / "policy")
    again = MetaPolicy.load(tmp_path / "policy")
    assert again.config == policy.config
    before, after = policy.evaluate(episodes=4), again.evaluate(episodes=4)
    assert before.written == after.written
    assert (before.returns == after.returns).all()
    assert (before.programs <= 5).all()
    assert policy.evaluate(episodes=4, seed=1).written != before.written
    assert again.evaluate(greedy=True).is_exact


def test_a_policy_refuses_other_weights_under_the_name_of_its_embedding(policy, embedding):
    kept = embedding.read_bytes()
    model = EmbeddingModel(HPRL_MODEL)
    initialise(model, 1)
    try:
        save_weights(embedding, model, {"note": "others"})
        with pytest.raises(DataFileError, match="trained in another embedding"):
            policy.evaluate(episodes=1)
    finally:
        embedding.write_bytes(kept)


def test_a_damaged_policy_is_refused_with_what_is_wrong(policy, tmp_path):
    folder = tmp_path / "policy"
    policy.save(folder)
    values = read_values(folder / "policy.json")
    for changed, message in (
        ({"format": 9}, "has policy format 9"),
        ({"kind": "machine"}, "is no policy"),
        ({"latent": 32}, "should have actor"),
        ({"task": "Nowhere"}, "unknown task"),
        ({"size": [8, 8.5]}, r"size\[1\] must be a whole number"),
        ({"options": 5}, "options must be"),
    ):
        (folder / "policy.json").write_text(json.dumps({**values, **changed}))
        with pytest.raises(DataFileError, match=message):
            MetaPolicy.load(folder)
    with pytest.raises(DataFileError, match="does not exist; expected a file with a pomp policy"):
        MetaPolicy.load(tmp_path / "nothing")


def test_a_policys_file_is_read_without_trust(policy, tmp_path):
    policy.save(tmp_path)
    path = tmp_path / "policy.json"
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 1'))
    with pytest.raises(DataFileError, match="its checksum is that of something else"):
        MetaPolicy.load(tmp_path)
    path.write_text("[" * 100_000)
    with pytest.raises(DataFileError, match="nested too deeply"):
        MetaPolicy.load(tmp_path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(DataFileError, match="is no regular file"):
        MetaPolicy.load(tmp_path)


def test_an_embedding_of_another_vocabulary_is_refused():
    config = settings(**{"policy.embedding": "paper"})
    with pytest.raises(ConfigError, match="HPRL needs an embedding of the hprl vocabulary, got"):
        training([(SEEDER, 0)], config, None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"policy.programs": 0}, "programs must be"),
        ({"policy.observation": "nothing"}, "observation"),
        ({"policy.cap": "seconds5"}, "cap"),
        ({"ppo.minibatch": 4}, "whole actors, of 8 macro steps each; 4 is no multiple"),
        ({"validation.needs_end": True}, "never chooses to end"),
        ({"invalid_cost": -1.0}, "invalid_cost"),
    ],
)
def test_settings_that_cannot_be_are_refused(changes, message):
    with pytest.raises(PompError, match=message):
        settings(**changes)


def test_the_presets_are_the_published_ones():
    paper, code = configure_hprl("paper"), configure_hprl("code")
    assert (paper.ppo.actors, paper.ppo.steps, paper.ppo.minibatch) == (32, 32, 128)
    assert (paper.ppo.epochs, paper.ppo.clip_ratio, paper.ppo.entropy) == (4, 0.05, 0.1)
    assert (paper.ppo.learning_rate, paper.ppo.total) == (1e-5, 25_000_000)
    assert (paper.policy.cap, paper.policy.observation) == ("calls220", "env_state")
    assert (code.ppo.actors, code.ppo.steps, code.ppo.epochs) == (16, 800, 3)
    assert (code.ppo.clip_ratio, code.ppo.entropy, code.ppo.total) == (0.2, 0.05, 100_000_000)
    assert (code.policy.cap, code.policy.observation) == ("calls500", "step_counter")
