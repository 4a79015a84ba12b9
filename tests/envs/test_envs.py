"""The Gymnasium environments."""

import json
import subprocess
import sys
import warnings
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

import pomp.envs
from pomp.core.errors import ConfigError, CudaError, EnvironmentMisuseError
from pomp.engine.rollouts import rollout
from pomp.engine.starts import draw_starts
from pomp.envs import (
    ImageObservation,
    KarelEnv,
    KarelVectorEnv,
    ProgramOptionEnv,
    ProgramOptionVectorEnv,
)
from pomp.karel.dynamics import ACTIONS
from pomp.karel.world import memory_of
from pomp.tasks.catalog import TASKS

ROOT = Path(__file__).parents[2]
PRINTED = json.loads((ROOT / "tests" / "data" / "paper_programs.json").read_text())
IDS = [f"{task.suite}/{task.name}-v0" for task in TASKS]


def test_importing_registers_exactly_fifteen_ids():
    assert [name for name in gym.registry if "Karel" in name] == IDS


def test_an_id_can_name_its_module():
    code = "import gymnasium as g; print(g.make('pomp.envs:KarelLong/Farmer-v0').spec.id)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert b"KarelLong/Farmer-v0" in result.stdout


@pytest.mark.parametrize("name", IDS)
def test_gymnasiums_checker_passes_without_a_warning(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gym.make(name).unwrapped)


@pytest.mark.parametrize("name", IDS)
def test_stable_baselines_checker_passes(name):
    sb3 = pytest.importorskip("stable_baselines3.common.env_checker")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it takes small planes for pictures and advises on sizes
        sb3.check_env(gym.make(name).unwrapped)
        sb3.check_env(ProgramOptionEnv(name.split("/")[1][:-3], PRINTED["Seesaw"]))


@pytest.mark.parametrize("name", IDS)
def test_an_episode_is_truncated_at_the_tasks_limit(name):
    expected = 50_000 if name.startswith("KarelLong") else 1_000
    env = gym.make(name).unwrapped
    env.reset(seed=0)
    memory_of(env._batch.worlds).memory[0, ACTIONS] = expected - 2
    ends = [env.step(1)[3] for _ in range(2)]  # turning on the spot finishes no task
    assert ends == [False, True]


def test_a_longer_horizon_is_truncated_later():
    env = gym.make("KarelLong/Farmer-v0", scale=4).unwrapped
    assert env._batch.limit == 200_000


def test_one_world_of_a_vector_is_the_single_world_of_its_seed():
    single, many = KarelEnv("DoorKey"), KarelVectorEnv("DoorKey", 3, max_episode_steps=50)
    planes, _ = many.reset(seed=4)
    alone, _ = single.reset(seed=6)
    assert (planes[2] == alone).all()
    for step, row in enumerate(np.random.default_rng(0).integers(0, 5, (300, 3))):
        planes, rewards, _, truncated, _ = many.step(row)
        if step % 51 == 50:  # the step after the end starts the next episode
            alone, _ = single.reset()
            assert rewards[2] == 0
        else:
            alone, reward, *_ = single.step(row[2])
            assert reward == rewards[2]
            assert truncated[2] == (step % 51 == 49)
        assert (planes[2] == alone).all()


def test_make_vec_gives_the_native_batch():
    env = gym.make_vec("Karel/Maze-v0", 8, vectorization_mode="vector_entry_point")
    assert isinstance(env, KarelVectorEnv)
    assert env.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    first, _ = env.reset(seed=1)
    again, _ = env.reset(seed=1)
    other, _ = env.reset(seed=100)
    assert (first == again).all()
    assert not (first == other).all()
    listed, _ = env.reset(seed=[1, 2, 3, 4, 5, 6, 7, 8])
    assert (listed == first).all()


def test_a_reset_mask_renews_only_some_worlds():
    env = KarelVectorEnv("Maze", 4)
    before, _ = env.reset(seed=1)
    after, _ = env.reset(options={"reset_mask": np.array([True, False, False, True])})
    assert (after[1:3] == before[1:3]).all()


def test_planes_show_agent_walls_flags_and_counts():
    planes, _ = KarelEnv("CleanHouse", channels=16).reset(seed=0)
    assert planes.shape == (16, 14, 22)
    assert planes[:4].sum() == planes[2, 1, 13] == 1  # facing south at its start
    assert planes[4].sum() == 148
    assert planes[6].sum() == 10
    assert planes[7, 2, 12] == planes[7].sum() == 1
    assert planes[5].sum() == 14 * 22 - 11


