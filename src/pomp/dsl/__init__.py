"""The language of programs: text, trees, token ids and compiled code, without worlds."""

from pomp.core.doors import open_door

__getattr__, __dir__, __all__ = open_door(__name__)
