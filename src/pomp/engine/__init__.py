"""Programs on worlds: compiled launch loops on CPU and GPU, and what calls them."""

from pomp.core.doors import open_door

__getattr__, __dir__, __all__ = open_door(__name__)
