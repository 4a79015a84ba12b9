"""Actions per second of the engine on a GPU."""

import time
from dataclasses import dataclass
from typing import Any

from pomp.core.cuda import THREADS, load_cuda, to_host
from pomp.core.streams import Purpose
from pomp.dsl.bytecode import compile_ids
from pomp.dsl.sampling import sample_programs
from pomp.engine.loading import cuda_kernels_of
from pomp.engine.rollouts import rollout
from pomp.engine.starts import draw_starts
from pomp.tasks.task import Task

SEED = 0
LANES = 6_400_000
REPEATS = 5


@dataclass(frozen=True, kw_only=True)
class CudaSpeed:
    """One row of the table; all in actions per second unless said."""

    starts_32: float
    starts_10: float
    starts_512: float
    registers: int
    local_bytes: int
    bytes_per_million_lanes: int


def measure_cuda(task: Task) -> CudaSpeed:
    """Time one task in its default setting; states, code, kernels and memory are there before."""
    cuda = load_cuda()
    setting = task.configure()
    speeds = {}
    used = 0
    for starts in (32, 10, 512):
        programs = LANES // starts
        code = compile_ids(sample_programs(programs, SEED))
        worlds = draw_starts(setting, starts, SEED, Purpose.EVALUATION, "cuda")
        result = rollout(setting, code, worlds)
        actions = int(to_host(result.actions).sum())
        best = float("inf")
        for _ in range(REPEATS):
            cuda.synchronize()
            began = time.perf_counter()
            rollout(setting, code, worlds, out=result)
            cuda.synchronize()
            best = min(best, time.perf_counter() - began)
        speeds[starts] = actions / best
        arrays = (result.returns, result.actions, result.calls, result.completed, code.on_device)
        used = max(used, sum(array.nbytes for array in arrays) * 1_000_000 // (programs * starts))
    registers, local_bytes = cuda_kernels_of(setting, code.depth).run_lanes.usage
    return CudaSpeed(
        starts_32=speeds[32],
        starts_10=speeds[10],
        starts_512=speeds[512],
        registers=registers,
        local_bytes=local_bytes,
        bytes_per_million_lanes=used + _resident_bytes(cuda, local_bytes),
    )


def _resident_bytes(cuda: Any, local_bytes: int) -> int:
    """Return the local memory that the driver sets aside for all threads resident at once."""
    device = cuda.get_current_device()
    resident = int(device.MULTIPROCESSOR_COUNT) * int(device.MAX_THREADS_PER_MULTIPROCESSOR)
    return local_bytes * max(resident, THREADS)
