"""The search for whole machines: its rounds, and that it is exact, in one process or several."""

import multiprocessing
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from drawing import config_of, random_machines

from pomp.core.errors import PompError
from pomp.core.streams import Purpose
from pomp.evolution import play
from pomp.evolution.config import EvolveConfig
from pomp.evolution.ground import some_starts
from pomp.evolution.population import Population
from pomp.evolution.search import Evolution
from pomp.evolution.teams import _pool
from pomp.evolution.texts import to_program_machine
from pomp.machine.evaluation import evaluate
from pomp.tasks.catalog import find_task
from starting import Starts

LAWN = Path(__file__).parents[2] / "examples" / "lawn.py"


def test_few_starts_are_all_taken_and_many_are_drawn() -> None:
    four = some_starts(find_task("FourCorner").configure(), 16, 0, Purpose.SEARCH)
    assert len(four) == 8
    assert len(some_starts(find_task("Farmer").configure(), 16, 0, Purpose.SEARCH)) == 1
    assert len(some_starts(find_task("UpNDown").configure(), 16, 0, Purpose.SEARCH)) == 16
    assert len(some_starts(find_task("TopOff").configure(), 16, 0, Purpose.SEARCH)) == 16
    mine, yours = (
        some_starts(find_task("CleanHouse").configure(), 4, 0, purpose)
        for purpose in (Purpose.SEARCH, Purpose.VALIDATION)
    )
    assert (mine.cells != yours.cells).any()


def test_search_validation_and_evaluation_begin_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Starts(monkeypatch)
    search = Evolution(find_task("UpNDown").configure(), 0, config_of(steps=5))
    search.advance(lambda: False)
    found = seen.take()
    assert set(found) == {Purpose.SEARCH, Purpose.VALIDATION}
    assert not found[Purpose.SEARCH] & found[Purpose.VALIDATION]
    assert len(found[Purpose.VALIDATION]) in (8, 1000)  # a machine was clean in all of the few
    machine = to_program_machine(search.setting, random_machines(1, 1, 0))
    evaluate(machine, episodes=300, seed=0)
    judged = seen.take()
    assert set(judged) == {Purpose.EVALUATION}
    assert not judged[Purpose.EVALUATION] & set().union(*found.values())


def test_a_population_keeps_its_best() -> None:
    population = Population()
    for score in (0.1, 0.5, 0.3, 0.2, 0.4, 0.0):
        population.add(random_machines(1, 1, seed=0), score)
    assert population.scores == [0.5, 0.4, 0.3, 0.2]
    assert len(population.machines) == 4


def state(evolution: Evolution) -> tuple[object, ...]:
    arrays, values = evolution.to_arrays()
    return values, {name: array.tobytes() for name, array in arrays.items()}


def advance(evolution: Evolution, rounds: int) -> Evolution:
    for _ in range(rounds):
        assert evolution.advance(lambda: False)
    return evolution


@pytest.mark.parametrize("teams", [1, 2, 3])
def test_the_same_search_twice_and_after_a_restore(teams: int) -> None:
    setting = find_task("UpNDown").configure()
    config = config_of(sensors="compass", modes=4, teams=teams)
    for before in (5, 9):  # among the first rounds, which depend on none, and later
        whole = advance(Evolution(setting, 3, config), before + 5)
        half = advance(Evolution(setting, 3, config), before)
        assert not half.advance(lambda: True), "a stopped round leaves nothing behind"
        rest = Evolution(setting, 3, config)
        rest.restore(*half.to_arrays())
        assert state(whole) == state(advance(rest, 5))
    assert len(whole.pending) == teams - 1
    assert state(whole) != state(advance(Evolution(setting, 4, config), 14))


def test_a_search_stopped_in_validation_goes_on_as_if_it_had_not_been(monkeypatch) -> None:
    """A machine is played in pieces of worlds, between which the search can be stopped."""
    setting = find_task("UpNDown").configure()
    config = config_of(sensors="compass", modes=4, teams=1)
    expected = state(advance(Evolution(setting, 3, config), 1))
    monkeypatch.setattr(play, "CALLS_AT_ONCE", 1)  # a world at a time
    asked: list[None] = []
    whole, stopped = Evolution(setting, 3, config), Evolution(setting, 3, config)
    assert whole.advance(lambda: bool(asked.append(None)))
    last = len(asked)
    asked.clear()
    assert not stopped.advance(lambda: bool(asked.append(None)) or len(asked) == last - 2)
    assert (stopped.round, len(asked)) == (0, last - 2)
    asked.clear()
    assert stopped.advance(lambda: bool(asked.append(None)))
    assert len(asked) < last  # the round itself was not computed again
    assert state(whole) == state(stopped) == expected