def test_the_last_of_eight_planes_stands_for_two_or_more():
    env = KarelEnv("TopOff", variant="leaps")
    env.reset(seed=0)
    for _ in range(4):
        planes, *_ = env.step(4)
    assert planes[7, -2, 1] == 1


def test_rendering_is_text_or_a_picture():
    text = gym.make("Karel/Harvester-v0", render_mode="ansi")
    text.reset(seed=0)
    assert text.render().splitlines()[6] == "#emmmmm#"
    picture = gym.make("Karel/Harvester-v0", render_mode="rgb_array")
    picture.reset(seed=0)
    assert picture.render().shape == (256, 256, 3)


@pytest.mark.parametrize("task", ["Seesaw", "Farmer", "Inf-DoorKey"])
def test_macro_rewards_add_up_to_the_return(task):
    programs = PRINTED[task]
    env = ProgramOptionVectorEnv(task, programs, 4)
    env.reset(seed=0)
    starts = env._batch.worlds.copy()
    order = np.random.default_rng(0).integers(0, len(programs), 30)
    total = np.zeros(4)
    for choice in order:
        planes, rewards, terminated, _, info = env.step(np.full(4, choice))
        total += rewards
        assert not terminated.any()
        assert (planes["mode"].argmax(axis=1) == choice).all()
    expected = rollout(env.setting, programs, starts, lists=[order]).returns[0]
    assert total == pytest.approx(expected, abs=1e-12)
    assert info["actions"].shape == (4,)


def test_choosing_to_end_ends_at_once_and_pays_nothing():
    env = ProgramOptionEnv("Seesaw", PRINTED["Seesaw"])
    observation, _ = env.reset(seed=0)
    assert observation["mode"].sum() == 0
    _, reward, terminated, truncated, _ = env.step(3)
    assert (reward, terminated, truncated) == (0.0, True, False)


def test_the_last_macro_step_is_a_true_end():
    env = ProgramOptionEnv("Seesaw", PRINTED["Seesaw"], max_macro_steps=3)
    env.reset(seed=0)
    ends = [env.step(0)[2] for _ in range(3)]
    assert ends == [False, False, True]


def test_a_masked_reset_in_the_middle_begins_some_macro_episodes_anew():
    """World 1 begins anew after two of four steps: rewards, lengths and ends are its own again."""
    programs = PRINTED["Inf-DoorKey"]
    env = ProgramOptionVectorEnv("Inf-DoorKey", programs, 3, max_macro_steps=4)
    env.reset(seed=0)
    begun = [env._batch.worlds.copy()]
    order = np.random.default_rng(3).integers(0, len(programs), 8)
    rewards, ends = np.zeros((6, 3)), []
    for step in range(6):
        if step == 2:
            kept = env._observe()
            seen, _ = env.reset(options={"reset_mask": np.array([False, True, False])})
            assert seen["mode"].sum(axis=1).tolist() == [1, 0, 1]
            for name, planes in kept.items():
                assert (seen[name][[0, 2]] == planes[[0, 2]]).all()
            begun.append(env._batch.worlds.copy())
        observation, rewards[step], terminated, truncated, info = env.step(np.full(3, order[step]))
        ends.append(terminated.tolist())
        assert not truncated.any()
    assert np.argwhere(ends).tolist() == [[3, 0], [3, 2], [5, 1]]
    whole = rollout(env.setting, programs, begun[0], lists=[order[:4]]).returns[0]
    first = rollout(env.setting, programs, begun[0], lists=[order[:2]]).returns[0]
    again = rollout(env.setting, programs, begun[1], lists=[order[2:6]]).returns[0]
    assert rewards[:4, [0, 2]].sum(axis=0) == pytest.approx(whole[[0, 2]], abs=1e-12)
    assert rewards[:2, 1].sum() == pytest.approx(first[1], abs=1e-12)
    assert rewards[2:, 1].sum() == pytest.approx(again[1], abs=1e-12)
    assert first[1] != 0, "otherwise a return that is carried over would not show"
    assert rewards[4, [0, 2]].tolist() == [0.0, 0.0]  # the step after an end only begins anew
    assert info["actions"][1] > 0
    assert observation["mode"][1].argmax() == order[5]


