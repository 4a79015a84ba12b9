"""Stage 2: search for effective, diverse, compatible programs.

`configure` gives a method's settings for a task, a `Job` is one search with them, a `Batch`
advances any number of jobs together:

    config = configure("pomp", "paper", setting)
    batch = Batch([Job(setting, seed, config) for seed in range(5)])
    while not batch.is_finished:
        batch.step()
    batch.jobs[0].result()

Arrays of N candidates that are scored together have the same names throughout:

- `ids` `[N, L]` uint8: their programs as token ids, `DEF` first, padded;
- `latents` `[N, Z]` float32: where they are in the embedding;
- `asked` `[N, Z]` float32 or `[N, L]` uint8: what a run proposed, latents or programs;
- `scores` `[N]` float64: return and bonus, times the diversity multiplier;
- `plain` `[N]` float64: the scores without the diversity multiplier;
- `ties` `[N, L]` uint8: rows that decide between equal scores, the later in order first.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pomp.modes.batch import Batch
    from pomp.modes.jobs import Job
    from pomp.modes.methods import METHODS, configure

__all__ = ["METHODS", "Batch", "Job", "configure"]

_HOMES = {"Batch": "batch", "Job": "jobs", "METHODS": "methods", "configure": "methods"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'pomp.modes' has no attribute '{name}'")
    return getattr(importlib.import_module(f"pomp.modes.{_HOMES[name]}"), name)
