"""Trainings as a user runs them: all stages, the same bytes however they are cut, nothing lost."""

import json
import shutil
import signal
from pathlib import Path

import pytest

import pomp
from pomp.cli.main import main
from pomp.core.errors import UnknownNameError
from pomp.machine.evaluation import validate
from pomp.machine.policy import ProgramMachine
from pomp.machine.text import read_machine
from pomp.machine.transitions import DecisionList, Rule
from pomp.machine.zoo import add_to_zoo, load_machine
from pomp.runs.plan import dropped_modes
from processes import run_until

EXAMPLES = Path(__file__).parents[2] / "examples" / "machines"
MODES = (
    "DEF run m( turnLeft move turnRight move m)\n"
    "DEF run m( WHILE c( frontIsClear c) w( move w) turnRight turnRight m)\n"
)
CLIMB = """\
machine StairClimber
start climb
mode climb: DEF run m( turnLeft move turnRight move m)
  if markersPresent -> stop
  else -> climb
"""
TINY = (
    "ppo.total=512", "ppo.actors=8", "ppo.steps=16", "ppo.minibatch=32", "validation.every=2",
    "validation.episodes=8", "episode.most_steps=60",
)  # fmt: skip
SEARCH = ("search.proposer.iterations=4", "search.mode.runs=1", "search.proposer.population=8")


@pytest.fixture
def modes(tmp_path):
    path = tmp_path / "modes.txt"
    path.write_text(MODES)
    return str(path)


def arguments(folder, *more, settings=TINY):
    changes = [part for setting in settings for part in ("--set", setting)]
    return ["train", "UpNDown", "--out", str(folder), "--preset", "paper", *changes, *more]


def call(capsys, *given):
    with pytest.raises(SystemExit) as caught:
        main([str(part) for part in given])
    captured = capsys.readouterr()
    return caught.value.code, captured.out, captured.err


