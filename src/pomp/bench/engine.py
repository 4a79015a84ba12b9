"""Speed of the engine and of the plain-Python reference on the same programs."""

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pomp.conformance.reference import reference_task, run
from pomp.conformance.reference.world import Stream
from pomp.core.compiling import thread_count
from pomp.core.streams import Purpose, open_streams
from pomp.dsl.bytecode import compile_ids
from pomp.dsl.sampling import sample_programs
from pomp.dsl.vocabulary import LEAPS
from pomp.engine.rollouts import rollout
from pomp.engine.starts import draw_starts
from pomp.tasks.catalog import is_shipped
from pomp.tasks.task import Task

SEED = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineBenchConfig:
    """How much is measured."""

    programs: int = 40_000
    """Random programs per task."""
    starts: int = 32
    """Start states each runs from."""
    repeats: int = 3
    """Timed repetitions; the best counts."""
    reference_seconds: float = 0.5
    """Time the reference gets per task."""


@dataclass(frozen=True, kw_only=True)
class EngineSpeed:
    """One row of the table; `actions_per_run` is the mean over programs and starts.

    `reference_actions_per_second` is None for a task that does not come with the package.
    """

    engine_1_thread_actions_per_second: float
    engine_all_threads_actions_per_second: float
    reference_actions_per_second: float | None
    threads: int
    actions_per_run: float


def measure(task: Task, config: EngineBenchConfig) -> EngineSpeed:
    """Time one task in its default setting; states are drawn and code is compiled before."""
    setting = task.configure()
    ids = sample_programs(config.programs, SEED)
    code = compile_ids(ids)
    worlds = draw_starts(setting, config.starts, SEED, Purpose.EVALUATION)
    warm = compile_ids(ids[:2])
    rollout(setting, warm, worlds)

    def time_engine(threads: int | None) -> tuple[float, int]:
        best, actions = float("inf"), 0
        for _ in range(config.repeats):
            began = time.perf_counter()
            result = rollout(setting, code, worlds, threads=threads)
            best = min(best, time.perf_counter() - began)
            actions = int(result.actions.sum())
        return actions / best, actions

    one, actions = time_engine(1)
    every, _ = time_engine(None)
    reference = _time_reference(task, config, ids) if is_shipped(task) else None
    return EngineSpeed(
        engine_1_thread_actions_per_second=one,
        engine_all_threads_actions_per_second=every,
        reference_actions_per_second=reference,
        threads=thread_count(),
        actions_per_run=actions / (config.programs * config.starts),
    )


def _time_reference(task: Task, config: EngineBenchConfig, ids: NDArray[np.uint8]) -> float:
    """Return the actions per second of the reference, program after program until time is up.

    Args:
        task: which.
        config: for how long.
        ids: `[P, L]` uint8, the programs that the engine ran, too.
    """
    streams = open_streams(Purpose.EVALUATION, SEED, worlds=config.starts)
    actions, spent = 0, 0.0
    while spent < config.reference_seconds:
        for program, row in enumerate(ids):
            text = " ".join(LEAPS.decode(row.tolist()))
            reference = reference_task(task.name)
            reference.reset(Stream(int(streams[program % config.starts])))
            began = time.perf_counter()
            run(reference, [text], "calls220")
            spent += time.perf_counter() - began
            actions += reference.actions
            if spent >= config.reference_seconds:
                break
    return actions / spent
