"""What can be concluded from several seeds: intervals, comparisons, means over tasks."""

from pomp.core.doors import open_door

__getattr__, __dir__, __all__ = open_door(__name__)
