"""Speed of searching: a local search on one core, a whole stage 2, and its memory."""

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from pomp.core.hardware import on_one_core
from pomp.embedding.space import Embedding
from pomp.modes.batch import Batch
from pomp.modes.jobs import Job
from pomp.modes.methods import configure
from pomp.tasks.catalog import TASKS, find_task

SEEDS = 5
CLIMB_SECONDS, CUDA_SECONDS = 10.0, 60.0
_CHAINS = 1024


@dataclass(frozen=True)
class SearchSpeed:
    """How fast a search is."""

    what: str
    wall_seconds: float
    candidates: int
    candidates_per_second: float
    iterations: int
    """Of all runs together."""
    is_finished: bool
    """Whether it came to its end, or was stopped to be measured."""


def measure_search(
    device: str, show: Callable[[str, float], None]
) -> tuple[list[SearchSpeed], float]:
    """Measure searches on a device; `show` is told what runs and which share of it is done.

    Returns:
        The speeds, and the largest memory of this process in GB (on a GPU: of the device).
    """
    embedding = Embedding.load(device=device)
    if device == "cuda":
        jobs = [job for task in TASKS for job in _jobs("pomp", task.name, SEEDS)]
        name = f"pomp, all {len(TASKS)} tasks x {SEEDS} seeds, the first {CUDA_SECONDS:.0f} s"
        found = [_measure(name, jobs, embedding, device, CUDA_SECONDS, show)]
        return found, _device_gigabytes()
    with on_one_core():
        name = "hill-climbing, DoorKey, 32 starts, one core"
        climb = _jobs("hill-climbing", "DoorKey", 1, {"proposer.chains": _CHAINS})
        found = [_measure(name, climb, embedding, device, CLIMB_SECONDS, show)]
    whole = _jobs("pomp", "UpNDown", 1)
    found.append(_measure("pomp, UpNDown, 3 modes, 1 seed", whole, embedding, device, None, show))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found, peak / (1e9 if sys.platform == "darwin" else 1e6)


def _jobs(
    method: str, task: str, seeds: int, changes: dict[str, object] | None = None
) -> list[Job]:
    """Return searches of one task and method, one for each seed."""
    setting = find_task(task).configure()
    config = configure(method, "paper", setting, changes)
    return [Job(setting, seed, config) for seed in range(seeds)]


def _measure(
    name: str,
    jobs: list[Job],
    embedding: Embedding,
    device: str,
    seconds: float | None,
    show: Callable[[str, float], None],
) -> SearchSpeed:
    """Run searches until they end or `seconds` are over, and return how fast they were."""
    Batch([Job(job.setting, job.seed, job.config) for job in jobs], embedding, device).step()
    batch, iterations = Batch(jobs, embedding, device), 0
    began = time.perf_counter()
    while not batch.is_finished and (seconds is None or time.perf_counter() - began < seconds):
        batch.step()
        iterations += len(batch.active)
        show(name, batch.progress())
    wall = time.perf_counter() - began
    done = batch.proposed
    return SearchSpeed(name, wall, done, done / wall, iterations, batch.is_finished)


def _device_gigabytes() -> float:
    """Return the memory of the GPU that is in use, in GB."""
    import torch

    free, total = torch.cuda.mem_get_info()
    return (total - free) / 1e9
