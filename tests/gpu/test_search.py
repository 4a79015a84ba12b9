"""Searches on a CUDA device find what they find on the CPU."""

import pytest

from pomp.embedding.space import Embedding
from pomp.modes.batch import Batch
from pomp.modes.jobs import Job
from pomp.modes.methods import configure
from pomp.tasks.catalog import find_task

pytestmark = pytest.mark.cuda

LATENT = {"proposer.iterations": 12, "mode.runs": 2}
PROGRAMS = {"proposer.candidates": 2000}


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("pomp", LATENT | {"mode.modes": 3}),
        ("cem-diversity", LATENT),
        ("annealing", PROGRAMS | {"score.rounds": 20}),
        ("hill-climbing", PROGRAMS),
        ("pomp-program-space", PROGRAMS | {"mode.runs": 2, "mode.modes": 2}),
    ],
)
@pytest.mark.parametrize("preset", ["paper", "code"])
def test_cuda_and_cpu_find_the_same(method, changes, preset):
    found = []
    for device in ("cpu", "cuda"):
        jobs = []
        for name in ("Farmer", "InfHarvester", "DoorKey"):
            setting = find_task(name).configure()
            jobs.append(Job(setting, 1, configure(method, preset, setting, changes)))
        batch = Batch(jobs, Embedding.load(device=device), device)
        while not batch.is_finished:
            batch.step()
        found.append([[without_latent(mode) for mode in job.result()["modes"]] for job in jobs])
    if method == "pomp-program-space":  # vectors are compared by what programs do: exact as well
        assert found[0] == found[1]
    programs = [[[mode["program"] for mode in job] for job in jobs] for jobs in found]
    assert programs[0] == programs[1]


def without_latent(mode):
    """All of a mode but its place in the embedding, which rounds otherwise on another device."""
    return {name: value for name, value in mode.items() if name != "latent"}
