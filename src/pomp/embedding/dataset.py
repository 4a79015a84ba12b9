"""Random programs and demonstrations of them: made, and measured.

Axes: N programs, L tokens, D demonstrations of each program.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.core.configs import from_json, to_json
from pomp.core.errors import DataFileError
from pomp.core.streams import Purpose, open_streams
from pomp.dsl.bytecode import Code, compile_ids
from pomp.dsl.sampling import SamplerConfig, sample_programs
from pomp.dsl.tidying import tidy
from pomp.dsl.vocabulary import HPRL, LEAPS, Action, Vocabulary
from pomp.embedding.config import DatasetConfig
from pomp.embedding.demonstrations import Demonstrations, demonstrate, random_worlds

SIZE = 8  # rows and columns of the worlds
SPLITS = ("train", "validation", "test")
_DRAWN_AT_ONCE = 50_000
_BARREN_CHUNKS = 200  # chunks of draws without one new program before giving up
_FATAL = {"leaps": tuple(Action), "hprl": (Action.MOVE,)}  # where impossible: no demonstration
_FRESH_DRAWS = 30  # draws for each fresh program: so the dataset's own are drawn only once more


def find_vocabulary(name: str) -> Vocabulary:
    """Return the vocabulary that a config names."""
    return {"leaps": LEAPS, "hprl": HPRL}[name]


@dataclass(frozen=True)
class Dataset:
    """Programs with their demonstrations; the training split first, then validation, then test.

    Attributes:
        config: how it was made.
        draws: how many random programs were drawn to find these.
        ids: `[N, max_tokens]` uint8, the programs' token ids, padded.
        demonstrations: D demonstrations of each program.
    """

    config: DatasetConfig
    draws: int
    ids: NDArray[np.uint8]
    demonstrations: Demonstrations

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokens the programs are made of."""
        return find_vocabulary(self.config.vocabulary)

    @cached_property
    def code(self) -> Code:
        """The programs, compiled."""
        return compile_ids(self.ids, self.vocabulary)

    def split(self, name: str) -> "Dataset":
        """Return one of the three splits, `SPLITS`."""
        sizes = [getattr(self.config, split) for split in SPLITS]
        edges = np.cumsum([0, *sizes])
        place = SPLITS.index(name)
        return self.take(np.arange(edges[place], edges[place + 1]))

    def take(self, rows: NDArray[np.integer]) -> "Dataset":
        """Return the programs `rows` `[M]` int64."""
        shown = self.demonstrations.take(rows)
        return Dataset(self.config, self.draws, self.ids[rows], shown)


def make_dataset(
    config: DatasetConfig,
    report: Callable[[int], None] | None = None,
    *,
    threads: int | None = None,
) -> Dataset:
    """Draw programs until enough have passed the filters.

    Args:
        config: what to make.
        report: called with how many programs were found since it was last called.
        threads: CPU threads; None: all. The result does not depend on it.
    """
    rows, shown, draws = _collect(
        config,
        config.programs,
        Purpose.PROGRAMS,
        _DRAWN_AT_ONCE,
        lambda keys: set(),
        report,
        threads,
    )
    keys = open_streams(Purpose.DATA, config.seed, 1, worlds=config.programs)
    order = np.argsort(keys, kind="stable")  # early draws are shorter: the splits must not be
    return Dataset(config, draws, rows, shown).take(order)


def draw_fresh(
    config: DatasetConfig,
    count: int,
    seed: int,
    *,
    draws: int,
    threads: int | None = None,
) -> Dataset:
    """Draw programs that are filtered like a dataset's, of which none is in it.

    Args:
        config: how the dataset was made.
        count: how many programs to draw.
        seed: their seed; one equal to the dataset's does not make them the dataset's programs.
        draws: how many random programs the dataset was chosen from; all of those are left out.
        threads: CPU threads; None: all.
    """
    values = to_json(config) | {"train": 0, "validation": 0, "test": count, "seed": seed}
    fresh = from_json(DatasetConfig, values)

    def seen(keys: set[bytes]) -> set[bytes]:
        """Return which of some programs are among the dataset's draws."""
        found: set[bytes] = set()
        for first in range(0, draws, _DRAWN_AT_ONCE):
            ids = _draw(config, config.seed, Purpose.PROGRAMS, first, _DRAWN_AT_ONCE, threads)
            found |= keys.intersection(_keys(ids[: draws - first]))
        return found

    at_once = max(_DRAWN_AT_ONCE, _FRESH_DRAWS * count)
    rows, shown, drawn = _collect(fresh, count, Purpose.EVALUATION, at_once, seen, None, threads)
    return Dataset(fresh, drawn, rows, shown)


def _draw(
    config: DatasetConfig, seed: int, purpose: Purpose, first: int, count: int, threads: int | None
) -> NDArray[np.uint8]:
    """Draw programs `first`, `first + 1`, ... of a seed: `[count, L]` uint8 token ids."""
    vocabulary = find_vocabulary(config.vocabulary)
    ids = sample_programs(
        count, seed, _sampler(config), vocabulary, first=first, purpose=purpose, threads=threads
    )
    return tidy(ids, vocabulary) if vocabulary is HPRL else ids


def _sampler(config: DatasetConfig) -> SamplerConfig:
    return SamplerConfig(
        max_depth=config.max_depth, max_nesting=config.max_nesting, max_tokens=config.max_tokens
    )


