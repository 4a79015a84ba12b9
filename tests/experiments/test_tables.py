"""The paper's tables with our numbers, by hand on small stores."""

from math import sqrt

import pytest

from pomp.core import ConfigError, DataFileError
from pomp.experiments.reporting.table_grids import grid_of_numbers, grid_of_table, grid_of_tasks
from pomp.experiments.store import pack
from pomp.experiments.tables import compare_over_tasks, make_tables, read_together
from stores import finish, keep, make_cell, seeds_of

POMP = (0.5, 0.6, 0.6, 0.6, 0.7)


def table_of(*results, name="table2"):
    return next(table for table in make_tables(results) if table.name == name)


def entry_of(method, task, *results, name="table2", best_of_runs=False):
    lines = table_of(*results, name=name).lines
    return next(
        line.entries[task]
        for line in lines
        if (line.method, line.is_best_of_runs) == (method, best_of_runs)
    )


def shown(grid):
    """Return a table's texts: a row each, with its name; bold, underlined and marked as `*_^v`."""
    signs = {"": "", "above": "^", "below": "v"}
    return [
        [
            row.name,
            *(
                "*" * entry.is_best
                + "_" * entry.is_best_of_paper
                + signs[entry.mark]
                + " ".join(part for part in (entry.text, entry.note) if part)
                for entry in row.entries
            ),
        ]
        for row in grid.rows
    ]


# Entries


def test_an_entry_is_mean_and_population_deviation_beside_the_papers():
    entry = entry_of("pomp", "Farmer", *seeds_of("pomp", "Farmer", POMP, ceiling=0.835))
    assert entry.summary.mean == pytest.approx(0.6)
    assert entry.summary.population_sd == pytest.approx(sqrt(0.02 / 5))
    half = 2.7764451052 * sqrt(0.02 / 4) / sqrt(5)  # Student's t with four degrees of freedom
    assert entry.summary.interval == pytest.approx((0.6 - half, 0.6 + half))
    assert entry.published == (0.62, 0.02)
    assert entry.shift == pytest.approx(-0.02)
    assert entry.summary.fraction == pytest.approx(0.6 / 0.835)
    assert (entry.summary.solved, entry.mark) == (0, "")


@pytest.mark.parametrize(
    ("means", "mark"),
    [
        pytest.param([0.998] * 5, "", id="what two decimals may hide"),
        pytest.param([0.9] * 5, "below", id="far below"),
        pytest.param([0.9, 1.0, 1.0, 1.0, 1.0], "", id="noise"),
        pytest.param([0.9], "", id="one seed is not tested"),
    ],
)
def test_marks_are_set_where_a_difference_is_beyond_noise(means, mark):
    results = seeds_of("cem-diversity", "Maze", means)
    assert entry_of("cem-diversity", "Maze", *results, name="table1").mark == mark


def test_a_mark_tells_in_which_direction():
    results = seeds_of("pomp", "Snake", [0.95] * 5)
    assert entry_of("pomp", "Snake", *results, name="table1").mark == "above"


def test_the_best_of_runs_is_a_line_of_its_own_where_it_differs():
    chosen = seeds_of("leaps", "Farmer", (0.03, 0.03), best_of_runs=0.05)
    same = seeds_of("hill-climbing", "Farmer", (0.5, 0.5), best_of_runs=0.5)
    table = table_of(*chosen, *same)
    assert [(line.label, line.is_best_of_runs) for line in table.lines] == [
        ("LEAPS", False),
        ("LEAPS, best of runs", True),
        ("hill climbing", False),
    ]
    best = entry_of("leaps", "Farmer", *chosen, best_of_runs=True)
    assert (best.summary.mean, best.published) == (0.05, (0.03, 0.0))
    assert (best.mark, entry_of("leaps", "Farmer", *chosen).mark) == ("above", "")


