"""Sensors of one's own, in a module of the current folder, through every command."""

import json
import signal
import sys
from dataclasses import replace

import pytest

import pomp
from commands import EXAMPLES, bring, call, change
from pomp.core import ConfigError, MachineSyntaxError, UntrustedModuleError
from pomp.karel.sensor_set import find_sensor, find_sensors
from pomp.machine import (
    DecisionList,
    EpisodeConfig,
    Episodes,
    Rule,
    parse_machine,
    print_machine,
)
from pomp.play.story import Watching
from pomp.tasks import RANDOM_WORLD
from processes import run_pomp, run_until

CLIMB = "DEF run m( turnLeft move turnRight move m)"
TEXT = f"""machine StairClimber
sensors with marker in sight right
sensor sight:AHEAD
sensor sight:LEFT
sensor sight:RIGHT
start climb

mode climb: {CLIMB}
  if markersPresent and not marker in sight right -> stop
  else -> climb
"""
SIGHT = ("sight:AHEAD", "sight:LEFT", "sight:RIGHT")
OPTIONS = [part for name in SIGHT for part in ("--sensor", name)]
SMALL = ("chains=4", "starts=2", "validation_starts=2", "steps=400")
SEED = ("--seeds", 1)  # its machine asks for one of the sensors


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty current folder with what is one's own in it."""
    return bring(tmp_path, monkeypatch, "sight")


def test_every_command_takes_them(capsys, here):
    def done(*given):
        status, output, errors = call(capsys, *given)
        assert status == 0, errors
        return output

    (here / "seen.machine").write_text(TEXT)
    machine = ("seen.machine", "--allow", "sight")
    told = json.loads(done("eval", *machine, "--json"))
    assert (told["mean"], told["sensors"]) == (1.0, "with marker in sight right")
    assert "by rules, with marker in sight right" in done("bound", *machine)
    words = "stops if there is a marker here and no marker is in sight to the right"
    explained = " ".join(done("explain", *machine).split())
    assert words in explained
    assert "sensors: markersPresent, marker in sight right" in explained
    assert "sensors perceptions only\nstart" in done("simplify", *machine)  # it can do without
    alone = ("teams=1", *SMALL)
    evolve = ("evolve", "StairClimber", "--rounds", 1, *SEED, *OPTIONS, *change(alone))
    assert "\n  if not marker in sight -> mode2\n" in done(*evolve, "--out", "evolved")
    assert "was finished before" in done(*evolve, "--out", "evolved", "--resume")
    alone = ("rounds=1", "sensors=perceptions", *alone)
    train = ("train", "StairClimber", "--method", "text", *OPTIONS, *change(alone, "search."))
    train = (*train, *SEED, "--out", "trained")
    assert "return=" in done(*train)
    assert "was finished before" in done(*train, "--resume")
    plain = json.loads((here / "evolved" / "config.json").read_text())["evolve"]
    searched = json.loads((here / "trained" / "search" / "config.json").read_text())["evolve"]
    assert plain["own_sensors"] == searched["own_sensors"] == list(SIGHT)


def test_machines_that_were_found_before_keep_their_sensors(capsys, here):
    folder = here / "found" / "StairClimber" / "seed0"
    folder.mkdir(parents=True)
    (folder / "StairClimber.machine").write_text(TEXT)
    tiny = ("ppo.total=64", "ppo.actors=4", "ppo.steps=16", "ppo.minibatch=32")
    train = ("train", "StairClimber", "--modes", "found", *change(tiny), "--out")
    status, _, errors = call(capsys, *train, "refused")
    assert (status, "--allow sight (in Python out=pomp.runs." in errors) == (2, True)
    for given in (OPTIONS, ("--allow", "sight")):
        status, output, errors = call(capsys, *train, f"trained{len(given)}", *given)
        assert status == 0, errors
        assert "return=1.0" in output
    machine = pomp.load_machine(here / "trained2/StairClimber/seed0/machine", allow=["sight"])
    assert machine.sensors == "with marker in sight right"


