"""Tiny trainings: the same bytes twice, checkpoints, what validation keeps, when it stops."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from playing import task

from pomp.core.errors import ConfigError, TrainingError
from pomp.learning.config import configure_learning
from pomp.learning.members import Kept, Member
from pomp.learning.training import Training
from pomp.machine.evaluation import evaluate
from pomp.machine.policy import ProgramMachine

GO, TURN, LONG_WALK = (
    "DEF run m( move m)",
    "DEF run m( turnLeft m)",
    "DEF run m( WHILE c( frontIsClear c) w( move w) turnRight m)",
)
CLIMB = "DEF run m( turnLeft move turnRight move m)"
HARVEST = "DEF run m( WHILE c( markersPresent c) w( pickMarker move w) turnLeft move m)"
TINY = {
    "ppo.total": 6 * 32,
    "ppo.actors": 4,
    "ppo.steps": 8,
    "ppo.minibatch": 16,
    "ppo.epochs": 2,
    "network.hidden": 8,
    "episode.most_steps": 20,
    "validation.every": 2,
    "validation.episodes": 4,
}


def settings(**changes):
    named = {name.replace("__", "."): value for name, value in changes.items()}
    return configure_learning("paper", {**TINY, **named})


HARVESTER, MAZE, DOORS = task("Harvester"), task("Maze"), task("DoorKey")


def seeker(seed=0, rate=1e-3):
    return Member(MAZE, (GO, TURN, LONG_WALK), seed, rate)


def harvester(seed=0, rate=1e-3):
    return Member(HARVESTER, (HARVEST, GO, TURN, LONG_WALK, CLIMB), seed, rate)


def train(members, config):
    """A whole training; it, and the records of every validation."""
    training = Training(members, config, "cpu")
    records = []
    while not training.is_finished:
        if told := training.step():
            records.append(told)
    return training, records


def finish(training):
    while not training.is_finished:
        training.step()


def bytes_of(training):
    arrays, values = training.to_arrays()
    return {name: array.tobytes() for name, array in arrays.items()}, json.dumps(values)


def set_returns(monkeypatch, training, plan):
    """Let validations find given (return, episodes that ended by choice), one after another."""
    import pomp.learning.training as module

    plan = iter(plan)

    def outcomes(batch):
        score, ended = next(plan)
        count = len(batch)
        flags = np.arange(count) < ended
        return np.full(count, score), np.ones(count, np.int64), np.ones(count, np.int64), flags

    monkeypatch.setattr(module, "outcomes", outcomes)


def row_of(training, index=0):
    return training.learner.parameters[index].detach().numpy().copy()


# ---------------------------------------------------------------- the same twice


def test_the_same_training_twice_gives_the_same_bytes():
    runs = [train([seeker(), seeker(1), harvester()], settings()) for _ in range(2)]
    assert bytes_of(runs[0][0]) == bytes_of(runs[1][0])
    assert runs[0][1] == runs[1][1]
    assert [len(records) for records in runs[0][1]] == [3, 3, 3]


def test_seeds_and_tasks_draw_apart():
    training, _ = train([seeker(0), seeker(1), harvester(0)], settings())
    rows = [row_of(training, i) for i in range(3)]
    assert not np.allclose(rows[0], rows[1])
    first = Training([seeker(0), harvester(0)], settings(), "cpu")
    parts = first.shape.split(first.learner.parameters.detach())
    assert not torch.allclose(parts["trunk.1.weight"][0], parts["trunk.1.weight"][1])


@pytest.mark.parametrize("stop", [1, 2, 3, 5])
def test_a_checkpoint_goes_on_to_the_same_bytes(stop):
    members, config = [seeker(), harvester(3)], settings(ppo__entropy=0.1)
    whole, records = train(members, config)
    half, told = Training(members, config, "cpu"), []
    for _ in range(stop):
        told += [one] if (one := half.step()) else []
    arrays, values = half.to_arrays()
    kept = {name: np.array(array) for name, array in arrays.items()}
    values = json.loads(json.dumps(values))  # as it comes from a file
    del half
    rest = Training(members, config, "cpu")
    rest.restore(kept, values)
    while not rest.is_finished:
        told += [one] if (one := rest.step()) else []
    assert bytes_of(rest) == bytes_of(whole)
    assert told == records
    for i in range(2):
        ours, theirs = (one.machine(i, {}).transition.to_arrays() for one in (rest, whole))
        assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


def test_a_restored_checkpoint_is_independent_of_its_arrays():
    training, config = Training([seeker()], settings(), "cpu"), settings()
    training.step()
    arrays, values = training.to_arrays()
    before = {name: np.array(array) for name, array in arrays.items()}
    other = Training([seeker()], config, "cpu")
    other.restore({name: array.copy() for name, array in before.items()}, values)
    other.step()
    training_bytes = bytes_of(training)[0]
    assert training_bytes == {name: array.tobytes() for name, array in before.items()}


# ---------------------------------------------------------------- what a rollout is


def rollouts_of(monkeypatch, members, config, count):
    """The steps and orders that reach the learner."""
    training, seen = Training(members, config, "cpu"), []
    learn = training.learner.learn

    def watch(steps, orders, update):
        seen.append((steps, orders, update))
        return learn(steps, orders, update)

    monkeypatch.setattr(training.learner, "learn", watch)
    for _ in range(count):
        training.step()
    return training, seen


def test_advantages_are_normalised_once_over_the_whole_rollout(monkeypatch):
    _, seen = rollouts_of(monkeypatch, [harvester(), seeker()], settings(), 3)
    for steps, _, _ in seen:
        raw = (steps.returns - steps.values).double()
        for own, given in zip(raw, steps.advantages.double(), strict=True):
            expected = (own - own.mean()) / (own.std() + 1e-5)
            assert given.shape == (32,)
            np.testing.assert_allclose(given, expected, atol=2e-3)


def test_every_epoch_goes_through_all_steps_in_a_new_order(monkeypatch):
    _, seen = rollouts_of(monkeypatch, [harvester(), seeker()], settings(), 3)
    orders = []
    for number, (_, order, update) in enumerate(seen):
        assert update == number
        assert order.shape == (2, 2, 32)
        assert (order.sort(dim=2).values == torch.arange(32)).all()
        orders += [tuple(row.tolist()) for epoch in order for row in epoch]
    assert len(set(orders)) == len(orders)


def test_log_probs_and_values_are_the_networks_and_episodes_go_on(monkeypatch):
    config = settings(ppo__total=8 * 32, ppo__learning_rate=1e-30)
    member = harvester(rate=1e-30)  # the network stays as it is
    training, seen = rollouts_of(monkeypatch, [member], config, 4)
    starts, before = 0, None
    for steps, _, _ in seen:
        logits, values = training.learner.network(
            training.learner.parameters, steps.observations, steps.modes
        )
        log_probs = torch.log_softmax(logits, dim=-1).gather(-1, steps.choices[..., None])[..., 0]
        np.testing.assert_allclose(steps.log_probs, log_probs.detach(), atol=1e-5)
        np.testing.assert_allclose(steps.values, values.detach(), atol=1e-5)
        mode, choices = steps.modes[0].view(8, 4), steps.choices[0].view(8, 4)
        if before is not None:  # what was chosen last is the mode of the next rollout's first step
            went_on = before != 5
            assert (mode[0][went_on] == before[went_on]).all()
            assert (mode[0][~went_on] == -1).all()
        before = choices[-1]
        for step in range(1, 8):
            ended = choices[step - 1] == 5
            assert (mode[step][ended] == -1).all()
            goes_on = mode[step] >= 0
            assert (mode[step][goes_on] == choices[step - 1][goes_on]).all()
        starts += int((mode == -1).sum())
    assert starts > 4


# ---------------------------------------------------------------- validation


def test_validations_come_when_they_are_due():
    _, records = train([seeker()], settings(ppo__total=7 * 32, validation__every=3))
    assert [one[0]["update"] for one in records] == [3, 6, 7]
    assert [one[0]["steps"] for one in records] == [96, 192, 224]


def test_what_is_kept_is_what_was_validated(monkeypatch):
    training = Training([seeker()], settings(validation__every=1, ppo__total=8 * 32), "cpu")
    plan = [(-0.1, 4), (0.2, 0), (0.1, 1), (0.05, 4), (0.1, 2), (0.5, 0), (0.3, 4), (0.29, 4)]
    # kept: no (below 0), no (none ended), yes, no (less), yes (equal), no (none ended), yes, no
    expected = [None, None, 0.1, 0.1, 0.1, 0.1, 0.3, 0.3]
    set_returns(monkeypatch, training, plan)
    rows = []
    for best in expected:
        (record,) = training.step()
        rows.append(row_of(training))
        assert training.kept[0].score == best
        assert record["best"] == best
        which = {None: None, 0.1: 4 if len(rows) >= 5 else 2, 0.3: 6}[best]
        if which is not None:
            assert np.array_equal(training.kept[0].parameters, rows[which])
    assert training.is_finished
    assert [record["return"], record["ended"]] == [0.29, 4]


def test_zero_is_good_enough_for_the_first(monkeypatch):
    training = Training([seeker()], settings(validation__every=1, ppo__total=32), "cpu")
    set_returns(monkeypatch, training, [(0.0, 1)])
    training.step()
    assert training.kept[0].score == 0.0
    assert np.array_equal(training.kept[0].parameters, row_of(training))


def test_an_end_by_choice_need_not_be_asked_for(monkeypatch):
    config = settings(validation__every=1, ppo__total=32, validation__needs_end=False)
    training = Training([seeker()], config, "cpu")
    set_returns(monkeypatch, training, [(0.4, 0)])
    training.step()
    assert training.kept[0].score == 0.4


def test_a_machine_is_made_of_what_is_kept_or_of_the_last():
    training, _ = train([seeker(), harvester()], settings())
    training.kept[0] = Kept(0.7, 2, np.arange(training.shape.size, dtype=np.float32))
    training.kept[1] = Kept()
    best, last = (training.machine(i, {"by": "test"}) for i in range(2))
    assert (len(best.modes), len(last.modes)) == (3, 5)
    cut = training.shape.cut(np.arange(training.shape.size, dtype=np.float32), 3)
    arrays = best.transition.to_arrays()
    assert all(np.array_equal(arrays[name], cut[name]) for name in cut)
    whole = training.shape.unpack(row_of(training, 1))
    arrays = last.transition.to_arrays()
    assert all(np.array_equal(arrays[name], whole[name]) for name in whole)


@pytest.mark.parametrize("patience", [1, 2, 3])
def test_patience_counts_validations_without_a_better_one(monkeypatch, patience):
    config = settings(ppo__total=20 * 32, validation__patience=patience)
    training = Training([seeker()], config, "cpu")
    plan = [(0.1, 4), (0.2, 4), (0.2, 4), (0.3, 4)] + [(0.3, 4), (0.1, 4)] * 3
    # validations at 2, 4, 6, ...; the third is only equal, the fourth better, then none
    set_returns(monkeypatch, training, plan)
    finish(training)
    stopped = 6 if patience == 1 else 2 * (4 + patience)
    assert training.finished_at == [stopped]
    assert training.update == stopped
    assert training.kept[0].score == (0.2 if patience == 1 else 0.3)


def test_without_patience_training_goes_on_to_the_end(monkeypatch):
    training = Training([seeker()], settings(), "cpu")
    set_returns(monkeypatch, training, [(0.5, 4), (0.1, 4), (0.1, 4)])
    finish(training)
    assert training.finished_at == [6]


def test_a_member_that_has_stopped_keeps_what_it_has(monkeypatch):
    config = settings(ppo__total=20 * 32, validation__patience=2)
    training = Training([seeker(), harvester()], config, "cpu")
    # one batch of worlds for each task: two outcomes for each validation
    first = [0.5, 0.1, 0.1, 0.9, 0.9, 0.9]
    second = [0.1, 0.2, 0.3, 0.4, 0.4, 0.4]
    plan = [(score, 4) for pair in zip(first, second, strict=True) for score in pair]
    set_returns(monkeypatch, training, plan)
    finish(training)
    assert training.finished_at == [6, 12]
    assert [kept.score for kept in training.kept] == [0.5, 0.4]


def test_validation_is_played_with_fresh_episodes_of_the_network():
    training, records = train([harvester()], settings(validation__every=3))
    for (record,) in records:
        assert 0 <= record["ended"] <= 4
        assert 0 < record["programs"] <= 20
        assert record["actions"] > 0
    again, repeated = train([harvester()], settings(validation__every=6))
    # how often it is validated changes nothing in what is learned, nor in the last validation
    assert np.array_equal(row_of(training), row_of(again))
    names = ("return", "programs", "actions", "ended")
    assert [records[-1][0][n] for n in names] == [repeated[-1][0][n] for n in names]


# ---------------------------------------------------------------- ensembles


def test_members_of_different_tasks_learn_together_what_they_learn_alone():
    config = settings()
    members = [seeker(0), seeker(1, 1e-2), harvester(0), Member(DOORS, (GO, LONG_WALK), 5, 1e-3)]
    together, records = train(members, config)
    for i, member in enumerate(members):
        alone, own = train([member], config)
        ours = together.shape.cut(row_of(together, i), len(member.modes))
        theirs = alone.shape.unpack(row_of(alone))
        for name, array in theirs.items():
            np.testing.assert_allclose(ours[name], array, atol=2e-5, err_msg=name)
        for all_, one in zip(records, own, strict=True):
            assert all_[i]["update"] == one[0]["update"]
            assert all_[i]["return"] == pytest.approx(one[0]["return"], abs=1e-9)
            assert all_[i]["ended"] == one[0]["ended"]


def test_members_of_one_ensemble_have_grids_of_one_size():
    with pytest.raises(ConfigError):
        Training([seeker(), Member(task("CleanHouse"), (GO,), 0, 1e-3)], settings(), "cpu")


def test_the_learning_rate_is_the_members_own():
    training = Training([seeker(0, 1e-3), seeker(0, 1e-2)], settings(), "cpu")
    first = row_of(training)
    assert np.array_equal(first, row_of(training, 1))  # one seed, one start
    training.step()
    slow, fast = (np.abs(row_of(training, i) - first).max() for i in range(2))
    assert fast > 4 * slow > 0


def test_trained_machines_can_be_saved_and_evaluated(tmp_path):
    training, _ = train([seeker(), harvester()], settings())
    for i, member in enumerate(training.members):
        machine = training.machine(i, {"seed": member.seed})
        machine.save(tmp_path / str(i))
        back = ProgramMachine.load(tmp_path / str(i))
        for name in ("task", "variant", "options", "height", "width", "scale"):
            assert getattr(back.configure(), name) == getattr(member.setting, name)
        ours, theirs = (evaluate(one, episodes=5) for one in (machine, back))
        assert np.array_equal(ours.returns, theirs.returns)
        assert (ours.programs <= 20).all()


# ---------------------------------------------------------------- failures


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_stops_the_training(wrong):
    training = Training([seeker(), harvester(7)], settings(), "cpu")
    training.step()
    with torch.no_grad():
        training.learner.parameters[1] = wrong
    with pytest.raises(TrainingError, match="Harvester") as raised:
        finish(training)
    assert "\n" not in str(raised.value)
    assert training.update == 2  # at the next validation


def test_what_was_kept_survives_a_loss_that_is_no_number():
    training = Training([seeker()], settings(validation__needs_end=False), "cpu")
    training.step()
    training.step()
    kept = replace(training.kept[0])
    with torch.no_grad():
        training.learner.parameters[:] = float("nan")
    with pytest.raises(TrainingError):
        finish(training)
    assert training.kept[0].score == kept.score
    assert training.kept[0].parameters is kept.parameters


# ---------------------------------------------------------------- learning


def test_a_little_training_learns_to_end_where_acting_costs():
    # Farmer with one mode that only turns: every action costs, to end at once is best.
    member = Member(task("Farmer"), (TURN,), 0, 1e-2)
    config = settings(
        ppo__total=40 * 256, ppo__actors=16, ppo__steps=16, ppo__minibatch=64, ppo__epochs=4,
        validation__every=40, validation__episodes=64, ppo__entropy=0.0,
    )  # fmt: skip
    _, records = train([member], config)
    assert records[-1][0]["programs"] < 0.3  # at first: one
    assert records[-1][0]["ended"] == 64


@pytest.mark.slow
def test_training_climbs_the_stairs():
    member = Member(task("StairClimber"), (GO, TURN, CLIMB), 0, 1e-3)
    config = settings(
        ppo__total=40 * 1024, ppo__actors=32, ppo__steps=32, ppo__minibatch=32, ppo__epochs=4,
        validation__every=10, validation__episodes=32, network__hidden=32,
    )  # fmt: skip
    training, _ = train([member], config)
    assert evaluate(training.machine(0, {}), episodes=32).mean > 0.9
