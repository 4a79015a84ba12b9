"""Program machine policies: state machines whose modes are readable Karel programs.

The names below are the public door. They are loaded on first use, so `import pomp` is instant.
"""

import importlib
from typing import TYPE_CHECKING, Any

from pomp.version import __version__

if TYPE_CHECKING:
    from pomp.core.errors import PompError
    from pomp.dsl.bytecode import compile_ids, compile_programs
    from pomp.dsl.parser import parse
    from pomp.dsl.printer import print_program
    from pomp.dsl.sampling import sample_programs
    from pomp.embedding.space import Embedding
    from pomp.engine.record import record
    from pomp.engine.rollout import act_on, advance, rollout
    from pomp.engine.starts import begin, draw_starts, enumerate_starts
    from pomp.karel.world import Map, WorldBatch
    from pomp.tasks.catalog import TASKS, find_task
    from pomp.tasks.task import Task

__all__ = [
    "TASKS",
    "Embedding",
    "Map",
    "PompError",
    "Task",
    "WorldBatch",
    "__version__",
    "act_on",
    "advance",
    "begin",
    "compile_ids",
    "compile_programs",
    "draw_starts",
    "enumerate_starts",
    "find_task",
    "parse",
    "print_program",
    "record",
    "rollout",
    "sample_programs",
]

_HOMES = {
    **dict.fromkeys(("compile_ids", "compile_programs"), "pomp.dsl.bytecode"),
    "parse": "pomp.dsl.parser",
    "print_program": "pomp.dsl.printer",
    "sample_programs": "pomp.dsl.sampling",
    "Embedding": "pomp.embedding.space",
    "PompError": "pomp.core.errors",
    **dict.fromkeys(("Map", "WorldBatch"), "pomp.karel.world"),
    **dict.fromkeys(("TASKS", "find_task"), "pomp.tasks.catalog"),
    **dict.fromkeys(("begin", "draw_starts", "enumerate_starts"), "pomp.engine.starts"),
    "record": "pomp.engine.record",
    **dict.fromkeys(("act_on", "advance", "rollout"), "pomp.engine.rollout"),
    "Task": "pomp.tasks.task",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'pomp' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