def files_of(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_all_stages_leave_a_machine_that_can_be_evaluated(capsys, tmp_path):
    folder = tmp_path / "run"
    status, output, _ = call(
        capsys, *arguments(folder, "--seeds", "0-1", settings=(*TINY, *SEARCH))
    )
    assert status == 0
    assert "return=" in output.splitlines()[-1]
    for seed in (0, 1):
        own = folder / "UpNDown" / f"seed{seed}"
        machine = ProgramMachine.load(own / "machine")
        assert len(machine.modes) == 3
        assert (own / "programs.txt").read_text().splitlines() == list(machine.modes)
        assert (own / "episode.gif").read_bytes()[:4] == b"GIF8"
        assert "mode 3" in (own / "machine.svg").read_text()
        assert [json.loads(line)["update"] for line in (own / "metrics.jsonl").open()] == [2, 4]
    status, output, _ = call(capsys, "eval", folder / "UpNDown/seed1/machine", "--json")
    evaluated = json.loads((folder / "UpNDown/seed1/evaluation.json").read_text())
    told = json.loads(output)
    assert told.pop("cap") == "calls220"
    assert told.items() <= evaluated.items()
    assert evaluated["episodes"] == len(evaluated["returns"]) == 100
    summary = json.loads((folder / "summary.json").read_text())["tasks"]["UpNDown"]
    assert summary["published"] == {"method": "POMP", "mean": 0.76, "std": 0.02}
    assert summary["machines"][1]["mean"] == evaluated["mean"]


def test_of_several_tries_the_best_by_validation_is_kept(tmp_path):
    modes = ("DEF run m( move m)", "DEF run m( turnLeft m)", "DEF run m( turnRight m)")
    settings = {name: int(value) for name, value in (one.split("=") for one in TINY)} | {"tries": 3}
    asked = {"preset": "paper", "modes": modes, "settings": settings}
    pomp.train("Maze", **asked, out=tmp_path / "run")
    own = tmp_path / "run/Maze/seed0"
    told = [json.loads(line) for line in (own / "metrics.jsonl").open()]
    assert [one["update"] for one in told] == [2, 4] * 3
    assert len({one["policy_loss"] for one in told}) == 6
    kept = ProgramMachine.load(own / "machine").provenance["validation"]
    assert kept == max(one["best"] or 0.0 for one in told) > 0


def test_resuming_a_folder_that_was_never_begun_begins_it(capsys, tmp_path, modes):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / ".config.json.12.34").write_text('{"half')
    status, output, _ = call(capsys, *arguments(folder, "--modes", modes, "--resume"))
    assert (status, output.splitlines()[0]) == (0, f"{folder}: finished")
    assert [path.name for path in folder.glob(".*")] == [".lock"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    status, _, _ = call(capsys, *arguments(tmp_path / "other", "--modes", modes, "--resume"))
    assert status == 2
    assert (tmp_path / "other" / "notes.txt").read_text() == "mine"


def test_the_best_preset_also_tries_the_mode_that_earns_most_alone(capsys, tmp_path):
    folder = tmp_path / "run"
    few = ("search.proposer.candidates=640", "search.mode.modes=2", "search.score.starts=2")
    given = ("--preset", "best", "--method", "annealing-modes")
    output = call(capsys, *arguments(folder, *given, settings=(*TINY, *few)))[1]
    own = folder / "UpNDown" / "seed0"
    found = json.loads((folder / "search/UpNDown/seed0/modes.json").read_text())
    assert found["method"] == "annealing-modes"
    records = [json.loads(line) for line in (own / "metrics.jsonl").open()]
    assert [record["modes"] for record in records] == [1, 1, 2, 2]
    by_return = sorted(found["modes"], key=lambda mode: -mode["return"])
    machine = ProgramMachine.load(own / "machine")
    assert machine.modes == tuple(mode["program"] for mode in by_return)[: len(machine.modes)]
    told = json.loads((own / "evaluation.json").read_text())["dropped"]
    left_out = [mode["program"] for mode in by_return][len(machine.modes) :]
    assert [one["program"] for one in told] == left_out
    assert [line in output for line in left_out] == [True] * len(left_out)
    best = max((record["best"] or 0.0) for record in records)
    assert (machine.provenance["validation"] or 0.0) == best


EVOLVE = (
    "search.rounds=2", "search.chains=8", "search.steps=30", "search.starts=4",
    "search.validation_starts=8",
)  # fmt: skip


def test_text_modes_keep_the_better_of_rules_and_network(capsys, tmp_path):
    folder = tmp_path / "run"
    given = ("--preset", "best", "--method", "text-modes")
    given = arguments(folder, *given, settings=(*TINY, *EVOLVE))
    status, output, _ = call(capsys, *given)
    assert status == 0
    own = folder / "UpNDown" / "seed0"
    machine = ProgramMachine.load(own / "machine")
    evolved = read_machine(folder / "search/UpNDown/seed0/UpNDown.machine")
    summary = json.loads((folder / "summary.json").read_text())["tasks"]["UpNDown"]["machines"][0]
    is_text = isinstance(machine.transition, DecisionList)
    assert is_text == (summary["transitions"] == "decision list")
    assert machine.provenance["validation"] == validate(machine) == summary["validation"]
    assert validate(machine) >= validate(evolved)
    assert set(machine.modes) == set(evolved.modes)
    assert (own / "metrics.jsonl").read_text(), "a network was trained, too"
    assert "return=" in output.splitlines()[-1]
    before = files_of(folder)
    assert "was finished before" in call(capsys, *given, "--resume")[1]
    assert files_of(folder) == before


def test_the_best_preset_needs_no_network(capsys, tmp_path):
    folder = tmp_path / "run"
    given = ("--preset", "best", "--seeds", "0-1")
    settings = (*EVOLVE, "search.sensors=perceptions")
    status, output, errors = call(capsys, *arguments(folder, *given, settings=settings))
    assert (status, "return=" in output.splitlines()[-1]) == (0, True)
    for seed in (0, 1):
        machine = ProgramMachine.load(folder / "UpNDown" / f"seed{seed}" / "machine")
        evolved = read_machine(folder / f"search/UpNDown/seed{seed}/UpNDown.machine")
        assert (machine.modes, machine.transition) == (evolved.modes, evolved.transition)
        assert machine.sensors == "perceptions only"
        found = f"pomp: UpNDown, seed {seed}: machine found by the search, return"
        assert any(line.startswith(found) for line in errors.splitlines())
        assert str(folder / "search" / "UpNDown" / f"seed{seed}") in errors
    assert not list(folder.glob("ensemble*"))
    assert not list(folder.glob("UpNDown/*/metrics.jsonl")), "no network was trained"


@pytest.mark.parametrize("given", [("--set", "ppo.total=512"), ("--learning-rates", "1e-3")])
def test_settings_of_a_network_are_refused_where_none_is_learned(capsys, tmp_path, given):
    asked = ("train", "UpNDown", "--out", tmp_path / "run", *given)
    status, _, error = call(capsys, *asked)
    assert status == 2
    assert "ask for one with the method text-modes" in error
    assert not (tmp_path / "run").exists()


def test_machines_found_before_compete_with_networks_on_their_modes(capsys, tmp_path):
    folder, before = tmp_path / "run", tmp_path / "before"
    file = before / "UpNDown" / "seed0" / "UpNDown.machine"
    file.parent.mkdir(parents=True)
    shutil.copy(EXAMPLES / "up_n_down.machine", file)
    given = arguments(folder, "--preset", "best", "--modes", str(before))
    status, _, _ = call(capsys, *given)
    assert status == 0
    machine = ProgramMachine.load(folder / "UpNDown" / "seed0" / "machine")
    evolved = read_machine(file)
    assert (machine.modes, machine.transition) == (evolved.modes, evolved.transition)
    assert machine.provenance["search"] == "text"
    records = (folder / "UpNDown" / "seed0" / "metrics.jsonl").read_text().splitlines()
    learned = {json.loads(record)["modes"] for record in records}
    assert learned == {len(set(evolved.modes))}, "a network learned on all of its modes"
    file.write_text(file.read_text().replace("machine UpNDown", "machine Farmer"))
    status, _, error = call(capsys, *arguments(tmp_path / "other", "--modes", str(before)))
    assert status == 2
    assert "a machine of Farmer where UpNDown's should be" in error
    status, _, error = call(
        capsys, *arguments(tmp_path / "more", "--modes", str(before), "--seeds", "0-1")
    )
    assert status == 2
    assert "seed1" in error


def test_the_zoo_takes_what_is_better_by_validation_of_each_kind(tmp_path, monkeypatch):
    zoo = tmp_path / "zoo"

    def machine(start):
        return ProgramMachine(
            "StairClimber", MODES.splitlines(), DecisionList((Rule(start),), ((Rule(None),),) * 2)
        )

    for name, start in (("good", 0), ("bad", 1)):
        machine(start).save(tmp_path / name / "StairClimber" / "seed3" / "machine")
    evolved = tmp_path / "evolved" / "StairClimber" / "seed1" / "StairClimber.machine"
    evolved.parent.mkdir(parents=True)
    evolved.write_text(CLIMB)
    assert add_to_zoo(tmp_path / "bad", zoo) == ["StairClimber/text"]
    assert add_to_zoo(tmp_path / "good", zoo) == ["StairClimber/text"]
    assert add_to_zoo(tmp_path / "bad", zoo) == []
    kept = ProgramMachine.load(zoo / "StairClimber" / "text")
    assert kept.transition == machine(0).transition
    assert kept.provenance["validation"] == validate(kept)
    assert add_to_zoo(tmp_path / "evolved", zoo) == ["StairClimber/text"]
    assert ProgramMachine.load(zoo / "StairClimber" / "text").provenance["seed"] == 1
    monkeypatch.setattr("pomp.machine.zoo.ZOO", zoo)
    assert load_machine("zoo:StairClimber/text").modes == load_machine(str(evolved)).modes
    assert load_machine("zoo:stair-climber").modes == load_machine(str(evolved)).modes
    with pytest.raises(UnknownNameError, match="network"):
        load_machine("zoo:StairClimber/network")


def test_a_training_cut_anywhere_ends_with_the_same_bytes(capsys, tmp_path, modes):
    given = ("--modes", modes, "--learning-rates", "1e-3,1e-2")
    call(capsys, *arguments(tmp_path / "whole", *given))
    cut = tmp_path / "cut"
    status, output, _ = call(capsys, *arguments(cut, *given, "--minutes", "0.0001"))
    assert (status, "stopped" in output) == (0, True)
    for _ in range(20):
        status, output, _ = call(capsys, *arguments(cut, *given, "--minutes", "0.005", "--resume"))
        if "finished" in output:
            break
    status, output, _ = call(capsys, *arguments(cut, *given, "--resume"))
    assert "was finished before" in output or "finished" in output
    assert files_of(cut) == files_of(tmp_path / "whole")


def test_a_killed_training_goes_on(capsys, tmp_path, modes):
    """Before the first checkpoint, between two, and while the results are written."""
    settings = ("ppo.total=1024", *TINY[1:])
    given = arguments(tmp_path / "killed", "--modes", modes, settings=settings)
    checkpoint, more = "ensemble8x8.safetensors", ()
    for place in ((checkpoint, 1), (checkpoint, 3), ("machine.json", 1)):
        status, _, errors = run_until(place, signal.SIGKILL, *given, *more, is_hasty=True)
        assert status == -signal.SIGKILL, errors
        more = ("--resume",)
    assert call(capsys, *given, "--resume")[0] == 0
    whole = arguments(tmp_path / "whole", "--modes", modes, settings=settings)
    assert call(capsys, *whole)[0] == 0
    assert files_of(tmp_path / "killed") == files_of(tmp_path / "whole")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--set", "ppo.epochs=0"), "epochs must be a whole number"),
        (("--set", "ppo.entropi=1"), "unknown setting 'entropi'"),
        (("--set", "ppo.clip_ratio=nan"), "clip_ratio must be"),
        (("--set", "teaching.steps=-1"), "steps must be"),
        (("--set", "teaching.steps=4", "--set", "network.inputs=grid"), "teaching.steps must be 0"),
        (("--method", "annealing"), "a machine needs several modes"),
        (("--method", "pomp"), "the modes are given"),
        (("--seeds", "x"), "seeds are a number"),
        (("--learning-rates", "0"), "learning rates are numbers"),
        (("--device", "cuda"), "cuda"),
        (("--minutes", "-1"), "--minutes must be positive"),
    ],
)
def test_bad_input_is_told_in_one_line_and_leaves_nothing(capsys, tmp_path, modes, more, message):
    status, _, errors = call(capsys, *arguments(tmp_path / "run", "--modes", modes, *more))
    assert status == 2
    assert message in errors
    assert "Traceback" not in errors
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        pytest.param(("UpNDown", "--method", "drl"), "teaching.steps must be 0", id="no mode"),
        pytest.param(("UpNDown", "--method", "mmn"), "teaching.steps must be 0", id="memory"),
        pytest.param(("UpNDown", "--method", "hprl"), "'teaching", id="programs are written"),
        pytest.param(("UpNDown", "--method", "text"), "none is learned here", id="no network"),
        pytest.param(
            ("Maze", "--variant", "leaps", "--method", "psmp"), "rewards do not add up", id="leaps"
        ),
    ],
)
def test_what_no_planner_can_teach_is_told_in_one_line(capsys, tmp_path, asked, message):
    folder = tmp_path / "run"
    given = ("train", *asked, "--out", folder, "--preset", "paper", "--set", "teaching.steps=4")
    status, _, errors = call(capsys, *given)
    assert (status, len(errors.strip().splitlines())) == (2, 1)
    assert message in errors
    assert not folder.exists()


