"""PPO beside that of Stable-Baselines3: on one task both learn at the same pace.

The settings are those with which the two definitions coincide, but for one: ours normalises
advantages over a rollout, theirs over each mini-batch. Each draws its first weights and its
choices on its own.
"""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from torch import nn

from pomp.engine.starts import reset
from pomp.learning.config import LearningConfig, PpoConfig, ValidationConfig
from pomp.learning.members import Member
from pomp.learning.training import Training
from pomp.machine.config import EpisodeConfig, NetworkConfig
from pomp.machine.episodes import Episodes
from pomp.machine.evaluation import evaluate
from pomp.tasks.catalog import find_task

pytestmark = pytest.mark.slow

SEEDS = range(5)
SETTING = find_task("Seeder").configure()
ACTIONS = ("move", "turnLeft", "turnRight", "pickMarker", "putMarker")
MODES = tuple(f"DEF run m( {action} m)" for action in ACTIONS)
SEEN = 5 + len(MODES) + 1  # the perceptions and the last mode
CONFIG = LearningConfig(
    episode=EpisodeConfig(most_steps=100),
    network=NetworkConfig(inputs="perceptions+mode", weight_norm=False),
    ppo=PpoConfig(
        total=100 * 1024,
        minibatch=256,
        clip_ratio=0.2,
        clip_value=False,
        value_weight=1.0,
        decay=False,
    ),
    validation=ValidationConfig(every=20, episodes=128),
)


class MacroEnv(gymnasium.Env):
    """One world as Gymnasium plays it: an action runs a mode, the last one ends the episode."""

    observation_space, action_space = Box(0, 1, (SEEN,)), Discrete(len(MODES) + 1)

    def reset(self, **given):
        super().reset(**given)
        streams = self.np_random.integers(0, 2**64, 1, np.uint64)
        worlds = reset(SETTING, streams, "cpu")
        self.episodes = Episodes(SETTING, [MODES], worlds, CONFIG.episode, restarts=False)
        return self.look(), {}

    def look(self):
        bits = self.episodes.sense()[0] >> np.arange(4) & 1
        last = np.arange(len(MODES) + 1) == self.episodes.mode[0]
        return np.concatenate([bits, [1 - bits[3]], last]).astype(np.float32)

    def step(self, action):
        self.episodes.step(np.array([action]))
        is_over = bool(self.episodes.ending[0])  # at the limit, too: nothing comes after it
        return self.look(), float(self.episodes.rewards[0]), is_over, False, {}


def our_curves():
    """Mean returns before the training and at its validations, `[seeds, points]`."""
    rate, count = CONFIG.ppo.learning_rate, CONFIG.validation.episodes
    training = Training([Member(SETTING, MODES, seed, rate) for seed in SEEDS], CONFIG, "cpu")
    first = [training.machine(i, {}) for i in range(len(SEEDS))]
    starts = zip(first, SEEDS, strict=True)
    points = [[evaluate(one, episodes=count, seed=seed).mean for one, seed in starts]]
    while not training.is_finished:
        if records := training.step():
            points.append([record["return"] for record in records])
    return np.array(points).T


def their_model(seed):
    """PPO of Stable-Baselines3 with our settings and a network of the same shape."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

    width = CONFIG.network.hidden

    class Trunk(BaseFeaturesExtractor):
        def __init__(self, space):
            super().__init__(space, width)
            layers = nn.Linear(SEEN, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
            self.layers = nn.Sequential(*layers)

        def forward(self, seen):
            return self.layers(seen)

    ppo = CONFIG.ppo
    return PPO(
        "MlpPolicy",
        make_vec_env(MacroEnv, ppo.actors),
        learning_rate=ppo.learning_rate,
        n_steps=ppo.steps,
        batch_size=ppo.minibatch,
        n_epochs=ppo.epochs,
        gamma=ppo.discount,
        gae_lambda=ppo.gae_lambda,
        clip_range=ppo.clip_ratio,
        ent_coef=ppo.entropy,
        vf_coef=ppo.value_weight / 2,  # our value loss has one half of its own
        max_grad_norm=ppo.gradient_norm,
        policy_kwargs={
            "features_extractor_class": Trunk,
            "net_arch": [],
            "optimizer_kwargs": {"eps": ppo.adam_epsilon},
        },
        seed=seed,
        device="cpu",
    )


def their_curve(seed):
    """The same of theirs, for one seed: `[points]`."""
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy

    model = their_model(seed)
    ppo, every, count = CONFIG.ppo, CONFIG.validation.every, CONFIG.validation.episodes
    trials, points = make_vec_env(MacroEnv, count), []
    for update in range(0, ppo.updates + 1, every):
        if update:
            model.learn(every * ppo.rollout, reset_num_timesteps=False)
        points.append(evaluate_policy(model, trials, count, deterministic=False)[0])
    return np.array(points)


def test_both_learn_at_the_same_pace():
    pytest.importorskip("stable_baselines3")
    ours, theirs = our_curves(), np.array([their_curve(seed) for seed in SEEDS])
    for curves in (ours, theirs):
        assert curves[:, 0].mean() < 0.05
        assert curves[:, -1].mean() > 0.7
    ours, theirs = (
        np.column_stack([one[:, 1:], one[:, 1:].mean(axis=1)]) for one in (ours, theirs)
    )
    apart = ours.mean(axis=0) - theirs.mean(axis=0)
    errors = np.sqrt((ours.var(axis=0, ddof=1) + theirs.var(axis=0, ddof=1)) / len(SEEDS))
    assert (np.abs(apart) < 2 * errors).all(), f"{apart} apart, standard errors {errors}"