def test_a_reset_in_the_middle_of_a_single_macro_episode_begins_it_anew():
    programs = PRINTED["Inf-DoorKey"]
    env = ProgramOptionEnv("Inf-DoorKey", programs, max_macro_steps=3)
    env.reset(seed=1)
    played = [env.step(choice)[1] for choice in (0, 1)]
    observation, _ = env.reset(seed=1)
    assert observation["mode"].sum() == 0
    again = [env.step(choice)[1:3] for choice in (0, 1, 0)]
    assert [reward for reward, _ in again[:2]] == played
    assert [is_over for _, is_over in again] == [False, False, True]
    assert any(played)


def test_the_task_being_done_does_not_end_a_macro_episode():
    sweep = (ROOT / "examples" / "harvester.karel").read_text()
    env = ProgramOptionEnv("Harvester", [sweep])
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step(0)
    assert (reward, terminated, info["actions"]) == (1.0, False, 90)


def test_the_torch_environment_runs_on_the_cpu_too():
    torch = pytest.importorskip("torch")
    vector, env = KarelVectorEnv("OneStroke", 6), pomp.envs.KarelTorchEnv("OneStroke", 6, "cpu")
    planes, _ = vector.reset(seed=7)
    assert (env.reset(seed=7).numpy() == planes).all()
    for row in np.random.default_rng(0).integers(0, 5, (200, 6)):
        planes, rewards, terminated, truncated, _ = vector.step(row)
        found = env.step(torch.from_numpy(row))
        assert (found[0].numpy() == planes).all()
        assert found[1].numpy() == pytest.approx(rewards, abs=1e-6)
        assert (found[2].numpy() == terminated).all()
        assert (found[3].numpy() == truncated).all()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: KarelEnv("Seeder").step(0), EnvironmentMisuseError, "reset"),
        (lambda: KarelEnv("Seeder").render(), EnvironmentMisuseError, "reset"),
        (lambda: KarelVectorEnv("Seeder", 2).step([0, 0]), EnvironmentMisuseError, "reset"),
        (lambda: KarelEnv("Seeder", render_mode="human"), ConfigError, "'ansi' or 'rgb_array'"),
        (lambda: started().step([0, 7]), ConfigError, "from 0 to 4"),
        (lambda: started().step([0.5, 1.0]), ConfigError, "integers of shape"),
        (lambda: started().step([0]), ConfigError, r"shape \(2,\)"),
        (lambda: started().reset(seed=-1), ConfigError, "negative"),
        (lambda: started().reset(seed=[1, 2, 3]), ConfigError, "as many seeds"),
        (lambda: KarelVectorEnv("Seeder", 0), ConfigError, "at least 1"),
        (lambda: ProgramOptionEnv("Seeder", []), ConfigError, "one program"),
        (lambda: KarelEnv("Seeder", channels=5).reset(), ConfigError, "8 or 16"),
    ],
)
def test_misuse_is_refused_with_the_reason(call, error, message):
    with pytest.raises(error, match=message):
        call()


def started():
    env = KarelVectorEnv("Seeder", 2)
    env.reset(seed=0)
    return env


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda torch: torch.zeros(2), "got torch.float32"),
        (lambda torch: torch.zeros(3, dtype=torch.int64), r"shape \(2,\)"),
        (lambda torch: [0, 0], "got a list"),
    ],
)
def test_wrong_tensors_are_refused(make, message):
    torch = pytest.importorskip("torch")
    env = pomp.envs.KarelTorchEnv("Seeder", 2, "cpu")
    with pytest.raises(EnvironmentMisuseError, match="reset"):
        env.step(torch.zeros(2, dtype=torch.int64))
    env.reset()
    with pytest.raises(CudaError, match=message):
        env.step(make(torch))


def test_a_bad_action_of_the_torch_environment_is_found_on_looking():
    torch = pytest.importorskip("torch")
    env = pomp.envs.KarelTorchEnv("Seeder", 2, "cpu")
    env.reset()
    env.step(torch.tensor([0, 9]))
    with pytest.raises(CudaError, match=r"not in 0\.\.4"):
        env.check()


@pytest.mark.slow
def test_the_stable_baselines_example_learns():
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        import sb3_options

        assert sb3_options.main(20_000) > 0.9
    finally:
        sys.path.pop(0)


@pytest.mark.parametrize("name", IDS)
def test_the_limit_in_the_spec_is_where_the_environment_truncates(name):
    env = gym.make(name)
    assert env.spec.max_episode_steps == env.unwrapped._batch.limit
    many = gym.make_vec(name, 2, vectorization_mode="vector_entry_point")
    assert many._batch.limit == env.spec.max_episode_steps


