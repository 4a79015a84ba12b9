"""How transitions are learned: PPO on the modes, and the baselines that share it."""
