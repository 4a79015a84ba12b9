"""Text machines: the format, what is wrong with a file, and how they play.

Long on purpose: a file that is refused, printed and played is the same file.
"""

import logging
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from edited import edit_json
from pomp.analysis.pictures import describe_machine, frames_of
from pomp.cli.main import main
from pomp.core.errors import ConfigError, DataFileError, MachineSyntaxError
from pomp.dsl.grammar import MAX_TOKENS
from pomp.dsl.sampling import sample_programs
from pomp.dsl.vocabulary import LEAPS
from pomp.engine.starts import draw_starts
from pomp.karel.render import save_animation
from pomp.machine.config import EpisodeConfig
from pomp.machine.drawing import draw_machine
from pomp.machine.evaluation import evaluate, evaluate_exactly
from pomp.machine.policy import RESERVED, ProgramMachine
from pomp.machine.sensors import COUNT_NAMES, SENSOR_NAMES
from pomp.machine.text import (
    parse_machine,
    print_machine,
    read_machine,
    unreachable_modes,
    write_machine,
)
from pomp.machine.transitions import DecisionList, Rule
from pomp.machine.zoo import load_machine
from pomp.play.story import Story, Watching
from processes import PATIENCE

ROOT = Path(__file__).parents[2]
EXAMPLES = {path.stem: path for path in (ROOT / "examples" / "machines").glob("*.machine")}
DOCUMENTED = re.findall(r"```machine\n(.*?)```", (ROOT / "docs" / "MACHINES.md").read_text(), re.S)

CHASE = """\
machine UpNDown
start look
mode look: DEF run m( IF c( markersPresent c) i( turnLeft i) m)
  if idle and marker ahead -> go
  if idle and not marker right -> left
  if idle -> right
  else -> look
mode go: DEF run m( IF c( frontIsClear c) i( move i) m)
  if no marker anywhere -> stop
  if idle -> left
  else -> look
mode left: DEF run m( turnLeft m)
  else -> look
mode right: DEF run m( turnRight move m)
  else -> look
"""


# The text.

SENSED = st.sampled_from([*SENSOR_NAMES, *(f"not {name}" for name in SENSOR_NAMES)])
COUNTED = st.builds(
    "{}{} {} {}".format,
    st.sampled_from(["", "not "]),
    st.sampled_from(COUNT_NAMES),
    st.sampled_from(["at least", "below"]),
    st.integers(0, 999_999),
)
CONDITIONS = SENSED | COUNTED
PROGRAMS = [" ".join(LEAPS.decode(row)) for row in sample_programs(40, 5)]
NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,8}", fullmatch=True).filter(
    lambda name: name not in RESERVED
)
COMMENTS = st.lists(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20).map(str.rstrip),
    max_size=3,
).map(tuple)
CHOSEN_TASKS = (
    {"task": "Farmer"},
    {"task": "farmer", "variant": "paper", "size": (12, 10)},
    {"task": "UpNDown", "variant": "hipo", "options": {"psi": "0.001"}},
    {"task": "Inf-DoorKey"},
)


@st.composite
def machines(draw):
    names = tuple(draw(st.lists(NAMES, min_size=1, max_size=5, unique=True)))
    targets = st.none() | st.integers(0, len(names) - 1)
    conditions = st.lists(CONDITIONS, min_size=1, max_size=3).map(tuple)
    lists = st.tuples(st.lists(st.builds(Rule, targets, conditions), max_size=3), targets)
    rules = lists.map(lambda parts: (*parts[0], Rule(parts[1])))
    return ProgramMachine(
        **draw(st.sampled_from(CHOSEN_TASKS)),
        modes=tuple(draw(st.sampled_from(PROGRAMS)) for _ in names),
        transition=DecisionList(draw(rules), tuple(draw(rules) for _ in names)),
        episode=EpisodeConfig(
            cap=draw(st.sampled_from(["calls220", "actions200"])),
            most_steps=draw(st.sampled_from([1000, 7])),
            last_words=draw(st.booleans()),
        ),
        names=names,
        comments={about: draw(COMMENTS) for about in ("", *names)},
    )


@settings(max_examples=150)
@given(machines())
def test_reading_and_printing_are_inverses(machine):
    text = print_machine(machine)
    assert parse_machine(text) == machine
    assert print_machine(parse_machine(text)) == text
    assert f"sensors {machine.sensors}\n" in text


