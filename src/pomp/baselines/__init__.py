"""Baselines that are learned by the machine's own PPO: other modes, other inputs, nothing else."""

from pomp.baselines.baseline import BASELINES, Baseline
from pomp.baselines.random_transition import randomise

__all__ = ["BASELINES", "Baseline", "randomise"]
