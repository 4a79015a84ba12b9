"""Small runs recorded at version 0.1.0 (commit 154c4c4) still give the same results.

`search-bound`, `hprl` and `train-mmn` were recorded when they were added; the first with the
paper's procedure as it is written. The evolutions were recorded anew with every change of their
search, and have ten rounds, so that they also show rounds that go on with a population.

`tests/data/recorded_runs.json` holds them. A change that moves one of them moves published numbers:
record it anew only together with a **Results** entry in the changelog. What torch computes is
compared to four digits, since its sums depend on the processor.
"""

import json
from pathlib import Path

import pytest

import pomp
from pomp.embedding import DatasetConfig, ModelConfig, TrainingConfig, make_dataset
from pomp.embedding.config import ReinforceConfig
from pomp.hprl.config import configure_hprl
from pomp.hprl.training import MetaTraining, meta_member
from pomp.learning import Member, Training, configure_learning
from pomp.learning.baselines import ACTIONS, BASELINES
from pomp.machine import print_machine
from pomp.runs import EmbeddingRun
from pomp.runs.embeddings import read_epochs
from pomp.tasks import find_task
from spaces import NONE, Signs

RECORDED = json.loads((Path(__file__).parents[1] / "data" / "recorded_runs.json").read_text())
SMALL = {"chains": 8, "starts": 4, "validation_starts": 8, "steps": 200}
FEW = {"mode.runs": 2, "proposer.iterations": 6, "proposer.population": 16}
AS_PUBLISHED = {
    **{"embedding": "best", "proposer.reduce": "weighted_mean", "score.bonus": 0.1},
    **{"mode.select": "undiversified", "mode.diversity": "modes+runs"},
}
COSTS = ("program", "score", "return", "candidates", "executions", "actions")


@pytest.mark.parametrize(
    ("name", "task", "sensors", "seed"),
    [("evolve-farmer", "Farmer", "perceptions", 0), ("evolve-up", "UpNDown", "compass", 2)],
)
def test_an_evolution_finds_the_machine_it_found(name, task, sensors, seed):
    found = pomp.evolve(task, sensors=sensors, seeds=seed, rounds=10, settings=SMALL).best
    recorded = RECORDED[name]
    assert print_machine(found.machine) == recorded["machine"]
    assert (found.row["validation"], found.mean) == (recorded["validation"], recorded["mean"])
    spent = found.row["search"]
    assert (spent["machines"], spent["actions"]) == (recorded["machines"], recorded["actions"])


@pytest.mark.parametrize(
    ("name", "task", "asked"),
    [
        (
            "search-anneal",
            "Seesaw",
            {
                "method": "annealing",
                "seeds": (0, 1),
                "settings": {"proposer.candidates": 1280},
            },
        ),
        (
            "search-hill",
            "Farmer",
            {"method": "hill-climbing", "settings": {"proposer.candidates": 2000}},
        ),
        (
            "search-ps",
            "Seesaw",
            {
                "method": "pomp-program-space",
                "modes": 2,
                "preset": "code",
                "settings": {"mode.runs": 2, "proposer.candidates": 400},
            },
        ),
        ("search-pomp", "UpNDown", {"modes": 2, "settings": {**FEW, **AS_PUBLISHED}}),
        ("search-bound", "UpNDown", {"modes": 2, "settings": {**FEW, "mode.select": "bound"}}),
    ],
)
def test_a_search_finds_the_modes_it_found(name, task, asked):
    found = pomp.search(task, **asked)
    assert [
        [{cost: mode[cost] for cost in COSTS} for mode in one["modes"]] for one in found.searches
    ] == RECORDED[name]


def test_transitions_learn_what_they_learned(tmp_path):
    modes = (
        "DEF run m( turnLeft move turnRight move m)",
        "DEF run m( WHILE c( frontIsClear c) w( move w) turnRight turnRight m)",
    )
    settings = {"ppo.total": 512, "ppo.actors": 8, "ppo.steps": 16, "ppo.minibatch": 32}
    settings |= {"validation.every": 2, "validation.episodes": 8}
    out = tmp_path / "run"
    pomp.train("UpNDown", preset="paper", modes=modes, settings=settings, out=out)
    lines = (out / "UpNDown" / "seed0" / "metrics.jsonl").read_text().splitlines()
    for line, recorded in zip(map(json.loads, lines), RECORDED["train"], strict=True):
        assert line.keys() == recorded.keys()
        for name, value in recorded.items():
            expected = value if value is None else pytest.approx(value, rel=1e-4, abs=1e-6)
            assert line[name] == expected, name


def test_a_meta_policy_learns_what_it_learned():
    space = Signs(
        "DEF run m( WHILE c( frontIsClear c) w( putMarker move w) m)",
        "DEF run m( turnLeft m)",
        "DEF run m( putMarker move m)",
        NONE,
    )
    sizes = {"ppo.total": 256, "ppo.actors": 8, "ppo.steps": 16, "ppo.minibatch": 32}
    config = configure_hprl("paper", {**sizes, "validation.every": 1})
    members = [meta_member(pomp.find_task("Seeder").configure(), 0, config)]
    training = MetaTraining(members, config, "cpu", space)
    for recorded in RECORDED["hprl"]:
        [found] = training.step()
        assert found.keys() == recorded.keys()
        for name, value in recorded.items():
            expected = value if value is None else pytest.approx(value, rel=1e-4, abs=1e-6)
            assert found[name] == expected, name


def test_a_network_that_remembers_learns_what_it_learned():
    changes = {**BASELINES["mmn"].changes, "ppo.total": 256, "ppo.actors": 4, "ppo.steps": 16}
    changes |= {"ppo.minibatch": 32, "validation.every": 2, "validation.episodes": 4}
    config = configure_learning("paper", {**changes, "episode.most_steps": 40})
    training = Training([Member(find_task("Maze").configure(), ACTIONS, 0, 1e-3)], config, "cpu")
    for recorded in RECORDED["train-mmn"]:
        training.step()
        [found] = training.step()
        for name, value in recorded.items():
            expected = value if value is None else pytest.approx(value, rel=1e-4, abs=1e-6)
            assert found[name] == expected, name
    assert training.is_finished


def test_an_embedding_learns_what_it_learned(tmp_path):
    training = TrainingConfig(
        epochs=2,
        batch=32,
        demonstrations=2,
        model=ModelConfig(latent=16, width=16, policy_width=16),
        reinforce=ReinforceConfig(start_accuracy=0.0, batch=32, states=3),
    )
    data = make_dataset(DatasetConfig(train=128, validation=32, test=16, seed=5))
    assert EmbeddingRun(training, data, tmp_path / "run").run({})
    for found, recorded in zip(read_epochs(tmp_path / "run"), RECORDED["embedding"], strict=True):
        assert found.keys() - {"seconds"} == recorded.keys()
        for part in ("train", "validation"):
            assert found[part] == pytest.approx(recorded[part], rel=1e-4)
        assert found["reward"] == pytest.approx(recorded["reward"], rel=1e-3)
