"""Train Stable-Baselines3's PPO with its CnnPolicy, and compare it with the published numbers.

    python examples/sb3_cnn.py [STEPS]

The grids are smaller than the pictures its convolutions were made for: `ImageObservation` gives
every cell a few pixels. The evaluation plays the starts that machines are evaluated on; Harvester
has one. A minute of training shows that it works, no more.
"""

import sys

from stable_baselines3 import PPO

import pomp
from pomp.envs import ImageObservation, KarelEnv


def make() -> ImageObservation:
    """Return the environment that is trained on, and evaluated in."""
    return ImageObservation(KarelEnv("Harvester"))


def main(steps: int = 2_048, episodes: int = 1) -> str:
    """Train, and return what the policy earns beside what the paper's methods do."""
    model = PPO("CnnPolicy", make(), n_steps=256, batch_size=64, n_epochs=2, seed=0, device="cpu")
    model.learn(steps)
    return str(pomp.evaluate_policy(make, model, episodes=episodes))


if __name__ == "__main__":
    print(main(*map(int, sys.argv[1:])))
