"""Search methods and learning methods of one's own, in a module of the current folder."""

import json

import pytest

import pomp
from commands import bring, call, change
from pomp.core import ConfigError, UntrustedModuleError
from pomp.learning import LearningMethod
from pomp.modes import Method
from pomp.modes.methods import configure
from pomp.runs import RunFolder
from pomp.runs.kept import read_run
from pomp.runs.survey import MACRO_STEPS, RECORDS, read_charts

CLIMB = "DEF run m( turnLeft move turnRight move m)"
FEW = ("--set", "proposer.candidates=640")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty current folder with what is one's own in it."""
    return bring(tmp_path, monkeypatch, "one_plus_many", "q_learning")


def modes_in(folder):
    return json.loads((folder / "modes.json").read_text())["modes"]


def test_a_search_by_it_is_resumed_to_the_same_bytes(capsys, here):
    search = ("search", "Maze", "--method", "one_plus_many:ONE_PLUS_MANY", *FEW)
    assert call(capsys, *search, "--out", "whole")[0] == 0
    (mode,) = modes_in(here / "whole/Maze/seed0")
    assert mode["candidates"] <= 640
    assert mode["return"] > 0
    import one_plus_many

    halves = pomp.search(
        "Maze",
        method=one_plus_many.ONE_PLUS_MANY,
        settings={"proposer.candidates": 640},
        out="halves",
        on_event=lambda event: event.progress.share > 0.3,
    )
    assert not halves.is_finished
    assert call(capsys, *search, "--out", "halves", "--resume")[0] == 0
    assert modes_in(here / "halves/Maze/seed0") == modes_in(here / "whole/Maze/seed0")
    status, output, _ = call(capsys, "report", "whole")
    assert status == 0
    assert "one_plus_many:ONE_PLUS_MANY" in output


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("ONE_PLUS_MANY = 3", "'one_plus_many:ONE_PLUS_MANY' is a int, not a pomp Method"),
        ("del OnePlusMany.restore", "its runs lack restore"),
        ("OnePlusMany.ask = lambda self: self.best", "ask must return rows of candidates"),
        (
            "OnePlusMany.ask = lambda self: np.zeros((4, 9), np.float32)",
            "ask must return [N, L] uint8, got [4, 9] float32",
        ),
        ("OnePlusMany.ask = lambda self: np.full((4, 9), 99, np.uint8)", "none of the token ids"),
        ("OnePlusMany.restore = lambda self, arrays, values: None", "asks for other candidates"),
        ("OnePlusMany.VALUES = ('settings',)", "to_arrays must return values for JSON"),
        ("OnePlusMany.tell = lambda self, *given: None", "tell must return slice(first, last)"),
        (
            "ONE_PLUS_MANY = Method('x', OnePlusMany, OnePlusMany, False)",
            "its settings must be a dataclass",
        ),
        (
            "Settings = dataclass(type('S', (), {'__annotations__': {'a': tuple}, 'a': (1,)}))\n"
            "ONE_PLUS_MANY = Method('x', Settings, OnePlusMany, False)",
            "the setting a must be a number, a text or a flag, got tuple",
        ),
        ("OnePlusMany.__init__ = lambda self: None", "TypeError"),
    ],
)
def test_what_does_not_fit_is_refused_before_work_begins(capsys, here, change, message):
    with (here / "one_plus_many.py").open("a") as file:
        file.write(change)
    search = ("search", "Maze", "--method", "one_plus_many:ONE_PLUS_MANY", "--out", "out")
    status, _, errors = call(capsys, *search)
    assert status == 2
    assert message in errors
    assert len(errors.splitlines()) == 1
    assert not (here / "out").exists()


def test_a_method_must_stand_at_the_top_of_a_module(here, monkeypatch):
    monkeypatch.syspath_prepend(here)
    import one_plus_many

    homeless = Method("homeless", one_plus_many.Settings, one_plus_many.OnePlusMany, False)
    with pytest.raises(ConfigError, match="no name at the top of an imported module"):
        pomp.search("Maze", method=homeless)


def test_a_method_with_the_name_of_a_shipped_one_has_settings_of_its_own(here, monkeypatch):
    monkeypatch.syspath_prepend(here)
    import one_plus_many

    own = (one_plus_many.Settings, one_plus_many.OnePlusMany, False)
    one_plus_many.LEAPS = Method("leaps", *own, {"score.starts": 4})
    for task in ("Maze", "Seesaw"):  # with published settings of LEAPS, and without
        config = configure(one_plus_many.LEAPS, "paper", task)
        assert (config.method, config.mode.grid) == ("one_plus_many:LEAPS", False)