@pytest.mark.parametrize("command", ["eval", "bound", "explain", "simplify"])
def test_a_file_does_not_choose_what_is_imported(capsys, here, command):
    parse_machine(TEXT, allow=["sight"]).save(here / "machine")
    saved = json.loads((here / "machine" / "machine.json").read_text())
    assert saved["transition"]["sensors"] == list(SIGHT)
    del sys.modules["sight"]
    (here / "sight.py").write_text("raise SystemExit('was run')")
    (here / "seen.machine").write_text(TEXT)
    for place in ("seen.machine", "machine"):
        status, _, errors = call(capsys, command, place)
        assert status == 2
        assert errors.splitlines()[-1].endswith(
            "the sensor 'sight:AHEAD' is code in the module sight, which a file may not run; "
            "if you trust it: --allow sight (in Python allow=['sight'])"
        )
    assert "sight" not in sys.modules
    with pytest.raises(UntrustedModuleError):
        pomp.load_machine("machine", allow=["other"])


def test_a_module_that_is_not_found_is_named(capsys, here, monkeypatch):
    parse_machine(TEXT, allow=["sight"]).save(here / "machine")
    (here / "sight.py").unlink()
    monkeypatch.delitem(sys.modules, "sight")
    status, _, errors = call(capsys, "eval", "machine", "--allow", "sight")
    assert status == 2
    assert errors.startswith("pomp: cannot load sensor 'sight:AHEAD': ModuleNotFoundError: No mod")
    assert "it is looked for in the current folder, then among installed packages" in errors


_START = "from pomp.karel import Sensor, scalar\nfrom sight import look_ahead as read\n"
_SENSOR = 'S = Sensor(name="north", holds="it does", fails="it does not", read=read)'


@pytest.mark.parametrize(
    ("source", "text", "says"),
    [
        ("nothing:S", "", "cannot load sensor 'nothing:S': ModuleNotFoundError"),
        ("mine:NOTHING", "", "mine has no 'NOTHING'"),
        ("mine:read", _START, "is a CPUDispatcher, not a pomp Sensor"),
        ("mine", "", "a sensor of your own is module:NAME, as in my_file:MY_SENSOR, got 'mine'"),
        ("mine:S", _START + _SENSOR.replace("north", "idle"), "the sensor name 'idle' is taken"),
        ("mine:S", _START + _SENSOR.replace("north", "a and b"), "none of them 'and' or 'not'"),
        (
            "mine:S",
            _START + _SENSOR.replace("=read)", "=read, mirror='south')"),
            "is 'south', which is not among the sensors; name it too",
        ),
        (
            "mine:S",
            f"{_START}@scalar\ndef read(cells, constants, pose):\n    return pose\n{_SENSOR}",
            "read of sensor 'north' must return a bool, got int64",
        ),
        (
            "mine:S",
            f"{_START}@scalar\ndef read(cells, constants, pose):\n    return pose.no\n{_SENSOR}",
            "sensor 'north' cannot be compiled: Unknown attribute 'no'",
        ),
        (
            "mine:S",
            f"{_START}@scalar\ndef read(cells, constants, pose):\n    cells[0] = 1\n"
            f"    return pose > 3\n{_SENSOR}",
            "read of sensor 'north' writes to cells or constants; a sensor may only read them",
        ),
    ],
)
def test_what_a_sensor_lacks_is_told_before_any_work(capsys, here, monkeypatch, source, text, says):
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    (here / "mine.py").write_text(text + "\n")
    for command in ("evolve", "train"):
        given = (command, "StairClimber", "--sensor", source, "--out", "run")
        status, _, errors = call(capsys, *given)
        assert (status, len(errors.splitlines())) == (2, 1), errors
        assert says in errors
    assert not (here / "run").exists()


