"""What can be said about a machine: bounds, what it can do without, explanations, pictures."""

from pomp.core.doors import open_door

__getattr__, __dir__, __all__ = open_door(__name__)