def test_a_method_that_finds_one_program_takes_no_number_of_modes(capsys, here):
    search = ("search", "Maze", "--method", "one_plus_many:ONE_PLUS_MANY", "--out", "out")
    status, _, errors = call(capsys, *search, "--modes", "3")
    assert status == 2
    assert "one-plus-many finds one program" in errors


LEARN = ("train", "StairClimber", "--preset", "paper", "--method", "q_learning:Q_LEARNING")
STEPS = 4 * 6400


def files_in(folder):
    return {
        path.relative_to(folder): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "config.json"
    }


def test_a_machine_learned_by_it_is_resumed_to_the_same_bytes(capsys, here):
    (here / "modes.txt").write_text(f"{CLIMB}\nDEF run m( turnRight m)\n")
    learn = (*LEARN, "--modes", "modes.txt", "--set", f"steps={STEPS}")
    status, output, errors = call(capsys, *learn, "--out", "whole")
    assert status == 0, errors
    assert "return=1.000" in output
    whole = here / "whole/StairClimber/seed0"
    lines = (whole / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["steps"] for line in lines] == [6400, 12800, 19200, 25600]
    assert not (whole / "transitions.safetensors").exists()
    import q_learning

    halves = pomp.train(
        "StairClimber",
        preset="paper",
        method=q_learning.Q_LEARNING,
        modes="modes.txt",
        settings={"steps": STEPS},
        out="halves",
        on_event=lambda event: event.progress.share > 0.3,
    )
    assert not halves.is_finished
    assert (here / "halves/StairClimber/seed0/transitions.safetensors").exists()
    again = ("train", "--out", "halves", "--resume")
    status, _, errors = call(capsys, *again)
    assert (status, "--allow q_learning" in errors) == (2, True)
    assert call(capsys, *again, "--allow", "q_learning")[0] == 0
    assert call(capsys, *learn, "--out", "halves", "--resume")[0] == 0
    assert files_in(here / "halves") == files_in(here / "whole")


def test_what_it_learned_is_reported_whatever_the_search_for_modes_found(capsys, here):
    small = ("rounds=1", "teams=1", "chains=4", "starts=2", "validation_starts=2", "steps=60")
    learn = ("train", "StairClimber", "--method", "q_learning:Q_LEARNING", "--set", "steps=6400")
    status, _, errors = call(capsys, *learn, *change(small, "search."), "--out", "run")
    assert status == 0, errors
    told = json.loads((here / "run/StairClimber/seed0/evaluation.json").read_text())
    assert (told["transitions"], told["dropped"]) == ("q-table", [])
    again = pomp.train(resume=True, out=RunFolder("run", allow=["q_learning"]))
    assert again.machine.provenance["learning"] == "q-learning"