@settings(max_examples=150)
@given(machines(), st.integers(0), st.integers(0, 30), st.text(max_size=6) | st.sampled_from(
    ["start", "mode x: ", "if ", "else", "->", "\n", "#", "stop", "not ", " and "]
))  # fmt: skip
def test_a_damaged_text_is_refused_or_is_another_machine(machine, place, cut, put):
    text = print_machine(machine)
    place %= len(text)
    try:
        other = parse_machine(text[:place] + put + text[place + cut :])
    except MachineSyntaxError as error:
        refused, other = error, None
    if other is not None:
        assert parse_machine(print_machine(other)) == other
        return
    first, quoted, pointer = str(refused).split("\n")
    assert first.startswith(f"text:{refused.line}:{refused.column}: ")
    assert pointer.strip() == "^"
    assert len(pointer) <= len(quoted) + 1


@pytest.mark.parametrize("path", EXAMPLES.values(), ids=EXAMPLES)
def test_the_examples_are_printed_as_they_stand(path):
    assert print_machine(read_machine(path)) == path.read_text()


LOOSE = """
# a

#b
machine Farmer # task
start  a


 # one
mode  a : DEF
\t run m(\r
# in it
turnLeft m) # end
if idle and not   marker  left\t-> stop
# between
     else -> a
#last"""
TIGHT = """\
# a
# b
machine Farmer
sensors with compass
start a

# one
mode a: DEF run m( turnLeft m)
  if idle and not marker left -> stop
  else -> a
"""


def test_blank_lines_indentation_and_comments_mean_nothing():
    assert print_machine(parse_machine(LOOSE)) == TIGHT


def test_the_indentation_of_comments_is_kept():
    text = """\
# Walks, and then
#   - turns left
#       (or right)
#
# in the end.
machine Farmer
sensors perceptions only
start go

#     far in
# near
mode go: DEF run m( move m)
  else -> go
"""
    machine = parse_machine(text)
    assert machine.comments["go"] == ("    far in", "near")
    assert machine.comments[""][1:4] == ("  - turns left", "      (or right)", "")
    assert print_machine(machine) == text
    assert parse_machine(print_machine(machine)) == machine


def test_a_byte_order_mark_means_nothing(tmp_path):
    (tmp_path / "a.machine").write_bytes(b"\xef\xbb\xbf" + TIGHT.encode())
    assert read_machine(tmp_path / "a.machine") == parse_machine(TIGHT)


def test_modes_without_names_are_named_by_number():
    rules = (Rule(0, ("idle",)), Rule(None))
    machine = ProgramMachine("Farmer", ("DEF run m( move m)",), DecisionList(rules, (rules,)))
    text = print_machine(machine)
    assert "start if idle -> mode1\nstart else -> stop\n" in text
    assert parse_machine(text) == replace(machine, names=("mode1",))


def test_a_network_is_no_text(tmp_path):
    from pomp.learning.random_transition import randomise

    machine = randomise(read_machine(EXAMPLES["farmer"]))
    with pytest.raises(ConfigError, match="only a machine with rules is a text"):
        print_machine(machine)


def test_names_and_comments_survive_a_folder(tmp_path):
    machine = read_machine(EXAMPLES["up_n_down"])
    machine.save(tmp_path)
    assert ProgramMachine.load(tmp_path) == machine
    write_machine(machine, tmp_path / "again.machine")
    assert load_machine(str(tmp_path / "again.machine")) == machine


@pytest.mark.parametrize(
    ("key", "value"),
    [("names", 5), ("names", ["a"]), ("names", [1, 2]), ("names", [[], []]), ("names", "ab c"),
     ("comments", 5), ("comments", [1]), ("comments", {"": 5}), ("comments", {"": [5]}),
     ("comments", {"": ["a\nb"]})],
)  # fmt: skip
def test_damaged_names_and_comments_are_refused(key, value, tmp_path):
    parse_machine(GOOD).save(tmp_path)
    file = tmp_path / "machine.json"
    edit_json(file, **{key: value})
    with pytest.raises(DataFileError, match="holds no usable machine"):
        ProgramMachine.load(tmp_path)


@pytest.mark.parametrize("names", [("a",), ("a", "a"), ("stop", "b"), ("1", "b"), ("a b", "c")])
def test_names_that_no_file_could_hold_are_refused(names):
    rules = (Rule(None),)
    with pytest.raises(ConfigError, match="name"):
        ProgramMachine(
            "Farmer", ("DEF run m( move m)",) * 2, DecisionList(rules, (rules,) * 2), names=names
        )


# What is wrong with a file.