def test_a_training_is_not_taught_on_resuming_if_it_was_not_before(capsys, tmp_path, modes):
    folder = tmp_path / "run"
    assert call(capsys, *arguments(folder, "--modes", modes))[0] == 0
    assert "teaching" not in (folder / "config.json").read_text()
    given = arguments(folder, "--modes", modes, "--set", "teaching.steps=4", "--resume")
    status, _, errors = call(capsys, *given)
    assert (status, "teaching" in errors) == (2, True)


@pytest.mark.slow
def test_a_training_that_is_taught_and_killed_ends_alike(capsys, tmp_path, modes):
    settings = (*TINY, "teaching.steps=60", "teaching.choices=1", "teaching.rounds=2")
    given = arguments(tmp_path / "killed", "--modes", modes, settings=settings)
    status, _, errors = run_until(
        ("ensemble8x8.safetensors", 1), signal.SIGKILL, *given, is_hasty=True
    )
    assert status == -signal.SIGKILL, errors
    assert call(capsys, *given, "--resume")[0] == 0
    whole = arguments(tmp_path / "whole", "--modes", modes, settings=settings)
    assert call(capsys, *whole)[0] == 0
    assert files_of(tmp_path / "killed") == files_of(tmp_path / "whole")
    told = [json.loads(line) for line in next(tmp_path.rglob("whole/**/metrics.jsonl")).open()]
    assert told[0]["update"] == 0