def test_processes_find_what_one_finds() -> None:
    setting = find_task("UpNDown").configure(None, {"psi": "1/3000"})
    config = config_of(sensors="compass", modes=4, teams=3)
    here = advance(Evolution(setting, 3, config), 12)
    there = advance(Evolution(setting, 3, config, workers=2), 7)
    there.advance(lambda: True)  # finished just then, or stopped
    there.close()  # what goes on begins anew
    assert state(advance(there, 12 - there.round)) == state(here)
    there.close()


def test_a_task_from_outside_is_searched_right_here() -> None:
    setting = find_task("UpNDown").configure()
    mine = replace(setting, task=replace(setting.task, summary="mine"))
    found = [
        advance(Evolution(one, 3, config_of(), workers=workers), 2)
        for one, workers in ((setting, 1), (mine, 2))
    ]
    assert found[0].hall.scores == found[1].hall.scores
    assert not found[1]._teams._begun


def test_what_is_finished_counts_at_the_end_whatever_its_turn() -> None:
    setting = find_task("UpNDown").configure()
    endless = config_of(steps=10**9, actions=10**15)
    search = Evolution(setting, 0, endless, workers=2)
    assert not search.advance(lambda: search.tried > 100)
    first, second, *others = search.pending
    search.close()
    quick = replace(second, length_factor=1e-9)
    search.pending = [first, quick, *others]
    assert not search.advance(lambda: search.tried > 100 and search._teams._begun[1].done())
    search.gather()
    search.close()
    assert (search.round, len(search.populations)) == (1, 1)
    assert search.pending == [first, *others]
    assert search.populations[0].number == 1


def test_a_script_needs_no_guard_against_its_processes(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        """
import multiprocessing
import sys
from pomp.evolution.config import EvolveConfig
from pomp.evolution.search import Evolution
from pomp.tasks.catalog import find_task

config = EvolveConfig(steps=2, chains=2, teams=2)
search = Evolution(find_task("UpNDown").configure(), 0, config, workers=2)
assert search.advance(lambda: False)
assert multiprocessing.active_children()
assert vars(sys.modules["__main__"])["search"] is search
print("found")
"""
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "found\n"), done.stderr


def test_a_killed_process_is_told() -> None:
    search = Evolution(find_task("UpNDown").configure(), 0, config_of(steps=10**9), workers=2)

    def kill() -> bool:
        if search.tried > 100:
            for child in multiprocessing.active_children():
                child.kill()
        return False

    with pytest.raises(PompError, match="go on with --resume"):
        search.advance(kill)
    search.close()
    assert Evolution(search.setting, 0, config_of(), workers=2).advance(lambda: False)


def test_an_epoch_that_gains_nothing_ends_and_its_best_machine_stays() -> None:
    evolution = Evolution(find_task("Farmer").configure(), 0, config_of(steps=2, chains=2))
    best = list[float]()
    while evolution.epoch == 0 and evolution.round < 120:
        evolution.advance(lambda: False)
        best.append(evolution.hall.best)
    assert evolution.epoch == evolution.round, "no epoch ended in 120 rounds"
    assert best == sorted(best)
    assert len(set(evolution.hall.scores)) == len(evolution.hall.scores) == 4
    assert evolution.populations == []
    evolution.advance(lambda: False)
    assert len(evolution.populations) == 1


def test_an_easy_task_is_solved() -> None:
    evolution = Evolution(find_task("StairClimber").configure(), 0, EvolveConfig())
    while not evolution.is_solved and evolution.round < 20:
        evolution.advance(lambda: False)
    assert evolution.is_solved


def test_evolving_and_evaluating_machines_by_rules_need_no_torch() -> None:
    code = """
import sys
from pomp.evolution.config import EvolveConfig
from pomp.evolution.search import Evolution
from pomp.machine.evaluation import evaluate
from pomp.machine.zoo import load_machine
evaluate(load_machine("zoo:Farmer/text"), episodes=2)
config = EvolveConfig(chains=2, steps=2)
Evolution(load_machine("zoo:Farmer/text").configure(), 0, config).advance(lambda: False)
print("torch" in sys.modules)
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "False\n"


def test_processes_look_for_modules_where_the_search_was_begun(tmp_path, monkeypatch) -> None:
    _pool(2).executor.submit(os.getcwd).result()  # a process that was begun here
    shutil.copy(LAWN, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one])
    monkeypatch.delitem(sys.modules, "lawn", raising=False)
    setting = find_task("lawn:LAWN").configure()
    search = Evolution(setting, 0, config_of(steps=5), workers=2)
    assert search.advance(lambda: False)
    search.close()
