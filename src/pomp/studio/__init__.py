"""Episodes to look at: recorded moment by moment, served to a page, or put into one file."""

from pomp.core.doors import open_door

__getattr__, __dir__, __all__ = open_door(__name__)
