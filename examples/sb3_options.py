"""Train Stable-Baselines3's PPO to choose between programs.

    python examples/sb3_options.py [STEPS]

The programs are two sweeps and a turn; PPO learns when to use which on Harvester.
"""

import sys

from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy

from pomp.envs import ProgramOptionEnv

PROGRAMS = [
    "DEF run m( WHILE c( frontIsClear c) w( pickMarker move w) pickMarker m)",
    "DEF run m( turnLeft move turnLeft m)",
    "DEF run m( turnRight move turnRight m)",
]


def main(steps: int = 20_000) -> float:
    """Train, and return the mean return of 20 episodes."""
    env = ProgramOptionEnv("Harvester", PROGRAMS, max_macro_steps=30)
    model = PPO("MultiInputPolicy", env, n_steps=512, gamma=0.95, seed=0, device="cpu")
    model.learn(steps)
    mean, _ = evaluate_policy(model, env, n_eval_episodes=20, warn=False)
    return float(mean)


if __name__ == "__main__":
    print(f"mean return {main(*map(int, sys.argv[1:])):.3f}")
