"""What cells are called, what they need and what they are computed with."""

import json

import pytest

from pomp.core.errors import ConfigError, UnknownNameError
from pomp.experiments.cells import PLATEAU_STEPS, Cell
from pomp.experiments.pieces import cut, kind_of
from pomp.experiments.rows import ROWS
from pomp.experiments.specs import EXPERIMENTS, find_experiments, list_cells
from pomp.runs.published import published_rows
from pomp.tasks.catalog import TASKS


def cell(method="pomp", task="Farmer", seed=0, **fields):
    return Cell(method=method, task=task, seed=seed, **fields)


@pytest.mark.parametrize(
    ("one", "name"),
    [
        pytest.param(cell(), "paper/pomp/Farmer/seed0", id="plain"),
        pytest.param(
            cell(task="up-n-down"), "paper/pomp/UpNDown/seed0", id="a task by another name"
        ),
        pytest.param(cell(stage="search"), "paper/pomp/Farmer/seed0.search", id="a stage"),
        pytest.param(cell(scale=16), "paper/pomp/Farmer/seed0.x16", id="a scale"),
        pytest.param(cell(budget=0.001), "paper-0.001/pomp/Farmer/seed0", id="a budget"),
        pytest.param(cell(preset="code", seed=3), "code/pomp/Farmer/seed3", id="a preset"),
    ],
)
def test_names(one, name):
    assert one.name == name


def test_a_changed_setting_changes_the_name_of_what_depends_on_it_alone():
    changes = (("search.embedding", "paper"),)
    assert cell(changes=changes).name != cell().name
    assert cell(stage="search", changes=changes).name != cell(stage="search").name
    assert cell("drl", changes=changes) == cell("drl")
    entropy = (("ppo.entropy", 0.1),)
    assert cell(stage="search", changes=entropy) == cell(stage="search")
    assert cell("drl", changes=entropy) != cell("drl")


def test_what_a_cell_needs_comes_before_it():
    assert cell().needs == (cell(stage="learn"),)
    assert cell(stage="learn").needs == (cell(stage="search"),)
    assert cell(scale=4).needs == (cell(stage="learn"),)
    assert cell("psmp", stage="learn").needs == ()
    assert cell("random", scale=2).needs == (cell(stage="search"),)
    assert cell("text", scale=2).needs == (cell("text"),)
    assert cell("leaps").needs == ()
    listed = list_cells("all", seeds=[0, 1])
    place = {one: number for number, one in enumerate(listed)}
    assert len(place) == len(listed)
    assert all(place[needed] < place[one] for one in listed for needed in one.needs)


def test_a_row_that_is_taught_has_the_modes_of_another_and_trains_otherwise():
    taught, bound = cell("pomp-taught", stage="learn"), cell("pomp-bound", stage="learn")
    assert taught.needs == bound.needs == (cell("pomp-bound", stage="search"),)
    assert cell("pomp-taught").needs == (taught,)
    assert taught.learning.teaching.steps > 0 == bound.learning.teaching.steps
    assert taught.fingerprint() != bound.fingerprint()
    assert "teaching" not in bound.settings()["learning"]
    other = (("search.proposer.sigma", 0.25),)
    assert cell("pomp-taught", stage="learn", changes=other).fingerprint() != taught.fingerprint()
    assert cell("hprl", changes=(("teaching.steps", 5),)) == cell("hprl")
    pieces = cut([taught, bound], "cuda")
    assert [(kind_of(one), piece.cells) for piece in pieces for one in piece.cells] == [
        ("learn", (taught,)),
        ("learn", (bound,)),
    ]


def test_cells_go_through_json():
    one = cell(scale=2, budget=0.5, changes=(("ppo.entropy", 0.1),))
    assert Cell.from_json(json.loads(json.dumps(one.to_json()))) == one


@pytest.mark.parametrize("method", ROWS)
@pytest.mark.parametrize("stage", ["search", "learn", "policy"])
def test_every_cell_says_what_it_is_computed_with(method, stage):
    has_search = ROWS[method].kind == "modes" and not ROWS[method].same_modes
    has = {"search": has_search, "learn": cell(method).has_network}
    if not has.get(stage, True):
        pytest.skip("this method has no such stage")
    told = cell(method, "Seesaw", stage=stage)
    assert json.loads(json.dumps(told.settings()))["task"]["variant"] == "hipo"
    assert told.fingerprint() == cell(method, "Seesaw", 7, stage=stage).fingerprint()
    assert told.fingerprint() != cell(method, "UpNDown", stage=stage).fingerprint()


def test_the_fingerprint_notices_a_setting_of_an_earlier_stage():
    other = cell(changes=(("search.proposer.sigma", 0.25),))
    assert other.fingerprint()["settings"] != cell().fingerprint()["settings"]
    assert cell(scale=2, changes=other.changes).fingerprint() != cell(scale=2).fingerprint()


