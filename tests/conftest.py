"""One thread for torch: several test processes share the cores, and spinning ones block others."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
