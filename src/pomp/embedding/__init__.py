"""Stage 1: programs as vectors, so that neighbours behave alike."""

from pomp.core.doors import open_door

__getattr__, __dir__, __all__ = open_door(__name__)