def test_searches_and_longer_tasks_are_in_no_table():
    results = [finish(make_cell(stage="search"), ()), finish(make_cell(scale=2))]
    assert make_tables(results) == []


def test_a_table_says_what_it_lacks():
    table = table_of(*seeds_of("pomp", "Farmer", POMP), *seeds_of("drl", "Seesaw", (0.0,)))
    assert table.tasks == ("Seesaw", "Farmer")
    assert table.absent_tasks == ("UpNDown", "InfDoorKey", "InfHarvester")
    assert "PSMP" in table.absent_methods
    assert "POMP" not in table.absent_methods
    assert table.paper_only == ()
    assert table.seeds == (0, 1, 2, 3, 4)


def test_a_result_without_its_number_is_named():
    broken = finish(make_cell(), mean="much")
    with pytest.raises(DataFileError, match="paper/pomp/Farmer/seed0 has no mean"):
        make_tables([broken])


# As they are printed


def test_bold_is_the_best_of_a_column_to_the_digits_printed():
    table = table_of(
        *seeds_of("leaps", "Farmer", (0.03, 0.03), best_of_runs=0.99),
        *seeds_of("pomp", "Farmer", (0.6, 0.62)),
        *seeds_of("random", "Farmer", (0.611, 0.611)),
        *seeds_of("drl", "Seesaw", (0.0, 0.0)),
        *seeds_of("text", "Seesaw", (0.9, 0.904)),
        *seeds_of("best", "Seesaw", (0.9,)),
    )
    assert shown(grid_of_table(table)) == [
        ["Methods of the paper"],
        ["DRL", "_0.00 ± 0.00", "-"],
        ["Random Transition", "-", "*^0.61 ± 0.00"],
        ["LEAPS", "-", "0.03 ± 0.00"],
        ["best of runs", "-", "^0.99 ± 0.00"],
        ["POMP", "-", "*0.61 ± 0.01"],
        ["Beside them"],
        ["rules, perceptions", "*0.90 ± 0.00", "-"],
        ["rules, compass", "*0.90 ± 0.00 (1 of 2 seeds)", "-"],
    ]


def test_the_papers_number_stands_below_ours_also_where_ours_is_missing():
    table = table_of(*seeds_of("pomp", "Farmer", (0.6,)), *seeds_of("drl", "Seesaw", (0.0,)))
    [_, drl, pomp] = grid_of_table(table).rows
    assert [entry.below for entry in drl.entries] == ["0.00 ± 0.01", "0.38 ± 0.25"]
    assert [entry.text for entry in pomp.entries] == ["-", "0.60 ± 0.00"]
    assert pomp.entries[0].below == "0.53 ± 0.10"


def test_the_legend_counts_marks_and_what_chance_would_mark():
    few = table_of(*seeds_of("pomp", "Farmer", (0.1, 0.1)), *seeds_of("pomp", "Seesaw", (0.5, 0.5)))
    assert "1 of 2 comparisons are marked" in grid_of_table(few).caption
    one = table_of(*seeds_of("pomp", "Farmer", (0.1,)))
    assert grid_of_table(one).caption.startswith("One seed.")
    assert "Nothing is tested with a single seed." in grid_of_table(one).caption


def test_all_numbers_have_a_row_for_each_method_and_task():
    table = table_of(*seeds_of("text", "Farmer", (1.0, 0.5)), *seeds_of("pomp", "Farmer", (0.62,)))
    assert shown(grid_of_numbers(table)) == [
        ["Farmer"],
        [
            *("POMP", "1", "0.620", "0.000", "-", "0.62 ± 0.02", "+0.000", "-", "-"),
            *("62%", "0 of 1", "0% to 79%"),
        ],
        [
            *("rules, perceptions", "2", "*0.750", "0.250", "-2.427 to 3.927", "-", "-", "-", "-"),
            *("75%", "1 of 2", "9% to 91%"),
        ],
    ]


