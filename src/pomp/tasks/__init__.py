"""What worlds start like and what they are worth.

The compiled functions of a task take one world, as these arrays:

- `cells` `[H * W]` uint8, a byte per cell as `pomp.karel.dynamics` describes it; written by draws
  of starts and by steps.
- `constants` `[N]` int64, the numbers of the setting, read.
- `memory` `[M]` int32, the task's integers about the world, written.
- `stream` `[1]` uint64, the world's random stream, written by a draw.
"""

from pomp.core.doors import open_door

__getattr__, __dir__, __all__ = open_door(__name__)
