"""Networks that are shown what to choose before PPO begins."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from playing import task

from pomp.core.errors import ConfigError, TrainingError
from pomp.learning.config import configure_learning
from pomp.learning.members import Member
from pomp.learning.training import Training
from pomp.machine.evaluation import evaluate
from pomp.machine.teaching import ShownChoices
from pomp.runs.folder import RunFolder
from pomp.runs.transitions import TransitionsRun

DATA = Path(__file__).parents[1] / "data"
PRINTED = tuple(json.loads((DATA / "paper_programs.json").read_text())["Up-N-Down"])
STAIRS = task("UpNDown")
TINY = {
    "ppo.total": 4 * 32,
    "ppo.actors": 4,
    "ppo.steps": 8,
    "ppo.minibatch": 16,
    "ppo.learning_rate": 1e-6,
    "network.hidden": 16,
    "validation.every": 4,
    "validation.episodes": 8,
    "teaching.steps": 150,
    "teaching.choices": 1,
    "teaching.rounds": 2,
    "teaching.batch": 64,
}


def settings(**changes):
    named = {name.replace("__", "."): value for name, value in changes.items()}
    return configure_learning("paper", {**TINY, **named})


def run_of(path, config, seeds=(0,)):
    members = [Member(STAIRS, PRINTED, seed, config.ppo.learning_rate) for seed in seeds]
    training = Training(members, config, "cpu")
    folder = RunFolder(path)
    folder.make()
    return TransitionsRun(training, folder, "transitions")


def finish(run):
    while not run.is_finished:
        run.advance(lambda: False)
    run.save()
    return run


def test_what_a_planner_showed_is_kept_if_ppo_finds_nothing_better(tmp_path):
    config = settings(teaching__steps=600)
    taught = finish(run_of(tmp_path / "taught", config)).training
    plain = finish(run_of(tmp_path / "plain", settings(teaching__steps=0))).training
    assert taught.kept[0].update == 0  # of the validation before the first update
    assert taught.kept[0].score > 0.3 > (plain.kept[0].score or 0)
    assert evaluate(taught.machine(0, {}), episodes=16, seed=3).mean > 0.3


def test_a_training_that_is_stopped_while_it_is_taught_begins_again_and_ends_alike(tmp_path):
    finish(run_of(tmp_path / "whole", settings(teaching__steps=60), seeds=(0, 1)))
    stopped = run_of(tmp_path / "stopped", settings(teaching__steps=60), seeds=(0, 1))
    for _ in range(3):  # the planner has shown both, and the first round is taken
        stopped.advance(lambda: False)
    stopped.save()
    assert not list((tmp_path / "stopped").glob("*.safetensors"))
    again = run_of(tmp_path / "stopped", settings(teaching__steps=60), seeds=(0, 1))
    again.open()
    finish(again)
    name = "ensemble8x8.safetensors"
    assert (tmp_path / "stopped" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_training_that_is_stopped_later_is_not_taught_twice(tmp_path):
    config = settings(teaching__steps=60)
    whole = finish(run_of(tmp_path / "whole", config))
    stopped = run_of(tmp_path / "stopped", config)
    while stopped.training.update < 2:
        stopped.advance(lambda: False)
    stopped.save()
    again = run_of(tmp_path / "stopped", config)
    again.open()
    assert again.training.update == 2
    finish(again)
    name = "ensemble8x8.safetensors"
    assert (tmp_path / "stopped" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert whole.records == again.records


def one_choice(choice, value):
    planes, modes = np.zeros((1, 8, 8, 8), np.uint8), np.array([-1])
    return ShownChoices(planes, modes, np.array([choice]), np.array([value], np.float32))


def begun(**changes):
    members = [Member(STAIRS, PRINTED, seed, 1e-3) for seed in (0, 1)]
    training = Training(members, settings(**changes), "cpu")
    return training, training.begin_teaching()


def test_members_learn_what_each_of_them_was_shown():
    training, teaching = begun(teaching__steps=500, teaching__rounds=1)
    for number, (choice, value) in enumerate(((0, 0.25), (len(PRINTED), -0.5))):
        assert teaching.waiting == number
        assert teaching.leader(number) is None
        teaching.show(number, one_choice(choice, value))
    teaching.advance(1000)
    assert teaching.is_over
    assert teaching.taken == 500
    seen = torch.zeros((2, 1, 8, 8, 8), dtype=torch.uint8), torch.full((2, 1), -1)
    logits, values = training.learner.network(training.learner.parameters, *seen)
    assert logits.argmax(-1).flatten().tolist() == [0, len(PRINTED)]
    assert values.flatten().tolist() == pytest.approx([0.25, -0.5], abs=0.02)
    planes, modes = np.zeros((200, 8, 8, 8), np.uint8), np.full(200, -1)
    chosen = [np.bincount(teaching.leader(number)(planes, modes)).argmax() for number in (0, 1)]
    assert chosen == [0, len(PRINTED)]


def test_every_round_has_its_share_of_the_steps_and_waits_for_all_members():
    _, teaching = begun(teaching__steps=10, teaching__rounds=3)
    rounds = []
    while not teaching.is_over:
        while (number := teaching.waiting) is not None:
            teaching.advance(100)
            teaching.show(number, one_choice(0, 0.0))
        teaching.advance(100)
        rounds.append(teaching.taken)
    assert rounds == [4, 7, 10]
    assert teaching.episodes == [3, 3]


@pytest.mark.parametrize(
    "changes", [{"network__memory": 8, "ppo__minibatch": 32}, {"network__inputs": "grid"}]
)
def test_networks_that_cannot_be_taught_are_refused(changes):
    with pytest.raises(ConfigError, match=r"teaching\.steps must be 0 here"):
        settings(**changes)


def test_too_large_steps_of_teaching_are_told_as_such(tmp_path):
    run = run_of(tmp_path, settings(teaching__steps=50, teaching__learning_rate=900.0))
    with pytest.raises(TrainingError, match=r"try a smaller teaching\.learning_rate than 900"):
        finish(run)
