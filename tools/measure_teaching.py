"""Measure what a planner's teaching earns without PPO, write it down, and print the table.

    python tools/measure_teaching.py Farmer --store STORE       # the members of a task, one by one
    python tools/measure_teaching.py Farmer --seeds 2 --steps 100000 --store STORE   # then PPO
    python tools/measure_teaching.py --table                    # the table of docs/RESULTS.md

Of the results so far: STORE was results/queue/pomp.txz, unpacked as results/queue/README.md says;
modes of Seesaw and Inf-Harvester are in results/machine/seesaw-inf-harvester-4M.jsonl.gz.

A store is a folder or a file of results with cells `pomp-bound` of stage `search`, whose modes are
taken; several may be given. What is in results/machine/taught.json is not measured again.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "results" / "machine" / "taught.json"
METHOD, EPISODES = "pomp-bound", 100
SETTINGS = {"teaching.steps": 4000}
HARDWARE = "two CPU cores"


def read_modes(stores: list[str], task: str) -> dict[int, tuple[str, ...]]:
    """Return the modes by bound of a task that stores have, by seed."""
    from pomp.experiments.store import read_results

    cells = [one for store in stores for one in read_results(store)]
    kinds = (METHOD, "search", task)
    found = [one for one in cells if (one.cell.method, one.cell.stage, one.cell.task) == kinds]
    return {one.cell.seed: one.programs for one in found}


def measure(task: str, seed: int, modes: tuple[str, ...], steps: int) -> dict[str, Any]:
    """Teach one machine, train it for some steps of PPO, and tell what it earns before and after.

    Seconds are those of one core.
    """
    from pomp.analysis.planning import estimate
    from pomp.learning.config import configure_learning
    from pomp.learning.members import Member
    from pomp.learning.training import Training
    from pomp.machine.evaluation import evaluate
    from pomp.runs.folder import RunFolder
    from pomp.runs.transitions import TransitionsRun
    from pomp.tasks.catalog import find_task

    ppo = {"ppo.total": steps, "validation.every": 16} if steps else {}
    config = configure_learning("paper", {**SETTINGS, **ppo})
    setting = find_task(task).configure()
    training = Training([Member(setting, modes, seed, config.ppo.learning_rate)], config, "cpu")
    run, began = TransitionsRun(training, RunFolder(None), "transitions"), time.process_time()
    while not run.records[0]:
        run.advance(lambda: False)
    seconds = round(time.process_time() - began, 1)
    told: dict[str, Any] = {"modes": list(modes), "planner": estimate(setting, modes).value}
    told |= {"seconds": seconds, "validation": run.records[0][0]["return"]}
    told["fresh"] = evaluate(training.machine(0, {}), episodes=EPISODES, seed=0).mean
    if steps:
        while not run.is_finished:
            run.advance(lambda: False)
        found = evaluate(training.machine(0, {}), episodes=EPISODES, seed=0).mean
        kept = training.kept[0]
        returns = [record["return"] for record in run.records[0]]
        told["ppo"] = {"steps": steps, "validations": returns, "kept": kept.update, "fresh": found}
    return told


def rows(told: dict[str, Any]) -> Iterator[str]:
    """Yield a row for each task: what the planner, validation and fresh evaluation say."""
    for task, members in told["tasks"].items():
        own = [members[seed] for seed in sorted(members)]
        fresh = [one["fresh"] for one in own]
        each = " ".join(f"{value:.3f}".lstrip("0") for value in fresh)
        means = [fmean(one[name] for one in own) for name in ("planner", "validation")]
        seconds = fmean(one["seconds"] for one in own)
        yield (
            f"| {task} | {' '.join(sorted(members))} | {means[0]:.3f} | {means[1]:.3f} | {each} | "
            f"{fmean(fresh):.3f} ± {pstdev(fresh):.3f} | {seconds:.0f} |"
        )


def main(arguments: list[str]) -> int:
    """Measure what is asked for and write it, unless only the table is; then print this."""
    parser = argparse.ArgumentParser(description="Measure what a planner's teaching earns.")
    parser.add_argument("task", nargs="?")
    parser.add_argument("--seeds", type=int, nargs="+", default=range(5))
    parser.add_argument("--steps", type=int, default=0, help="of PPO afterwards")
    parser.add_argument("--store", action="append", default=[])
    parser.add_argument("--table", action="store_true", help="measure nothing")
    given = parser.parse_args(arguments)
    if not given.table:
        from pomp.version import __version__

        first: dict[str, Any] = {
            "pomp": __version__,
            "hardware": HARDWARE,
            "settings": SETTINGS,
            "tasks": {},
            "ppo": {},
        }
        modes = read_modes(given.store, given.task)
        for seed in given.seeds:
            told = json.loads(FILE.read_text()) if FILE.exists() else first
            place = told["ppo" if given.steps else "tasks"].setdefault(given.task, {})
            if str(seed) not in place:
                place[str(seed)] = measure(given.task, seed, modes[seed], given.steps)
                FILE.write_text(json.dumps(told, indent=1) + "\n")
                print(given.task, seed, place[str(seed)], file=sys.stderr)
    print("\n".join(rows(json.loads(FILE.read_text()))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
