"""What a run says about several seeds, against values that can be computed by hand."""

from math import sqrt

import pytest

from pomp.runs.folder import RunFolder
from pomp.runs.published import published
from pomp.runs.results import LearnedMachine, sum_up
from pomp.tasks import find_task


def test_seeds_are_summed_up_by_mean_and_deviation():
    means = {("Seesaw", 0): 0.2, ("Seesaw", 1): 0.4, ("Seesaw", 2): 0.9, ("Farmer", 0): 1.0}
    rows = [
        {"task": task, "seed": seed, "mean": mean, "ceiling": 1.0}
        for (task, seed), mean in means.items()
    ]
    learned = [
        LearnedMachine(find_task(row["task"]).configure(), row["seed"], row, RunFolder(None))
        for row in rows
    ]
    found = sum_up(learned)["tasks"]
    assert found["Seesaw"]["mean"] == pytest.approx(0.5)
    assert found["Seesaw"]["std"] == pytest.approx(sqrt((0.09 + 0.01 + 0.16) / 3))
    assert (found["Farmer"]["mean"], found["Farmer"]["std"]) == (1.0, 0.0)
    assert [found[task]["seeds"] for task in ("Seesaw", "Farmer")] == [3, 1]
    assert found["Seesaw"]["published"] == published("pomp", "Seesaw")
    assert found["Seesaw"]["machines"] == rows[:3]