def test_programs_that_do_not_parse_and_files_that_are_none_are_refused(capsys, tmp_path):
    wrong = tmp_path / "wrong.txt"
    wrong.write_text("DEF run m( jump m)\n")
    for more, message in (
        (("--modes", wrong), "jump"),
        (("--modes", tmp_path / "no"), "cannot be read"),
        (("--method", "annealing"), "a machine needs several modes"),
    ):
        status, _, errors = call(capsys, *arguments(tmp_path / "run", *more))
        assert status == 2
        assert message in errors


def test_another_config_is_not_resumed(capsys, tmp_path, modes):
    folder = tmp_path / "run"
    call(capsys, *arguments(folder, "--modes", modes))
    status, _, errors = call(capsys, *arguments(folder, "--modes", modes))
    assert (status, "exists" in errors) == (2, True)
    before = files_of(folder)
    other = arguments(folder, "--modes", modes, "--set", "ppo.entropy=0.1", "--resume")
    status, _, errors = call(capsys, *other)
    assert status == 2
    assert "ppo.entropy (0.01 before, 0.1 now)" in errors
    assert files_of(folder) == before


def test_evaluation_refuses_what_it_cannot_do(capsys):
    machine = "zoo:UpNDown/network"
    for more, message in (
        (("--scale", "3"), "scale"),
        (("--episodes", "0"), "--episodes must be"),
        (("--exact", "--seed", "2"), "--exact takes every start once"),
        (("--exact",), "draws at random"),
    ):
        status, _, errors = call(capsys, "eval", machine, *more)
        assert status == 2, more
        assert message in errors
    status, output, _ = call(capsys, "eval", machine, "--greedy", "--episodes", "3", "--scale", "2")
    assert status == 0
    assert "3 episodes" in output
    status, _, errors = call(capsys, "eval", "zoo:Nowhere")
    assert (status, "machine of the zoo" in errors) == (2, True)