def test_a_sensor_may_always_say_the_same(here, monkeypatch):
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    code = f"{_START}@scalar\ndef read(cells, constants, pose):\n    return True\n{_SENSOR}\n"
    (here / "mine.py").write_text(code)
    own = find_sensors(["mine:S"]).own
    setting = RANDOM_WORLD.configure(size=(4, 5))
    worlds = pomp.begin(setting, [pomp.Map.from_text("#####\n#>..#\n#...#\n#####")])
    episodes = Episodes(setting, [[CLIMB]], worlds, EpisodeConfig(), restarts=False)
    assert (episodes.sense(own=own) >> 10).tolist() == [1]


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("sensor sight:RIGHT\n", "", 4, "'marker in sight right', which is not among the sensors"),
        ("sight:LEFT", "sight:NONE", 4, "sight has no 'NONE'"),
        ("sight:LEFT", "", 4, "expected a value of 'sensor'"),
        ("sight:LEFT", "sight:LEFT now", 4, "expected the line's end, got 'now'"),
        ("sight:LEFT", "sight:AHEAD", 5, "the sensor name 'marker in sight' is taken"),
        ("with marker in sight right", "perceptions only", 2, "a rule asks for 'marker in sight"),
        ("with marker in sight right", "with eyes", 2, "sensors are 'perceptions only' or 'with"),
        ("not marker in sight right", "marker in site", 9, "Did you mean 'marker in sight'?"),
    ],
)
def test_what_is_wrong_in_a_text_has_a_place(here, old, new, line, says):
    with pytest.raises(MachineSyntaxError, match=says) as caught:
        parse_machine(TEXT.replace(old, new), allow=["sight"])
    assert caught.value.line == line


def test_a_method_without_rules_takes_no_sensors(capsys, here):
    status, _, errors = call(
        capsys, "train", "StairClimber", "--method", "pomp", *OPTIONS, "--out", "run"
    )
    assert (status, "finds no rules that could ask for sensors" in errors) == (2, True)


def test_sensors_are_passed_as_objects(here):
    ahead, other = (find_sensor(name) for name in SIGHT[:2])
    rules = (Rule(None, ("markersPresent",)), Rule(0, ("marker in sight",)), Rule(0))
    machine = pomp.ProgramMachine(
        "StairClimber", (CLIMB,), DecisionList((Rule(0),), (rules,), own=(ahead,)), names=("climb",)
    )
    assert pomp.evaluate(machine, episodes=4).mean == 1.0
    text = print_machine(machine)
    assert "\nsensors with marker in sight\nsensor sight:AHEAD\n" in text
    again = parse_machine(text, allow=["sight"])
    assert again.transition == machine.transition
    watching = Watching(again, again.configure(), 0, 8.0, greedy=False)
    assert "with marker in sight" in watching.view().title
    homeless = replace(ahead, holds="something is in sight")
    alone = replace(machine, transition=replace(machine.transition, own=(homeless,)))
    assert pomp.evaluate(alone, episodes=4).mean == 1.0
    with pytest.raises(ConfigError, match="the sensor 'marker in sight' is no name at the top"):
        alone.save(here / "machine")
    assert not (here / "machine" / "machine.json").exists()
    with pytest.raises(ConfigError, match="name it too"):
        pomp.evolve("StairClimber", settings={"own_sensors": [other]}, rounds=1)


def test_the_sensor_of_the_documentation_works(here, monkeypatch):
    text = (EXAMPLES.parent / "docs" / "EXTENDING.md").read_text().partition("## A sensor")[2]
    code = text.partition("```py\n")[2].partition("```")[0]
    (here / "documented.py").write_text(code)
    monkeypatch.delitem(sys.modules, "documented", raising=False)
    own = find_sensors(["documented:MARKER_NEXT"]).own
    setting = RANDOM_WORLD.configure(size=(4, 5))
    map_of = "#####\n#>{}.#\n#...#\n#####"
    worlds = pomp.begin(setting, [pomp.Map.from_text(map_of.format(cell)) for cell in ".1"])
    episodes = Episodes(setting, [[CLIMB]], worlds, EpisodeConfig(), restarts=False)
    assert (episodes.sense(own=own) >> 10).tolist() == [0, 1]


def test_searches_in_processes_find_them_and_go_on_to_the_same_bytes(here):
    given = ("evolve", "StairClimber", *OPTIONS, *SEED, "--rounds", 2, *change(SMALL), "--out")
    status, _, errors = run_pomp(*given, "whole")
    assert status == 0, errors
    place = ("state.safetensors", 1)
    status, _, errors = run_until(place, signal.SIGINT, *given, "cut")
    assert status == 130, errors
    status, _, errors = run_pomp(*given, "cut", "--resume")
    assert status == 0, errors
    for file in ("StairClimber.machine", "metrics.jsonl", "evaluation.json"):
        whole, cut = (here / run / "StairClimber" / "seed1" / file for run in ("whole", "cut"))
        assert whole.read_bytes() == cut.read_bytes(), file