GOOD = """\
machine Farmer
start a
mode a: DEF run m( move m)
  if idle -> b
  else -> a
mode b: DEF run m( turnLeft m)
  else -> stop
"""
MANY = "".join(f"mode m{n}: DEF run m( move m)\n else -> a\n" for n in range(100))
LONG = "DEF run m( " + "move " * MAX_TOKENS + "m)"
BAD = {
    "empty": ((GOOD, "# nothing\n"), 1, 1, "holds no machine: expected 'machine TASK'"),
    "no machine": (("machine Farmer\n", ""), 1, 1, "expected 'machine TASK' first, got 'start'"),
    "two machines": (("start a", "machine Maze"), 2, 1, "a second time"),
    "no task": (("machine Farmer", "machine"), 1, 8, "expected the task's name"),
    "unknown task": (("Farmer", "Farmr"), 1, 9, "unknown task 'Farmr'. Did you mean 'Farmer'?"),
    "no start": (("start a\n", ""), 1, 9, "no start: expected a line 'start MODE'"),
    "two starts": (("start a", "start a\nstart b"), 3, 1, "'start' is given a second time"),
    "start without default": (("start a", "start if idle -> a"), 2, 18, "'start else -> MODE'"),
    "unknown start": (("start a", "start c"), 2, 7, "unknown mode 'c'"),
    "unknown mode": (("if idle -> b", "if idle -> aa"), 4, 14, "unknown mode 'aa'. Did you mean"),
    "unknown sensor": (("if idle", "if not idel"), 4, 6, "'idel'. Did you mean 'idle'?"),
    "half a sensor": (("if idle", "if idle and marker"), 4, 15, "unknown sensor 'marker'"),
    "unknown count": (("if idle", "if makers below 3"), 4, 6, "Did you mean 'markers'?"),
    "half a count": (("if idle", "if idle and markers"), 4, 15, "'markers' is a count; expected"),
    "no number": (("if idle", "if row at least"), 4, 6, "a whole number up to 999999, got nothing"),
    "uncounted": (
        ("start a", "sensors with compass\nstart if row below 3 -> b\nstart else -> a"),
        2, 9, "is not true: a rule asks how many there are",
    ),
    "no condition": (("if idle", "if"), 4, 5, "expected a condition"),
    "half a condition": (("if idle", "if idle and"), 4, 14, "expected a condition"),
    "no arrow": (("if idle -> b", "if idle"), 4, 10, "expected '->' and a mode's name"),
    "no target": (("if idle -> b", "if idle ->"), 4, 13, "expected a mode's name"),
    "two targets": (("if idle -> b", "if idle -> b a"), 4, 16, "expected the line's end, got 'a'"),
    "condition of else": (("else -> a", "else idle -> a"), 5, 8, "expected '->', got 'idle'"),
    "no default": (("  else -> a\n", ""), 3, 6, "mode 'a' has no default: expected 'else -> MODE'"),
    "no rules": (("  else -> stop\n", ""), 6, 6, "mode 'b' has no default"),
    "rule behind else": (("  else -> a", "  else -> a\n  if idle -> b"), 6, 3, "behind 'else'"),
    "rule without mode": (("start a", "start a\nelse -> a"), 3, 1, "'else' stands below a mode"),
    "no modes": ((GOOD[GOOD.index("mode a") :], ""), 1, 9, "the machine has no mode"),
    "a mode twice": (("mode b", "mode a"), 6, 6, "mode 'a' is there already"),
    "reserved name": (("mode b:", "mode stop:"), 6, 6, "a mode's name is none of stop, start"),
    "odd name": (("mode b:", "mode 2b:"), 6, 6, "begins with a letter, got '2b'"),
    "no name": (("mode b: DEF run m( turnLeft m)", "mode"), 6, 5, "expected the mode's name"),
    "no colon": (("mode b:", "mode b"), 6, 8, "expected ':' after 'b'"),
    "no program": ((" DEF run m( turnLeft m)", ""), 6, 8, "expected 'DEF'"),
    "bad program": (("turnLeft", "turnLef"), 6, 20, "mode 'b': expected"),
    "cut program": (("turnLeft m)", "turnLeft"), 6, 28, "got the end of the program"),
    "long program": (("DEF run m( turnLeft m)", LONG), 6, 9 + 11 + 5 * (MAX_TOKENS - 3), "at most"),
    "too many modes": (
        ("mode b:", f"{MANY}mode b:"), 204, 6, "a machine has at most 100 modes",
    ),
    "unknown setting": (("start a", "vairant paper\nstart a"), 2, 1, "Did you mean 'variant'?"),
    "unknown variant": (("start a", "variant lab\nstart a"), 2, 9, "variant of Farmer 'lab'"),
    "unknown option": (("start a", "option psi 1\nstart a"), 2, 12, "unknown option of Farmer"),
    "bad size": (("start a", "size big\nstart a"), 2, 6, "a size is rows x columns, as 8x8"),
    "wrong size": (("start a", "size 2x2\nstart a"), 2, 6, "Farmer takes a grid of"),
    "bad cap": (("start a", "cap never\nstart a"), 2, 5, "unknown cap 'never'"),
    "bad steps": (("start a", "most_steps 0\nstart a"), 2, 12, "most_steps"),
    "no steps": (("start a", "most_steps few\nstart a"), 2, 12, "a whole number, got 'few'"),
    "bad words": (("start a", "last_words yes\nstart a"), 2, 12, "is 'on' or 'off', got 'yes'"),
    "bad sensors": (("start a", "sensors all\nstart a"), 2, 9, "sensors are 'perceptions only'"),
    "untrue sensors": (
        ("start a", "sensors perceptions only\nstart if marker ahead -> b\nstart else -> a"),
        2, 9, "is not true: a rule asks where a marker is",
    ),
    "a setting twice": (("start a", "cap calls9\ncap calls8\nstart a"), 3, 1, "a second time"),
    "a late setting": (("mode b", "cap calls9\nmode b"), 6, 1, "stands before the first mode"),
    "nonsense": (("start a", "hello\nstart a"), 2, 1, "expected 'start' or 'mode', got 'hello'"),
}  # fmt: skip