def test_a_diverging_learning_rate_loses_nothing_but_itself(capsys, tmp_path, modes):
    long = ("ppo.total=1024", *TINY[1:])
    given = ("--modes", modes, "--learning-rates", "999,1e-3")
    status, _, _ = call(capsys, *arguments(tmp_path / "both", *given, settings=long))
    assert status == 0
    metrics = (tmp_path / "both/UpNDown/seed0/metrics.jsonl").read_text()
    assert "NaN" not in metrics
    alone = arguments(
        tmp_path / "alone", "--modes", modes, "--learning-rates", "999", settings=long
    )
    status, _, errors = call(capsys, *alone)
    assert status == 2
    assert "is nan after" in errors


def test_modes_that_a_machine_has_not_are_named_with_the_reason():
    one, two, three = (f"DEF run m( {actions} m)" for actions in ("move", "turnLeft", "turnRight"))
    rules = DecisionList((Rule(0),), ((Rule(None),),) * 2)
    machine = ProgramMachine("StairClimber", (one, two), rules)
    assert dropped_modes((one, two), machine) == []
    assert dropped_modes((one, two, one), machine) == [
        {"program": one, "why": "it is a mode already"}
    ]
    [told] = dropped_modes((one, two, three), machine)
    assert told["program"] == three
    assert "the first mode alone earns as much" in told["why"]