def test_its_numbers_are_plotted_over_its_steps(capsys, here):
    place = here / "run/Maze/seed0"
    place.mkdir(parents=True)
    config = {"kind": "train", "own": {}, "tasks": {"Maze": {}}, "seeds": [0]}
    (here / "run/config.json").write_text(json.dumps(config))
    lines = ({"steps": 5.0, "loss": 2.0}, {"steps": 9.0, "loss": 1.0})
    (place / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (chart,) = read_charts(read_run(here / "run"))
    assert (chart.what, chart.over, chart.curves[0].at) == ("loss", MACRO_STEPS, [5, 9])
    assert call(capsys, "plot", "run", "--out", "run.png")[0] == 0
    (place / "metrics.jsonl").write_text('{"loss": 2.0}\n{"loss": 1.0, "note": 3.0}\n')
    loss, note = read_charts(read_run(here / "run"))
    assert (loss.over, loss.curves[0].at, loss.curves[0].returns) == (RECORDS, [1, 2], [2.0, 1.0])
    assert (note.what, note.curves[0].at) == ("note", [2])


def test_a_machine_with_its_transitions_is_read_only_if_their_module_is_allowed(capsys, here):
    (here / "modes.txt").write_text(CLIMB)
    learn = (*LEARN, "--modes", "modes.txt", "--set", "steps=6400", "--out", "run")
    assert call(capsys, *learn)[0] == 0
    machine = "run/StairClimber/seed0/machine"
    status, output, _ = call(capsys, "eval", machine, "--allow", "q_learning", "--json")
    assert status == 0
    assert json.loads(output)["mean"] == 1.0
    assert "q-table" in call(capsys, "explain", machine, "--allow", "q_learning")[1]
    status, _, errors = call(capsys, "eval", machine)
    assert status == 2
    assert errors.startswith("pomp: the transition 'q_learning:TableTransition' is code in")
    with pytest.raises(UntrustedModuleError):
        pomp.load_machine(machine)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("Q_LEARNING = 3", "is a int, not a pomp Method or LearningMethod"),
        ("del QLearner.restore", "what it begins lacks restore"),
        ("del TableTransition.from_parts", "TableTransition is no transition: it lacks from_parts"),
        ("QLearner.__init__ = lambda self: None", "TypeError"),
        (
            "Q_LEARNING = LearningMethod('q', Settings, QLearner, ('DEF run m( dance m)',))",
            "does not fit: ",
        ),
        (
            "Q_LEARNING = LearningMethod('q', QLearner, QLearner)",
            "its settings must be a dataclass",
        ),
        ("QLearner.advance = None", "what it begins lacks advance"),
        ("QLearner.advance = lambda self: 1 / 0", "ZeroDivisionError: division by zero"),
        ("QLearner.advance = lambda self: 'x'", "numbers by name, or None, got a str"),
        ("QLearner.advance = lambda self: {'loss': 'x'}", "numbers; loss is 'x'"),
        ("QLearner.progress, QLearner.is_finished = 7.0, False", "from 0 to 1, got 7.0"),
        ("QLearner.restore = lambda self, arrays, values: None", "after restore it is not where"),
        ("QLearner.to_arrays = lambda self: ({}, {'a': self})", "a file cannot hold these arrays"),
        (
            "QLearner.transition = lambda self: TableTransition(self.values.argmax(2) * 0 + 9)",
            "choices are [4] int64 from 0 to 5, the end, got 9",
        ),
        (
            "QLearner.transition = lambda self: TableTransition(self.values.max(axis=2))",
            "choices are [4] int64 from 0 to 5, the end, got [4] float64",
        ),
        (
            "def local():\n    class Local(TableTransition): pass\n    return Local\n"
            "QLearner.transition = lambda self: local()(self.values.argmax(axis=2))",
            "the class Local is no name at the top of an imported module",
        ),
        (
            "TableTransition.to_arrays = lambda self: {}",
            "TableTransition cannot be read back from what to_json and to_arrays return: KeyError",
        ),
        (
            "TableTransition.to_arrays = lambda self: {'choices': self.choices * 0 + 1}",
            "TableTransition chooses otherwise after to_json, to_arrays and from_parts",
        ),
    ],
)
def test_a_learning_method_that_does_not_fit_is_refused_before_work(capsys, here, change, message):
    with (here / "q_learning.py").open("a") as file:
        file.write(change)
    status, _, errors = call(capsys, *LEARN, "--out", "out")
    assert status == 2
    assert message in errors
    assert len(errors.splitlines()) == 1
    assert not (here / "out").exists()


def test_a_baseline_of_ones_own_has_modes_of_its_own(here, monkeypatch):
    monkeypatch.syspath_prepend(here)
    import q_learning

    q_learning.BASELINE = LearningMethod(
        "climber", q_learning.Settings, q_learning.QLearner, (CLIMB,)
    )
    settings = {"preset": "paper", "settings": {"steps": 6400}}
    found = pomp.train("StairClimber", method=q_learning.BASELINE, **settings)
    assert found.machine.modes == (CLIMB,)
    assert found.best.mean == 1.0
    with pytest.raises(ConfigError, match="climber has modes of its own; leave out the modes"):
        pomp.train("StairClimber", method=q_learning.BASELINE, modes=[CLIMB], **settings)


def test_a_search_method_of_ones_own_finds_the_modes_of_a_machine(here, monkeypatch):
    monkeypatch.syspath_prepend(here)
    import one_plus_many

    several = {"mode.modes": 2, "score.starts": 4}
    one_plus_many.MODES = Method(
        "modes", one_plus_many.Settings, one_plus_many.OnePlusMany, False, several
    )
    tiny = {"ppo.total": 64, "ppo.actors": 4, "ppo.steps": 16, "ppo.minibatch": 32}
    changes = {**tiny, "search.proposer.candidates": 320, "validation.every": 1}
    found = pomp.train("Maze", preset="paper", method=one_plus_many.MODES, settings=changes)
    assert len(found.machine.modes) == 2
    assert found.machine.provenance["search"] == "one_plus_many:MODES"
    with pytest.raises(ConfigError, match="a machine needs several modes; one-plus-many finds one"):
        pomp.train("Maze", preset="paper", method=one_plus_many.ONE_PLUS_MANY)
