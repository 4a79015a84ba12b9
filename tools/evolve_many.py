"""Search machines for many tasks and seeds at once, a process for each core.

    python tools/evolve_many.py OUT --processes 14 --minutes 2.5 --seeds 5 JOB...

A job is `TASK[:NAME=VALUE...]`, as `Seesaw:sensors=compass` or `TopOff:sizes=12x12+16x16`; it has a
name of its own, a folder of that name under OUT with a run of `pomp evolve` for each seed, and a
line in `OUT/results.jsonl` for each of these.
"""

import argparse
import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pomp.runs.work import Event

os.environ["POMP_THREADS"] = "1"  # a search is a process


def read_job(job: str) -> tuple[str, dict[str, Any]]:
    """Return the task and the settings of a job."""
    task, *told = job.split(":")
    settings: dict[str, Any] = {}
    for pair in told:
        name, _, text = pair.partition("=")
        if name == "sizes":
            settings[name] = text.split("+")
        elif name == "scales":
            settings[name] = [int(part) for part in text.split("+")]
        else:
            settings[name] = read_value(text)
    return task, settings


def read_value(text: str) -> Any:
    """Return a number, or the text itself."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def compile_task(task: str) -> str:
    """Compile what the searches of a task need, so that they find it."""
    import pomp

    pomp.evolve(task, minutes=0.02, settings={"steps": 2, "chains": 2, "starts": 2})
    return task


def search(out: Path, job: str, seed: int, minutes: float) -> dict[str, Any]:
    """Search with one seed; returns what was found."""
    import pomp

    task, settings = read_job(job)
    place, since = out / f"{job.replace(':', '_')}" / f"s{seed}", time.monotonic()
    progress: list[tuple[float, float]] = []  # seconds, and the best return in validation by then

    def note(_: "Event") -> None:
        for metrics in place.rglob("metrics.jsonl"):
            score = json.loads(metrics.read_text().splitlines()[-1])["score"]
            if not progress or score > progress[-1][1]:
                progress.append((round(time.monotonic() - since, 1), score))

    made = pomp.evolve(
        task, seeds=seed, minutes=minutes, settings=settings, out=place, on_event=note
    )
    row = made.learned[0].row
    told = {name: row[name] for name in ("mean", "validation", "clean", "budgets", "search")}
    seconds = round(time.monotonic() - since, 1)
    return {"job": job, "seed": seed, "seconds": seconds, **told, "progress": progress}


def main() -> int:
    """Compile all tasks, then search them; the jobs with more to do should be named first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--minutes", type=float, default=2.5)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("jobs", nargs="+")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(asked.processes) as pool:
        tasks = dict.fromkeys(read_job(job)[0] for job in asked.jobs)
        for task in pool.map(compile_task, tasks):
            print("compiled", task, flush=True)
        pairs = [(job, seed) for job in asked.jobs for seed in range(asked.seeds)]
        begun = [pool.submit(search, asked.out, *pair, asked.minutes) for pair in pairs]
        with (asked.out / "results.jsonl").open("w") as file:
            for future in as_completed(begun):
                if error := future.exception():
                    print("failed", repr(error), flush=True)
                    continue
                row = future.result()
                print(row["job"], row["seed"], row["mean"], row["clean"], flush=True)
                print(json.dumps(row), file=file, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
