"""Measure how the machines of the zoo hold, write it down, and print the tables of docs/RESULTS.md.

    python tools/measure_holding.py            # results/hold/zoo.json, minutes; then the tables
    python tools/measure_holding.py --tables   # the tables of what is there

The machines with rules are verified on their task's own size (from all starts, or 1,000 drawn
ones) and at 100x100, and evaluated at longer horizons.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "results" / "hold" / "zoo.json"
LARGE, SIZED = (100, 100), ("StairClimber", "Maze", "TopOff", "FourCorner", "Harvester")
LARGE_DRAWN = 200  # episodes, where starts cannot be listed
PUBLISHED = {"StairClimber": 1.0, "Maze": 1.0, "TopOff": 1.0, "FourCorner": 1.0, "Harvester": 0.04}
"""PPO on perceptions at 100x100, the best of *Revisiting OOD Generalization in Programmatic RL*."""


def measure() -> dict[str, Any]:
    """Return everything that the tables tell."""
    from pomp.machine.evaluation import evaluate, list_all
    from pomp.machine.verification import verify
    from pomp.machine.zoo import load_machine, zoo_tasks
    from pomp.version import __version__

    told: dict[str, Any] = {
        "pomp": __version__,
        "own": {},
        "large": {},
        "longer": {},
        "networks": {},
    }
    for task in zoo_tasks():
        print(task, file=sys.stderr)
        machine = load_machine(f"zoo:{task}/text")
        told["own"][task] = verify(machine).to_json()
        for scale in machine.task.scales if len(machine.task.scales) > 1 else ():
            found = evaluate(machine, scale=scale).to_json()
            row = told["longer"].setdefault(task, {"sensors": machine.sensors, "scales": {}})
            row["scales"][scale] = {name: found[name] for name in _TOLD}
    for task in SIZED:
        machine = load_machine(f"zoo:{task}/text")
        is_listed = list_all(machine.task.configure(size=LARGE)) or task == "StairClimber"
        episodes = None if is_listed else LARGE_DRAWN
        told["large"][task] = verify(machine, size=LARGE, episodes=episodes).to_json()
    return told


_TOLD = ("mean", "episodes", "exact", "cuts", "clean", "endings", "programs")


def own_rows(told: dict[str, Any]) -> Iterator[str]:
    """Yield a row for each machine with rules, on its task's own size."""
    for task, one in told["own"].items():
        caps = {row["cap"]: row["mean"] for row in one["budgets"]}
        near = [mean for cap, mean in caps.items() if cap not in ("calls500", "calls10000")]
        yield (
            f"| {task} | {_starts(one)} | {one['endings']['by choice']} | {one['cuts']} | "
            f"{one['most modes']} | {one['most actions']} | {one['worst']:.4f} | {_span(near)} | "
            f"{caps['calls500']:.4f} | {caps['calls10000']:.4f} |"
        )


def large_rows(told: dict[str, Any]) -> Iterator[str]:
    """Yield a row for each task at 100x100."""
    for task, one in told["large"].items():
        yield (
            f"| {task} | {one['mean']:.3f} | {one['worst']:.3f} | {PUBLISHED[task]:.2f} | "
            f"{_starts(one)} | {one['cuts']} | {one['most modes']} | {one['most actions']} |"
        )


def longer_rows(told: dict[str, Any]) -> Iterator[str]:
    """Yield a row for each long task: returns, a star where the machine was not clean."""
    for task, one in told["longer"].items():
        cells = [
            f"{found['mean']:.4f}{'' if found['clean'] else ' *'}"
            for found in one["scales"].values()
        ]
        yield f"| {task}, {one['sensors']} | {' | '.join(cells)} |"


def _starts(one: dict[str, Any]) -> str:
    return f"all {one['starts']}" if one["proof"] else f"{one['starts']} drawn"


def _span(means: list[float]) -> str:
    low, high = f"{min(means):.4f}", f"{max(means):.4f}"
    return low if low == high else f"{low} to {high}"


TABLES = (own_rows, large_rows, longer_rows)


def main(arguments: list[str]) -> int:
    """Measure and write, unless only the tables are asked for; then print these."""
    parser = argparse.ArgumentParser(description="Measure how the machines of the zoo hold.")
    parser.add_argument("--tables", action="store_true", help="measure nothing")
    if not parser.parse_args(arguments).tables:
        FILE.parent.mkdir(parents=True, exist_ok=True)
        FILE.write_text(json.dumps(measure(), indent=1) + "\n")
    told = json.loads(FILE.read_text())
    for rows in TABLES:
        print("\n".join(rows(told)), end="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
