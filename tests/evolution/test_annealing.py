"""Annealing's own rules, with machines whose scores are made up: acceptance and verification."""

from collections.abc import Callable

import numpy as np
import pytest
from drawing import config_of, random_machines

from pomp.core.streams import Purpose
from pomp.evolution import stepped
from pomp.evolution.anneal import Annealing
from pomp.evolution.genome import Machines, with_images
from pomp.evolution.ground import Ground, some_ground, some_starts
from pomp.evolution.play import Scores, play_machines
from pomp.evolution.stepped import SteppedAnnealing
from pomp.tasks.catalog import find_task

WORLDS = 4


def scores_of(values: np.ndarray) -> Scores:
    """What machines would have found that earn these values in every world; -inf: given up."""
    earned = np.repeat(np.where(np.isfinite(values), values, 0.0)[:, None], WORLDS, axis=1)
    played = np.where(np.isfinite(values), WORLDS, 1).astype(np.int32)
    return Scores(earned, played, np.zeros((len(values), 4), np.int64))


class Stage:
    """Stands in for playing: says what machines earn, and keeps what it was asked.

    Attributes:
        mutated: `[C]`, what mutated machines earn.
        true: `[C]`, what machines earn that are played without their parents, as in verification.
        asked: mutated machines and the thresholds that they came with, step by step.
    """

    def __init__(self, true: np.ndarray) -> None:
        self.true, self.mutated = true, true
        self.asked: list[tuple[Machines, np.ndarray]] = []

    def play(self, setting, machines, worlds, config, parents=None, **more) -> Scores:
        if parents is None:
            return scores_of(self.true)
        self.asked.append((machines.copy(), parents.thresholds.copy()))
        return scores_of(self.mutated)


Begin = Callable[..., tuple[SteppedAnnealing, Stage]]