def test_a_budget_scales_the_work_of_every_method():
    small = 0.001
    assert cell("cem", "Maze", budget=small).search.proposer.iterations == 1
    assert cell("cem", "Maze", budget=0.25).search.proposer.iterations == 250
    assert cell("annealing", "Maze", budget=small).search.proposer.candidates == 1000
    assert cell("drl", budget=small, stage="learn").learning.ppo.total == 20_000
    assert cell("text", budget=small).evolution.steps == 20
    assert cell("drl", budget=1e-4, stage="learn").learning.ppo.updates == 1
    lessons = cell("pomp-taught", budget=small, stage="learn").learning.teaching
    assert (lessons.steps, lessons.rounds, lessons.choices) == (4, 1, 10)


def test_what_a_row_does_not_have_is_not_set_there():
    tries = (("tries", 3),)
    assert cell("psmp", stage="learn", changes=tries).learning.tries == 3
    plain, same = (cell("hprl", stage="learn", changes=one) for one in ((), tries))
    assert same.meta == plain.meta


def test_a_training_ends_after_ten_million_steps_without_progress():
    for method in ("pomp", "drl"):
        config = cell(method, stage="learn").learning
        waits = config.validation.patience * config.validation.every * config.ppo.rollout
        assert PLATEAU_STEPS <= waits < PLATEAU_STEPS + config.validation.every * config.ppo.rollout
    assert cell("pomp", stage="learn", preset="best").learning.validation.patience == 8


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"method": "pom"}, "unknown method 'pom'. Did you mean 'pomp'"),
        ({"task": "Farmers"}, "unknown task 'Farmers'. Did you mean 'Farmer'"),
        ({"preset": "papers"}, "unknown preset 'papers'"),
        ({"budget": 0.0}, "a budget is from 0.0001 to 1, got 0"),
        ({"budget": 2.0}, "a budget is from 0.0001 to 1, got 2"),
        ({"seed": -1}, "a seed is a whole number"),
    ],
)
def test_what_no_cell_can_be(fields, message):
    with pytest.raises((ConfigError, UnknownNameError), match=message):
        cell(**{"method": "pomp", **fields})


# Experiments


def test_the_tables_have_every_row_of_the_paper_but_those_that_are_not_built():
    missing = {"table1": set(), "table2": set()}
    for name, absent in missing.items():
        experiment = EXPERIMENTS[name]
        for task in experiment.tasks:
            ours = {paper for method in experiment.methods for paper in ROWS[method].paper}
            assert set(published_rows(task)) - ours == absent


def test_the_tables_have_every_task_once():
    tasks = [*EXPERIMENTS["table1"].tasks, *EXPERIMENTS["table2"].tasks]
    assert sorted(tasks) == sorted(task.name for task in TASKS)


def test_published_numbers_stand_beside_the_right_rows():
    assert ROWS["pomp"].published("Farmer") == {"mean": 0.62, "std": 0.02}
    assert ROWS["drl"].published("Snake") == {"mean": 0.67, "std": 0.17}
    assert ROWS["text"].published("Farmer") is None


def test_an_experiment_can_be_restricted():
    cells = list_cells("table2", seeds=[3], methods=["drl"], tasks=["Farmer"])
    assert cells == [cell("drl", "Farmer", 3, stage="learn"), cell("drl", "Farmer", 3)]
    with pytest.raises(ConfigError, match="nothing is left"):
        list_cells("table1", methods=["psmp"])
    with pytest.raises(UnknownNameError, match="unknown experiment 'table3'"):
        find_experiments("table3")
    with pytest.raises(UnknownNameError, match=r"unknown .*'search.nothing'|unknown .*'nothing'"):
        list_cells("table1", methods=["cem"], settings={"search.nothing": 1})


# Pieces


def test_on_a_gpu_cells_share_batches_and_elsewhere_they_are_alone():
    cells = list_cells("table2", seeds=[0, 1], methods=["pomp", "cem-xm", "drl", "text"])
    alone = cut(cells, "cpu")
    assert sorted(piece.cells[0].name for piece in alone) == sorted(one.name for one in cells)
    shared = cut(cells, "cuda")
    assert sorted(one.name for piece in shared for one in piece.cells) == sorted(
        one.name for one in cells
    )
    sizes = {}
    for piece in shared:
        sizes.setdefault(piece.kind, []).append(len(piece.cells))
        assert {kind_of(one) for one in piece.cells} == {piece.kind}
    assert sorted(sizes["search"]) == [10, 10]  # five tasks and two seeds of each method
    # Two methods share their settings; three tasks have one size of grid, two the other.
    assert sorted(sizes["learn"]) == [4, 6, 8, 12]
    assert set(sizes["evaluate"]) == set(sizes["evolve"]) == {1}
    assert {piece.device for piece in shared if piece.kind in ("evaluate", "evolve")} == {"cpu"}


def test_a_piece_has_its_tasks_side_by_side_and_a_name_of_its_own():
    cells = list_cells("table2", seeds=[0, 1], methods=["pomp", "cem-xm"])
    for piece in cut(cells, "cuda"):
        tasks = [one.task for one in piece.cells]
        assert tasks == sorted(tasks)
    assert len({piece.name for piece in cut(cells, "cuda")}) == len(cut(cells, "cuda"))
    assert [one.name for one in cut(cells, "cuda")] == [one.name for one in cut(cells, "cuda")]
