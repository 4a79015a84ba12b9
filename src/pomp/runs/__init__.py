"""Work that takes minutes: resumable runs, their folders, and what they report."""

from pomp.core.doors import open_door

__getattr__, __dir__, __all__ = open_door(__name__)
