"""Speed of training transitions: macro steps per second, with and without learning."""

import time
from dataclasses import dataclass

from pomp.learning.config import configure_learning
from pomp.learning.members import Member
from pomp.learning.training import Training
from pomp.runs.published import published_modes
from pomp.tasks.catalog import find_task

SECONDS = 20.0
_WARM_UP = 2  # updates


@dataclass(frozen=True)
class TrainingCase:
    """What is measured: some tasks of one grid size with some seeds, by a preset."""

    preset: str
    tasks: tuple[str, ...]
    seeds: int

    @property
    def what(self) -> str:
        """The case in words."""
        return f"{self.preset}, {' '.join(self.tasks)}, {self.seeds} seeds"


CASES = {
    "cpu": (
        TrainingCase("best", ("UpNDown",), 1),
        TrainingCase("best", ("InfHarvester",), 1),
        TrainingCase("paper", ("UpNDown",), 1),
        TrainingCase("paper", ("InfHarvester",), 1),
    ),
    "cuda": (
        TrainingCase("best", ("UpNDown",), 5),
        TrainingCase("best", ("UpNDown", "Farmer", "InfDoorKey"), 20),
        TrainingCase("paper", ("UpNDown", "Farmer", "InfDoorKey"), 5),
        TrainingCase("paper", ("Seesaw", "InfHarvester"), 5),
    ),
}


@dataclass(frozen=True)
class TrainingSpeed:
    """How fast it is, all members together."""

    what: str
    members: int
    rollout: int
    """Macro steps of a member in an update."""
    minibatch: int
    playing_per_second: float
    learning_per_second: float
    minutes_for_20_million: float
    """What 20 million macro steps of every member would take at this speed."""


def measure_training(case: TrainingCase, device: str) -> TrainingSpeed:
    """Measure a case, with the modes the paper prints."""
    config = configure_learning(case.preset, {"validation.every": 1_000_000})
    members = [
        Member(setting, published_modes(name), seed, config.ppo.learning_rate)
        for name in case.tasks
        for setting in [find_task(name).configure()]
        for seed in range(case.seeds)
    ]
    training = Training(members, config, device)
    for _ in range(_WARM_UP):
        training.step()
    steps = config.ppo.rollout * len(members)
    playing = _rate(training.rollouts.collect, steps)
    learning = _rate(training.step, steps)
    whole = 20e6 * len(members) / learning / 60
    return TrainingSpeed(
        case.what,
        len(members),
        config.ppo.rollout,
        config.ppo.minibatch,
        playing,
        learning,
        whole,
    )


def _rate(call: object, steps: int) -> float:
    """Return the macro steps per second of a call that makes `steps` of them."""
    assert callable(call)
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < SECONDS / 2 or not count:
        call()
        count += 1
    return count * steps / (time.perf_counter() - began)
