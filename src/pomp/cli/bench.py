"""`pomp bench`."""

import json
from dataclasses import asdict, dataclass
from typing import Literal

from tyro.conf import Positional, UseAppendAction

from pomp.cli.progress import Progress


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Measure speed on this machine."""

    what: Positional[Literal["engine"]] = "engine"
    """engine: actions per second of every task, beside the plain-Python reference."""
    task: UseAppendAction[tuple[str, ...]] = ()
    """Only this task; may be given several times."""
    json: bool = False
    """Print one JSON document."""

    def run(self) -> int:
        """Print the table."""
        from pomp.bench.engine import EngineBenchConfig, measure_all
        from pomp.bench.machine import describe_machine
        from pomp.tasks.catalog import TASKS, find_task

        tasks = tuple(find_task(name) for name in self.task) or TASKS
        progress = Progress("bench", len(tasks))
        started = False

        def show(name: str) -> None:
            nonlocal started
            progress.step(name, parts=int(started))
            started = True

        try:
            table = measure_all(tasks, EngineBenchConfig(), show)
        finally:
            progress.close()
        machine = describe_machine()
        if self.json:
            rows = {name: asdict(speed) for name, speed in table.items()}
            print(json.dumps({"machine": machine, "tasks": rows}))
            return 0
        print(", ".join(f"{key} {value}" for key, value in machine.items()))
        every_head = f"{next(iter(table.values())).threads} threads"
        print(f"{'task':<14} {'1 thread':>12} {every_head:>12} {'reference':>12} {'ratio':>8}")
        for name, speed in table.items():
            one, every = (
                speed.engine_1_thread_actions_per_second,
                speed.engine_all_threads_actions_per_second,
            )
            slow = speed.reference_actions_per_second
            print(
                f"{name:<14} {one / 1e6:>10.1f} M {every / 1e6:>10.1f} M {slow / 1e3:>10.1f} k "
                f"{one / slow:>7.0f}x"
            )
        print("actions per second; random programs, 32 starts each, cap calls220")
        return 0
