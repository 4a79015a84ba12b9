"""The policy: modes and the transitions between them.

The axes of arrays are B worlds, K modes (a choice is a mode or the end, so there are K + 1), E
members of an ensemble of networks, and S parameters of one network.
"""

from pomp.core.doors import open_door

__getattr__, __dir__, __all__ = open_door(__name__)
