"""Search whole machines by rules: programs, decision rules, start and stop, all at once.

The search is simulated annealing in rounds. A *chain* holds one machine and mutates it step by
step; a mutation is accepted if the new score lies above a threshold that depends on the
temperature. A *round* anneals a number of chains side by side and hands over its best machine. The
best machines of rounds that continue one another form a *population*. An *epoch* begins with
several fresh populations, of which fewer and fewer continue, and ends when rounds no longer
improve it. The best machines of all epochs form the *hall of fame*.

Axes of arrays: C machines (one for each chain), B worlds, K modes of a machine, R rules of a mode,
L tokens of a program.
"""

from pomp.core.doors import open_door

__getattr__, __dir__, __all__ = open_door(__name__)
