"""Annealing's rules, with machines whose scores are made up, and whole chains beside plain ones."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from drawing import config_of, random_machines
from plain_annealing import PlainAnnealing

from pomp.core.compiling import kernel, scalar
from pomp.core.cuda import map_arrays
from pomp.core.streams import Purpose
from pomp.engine.annealing import (
    MachineArrays,
    Playground,
    always_leads,
    anneal_chain,
    copy_machine,
    meets_nobody,
)
from pomp.evolution import anneal
from pomp.evolution.anneal import Annealing
from pomp.evolution.genome import Machines, with_images
from pomp.evolution.ground import Ground, some_ground, some_starts
from pomp.evolution.play import Scores, play_machines
from pomp.tasks.catalog import find_task

WORLDS = 4


class MadeUp(NamedTuple):
    """What machines earn in every world, and what was asked.

    Attributes:
        mutated: `[C]` float64, what the mutated machine of a chain earns.
        true: `[C]` float64, what its own machine earns when it is verified.
        asked: the `MachineArrays` that were played last, written.
        thresholds: `[C]` float64, the scores with which they would have been accepted, written.
        believed: `[C]` float64, what chains had when they were verified, written.
    """

    mutated: np.ndarray
    true: np.ndarray
    asked: MachineArrays
    thresholds: np.ndarray
    believed: np.ndarray


@scalar
def play_made_up(place, end, slack, chain, chains, schedule, ground, scratch):
    """Earn what was made up; a chain's own machine is accepted whatever it earns."""
    told, world = ground.terms, scratch.order[place]
    if scratch.threshold[0] == -np.inf:
        scratch.found[world] = told.true[chain]
        told.believed[chain] = chains.scores[chain]
    else:
        scratch.found[world] = told.mutated[chain]
        told.thresholds[chain] = scratch.threshold[0]
        copy_machine(scratch.candidate, 0, told.asked, chain)


@kernel
def anneal_made_up(chains, schedule, tables, told, scratch, played):
    for chain in range(len(played)):
        ground = Playground(told, (), (), ())
        played[chain] = anneal_chain(
            play_made_up, always_leads, meets_nobody, chain, chains, schedule, tables, ground,
            scratch,
        )  # fmt: skip


Begin = Callable[..., tuple[Annealing, MadeUp]]


