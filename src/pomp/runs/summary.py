"""What the machines of a run are worth, by task, beside what the paper has."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pomp.runs.published import published

SUMMARY_FILE = "summary.json"


def sum_up(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Mean and standard deviation over seeds; `rows` are evaluations with `task` and `seed`."""
    tasks: dict[str, Any] = {}
    for row in rows:
        tasks.setdefault(row["task"], []).append(row)
    return {
        "tasks": {
            task: {
                "mean": float(np.mean([row["mean"] for row in own])),
                "std": float(np.std([row["mean"] for row in own])),
                "seeds": len(own),
                "ceiling": own[0]["ceiling"],
                "published": published("pomp", task),
                "machines": own,
            }
            for task, own in tasks.items()
        }
    }