@pytest.fixture
def begin(monkeypatch: pytest.MonkeyPatch) -> Begin:
    """Begin an annealing whose machines all earn a value at first."""

    def begin(chains: int, value: float = 0.5, **changes: object) -> tuple[SteppedAnnealing, Stage]:
        setting, config = find_task("UpNDown").configure(), config_of(chains=chains, **changes)
        ground = Ground.of([(setting, some_starts(setting, WORLDS, 0, Purpose.SEARCH))])
        machines = random_machines(min(chains, 64), 2, seed=1, config=config)
        machines = machines.repeat(-(-chains // len(machines))).take(slice(chains))
        stage = Stage(np.full(chains, value))
        monkeypatch.setattr(stepped, "play_machines", stage.play)
        run = SteppedAnnealing(
            setting, ground, machines, np.uint64(7), config,
            temperature_factor=0.5, length_factor=1.0,
        )  # fmt: skip
        return run, stage

    return begin


def rows_equal(one: Machines, other: Machines) -> np.ndarray:
    """`[C]`: which machines are the same."""
    return np.all(
        [
            (mine == theirs).reshape(len(mine), -1).all(axis=1)
            for mine, theirs in zip(one.arrays, other.arrays, strict=True)
        ],
        axis=0,
    )


@pytest.mark.parametrize("share", [0.0, 0.5, 0.97])
def test_a_worse_machine_is_accepted_with_the_probability_of_metropolis(begin, share) -> None:
    run, stage = begin(20_000, steps=100, initial_temperature=0.08, final_temperature=0.001)
    temperature = 0.04 * (0.001 / 0.04) ** share  # the round's factor is a half
    for loss in (0.2 * temperature, temperature, 3 * temperature):
        run.iteration, run.scores[:] = round(100 * share), 0.5
        stage.mutated = np.full(20_000, 0.5 - loss)
        run.step()
        expected = np.exp(-loss / temperature)
        error = np.sqrt(expected * (1 - expected) / 20_000)
        assert abs((run.scores == stage.mutated).mean() - expected) < 4 * error


def test_a_machine_that_is_as_good_or_better_is_always_accepted(begin) -> None:
    run, stage = begin(2000, steps=100)
    for gain in (0.0, 1e-12, 0.1):
        stage.mutated = run.scores + gain
        before = run.machines.copy()
        run.step()
        assert rows_equal(run.machines, stage.asked[-1][0]).all()
        assert not rows_equal(run.machines, before).all()
        assert (run.scores == stage.mutated).all()


def test_a_machine_that_is_just_good_enough_is_accepted(begin) -> None:
    run, stage = begin(200, value=1e15)  # so much that the thresholds are rounded to it
    stage.mutated = run.scores.copy()
    before = run.machines.copy()
    run.step()
    assert (stage.asked[-1][1] == 1e15).sum() > 100
    assert rows_equal(run.machines, stage.asked[-1][0]).all()
    assert not rows_equal(run.machines, before).all()


def test_what_was_given_up_is_never_accepted(begin) -> None:
    run, stage = begin(200, initial_temperature=1000.0)
    stage.mutated = np.where(np.arange(200) % 2 == 0, -np.inf, 0.4)
    before = run.machines.copy()
    run.step()
    assert rows_equal(run.machines, before)[::2].all()
    assert (run.scores[::2] == 0.5).all()
    assert (run.scores[1::2] == 0.4).any(), "at this temperature almost everything is accepted"


def test_a_chain_has_what_was_accepted_and_keeps_its_own_where_it_was_not(begin) -> None:
    run, stage = begin(400, steps=100)
    stage.mutated = np.random.default_rng(0).uniform(0.45, 0.5, 400)
    before = run.machines.copy()
    run.step()
    new, thresholds = stage.asked[-1]
    accepted = stage.mutated >= thresholds  # those for which machines may be given up
    assert 50 < accepted.sum() < 350
    expected = before.copy()
    expected.put(accepted, new.take(accepted))
    assert rows_equal(run.machines, expected).all()
    assert (run.scores == np.where(accepted, stage.mutated, 0.5)).all()
    assert (run.earned == run.scores[:, None]).all()


def test_chains_that_took_harm_on_trust_go_back_to_what_was_verified(begin) -> None:
    run, stage = begin(6, steps=10_000)

    def walk(true: list[float]) -> Machines:
        """Accept all mutations up to the next verification, which finds these scores."""
        stage.true = np.array(true)
        stage.mutated = run.scores.copy()  # nothing was lost, it seems
        run.advance()
        return stage.asked[-1][0]

    first = run.machines.copy()
    second = walk([0.5, 0.3, 0.6, 0.3, 0.5, 0.5])
    back = np.array([False, True, False, True, False, False])
    assert not rows_equal(first, second).any()
    assert (rows_equal(run.machines, first) == back).all()
    assert (rows_equal(run.machines, second) == ~back).all()
    assert run.scores.tolist() == [0.5, 0.5, 0.6, 0.5, 0.5, 0.5]
    assert (run.earned == run.scores[:, None]).all()
    assert run.best_score == 0.6

    verified = run.machines.copy()
    third = walk([0.4, 0.4, 0.5, 0.7, 0.5, 0.4])
    back = np.array([True, True, True, False, False, True])
    assert not rows_equal(verified, third).any()
    assert (rows_equal(run.machines, verified) == back).all(), "to the last verified, not the first"
    assert (rows_equal(run.machines, third) == ~back).all()
    assert run.scores.tolist() == [0.5, 0.5, 0.6, 0.7, 0.5, 0.5]


def test_between_verifications_what_is_believed_stays(begin) -> None:
    run, stage = begin(4, steps=10_000)
    stage.true = np.zeros(4)
    for _ in range(3):
        stage.mutated = run.scores + 0.001
        run.step()
    assert (run.scores > 0.5).all()
    run.advance(1)
    assert (run.scores == 0.5).all()


@pytest.mark.parametrize(("task", "is_mirrored"), [("UpNDown", False), ("Farmer", True)])
def test_compiled_chains_do_what_is_written_down_in_python(task: str, is_mirrored: bool) -> None:
    """Step by step the same machines, to the bit, whatever the number of threads."""
    setting, config = find_task(task).configure(), config_of(steps=70, starts=16, sensors="compass")
    ground = some_ground(setting, config, 16, 0, Purpose.SEARCH, "cpu")
    machines = random_machines(24, 2, seed=9, config=config)
    machines = with_images(machines) if is_mirrored else machines
    given = {"temperature_factor": 1.0, "length_factor": 1.0, "is_mirrored": is_mirrored}
    begun = setting, ground, machines, np.uint64(5), config
    compiled, threaded = Annealing(*begun, **given, threads=1), Annealing(*begun, **given)
    plain = SteppedAnnealing(setting, ground, machines.copy(), *begun[3:], **given)
    threaded._last = 10**9  # so that it takes as many threads as there are
    while not plain.is_finished:
        for one in (compiled, threaded, plain):
            one.advance()
        for one in (compiled, threaded):
            assert rows_equal(one.machines, plain.machines).all()
            assert one.chains.scores.tobytes() == plain.scores.tobytes()
            assert one.chains.earned.tobytes() == plain.earned.tobytes()
            told = one.best_score, one.actions, one.programs, one.evaluated, one.iteration
            assert told == (
                plain.best_score, plain.actions, plain.programs, plain.evaluated, plain.iteration
            )  # fmt: skip
            assert rows_equal(one.best, plain.best).all()
    assert compiled.is_finished
    assert not rows_equal(compiled.machines, machines).any()
    found = play_machines(setting, compiled.machines, ground, config)
    assert found.scores.tobytes() == compiled.chains.scores.tobytes()
