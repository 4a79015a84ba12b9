"""What a run says about several seeds, against values that can be computed by hand."""

from math import sqrt

import pytest

from pomp.cli.evolve import print_table
from pomp.runs.folder import RunFolder
from pomp.runs.plan import make_plan
from pomp.runs.published import published
from pomp.runs.results import LearnedMachine, sum_up
from pomp.tasks import find_task

MEANS = {("Seesaw", 0): 0.2, ("Seesaw", 1): 0.4, ("Seesaw", 2): 0.9, ("Farmer", 0): 1.0}
ROWS = [
    {"task": task, "seed": seed, "mean": mean, "ceiling": 1.0}
    for (task, seed), mean in MEANS.items()
]


def learn(rows):
    return [
        LearnedMachine(find_task(row["task"]).configure(), row["seed"], row, RunFolder(None))
        for row in rows
    ]


def test_seeds_are_summed_up_by_mean_and_deviation():
    found = sum_up(learn(ROWS), "pomp")["tasks"]
    assert found["Seesaw"]["mean"] == pytest.approx(0.5)
    assert found["Seesaw"]["std"] == pytest.approx(sqrt((0.09 + 0.01 + 0.16) / 3))
    assert (found["Farmer"]["mean"], found["Farmer"]["std"]) == (1.0, 0.0)
    assert [found[task]["seeds"] for task in ("Seesaw", "Farmer")] == [3, 1]
    assert found["Seesaw"]["published"] == published("pomp", "Seesaw")
    assert found["Seesaw"]["machines"] == ROWS[:3]


@pytest.mark.parametrize(
    ("method", "name", "mean"),
    [("drl", "DRL", 0.38), ("psmp", "PSMP", 0.43), ("pomp", "POMP", 0.62), ("text", "POMP", 0.62)],
)
def test_a_method_stands_beside_its_own_row_of_the_paper(method, name, mean, capsys):
    tasks = sum_up(learn(ROWS[3:]), method)["tasks"]
    assert (tasks["Farmer"]["published"]["method"], tasks["Farmer"]["published"]["mean"]) == (
        name,
        mean,
    )
    print_table(tasks)
    assert f"Farmer: 100% of the ceiling 1; paper's {name} {mean:.2f} ± " in capsys.readouterr().out


def test_a_method_that_the_paper_has_not_stands_beside_nothing(capsys):
    [row] = sum_up(learn(ROWS[3:]), "perception-ppo")["tasks"].values()
    assert row["published"] is None
    print_table({"Farmer": row | {"ceiling": None}})
    assert capsys.readouterr().out == "return=1.000\n"
    print_table({"Farmer": row | {"ceiling": None, "mean": -1e-9}})
    assert capsys.readouterr().out == "return=0.000\n"


@pytest.mark.parametrize(
    ("asked", "method"),
    [
        ({"preset": "paper"}, "pomp"),
        ({"preset": "best"}, "text"),
        ({"preset": "best", "method": "drl"}, "drl"),
        ({"preset": "paper", "modes": ["DEF run m( move m)"]}, "given"),
    ],
)
def test_a_plan_knows_its_method(asked, method):
    settings = [find_task("Farmer").configure()]
    asked = {"method": None, "modes": None, **asked}
    assert make_plan(settings, [0], changes={}, **asked).method == method