def _keys(ids: NDArray[np.uint8]) -> list[bytes]:
    """Return each row of `ids` `[N, L]` as bytes, which are equal for equal programs."""
    keys: list[bytes] = np.ascontiguousarray(ids).view(f"S{ids.shape[1]}").ravel().tolist()
    return keys


def _collect(
    config: DatasetConfig,
    wanted: int,
    purpose: Purpose,
    at_once: int,
    seen: Callable[[set[bytes]], set[bytes]],
    report: Callable[[int], None] | None,
    threads: int | None,
) -> tuple[NDArray[np.uint8], Demonstrations, int]:
    """Draw programs until enough are new and can be demonstrated.

    Args:
        config: how programs are drawn and filtered.
        wanted: how many to find, N.
        purpose: which random streams they come from.
        at_once: how many programs are drawn at once.
        seen: returns which of some programs, as bytes, are left out.
        report: called with how many programs were found since it was last called.
        threads: CPU threads; None: all.

    Returns:
        `[N, L]` uint8, the programs in the order of their draws, their demonstrations, and how many
        programs were drawn.
    """
    setting = random_worlds(config.walls, config.markers)
    index = 0 if purpose is Purpose.PROGRAMS else 2
    parts: list[tuple[NDArray[np.uint8], Demonstrations]] = []
    known: set[bytes] = set()
    found = draws = barren = 0
    while found < wanted:
        ids = _draw(config, config.seed, purpose, draws, at_once, threads)
        streams = open_streams(Purpose.DATA, config.seed, index, worlds=len(ids), first=draws)
        keys, pad = _keys(ids), find_vocabulary(config.vocabulary).pad
        known |= seen(set(keys) - known)
        new = []
        for row, key in enumerate(keys):
            if key not in known and ids[row, 0] != pad:  # padding: it was not kept
                known.add(key)
                new.append(row)
        rows = ids[new]
        shown = demonstrate(
            compile_ids(rows, find_vocabulary(config.vocabulary)), streams[new], setting,
            wanted=config.demonstrations, trials=config.trials, least_states=config.least_states,
            most_states=config.most_states, stop_on_error=_FATAL[config.vocabulary],
            threads=threads,
        )  # fmt: skip
        is_good = (shown.found == config.demonstrations) & (shown.length.max(axis=1, initial=0) > 0)
        chosen = np.flatnonzero(is_good)[: wanted - found]
        draws += at_once if found + len(chosen) < wanted else new[chosen[-1]] + 1
        found += len(chosen)
        barren = 0 if len(chosen) else barren + 1
        if barren == _BARREN_CHUNKS:
            raise DataFileError(f"only {found} of {wanted} programs exist that pass the filters")
        parts.append((rows[chosen], shown.take(chosen)))
        if report:
            report(len(chosen))
    columns = zip(*(part[1] for part in parts), strict=True)
    joined = Demonstrations(*(np.concatenate(column) for column in columns))
    return np.concatenate([part[0] for part in parts]), joined, draws


REFERENCE: dict[str, float] = {
    "raw_mean_tokens": 15.3,
    "raw_median_tokens": 15,
    "raw_90th_percentile": 26,
    "raw_unique_share": 0.59,
    "unique_mean_tokens": 19.8,
    "unique_at_most_44_share": 0.999,
    "accepted_share": 0.39,
    "mean_tokens": 17.4,
    "median_tokens": 17,
    "95th_percentile": 28,
    "with_control_share": 0.88,
    "mean_states": 4.5,
}
"""Statistics of a dataset with LEAPS's probabilities by an independent re-implementation."""

_RAW_DRAWS = 100_000


def dataset_statistics(dataset: Dataset) -> dict[str, float]:
    """Measure the numbers of `REFERENCE` on a dataset and its sampler."""
    config, vocabulary = dataset.config, dataset.vocabulary
    free = replace(_sampler(config), max_tokens=SamplerConfig().max_tokens)
    raw = sample_programs(_RAW_DRAWS, config.seed, free, vocabulary)
    lengths = (raw != vocabulary.pad).sum(axis=1)
    unique = np.unique(raw, axis=0)
    unique_lengths = (unique != vocabulary.pad).sum(axis=1)
    kept = (dataset.ids != vocabulary.pad).sum(axis=1)
    drawn = sample_programs(dataset.draws, config.seed, _sampler(config), vocabulary)
    control = vocabulary.encode(("WHILE", "REPEAT", "IF", "IFELSE"))
    values: dict[str, Any] = {
        "raw_mean_tokens": lengths.mean(),
        "raw_median_tokens": np.median(lengths),
        "raw_90th_percentile": np.percentile(lengths, 90),
        "raw_unique_share": len(unique) / len(raw),
        "unique_mean_tokens": unique_lengths.mean(),
        "unique_at_most_44_share": (unique_lengths <= 44).mean(),
        "accepted_share": len(dataset) / len(set(_keys(drawn))),
        "mean_tokens": kept.mean(),
        "median_tokens": np.median(kept),
        "95th_percentile": np.percentile(kept, 95),
        "with_control_share": np.isin(dataset.ids, control).any(axis=1).mean(),
        "mean_states": (dataset.demonstrations.length + 1).mean(),
    }
    return {name: round(float(value), 4) for name, value in values.items()}
