"""What results have cost, and where they come from."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from pomp.experiments.cells import Cell
from pomp.experiments.outcomes import COSTS
from pomp.experiments.rows import ROWS
from pomp.experiments.store import CellResult
from pomp.experiments.tables import is_policy

COUNTS = tuple(name for name in COSTS if name != "seconds")
_MADE = ("commit", "pomp", "python", "numpy", "numba", "torch", "device", "hardware", "date")


@dataclass(frozen=True)
class MethodCost:
    """What the cells of a method have cost on average, everything that they need included.

    Attributes:
        method: its name.
        cells: how many.
        counts: candidates, executions, actions and steps; None where they are not counted.
        seconds: of each cell; its share of what it was computed together with.
        all_seconds: of all cells together, work that cells share once.
        plateaus: how many trainings ended on a plateau; None where nothing is trained.
        hardware: what did it.
    """

    method: str
    cells: int
    counts: Mapping[str, float | None]
    seconds: float | None
    all_seconds: float | None
    plateaus: int | None
    hardware: tuple[str, ...]


def count_costs(results: Sequence[CellResult]) -> list[MethodCost]:
    """Return what the methods have cost, in the order of tables."""
    by_cell = {one.cell: one for one in results}
    found = []
    for method in ROWS:
        own = [one for one in results if one.cell.method == method and is_policy(one.cell)]
        if not own:
            continue
        works = [[by_cell.get(cell) for cell in _work_of(one.cell)] for one in own]
        spent = [_sum([_cost(one, "seconds") for one in work]) for work in works]
        done = {one.cell: one for work in works for one in work if one is not None}
        total = _sum([_cost(one, "seconds") for one in done.values()])
        found.append(
            MethodCost(
                method,
                len(own),
                {name: _mean([_cost(one, name) for one in own]) for name in COUNTS},
                _mean(spent),
                None if None in spent else total,
                _count_plateaus(own),
                tuple(sorted({str(one.values["made"]["hardware"]) for one in done.values()})),
            )
        )
    return found


def _count_plateaus(results: Sequence[CellResult]) -> int | None:
    endings = [one.values["ended"] for one in results if "ended" in one.values]
    return endings.count("plateau") if endings else None


def _work_of(cell: Cell) -> list[Cell]:
    """Return the cells in which the work behind a cell was done: itself, or those it needs."""
    if not cell.needs:
        return [cell]
    before = [one for needed in cell.needs for one in _work_of(needed)]
    return before if cell.stage == "policy" else [*before, cell]


def _cost(result: CellResult | None, name: str) -> float | None:
    return None if result is None else result.values["cost"].get(name)


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fsum(known) if len(known) == len(values) else None


def _mean(values: Sequence[float | None]) -> float | None:
    total = _sum(values)
    return None if total is None else total / len(values)


def count_origins(results: Sequence[CellResult]) -> dict[str, dict[str, int]]:
    """Count the cells of every commit, version, device, hardware, day, preset, budget, revision."""
    counted: dict[str, Counter[str]] = {name: Counter() for name in _MADE}
    for name in ("preset", "budget", "engine revision", "method revision", "changed settings"):
        counted[name] = Counter()
    for one in results:
        made, print_of = one.values["made"], one.fingerprint
        for name in _MADE:
            counted[name][str(made.get(name) or "unknown")] += 1
        counted["preset"][str(print_of["preset"])] += 1
        counted["budget"][f"{print_of['budget']:g}"] += 1
        counted["engine revision"][str(print_of["engine"])] += 1
        counted["method revision"][f"{one.cell.method} {print_of['method']}"] += 1
        changed = ", ".join(f"{name}={value}" for name, value in one.cell.changes)
        counted["changed settings"][changed or "none"] += 1
    return {name: dict(sorted(own.items())) for name, own in counted.items()}


def list_fingerprints(results: Sequence[CellResult]) -> dict[str, dict[str, str]]:
    """Return the fingerprint of the settings behind every method's results, by task."""
    found: dict[str, dict[str, str]] = {}
    for one in results:
        if is_policy(one.cell):
            found.setdefault(one.cell.method, {})[one.cell.task] = one.fingerprint["settings"]
    return {method: found[method] for method in ROWS if method in found}
