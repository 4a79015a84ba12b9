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

from pomp.core.doors import open_door

__getattr__, __dir__, __all__ = open_door(__name__)
