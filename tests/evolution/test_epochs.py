"""An epoch from its start to its end: its starts, its choice of a machine, and going on later."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from drawing import config_of, random_machines

from pomp.core.storage import read_arrays, write_arrays
from pomp.core.streams import Purpose
from pomp.dsl.vocabulary import LEAPS
from pomp.evolution import search
from pomp.evolution.genome import Machines, first_machines
from pomp.evolution.ground import some_ground
from pomp.evolution.play import Scores
from pomp.evolution.population import is_robust
from pomp.evolution.rounds import Round, RoundResult, run_round, stricter
from pomp.evolution.search import Evolution
from pomp.tasks.catalog import find_task

# ---------------------------------------------------------------- the choice of a machine


def machine_of(text: str) -> Machines:
    """A machine that runs one program once."""
    ids = np.full((1, 45), LEAPS.pad, np.uint8)
    tokens = LEAPS.encode(text.split())
    ids[0, : len(tokens)] = tokens
    machine = first_machines(ids)
    machine.targets[:], machine.defaults[:] = -1, 1
    return machine


HARVEST = " ".join(["pickMarker", *["move pickMarker"] * 5])
SLOW = machine_of(
    "DEF run m( REPEAT R=13 r( REPEAT R=3 r( turnLeft turnRight r) r) "
    f"{HARVEST} turnLeft move pickMarker m)"
)
SHORT, LONGER = machine_of("DEF run m( pickMarker m)"), machine_of(f"DEF run m( {HARVEST} m)")


def evolution_with(*hall: tuple[Machines, float]) -> Evolution:
    evolution = Evolution(find_task("Harvester").configure(), 0, config_of())
    for machine, score in hall:
        evolution.hall.add(machine, score)
    return evolution


def test_the_chosen_machine_is_the_best_that_does_not_depend_on_the_budget() -> None:
    evolution = evolution_with((SHORT, 0.1), (SLOW, 0.9), (LONGER, 0.2))
    assert [is_robust(evolution.validate_by_budget(one)) for one in evolution.hall.machines] == [
        False,
        True,
        True,
    ]
    machine, score = evolution.choose()
    assert machine is LONGER
    assert score == 0.2


def test_where_all_machines_depend_on_the_budget_the_best_is_chosen() -> None:
    evolution = evolution_with((SLOW, 0.3), (SLOW.copy(), 0.9))
    assert evolution.choose() == (evolution.hall.machines[0], 0.9)


# ---------------------------------------------------------------- starts


class Script:
    """Stands in for the teams: rounds come to their end at once, with scores that are made up."""

    tried = 0

    def __init__(self, scores: dict[int, float]) -> None:
        self.scores, self.begun = scores, list[Round]()
        self.ready = set[int]()  # rounds that come to their end before their turn

    def begin(self, one: Round) -> None:
        if one not in self.begun:
            self.begun.append(one)

    def wait(self, one: Round, stop: object) -> RoundResult:
        return RoundResult(one.machines.take([0]), self.scores.get(one.number, 0.0), 1, 1, 1)

    def result(self, one: Round) -> RoundResult | None:
        return self.wait(one, None) if one.number in self.ready else None

    def close(self) -> None:
        pass


def scripted(
    monkeypatch: pytest.MonkeyPatch,
    scores: dict[int, float],
    teams: int,
    fitness: dict[int, float] | None = None,
    honest: float = 1.0,
) -> tuple[Evolution, Script]:
    """A search whose rounds score as told on their starts and in validation, else 0.

    To the very end, all machines earn a share, `honest`, of the best fitness so far.
    """

    def play(setting, machines, worlds, config, *more, to_the_end=False, **others) -> Scores:
        shape = len(machines), len(worlds)
        told = fitness or {}
        value = told.get(evolution.round, 0.0)
        if to_the_end:
            value = honest * max((told[one] for one in told if one <= evolution.round), default=0.0)
        return Scores(np.full(shape, value), np.zeros((shape[0], 4), np.int64))

    monkeypatch.setattr(search, "play_machines", play)
    config = config_of(sensors="compass", starts=16, teams=teams)
    evolution, script = Evolution(find_task("Seesaw").configure(), 0, config), Script(scores)
    evolution._teams = script  # type: ignore[assignment]
    return evolution, script


def test_starts_never_become_fewer_within_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    overfit = {number: 0.5 for number in (6, 9, 11, 12, 20)}
    evolution, script = scripted(monkeypatch, overfit, teams=4)
    assert evolution.starts == evolution.first_starts == 4
    told = []
    while evolution.epoch == 0:
        evolution.advance(lambda: False)
        told.append(evolution.starts)
    *within, after = told
    assert within == sorted(within)
    assert within[6:] == [8, 8, 8, 8, 8, 16, *[16] * (len(within) - 12)]
    starts = [one.starts for one in script.begun if one.number < len(told)]
    assert starts == sorted(starts)
    assert starts[9] == starts[6] == 4, "they were decided together"
    assert starts[11] == 8
    assert after == 4, "the next epoch begins with as many as the first"


def test_a_round_of_fewer_starts_that_comes_late_does_not_make_them_fewer(monkeypatch) -> None:
    evolution, script = scripted(monkeypatch, dict.fromkeys((6, 8, 10), 0.5), teams=4)
    for _ in range(8):
        evolution.advance(lambda: False)
    assert {one.number: one.starts for one in evolution.pending} == {8: 4, 9: 4, 10: 8}
    script.ready = {10}
    evolution.gather()
    assert evolution.starts == 16
    for _ in range(2):
        evolution.advance(lambda: False)
        assert evolution.starts == 16


def test_starts_become_more_only_where_a_population_is_overfit(monkeypatch) -> None:
    scores = {0: 0.9, 5: 0.9, 6: 0.03, 7: 0.031}  # the first rounds have nothing to go on from
    evolution, _ = scripted(monkeypatch, scores, teams=1)
    told = []
    for _ in range(9):
        evolution.advance(lambda: False)
        told.append(evolution.starts)
    assert told == [4] * 7 + [8, 8]


def test_starts_have_a_limit(monkeypatch) -> None:
    evolution, script = scripted(monkeypatch, dict.fromkeys(range(40), 1.0), teams=1)
    for _ in range(20):
        evolution.advance(lambda: False)
    assert [one.starts for one in script.begun][:10] == [4] * 7 + [8, 16, 16]
    assert evolution.starts == 16


# ---------------------------------------------------------------- chains


def test_rounds_that_go_on_have_a_quarter_of_the_chains(monkeypatch) -> None:
    evolution, script = scripted(monkeypatch, {}, teams=1)
    for _ in range(12):
        evolution.advance(lambda: False)
    assert [len(one.machines) for one in script.begun] == [8] * 6 + [2] * 6


def test_fewer_chains_take_as_many_steps_together() -> None:
    setting, config = find_task("UpNDown").configure(), config_of(chains=8, steps=40)
    ground = some_ground(setting, config, 2, 0, Purpose.PROGRAMS, "cpu")
    for chains in (8, 2, 1):
        machines = random_machines(1, 2, seed=3, config=config).repeat(chains)
        found = run_round(setting, ground, 0, config, Round(machines, 9, 0, 2, 1.0, 1.0), never)
        assert found is not None
        assert found.evaluated == chains + 8 * 40


def never(_: int) -> bool:
    return False


# ---------------------------------------------------------------- strictness


@pytest.mark.parametrize(("clean", "expected"), [(True, (1, 3, 10)), (False, (1, 1, 1))])
def test_rounds_become_stricter_where_machines_must_be_clean(monkeypatch, clean, expected) -> None:
    evolution, script = scripted(monkeypatch, {}, teams=1)
    evolution.config = replace(evolution.config, clean=clean)
    for _ in range(22):
        evolution.advance(lambda: False)
    told = [one.strictness for one in script.begun]
    assert told[:22] == [expected[0]] * 6 + [expected[1]] * 12 + [expected[2]] * 4


def test_it_costs_so_many_times_as_much_to_be_stuck_late_or_hasty_in_a_stricter_round() -> None:
    config = config_of(penalty=0.25, lateness=0.125, haste=0.5)
    assert stricter(config, 3.0) == replace(config, penalty=0.75, lateness=0.375, haste=1.5)
    most = config_of(penalty=1e6, lateness=1e6, haste=1e6)
    assert stricter(most, 10.0) == most


# ---------------------------------------------------------------- an epoch's end


@pytest.mark.parametrize(
    ("fitness", "end"),
    [
        pytest.param({}, 29, id="after its 28 rounds of several populations and one more"),
        pytest.param({3: 0.5, 12: 0.5}, 29, id="though none improves it any more"),
        pytest.param({3: 0.5, 25: 0.6}, 36, id="or ten rounds after the last improvement"),
        pytest.param({25: 0.5, 35: 0.6, 46: 0.7}, 46, id="in time"),
    ],
)
def test_an_epoch_ends(monkeypatch, fitness: dict[int, float], end: int) -> None:
    evolution, _ = scripted(monkeypatch, {}, teams=1, fitness=fitness)
    while evolution.epoch == 0:
        evolution.advance(lambda: False)
    assert evolution.epoch == evolution.round == end
    assert (evolution.populations, evolution.pending) == ([], [])


@pytest.mark.parametrize(
    ("clean", "honest", "end"), [(True, 0.4, 29), (True, 0.6, 36), (False, 0.4, 36)]
)
def test_an_epoch_ends_early_if_its_best_machines_live_by_mercy(
    monkeypatch, clean: bool, honest: float, end: int
) -> None:
    evolution, _ = scripted(monkeypatch, {}, 1, {3: 0.5, 25: 0.6}, honest)
    evolution.config = replace(evolution.config, clean=clean)
    while evolution.epoch == 0:
        evolution.advance(lambda: False)
    assert evolution.epoch == evolution.round == end


@pytest.mark.parametrize("seed", [0, 9, 11])
def test_a_search_that_is_resumed_goes_over_an_epochs_end_to_the_same_bytes(
    tmp_path: Path, seed: int
) -> None:
    """Resumed shortly before the end, when later rounds are decided already, and right after it."""
    setting = find_task("Farmer").configure()
    config = config_of(steps=2, chains=2, teams=3)
    kept: list[Path] = []

    def keep(evolution: Evolution, name: str) -> Path:
        path = tmp_path / f"{name}.safetensors"
        write_arrays(path, *evolution.to_arrays())
        return path

    whole = Evolution(setting, seed, config)
    while whole.epoch == 0 and whole.round < 120:
        kept.append(keep(whole, f"whole{whole.round}"))
        assert whole.advance(lambda: False)
    end = whole.round
    assert whole.epoch == end, "no epoch ended in 120 rounds"
    kept.append(keep(whole, f"whole{end}"))
    for _ in range(4):
        assert whole.advance(lambda: False)
    expected = keep(whole, "expected").read_bytes()
    for place in (end - 12, end - 5, end - 1, end):
        arrays, values = read_arrays(kept[place], "checkpoint")
        rest = Evolution(setting, seed, config)
        rest.restore(arrays, values)
        assert keep(rest, "again").read_bytes() == kept[place].read_bytes()
        assert len(rest.pending) == (0 if place == end else 2)
        while rest.round < whole.round:
            assert rest.advance(lambda: False)
        assert rest.epoch == end
        assert keep(rest, "rest").read_bytes() == expected


def test_an_epoch_begins_anew_with_other_machines_and_keeps_the_hall_of_fame() -> None:
    evolution = Evolution(find_task("Farmer").configure(), 0, config_of(steps=2, chains=2))
    firsts = []
    while evolution.epoch == 0 and evolution.round < 120:
        evolution.advance(lambda: False)
        firsts += [one for one in evolution.pending if one.number == evolution.round == 1]
    fame = list(evolution.hall.scores)
    evolution.advance(lambda: False)
    fresh = evolution.pending[0]
    assert fresh.number == evolution.epoch + 1
    assert fresh.starts == evolution.first_starts
    assert (fresh.machines.programs != firsts[0].machines.programs).any()
    assert evolution.hall.best >= fame[0]


def test_machines_of_the_hall_of_fame_are_told_apart_by_what_they_earn() -> None:
    evolution = evolution_with()
    machine = random_machines(1, 1, seed=0)
    for number in range(2):
        one = Round(machine, number, number, 4, 1.0, 1.0)
        evolution.pending = [one]
        evolution._finish(one, RoundResult(machine, 0.0, 1, 1, 1))
    assert len(evolution.hall.scores) == 1
    assert len(evolution.populations) == 2
