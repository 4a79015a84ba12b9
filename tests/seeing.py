"""No tests: the sensors of `examples/sight.py`, for tests of sensors of one's own."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "examples"))
import sight

sys.path.pop()

SIGHT = (sight.AHEAD, sight.LEFT, sight.RIGHT)
NAMES = ("sight:AHEAD", "sight:LEFT", "sight:RIGHT")
