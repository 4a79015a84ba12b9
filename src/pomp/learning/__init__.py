"""How transitions are learned: PPO on the modes, and the baselines that share it."""

from pomp.core.doors import open_door

__getattr__, __dir__, __all__ = open_door(__name__)
