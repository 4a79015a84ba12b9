"""Settings all tests share.

One thread for torch: several test processes share the cores, and spinning ones block others.
Properties are deterministic and not timed, since the first example compiles. Progress is not shown:
it would appear on slow machines alone.
"""

import math
import os

from hypothesis import HealthCheck, settings

from pomp.cli import progress

progress.QUIET_SECONDS = math.inf
os.environ.setdefault("OMP_NUM_THREADS", "1")
settings.register_profile(
    "pomp",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("pomp")
