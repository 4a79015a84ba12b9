"""What a report's figures and its account of costs show, by hand on small stores."""

import numpy as np
import pytest

from pomp.core.storage import write_arrays
from pomp.experiments.reporting.costs import count_costs, count_origins, list_fingerprints
from pomp.experiments.reporting.figures import (
    show_machines,
    trace_curves,
    trace_horizons,
    trace_paths,
)
from pomp.experiments.store import pack
from pomp.machine.zoo import ZOO
from stores import PROGRAM, finish, keep, make_cell, seeds_of

T_OF_ONE = 12.7062047362  # Student's t with one degree of freedom, 97.5 %
RULES = {path.name: path.read_bytes() for path in (ZOO / "Farmer" / "text").iterdir()}


def test_a_curve_is_the_mean_of_what_its_seeds_hold():
    results = [
        finish(make_cell(seed=0), curve=[[10, 0.0], [100, 0.4], [1000, 0.4]], ceiling=0.8),
        finish(make_cell(seed=1), curve=[[20, 0.2], [50, 0.6]], ceiling=0.8),
        finish(make_cell("drl", seed=0), curve=[[5, 0.9]]),  # no method of this figure
        finish(make_cell("leaps", seed=0), curve=[]),
    ]
    [chart] = trace_curves(results)
    [band] = chart.bands
    assert (chart.task, band.method, band.seeds) == ("Farmer", "pomp", 2)
    assert (band.at[0], band.at[-1]) == (20, 1000)  # from where both have begun
    means = dict(zip(band.at, band.means, strict=True))
    assert (means[20], means[1000]) == (pytest.approx(0.1), pytest.approx(0.5))
    assert all(mean == pytest.approx(0.3) for at, mean in means.items() if 50 <= at < 100)
    assert band.high[-1] - band.means[-1] == pytest.approx(T_OF_ONE * 0.1)
    assert band.means[-1] - band.low[-1] == pytest.approx(T_OF_ONE * 0.1)
    assert chart.ceiling == {20: 0.8, 1000: 0.8}


def test_a_horizon_is_the_mean_at_each_length():
    results = [
        *seeds_of("pomp", "Farmer", (0.5, 0.7), ceiling=0.8),
        *seeds_of("pomp", "Farmer", (0.25,), scale=16, ceiling=0.9),
        *seeds_of("drl", "Farmer", (0.5,)),  # a point alone is no line
        *seeds_of("leaps", "Farmer", (0.5,), scale=4),  # no method of this figure
    ]
    [chart] = trace_horizons(results)
    [band] = chart.bands
    assert (band.at, band.means) == ((1, 16), (pytest.approx(0.6), 0.25))
    assert (band.seeds, band.low[1], band.high[1]) == (1, 0.25, 0.25)
    assert chart.ceiling == {1: 0.8, 16: 0.9}


def test_the_machine_of_the_seed_that_was_best_in_validation_is_shown(tmp_path):
    cells = [make_cell("text", seed=seed) for seed in range(3)]
    results = [
        finish(cell, (mean,), validation=validation)
        for cell, mean, validation in zip(cells, (0.9, 0.5, 0.7), (0.1, 0.8, 0.3), strict=True)
    ]
    store = keep(tmp_path / "store", results, {cell: RULES for cell in cells})
    [shown] = show_machines(store, results)
    assert (shown.cell.seed, shown.mean) == (1, 0.5)
    assert shown.text.startswith("machine Farmer\n")
    assert shown.svg.startswith("<svg ")


def test_of_a_packed_file_the_modes_are_known(tmp_path):
    results = seeds_of("text", "Farmer", (0.5,), validation=0.5, programs=[PROGRAM, PROGRAM])
    packed = tmp_path / "all.jsonl.gz"
    packed.write_bytes(pack(results))
    [shown] = show_machines(packed, results)
    assert shown.text == f"mode 1: {PROGRAM}\nmode 2: {PROGRAM}\n"
    assert shown.svg == ""
    assert trace_paths(packed, results) == []


def test_the_paths_of_the_first_seed_that_has_kept_some_are_shown(tmp_path):
    file = tmp_path / "trajectory.safetensors"
    runs = {"run0": np.eye(3, 4, dtype=np.float16), "run1": np.ones((2, 4), np.float16)}
    write_arrays(file, runs, {"task": "FourCorner"})
    results = seeds_of("cem", "FourCorner", (0.5, 0.5))
    files = {results[1].cell: {file.name: file.read_bytes()}}
    [paths] = trace_paths(keep(tmp_path / "store", results, files), results)
    assert paths.name == "CEM on FourCorner, seed 1"
    assert [run.shape for run in paths.points] == [(3, 2), (2, 2)]


# Costs


def test_a_policy_costs_what_its_modes_and_its_training_cost():
    policies = [make_cell(seed=seed) for seed in range(2)]
    results = []
    for policy in policies:
        [learn] = policy.needs
        [search] = learn.needs
        cost = {"candidates": 10, "executions": 100 * (1 + policy.seed), "steps": 50}
        results += [
            finish(search, (), cost={"seconds": 60.0}, made={"hardware": "a GPU"}),
            finish(learn, (), cost={"seconds": 30.0}, made={"hardware": "a GPU"}),
            finish(policy, cost={**cost, "seconds": 30.0}, ended="plateau" if policy.seed else ""),
        ]
    [found] = count_costs(results)
    assert (found.method, found.cells, found.plateaus) == ("pomp", 2, 1)
    assert found.counts == {"candidates": 10, "executions": 150, "actions": None, "steps": 50}
    assert (found.seconds, found.all_seconds) == (90.0, 180.0)
    assert found.hardware == ("a GPU",)


def test_work_that_is_not_in_the_store_is_not_guessed():
    [found] = count_costs(seeds_of("pomp", "Farmer", (0.5,), cost={"seconds": 3.0}))
    assert (found.seconds, found.all_seconds, found.hardware) == (None, None, ())
    [found] = count_costs(seeds_of("cem", "Farmer", (0.5,), cost={"seconds": 3.0}))
    assert (found.seconds, found.all_seconds) == (3.0, 3.0)


def test_origins_are_counted():
    results = [
        *seeds_of("cem", "Farmer", (0.5, 0.5)),
        *seeds_of("text", "Farmer", (0.5,), made={"commit": None, "date": "2026-02-01"}),
    ]
    found = count_origins(results)
    assert found["commit"] == {"c0ffee": 2, "unknown": 1}
    assert found["date"] == {"2026-01-31": 2, "2026-02-01": 1}
    assert found["method revision"] == {"cem 1": 2, "text 1": 1}
    assert (found["budget"], found["changed settings"]) == ({"1": 3}, {"none": 3})
    assert list_fingerprints(results)["text"] == {"Farmer": "text-Farmer-policy-x1"}