def run_command(capsys, *arguments):
    """The exit status of a command, what it printed and what it complained about."""
    with pytest.raises(SystemExit) as stopped:
        main(list(map(str, arguments)))
    return stopped.value.code, *capsys.readouterr()


@pytest.mark.parametrize(("change", "line", "column", "reason"), BAD.values(), ids=BAD)
def test_bad_files_are_refused_with_a_place(change, line, column, reason, tmp_path, capsys):
    old, new = change
    path = tmp_path / "bad.machine"
    path.write_text(GOOD.replace(old, new, 1))
    status, out, complaint = run_command(capsys, "eval", path)
    assert (status, out) == (2, "")
    first, quoted, pointer = complaint.rstrip("\n").split("\n")  # one line, and where it is
    assert first.startswith(f"pomp: {path}:{line}:{column}: ")
    assert reason in first
    at = pointer.index("^")
    written = path.read_text().split("\n")[line - 1]
    assert quoted[at : at + 8].rstrip(" .") == written[column - 1 : column + 7].rstrip(" .")


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"\xff\xfe", "is not UTF-8 text"), (b"#" * (1 << 21), "too long for a machine")],
)
@pytest.mark.parametrize("command", ["eval", "bound"])
def test_what_is_no_text_is_refused_in_one_line(command, content, reason, tmp_path, capsys):
    path = tmp_path / "bad.machine"
    path.write_bytes(content)
    status, _, complaint = run_command(capsys, command, path)
    assert status == 2
    assert reason in complaint
    assert complaint.count("\n") == 1


@pytest.mark.parametrize("command", ["eval", "bound"])
def test_a_file_that_is_not_there_is_refused_in_one_line(command, tmp_path, capsys):
    status, _, complaint = run_command(capsys, command, tmp_path / "no.machine")
    assert status == 2
    assert "does not exist; expected a machine's folder, a file *.machine" in complaint
    assert complaint.count("\n") == 1


def test_a_mode_that_no_rule_reaches_is_a_warning(tmp_path, caplog):
    path = tmp_path / "some.machine"
    path.write_text(GOOD.replace("if idle -> b", "if idle -> stop"))
    with caplog.at_level(logging.WARNING, "pomp"):
        machine = read_machine(path)
    assert caplog.messages == [f"{path}:6:6: warning: no rule leads from the start to mode 'b'"]
    assert unreachable_modes(machine) == [1]
    assert unreachable_modes(parse_machine(GOOD)) == []


# How they play.


def test_warnings_go_to_standard_error_and_nowhere_else(tmp_path):
    path = tmp_path / "some.machine"
    path.write_text(GOOD.replace("if idle -> b", "if idle -> stop"))
    command = [sys.executable, "-m", "pomp", "eval", str(path), "--episodes", "2"]
    result = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=True)
    assert b"some.machine:6:6: warning: no rule leads from the start to mode 'b'" in result.stderr
    assert b"no rule" not in result.stdout
    assert b"2 of them never chose to end and were stopped at the limit" in result.stdout
    one = subprocess.run([*command[:-1], "1"], capture_output=True, timeout=PATIENCE, check=True)
    assert b"1 of them never chose to end and was stopped at the limit" in one.stdout


