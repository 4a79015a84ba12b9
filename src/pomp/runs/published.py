"""The numbers printed in the paper, to stand beside ours."""

import json
from functools import cache
from pathlib import Path
from typing import Any

TEXT = "text"
"""What `pomp.evolve` is called among the methods of `pomp.train`: machines with rules alone."""

_METHODS = {
    "cem": "CEM",
    "cem-diversity": "CEM+diversity",
    "cem-xm": "CEM x|M|",
    "cem-diversity-topk": "CEM+diversity top k",
    "cem-diversity-xm": "CEM+diversity x|M|",
    "leaps": "LEAPS",
    "leaps-grid": "LEAPS",
    "pomp": "POMP",
    "drl": "DRL",
    "psmp": "PSMP",
    "mmn": "MMN",
    "random": "Random Transition",
    "hprl": "HPRL",
} | dict.fromkeys((TEXT, "text-modes", "given", "pomp-program-space", "annealing-modes"), "POMP")
"""Methods, and what the paper calls them; machines found otherwise stand beside its own, POMP."""


@cache
def _tables() -> dict[str, Any]:
    return dict(json.loads(Path(__file__).with_name("published.json").read_text()))


def published(method: str, task: str) -> dict[str, Any] | None:
    """Name, mean and standard deviation of a method on a task, where the paper gives them."""
    rows, called = published_rows(task), _METHODS.get(method, "")
    name = next((name for name in (called, f"{called} (5)") if name in rows), None)
    return {"method": name, **rows[name]} if name else None


def published_rows(task: str) -> dict[str, dict[str, float]]:
    """Mean and standard deviation of every method that the paper has for a task, by its name."""
    found: dict[str, dict[str, float]] = {}
    for table in ("table1", "table2"):
        for method, row in _tables()[table].items():
            spelled = {key.replace("-", "").lower(): value for key, value in row.items()}
            if value := spelled.get(task.lower()):
                found[method] = dict(value)
    return found


def published_modes(task: str) -> tuple[str, ...]:
    """The mode programs the paper prints for a Karel-Long task; none for another."""
    return tuple(_tables()["programs"].get(task, ()))
