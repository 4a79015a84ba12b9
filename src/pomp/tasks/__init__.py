"""What worlds start like and what they are worth."""

from pomp.core.doors import open_door

__getattr__, __dir__, __all__ = open_door(__name__)