@pytest.mark.parametrize(
    ("name", "expected", "sensors"),
    [
        ("farmer", 0.8314, "perceptions only"),
        ("up_n_down", 0.9029, "with compass"),
        ("stair_climber", 1.0, "perceptions only"),
        ("four_corner", 1.0, "perceptions only"),
        ("harvester", 1.0, "perceptions only"),
        ("door_key", 1.0, "perceptions only"),
    ],
)
def test_the_examples_earn_what_they_should(name, expected, sensors, capsys):
    status, out, _ = run_command(capsys, "eval", EXAMPLES[name])
    assert status == 0
    assert f"transitions by rules: {sensors}" in out
    assert "clean: no program was cut" in out
    assert float(re.search(r"return ([0-9.]+)", out)[1]) == pytest.approx(expected, abs=1e-3)


def test_the_documented_machines_earn_what_the_page_says():
    climber, walker, found, waiter = map(parse_machine, DOCUMENTED)
    assert evaluate_exactly(climber).mean == 1.0
    assert evaluate(walker).mean == pytest.approx(0.875, abs=2e-3)
    assert evaluate(found).mean == pytest.approx(0.893, abs=2e-3)
    assert not evaluate_exactly(waiter).is_clean
    assert [print_machine(one) for one in (climber, walker, found, waiter)] == DOCUMENTED


def test_longer_exact_greedy_and_other_grids(capsys):
    farmer = EXAMPLES["farmer"]
    assert "Farmer x2: exact" in run_command(capsys, "eval", farmer, "--scale", 2)[1]
    exact = run_command(capsys, "eval", farmer, "--exact")[1]
    assert "exact return 0.831411" in exact
    assert "grid" not in exact
    other = run_command(capsys, "eval", farmer, "--greedy", "--size", "10x10")[1]
    assert "grid 10x10, the machine was made for 8x8" in other


def test_a_machine_made_for_another_grid_says_so(tmp_path, capsys):
    path = tmp_path / "wide.machine"
    path.write_text(EXAMPLES["farmer"].read_text().replace("start sow", "size 8x12\nstart sow"))
    out = run_command(capsys, "eval", path)[1]
    assert "grid 8x12, the task's own is 8x8" in out


def test_a_bound_says_which_sensors_are_used(capsys):
    status, out, _ = run_command(capsys, "bound", EXAMPLES["up_n_down"])
    assert status == 0
    assert "the best transitions earn 0.903" in out
    assert "the machine's transitions earn 0.902906 in 100 episodes by rules, with compass" in out
    status, _, complaint = run_command(capsys, "bound", EXAMPLES["farmer"], "--task", "Farmer")
    assert status == 2
    assert "has a task of its own" in complaint


def test_acting_step_by_step_is_the_episode_that_is_evaluated():
    machine = parse_machine(CHASE)
    found = evaluate(machine, episodes=1, seed=3)
    path = found.paths[0].tolist()
    assert set(path) == {0, 1, 2, 3}
    world, acted = draw_starts(machine.configure(), 1, 3), []
    while not acted or not acted[-1].is_last:
        acted.append(machine.act(world))
    assert [4 if step.mode is None else step.mode for step in acted] == path
    assert sum(step.actions for step in acted) == found.actions[0]
    *_, last = Story(machine, machine.configure(), seed=3)
    assert (last.worth, last.actions, last.step) == (found.returns[0], found.actions[0], len(path))


def test_names_stand_where_numbers_stood(tmp_path):
    machine = read_machine(EXAMPLES["up_n_down"])
    found = evaluate(machine, episodes=2)
    text = describe_machine(machine, found)
    assert text.startswith("rules: with compass\nstart -> rise 100%\nrise -> ")
    picture = draw_machine(machine, found)
    assert all(f">{name}</text>" in picture for name in machine.names)
    assert "with compass" in picture
    save_animation(frames_of(machine, found, draw_starts(found.setting, 2, 0)), tmp_path / "a.gif")
    assert (tmp_path / "a.gif").stat().st_size > 1000
    player = Watching(machine, machine.configure(), 0, 8.0, greedy=False)
    for key in (" ", "."):
        player.press(key)
    view = player.view()
    assert "with compass" in view.title
    assert view.heading == "rise, mode 1 of 8"
    assert "modes  rise" in view.status
