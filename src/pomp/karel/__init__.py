"""One world: its state, its dynamics, its interpreter, its sensors.

Compiled functions of one world take these arrays:

- `cells` `[H * W]` uint8, a byte per cell; written where a function says so.
- `constants` `[N]` int64, the numbers of the setting, read.
- `memory` `[M]` int32, the task's integers about the world.
"""

from pomp.core.doors import open_door

__getattr__, __dir__, __all__ = open_door(__name__)
