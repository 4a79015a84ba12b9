"""The numbers printed in the paper, to stand beside ours."""

import json
from functools import cache
from pathlib import Path
from typing import Any

_METHODS = {
    "cem": ("table1", "CEM"),
    "cem-diversity": ("table1", "CEM+diversity"),
    "leaps": ("table1", "LEAPS"),
    "leaps-grid": ("table1", "LEAPS"),
    "pomp": ("table1", "POMP"),
    "drl": ("table1", "DRL"),
    "psmp": ("table2", "PSMP"),
    "random": ("table2", "Random Transition"),
}
"""Methods, and where the paper has them; Karel-Long is in table 2."""


@cache
def _tables() -> dict[str, Any]:
    return dict(json.loads(Path(__file__).with_name("published.json").read_text()))


def published(method: str, task: str) -> dict[str, float] | None:
    """Mean and standard deviation of a method on a task, where the paper gives them."""
    table, name = _METHODS.get(method, ("", ""))
    rows = {**_tables().get(table, {}).get(name, {}), **_tables()["table2"].get(name, {})}
    spelled = {key.replace("-", "").lower(): value for key, value in rows.items()}
    found = spelled.get(task.lower())
    return dict(found) if found else None


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