def test_at_a_glance_are_all_tasks_of_both_tables():
    tables = make_tables(
        [
            *seeds_of("pomp", "Maze", (1.0,)),
            *seeds_of("best", "Farmer", (0.8,), ceiling=0.835),
            *seeds_of("cem", "Maze", (0.0,)),
        ]
    )
    grid = grid_of_tasks(tables)
    assert grid.head == ("task", "POMP, paper", "POMP", "rules, compass", "ceiling")
    assert shown(grid) == [
        ["Maze", "1.00 ± 0.00", "*1.00 ± 0.00", "-", "1"],
        ["Farmer", "0.62 ± 0.02", "-", "*0.80 ± 0.00", "0.835"],
    ]
    assert grid_of_tasks(make_tables(seeds_of("cem", "Maze", (0.0,)))) is None


# Over tasks


def test_over_tasks_shares_of_ceilings_are_compared():
    table = table_of(
        *seeds_of("pomp", "Farmer", (0.4, 0.4), ceiling=0.8),
        *seeds_of("pomp", "Seesaw", (0.9, 0.9), ceiling=0.9),
        *seeds_of("drl", "Farmer", (0.4, 0.0), ceiling=0.8),
        *seeds_of("text", "Seesaw", (0.9,), ceiling=0.9),
    )
    drl, pomp, text = compare_over_tasks(table, repetitions=50)
    assert (pomp.method, pomp.tasks, pomp.mean) == ("pomp", 2, pytest.approx(0.75))
    assert pomp.improvement is None
    assert pomp.mean_interval == pytest.approx((0.75, 0.75))
    assert (drl.tasks, drl.shared_tasks, drl.mean) == (1, 1, 0.25)
    assert drl.improvement == 0.75  # a tie and a win
    assert drl.improvement_interval == (0.5, 1.0)
    assert (text.improvement, text.improvement_interval, text.mean_interval) == (0.5, None, None)


def test_without_pomp_nothing_is_an_improvement():
    [drl] = compare_over_tasks(table_of(*seeds_of("drl", "Farmer", (0.4, 0.0))), repetitions=5)
    assert (drl.improvement, drl.shared_tasks) == (None, 0)


# What belongs together


def test_results_that_do_not_belong_together_are_refused(tmp_path):
    first = seeds_of("pomp", "Farmer", (0.5,))
    for change in ({"engine": 2}, {"method": 2}, {"settings": "other"}, {"budget": 0.5}):
        other = finish(make_cell(seed=1), fingerprint=change)
        store = keep(tmp_path / str(change), [*first, other])
        with pytest.raises(ConfigError, match=f"does not belong beside.*its {next(iter(change))}"):
            read_together(store)


def test_a_store_of_several_budgets_is_reported_part_by_part(tmp_path):
    whole = seeds_of("pomp", "Farmer", (0.5, 0.5))
    rehearsal = seeds_of("pomp", "Farmer", (0.1,), budget=0.001)
    store = keep(tmp_path / "store", [*whole, *rehearsal])
    listed = r"Parts that can be chosen: paper \(2 cells\), paper-0.001 \(1 cells\)"
    with pytest.raises(ConfigError, match=listed):
        read_together(store)
    assert len(read_together(store, ["paper"])) == 2
    assert [one.mean for one in read_together(store, ["paper-0.001"])] == [0.1]
    with pytest.raises(ConfigError, match="there are no results of 'best'; there are: paper"):
        read_together(store, ["best"])


def test_no_results_and_results_twice_are_refused(tmp_path):
    with pytest.raises(DataFileError, match="there are no results"):
        read_together(keep(tmp_path / "store", []))
    packed = tmp_path / "twice.jsonl.gz"
    packed.write_bytes(pack(seeds_of("pomp", "Farmer", (0.5,)) * 2))
    with pytest.raises(DataFileError, match="has paper/pomp/Farmer/seed0 twice"):
        read_together(packed)
