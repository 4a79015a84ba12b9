"""What all else stands on: errors, settings, random streams, files, compiled code, CUDA."""

from pomp.core.doors import open_door

__getattr__, __dir__, __all__ = open_door(__name__)