@pytest.fixture
def begin(monkeypatch: pytest.MonkeyPatch) -> Begin:
    """Begin an annealing whose machines all earn a value at first."""

    def begin(chains: int, value: float = 0.5, **changes: object) -> tuple[Annealing, MadeUp]:
        setting, config = find_task("UpNDown").configure(), config_of(chains=chains, **changes)
        ground = Ground.of([(setting, some_starts(setting, WORLDS, 0, Purpose.SEARCH))])
        machines = random_machines(min(chains, 64), 2, seed=1, config=config)
        machines = machines.repeat(-(-chains // len(machines))).take(slice(chains))
        found = Scores(np.full((chains, WORLDS), value), np.zeros((chains, 4), np.int64))
        monkeypatch.setattr(anneal, "play_machines", lambda *_, **__: found)
        run = Annealing(
            setting, ground, machines, np.uint64(7), config,
            temperature_factor=0.5, length_factor=1.0, threads=1,
        )  # fmt: skip
        asked = map_arrays(np.copy, run.chains.machines)
        told = MadeUp(*np.full((2, chains), value), asked, *np.zeros((2, chains)))

        def take(part, parts, chains, schedule, tables, *rest) -> None:
            anneal_made_up(chains, schedule, tables, told, *rest[-2:])

        run._kernel = take
        return run, told

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


def asked_of(told: MadeUp) -> Machines:
    """The machines that were played last."""
    return Machines(*told.asked[1:])


@pytest.mark.parametrize("share", [0.0, 0.5, 0.97])
def test_a_worse_machine_is_accepted_with_the_probability_of_metropolis(begin, share) -> None:
    run, told = begin(20_000, steps=100, initial_temperature=0.08, final_temperature=0.001)
    temperature = 0.04 * (0.001 / 0.04) ** share  # the round's factor is a half
    for loss in (0.2 * temperature, temperature, 3 * temperature):
        run.iteration = round(100 * share)
        told.mutated[:] = 0.5 - loss
        run.advance(1)
        expected = np.exp(-loss / temperature)
        error = np.sqrt(expected * (1 - expected) / 20_000)
        assert abs((told.believed == told.mutated).mean() - expected) < 4 * error


def test_a_machine_that_is_as_good_or_better_is_always_accepted(begin) -> None:
    run, told = begin(2000, steps=100)
    for gain in (0.0, 1e-12, 0.1):
        told.mutated[:] = told.true[:] = run.chains.scores + gain
        before = run.machines.copy()
        run.advance(1)
        assert rows_equal(run.machines, asked_of(told)).all()
        assert not rows_equal(run.machines, before).all()
        assert (run.chains.scores == told.mutated).all()


def test_a_machine_that_is_just_good_enough_is_accepted(begin) -> None:
    run, told = begin(200, value=1e15)  # so much that the thresholds are rounded to it
    run._enough = np.inf
    before = run.machines.copy()
    run.advance(1)
    assert (told.thresholds == 1e15).sum() > 100
    assert rows_equal(run.machines, asked_of(told)).all()
    assert not rows_equal(run.machines, before).all()


def test_what_was_given_up_is_never_accepted(begin) -> None:
    run, told = begin(200, initial_temperature=1000.0)
    told.mutated[:] = np.where(np.arange(200) % 2 == 0, -np.inf, 0.4)
    before = run.machines.copy()
    run.advance(1)
    assert rows_equal(run.machines, before)[::2].all()
    assert (told.believed[::2] == 0.5).all()
    assert (told.believed[1::2] == 0.4).any(), "at this temperature almost everything is accepted"


def test_a_chain_has_what_was_accepted_and_keeps_its_own_where_it_was_not(begin) -> None:
    run, told = begin(400, steps=100)
    told.mutated[:] = np.random.default_rng(0).uniform(0.45, 0.5, 400)
    before = run.machines.copy()
    run.advance(1)
    accepted = told.mutated >= told.thresholds  # those for which machines may be given up
    assert 50 < accepted.sum() < 350
    expected = before.copy()
    expected.put(accepted, asked_of(told).take(accepted))
    assert rows_equal(run.machines, expected).all()
    assert (told.believed == np.where(accepted, told.mutated, 0.5)).all()
    assert (run.chains.scores == 0.5).all(), "which they really earn"
    assert (run.chains.earned == 0.5).all()


def test_chains_that_took_harm_on_trust_go_back_to_what_was_verified(begin) -> None:
    run, told = begin(6, steps=10_000)

    def walk(true: list[float]) -> Machines:
        """Accept all mutations up to the next verification, which finds these scores."""
        told.true[:] = true
        told.mutated[:] = run.chains.scores  # nothing was lost, it seems
        run.advance()
        return asked_of(told).copy()

    first = run.machines.copy()
    second = walk([0.5, 0.3, 0.6, 0.3, 0.5, 0.5])
    back = np.array([False, True, False, True, False, False])
    assert not rows_equal(first, second).any()
    assert (rows_equal(run.machines, first) == back).all()
    assert (rows_equal(run.machines, second) == ~back).all()
    assert run.chains.scores.tolist() == [0.5, 0.5, 0.6, 0.5, 0.5, 0.5]
    assert (run.chains.earned == run.chains.scores[:, None]).all()
    assert run.best_score == 0.6

    verified = run.machines.copy()
    third = walk([0.4, 0.4, 0.5, 0.7, 0.5, 0.4])
    back = np.array([True, True, True, False, False, True])
    assert not rows_equal(verified, third).any()
    assert (rows_equal(run.machines, verified) == back).all(), "to the last verified, not the first"
    assert (rows_equal(run.machines, third) == ~back).all()
    assert run.chains.scores.tolist() == [0.5, 0.5, 0.6, 0.7, 0.5, 0.5]


@pytest.mark.parametrize(("task", "is_mirrored"), [("UpNDown", False), ("Farmer", True)])
def test_compiled_chains_do_what_is_written_down_in_python(task: str, is_mirrored: bool) -> None:
    """The same machines, to the bit, whatever the number of threads, and less to play for it."""
    setting, config = find_task(task).configure(), config_of(steps=70, starts=16, sensors="compass")
    ground = some_ground(setting, config, 16, 0, Purpose.SEARCH, "cpu")
    machines = random_machines(24, 2, seed=9, config=config)
    machines = with_images(machines) if is_mirrored else machines
    given = {"temperature_factor": 1.0, "length_factor": 1.0, "is_mirrored": is_mirrored}
    begun = setting, ground, machines, np.uint64(5), config
    compiled, threaded = Annealing(*begun, **given, threads=1), Annealing(*begun, **given)
    plain = PlainAnnealing(setting, ground, machines.copy(), *begun[3:], is_mirrored=is_mirrored)
    while not compiled.is_finished:
        steps = min(32, 70 - plain.iteration)
        plain.advance(steps, compiled.actions / config.actions)
        threaded._last = 10**9  # so that it takes as many threads as there are
        for one in (compiled, threaded):
            one.advance()
            assert rows_equal(one.machines, plain.machines).all()
            assert one.chains.scores.tobytes() == plain.scores.tobytes()
            assert one.chains.earned.tobytes() == plain.earned.tobytes()
            assert one.chains.best_scores.tobytes() == plain.best_scores.tobytes()
            assert rows_equal(Machines(*one.chains.best[1:]), plain.best).all()
            assert (one.evaluated, one.iteration) == (24 * (plain.iteration + 1), plain.iteration)
        assert (compiled.actions, compiled.programs) == (threaded.actions, threaded.programs)
    assert not rows_equal(compiled.machines, machines).any()
    found = play_machines(setting, compiled.machines, ground, config)
    assert found.scores.tobytes() == compiled.chains.scores.tobytes()
    assert (compiled.actions < plain.actions) == (len(ground) > 1)