def test_a_made_environment_is_truncated_once_at_its_limit():
    env = gym.make("Karel/Harvester-v0")
    env.reset(seed=0)
    ends = [env.step(1)[2:4] for _ in range(1000)]
    assert ends == [(False, False)] * 999 + [(False, True)]


def test_a_longer_horizon_is_made_with_its_own_limit():
    env = gym.make("KarelLong/Farmer-v0", scale=2, max_episode_steps=100_000)
    assert env.unwrapped._batch.limit == env.spec.max_episode_steps == 100_000


def test_information_tells_return_progress_and_actions():
    env = KarelEnv("Farmer")
    _, info = env.reset(seed=0)
    assert info == {"return": 0.0, "progress": 0.0, "actions": 0}
    total = 0.0
    for action in (4, 0, 4, 1):
        _, reward, _, _, info = env.step(action)
        total += reward
    assert info["actions"] == 4
    assert info["return"] == pytest.approx(total, abs=1e-12)
    assert info["progress"] == pytest.approx(total + 4 * 0.0001, abs=1e-12)
    assert info["progress"] > 0


@pytest.mark.parametrize("variant", ["hprl", "leaps"])
def test_information_of_a_batch_is_that_of_each_world(variant):
    many = KarelVectorEnv("Harvester", 3, variant=variant)
    _, info = many.reset(seed=4)
    assert info["return"].tolist() == [0.0] * 3
    singles = [KarelEnv("Harvester", variant=variant) for _ in range(3)]
    for place, env in enumerate(singles):
        env.reset(seed=4 + place)
    for row in np.random.default_rng(0).integers(0, 5, (30, 3)):
        *_, info = many.step(row)
        for place, env in enumerate(singles):
            *_, own = env.step(row[place])
            assert {name: array[place] for name, array in info.items()} == own
    assert info["progress"].max() > 0


def test_programs_as_actions_tell_how_many_ran_and_how_long_the_latest_took():
    env = ProgramOptionEnv("Seesaw", PRINTED["Seesaw"])
    _, info = env.reset(seed=0)
    assert (info["programs"], info["duration"]) == (0, 0)
    infos = [env.step(choice)[4] for choice in (0, 0, 3)]
    assert [info["programs"] for info in infos] == [1, 2, 2]
    assert infos[2]["actions"] == sum(info["duration"] for info in infos)


def test_episodes_begin_with_the_starts_of_evaluations_if_asked():
    starts = draw_starts(pomp.find_task("Maze").configure(), 4, 7)
    env = KarelEnv("Maze", render_mode="ansi")
    for episode in (3, 0):
        env.reset(options={"evaluation_seed": 7, "episode": episode})
        assert env.render() == starts.to_text(episode)
    many = KarelVectorEnv("Maze", 3, render_mode="ansi")
    many.reset(options={"evaluation_seed": 7, "episode": 1})
    assert list(many.render()) == [starts.to_text(place) for place in (1, 2, 3)]
    with pytest.raises(ConfigError, match="episode is a whole number, not negative, got -1"):
        env.reset(options={"evaluation_seed": 7, "episode": -1})


def test_episodes_begin_with_a_map_if_asked():
    worlds, _ = pomp.enumerate_starts(pomp.find_task("OneStroke").configure())
    one = KarelEnv("OneStroke", render_mode="ansi")
    many = KarelVectorEnv("OneStroke", 2, render_mode="ansi")
    for env in (one, many):
        env.reset(options={"start": worlds.map_of(7)})
    assert [one.render(), *many.render()] == [worlds.to_text(7)] * 3
    with pytest.raises(ConfigError, match=r"start is a pomp.Map, got 7"):
        one.reset(options={"start": 7})


@pytest.mark.parametrize(("task", "shape"), [("Harvester", (8, 40, 40)), ("Seesaw", (8, 48, 48))])
def test_pictures_give_every_cell_some_pixels(task, shape):
    env = ImageObservation(KarelEnv(task))
    picture, _ = env.reset(seed=0)
    planes, _ = KarelEnv(task).reset(seed=0)
    pixels = shape[1] // planes.shape[1]
    assert picture.shape == env.observation_space.shape == shape
    assert env.observation_space.contains(picture)
    for row in range(pixels):
        assert (picture[:, row::pixels, row::pixels] == planes * 255).all()
    with pytest.raises(ConfigError, match=r"planes \[C, H, W\], got observations of Dict"):
        ImageObservation(ProgramOptionEnv("Seesaw", PRINTED["Seesaw"]))
