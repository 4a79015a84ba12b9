"""The checkpoint of searches for modes: what it keeps, what it may hold, and how they go on."""

from typing import Any

import numpy as np

from pomp.core.schemas import COUNT, FREE, SCORE, Array, Listed, Named, Record, Row
from pomp.modes.batch import Batch
from pomp.modes.jobs import RunKey, RunRecord
from pomp.modes.proposers import Arrays


def checkpoint_of(batch: Batch) -> tuple[Arrays, dict[str, Any]]:
    """Return what a checkpoint keeps of searches: arrays `[...]` by name, and values for JSON."""
    arrays: Arrays = {}
    jobs, runs = [], []
    for number, job in enumerate(batch.jobs):
        jobs.append([record.to_json() for record in job.records])
        if job.vectors:
            arrays[f"job{number}.vectors"] = np.stack(job.vectors)
            arrays[f"job{number}.latents"] = np.stack(job.latents)
        for key, path in job.trajectories.items():
            arrays[f"job{number}.trajectory{key.run}"] = path
    for number, one in enumerate(batch.active):
        kept, values = one.run.to_arrays()
        arrays |= {f"run{number}.{name}": array for name, array in kept.items()}
        if one.trajectory:
            arrays[f"run{number}.trajectory"] = np.stack(one.trajectory)
        results = {name: getattr(one, name) for name in _RESULTS}
        place = {"job": batch.jobs.index(one.job), "mode": one.key.mode, "run": one.key.run}
        runs.append({**place, "values": values, "results": results})
    return arrays, {"jobs": jobs, "runs": runs}


_RESULTS = ("candidates", "executions", "actions", "best_return", "curve")


_CHECKPOINT = Record(
    {
        "jobs": Listed(Listed(FREE)),
        "runs": Listed(
            Record(
                {
                    **dict.fromkeys(("job", "mode", "run"), COUNT),
                    "values": Named(FREE),
                    "results": Record(
                        {
                            **dict.fromkeys(("candidates", "executions", "actions"), COUNT),
                            **{"best_return": SCORE, "curve": Listed(Row((COUNT, COUNT, SCORE)))},
                        }
                    ),
                }
            )
        ),
    }
)


def restore(batch: Batch, arrays: Arrays, header: dict[str, Any]) -> None:
    """Go on from what `checkpoint_of` returned.

    Raises:
        DataFileError: it is something else; so are a `ValueError` and an `IndexError`.
    """
    _CHECKPOINT.check(header)
    for number, (job, lines) in enumerate(zip(batch.jobs, header["jobs"], strict=True)):
        own = _part_of(arrays, f"job{number}")
        none = np.empty((0, batch.embedding.latent), np.float32)
        vectors, latents = own.pop("vectors", none), own.pop("latents", none)
        Array("float32", (len(lines), None)).check(vectors, f"job{number}.vectors")
        Array("float32", (len(lines), batch.embedding.latent)).check(
            latents, f"job{number}.latents"
        )
        for line, vector, latent in zip(lines, vectors, latents, strict=True):
            record = RunRecord.from_json(line)
            job.begin_again(RunKey(record.mode, record.run))
            job.finish(record, vector, latent)
        for run in range(len(lines)):
            if f"trajectory{run}" in own:
                Array("float16", (None, None)).check(own[f"trajectory{run}"], "a trajectory")
                job.trajectories[RunKey(0, run)] = own[f"trajectory{run}"]
    for number, line in enumerate(header["runs"]):
        job, key = batch.jobs[line["job"]], RunKey(line["mode"], line["run"])
        job.begin_again(key)
        one = batch.make_run(job, key)
        own = _part_of(arrays, f"run{number}")
        path = own.pop("trajectory", np.empty((0, batch.embedding.latent), np.float32))
        Array("float32", (None, batch.embedding.latent)).check(path, "a trajectory")
        one.run.restore(own, line["values"])
        one.trajectory = list(path)
        for name in _RESULTS:
            setattr(one, name, line["results"][name])
        one.curve = [(int(a), int(b), float(c)) for a, b, c in one.curve]
        batch.active.append(one)


def _part_of(arrays: Arrays, prefix: str) -> Arrays:
    """Return the arrays, `[...]` each, whose names begin with a prefix and a dot, without these."""
    named = ((name.partition("."), array) for name, array in arrays.items())
    return {rest: array for (first, _, rest), array in named if first == prefix}
