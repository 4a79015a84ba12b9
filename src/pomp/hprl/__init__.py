"""HPRL, a baseline: a policy that writes a program at every macro step, in a latent space."""

from pomp.core.doors import open_door

__getattr__, __dir__, __all__ = open_door(__name__)
