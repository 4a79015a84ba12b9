"""Search machines for many tasks and seeds at once, a process for each core.

    python tools/evolve_many.py OUT --processes 14 --minutes 2.5 --seeds 5 JOB...
    python tools/evolve_many.py results/evolve/clean.jsonl --table      # that of docs/RESULTS.md

A job is `TASK[:NAME=VALUE...]`, as `Seesaw:sensors=compass` or `TopOff:sizes=12x12+16x16`; it has a
name of its own, a folder of that name under OUT with a run of `pomp evolve` for each seed, and a
line in `OUT/results.jsonl` for each of these. A job that was run for fewer minutes before goes on;
then its last line counts.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import repeat
from pathlib import Path
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pomp.machine import ProgramMachine
    from pomp.runs.work import Event


TOOLS = Path(__file__).resolve().parent
_HEADS = (
    *("job", "minutes", "return", "seeds", "clean", "at x16, 100x100", "machines tried"),
    *("95 % after", "commit"),
)


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


def compile_task(task: str, device: str) -> str:
    """Compile what the searches of a task need, so that they find it."""
    import pomp

    brief = {"steps": 2, "chains": 2, "starts": 2}
    pomp.evolve(task, minutes=0.02, settings=brief, device=device)
    return task


def search(out: Path, job: str, seed: int, minutes: float, device: str) -> dict[str, Any]:
    """Search with one seed; returns what was found."""
    import pomp
    from pomp.machine import print_machine

    task, settings = read_job(job)
    place, before = out / f"{job.replace(':', '_')}" / f"s{seed}", rows_of(out).get((job, seed))
    progress: list[tuple[float, float]] = []  # seconds, and the best return in validation by then
    since = time.monotonic()
    if before:
        progress, since = [*map(tuple, before["progress"])], since - 60 * before["minutes"]

    def note(_: "Event") -> None:
        for metrics in place.rglob("metrics.jsonl"):
            score = json.loads(metrics.read_text().splitlines()[-1])["score"]
            if not progress or score > progress[-1][1]:
                progress.append((round(time.monotonic() - since, 1), score))

    made = pomp.evolve(
        task, seeds=seed, minutes=minutes, settings=settings, device=device, out=place,
        on_event=note, resume=place.exists(),
    )  # fmt: skip
    learned = made.learned[0]
    told = {name: learned.row[name] for name in ("mean", "validation", "clean", "search")}
    found = {"job": job, "seed": seed, "minutes": minutes, "commit": commit_of_sources(), **told}
    found["longer"] = {scale: at_scale(learned.machine, scale) for scale in longer_of(task)}
    if "sizes" in settings:
        found["longer"] = {"100x100": at_100x100(learned.machine)}
    return {**found, "progress": progress, "machine": print_machine(learned.machine)}


def commit_of_sources() -> str:
    """Return the commit that this is a checkout of, or nothing."""
    asked = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, cwd=TOOLS, capture_output=True, text=True).stdout.strip()


def rows_of(out: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """Return what a folder or a file holds, by job and seed: the last line of each."""
    file = out / "results.jsonl" if out.is_dir() else out
    told = map(json.loads, file.read_text().splitlines() if file.exists() else ())
    return {(row["job"], row["seed"]): row for row in told}


def longer_of(task: str) -> tuple[int, ...]:
    """Return the longest horizon of a task, if there are longer ones."""
    from pomp.tasks.catalog import find_task

    return find_task(task).scales[1:][-1:]


def at_scale(machine: "ProgramMachine", scale: int) -> float:
    """Return what a machine earns at a longer horizon, in 100 episodes."""
    from pomp.machine import evaluate

    return evaluate(machine, scale=scale).mean


def at_100x100(machine: "ProgramMachine") -> float:
    """Return what a machine earns there, with modes in proportion to the cells."""
    from pomp.machine.verification import verify

    return verify(machine, size=(100, 100), episodes=100).found.mean


def table_of(rows: list[dict[str, Any]]) -> str:
    """Return the table of some results: a line for each job, seeds in their order."""
    lines = ["| " + " | ".join(_HEADS) + " |", "|" + "---|" * len(_HEADS)]
    for job in dict.fromkeys(row["job"] for row in rows):
        own = sorted((row for row in rows if row["job"] == job), key=lambda row: row["seed"])
        means = [row["mean"] for row in own]
        longer = [value for row in own for value in row["longer"].values()]
        tried = fmean(row["search"]["machines"] for row in own)
        reached = [reached_after(row) for row in own]
        cells = [
            job.replace(":", ", ").replace("sensors=", ""), f"{own[0]['minutes']:g}",
            f"{fmean(means):.4f} ± {pstdev(means):.4f}", " ".join(f"{mean:.4f}" for mean in means),
            f"{sum(row['clean'] for row in own)} of {len(own)}",
            f"{fmean(longer):.4f}" if longer else "", f"{tried / 1e6:.3g} M",
            " ".join(f"{seconds:.0f}" for seconds in reached) + " s",
            ", ".join(dict.fromkeys(row["commit"] for row in own)),
        ]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def reached_after(row: dict[str, Any]) -> float:
    """Return the seconds after which a search had 95 % of what its best validation is."""
    most = row["progress"][-1][1]
    return next(seconds for seconds, score in row["progress"] if score >= 0.95 * most)


def main() -> int:
    """Compile all tasks, then search them; the jobs with more to do should be named first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--table", action="store_true", help="print the table of OUT, a file")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--minutes", type=float, default=2.5)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--device", default="cpu", help="a GPU: with --processes 1")
    parser.add_argument("jobs", nargs="*")
    asked = parser.parse_intermixed_args()
    if asked.table:
        print(table_of([*rows_of(asked.out).values()]))
        return 0
    os.environ["POMP_THREADS"] = "1"  # a search is a process
    asked.out.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(asked.processes) as pool:
        tasks = dict.fromkeys(read_job(job)[0] for job in asked.jobs)
        for task in pool.map(compile_task, tasks, repeat(asked.device)):
            print("compiled", task, flush=True)
        pairs = [(job, seed) for job in asked.jobs for seed in range(asked.seeds)]
        told = (asked.minutes, asked.device)
        begun = [pool.submit(search, asked.out, *pair, *told) for pair in pairs]
        with (asked.out / "results.jsonl").open("a") as file:
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
