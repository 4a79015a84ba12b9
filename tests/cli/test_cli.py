"""The `pomp` command as a user meets it: what it prints, and its status."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from pomp.cli.main import main
from pomp.core.compiling import Kernel
from pomp.version import __version__
from processes import PATIENCE

ROOT = Path(__file__).parents[2]
PROGRAM = "DEF run m( WHILE c( frontIsClear c) w( move w) m)"
SWEEP = str(ROOT / "examples" / "harvester.karel")


class Answer(NamedTuple):
    returncode: int
    stdout: bytes
    stderr: bytes


def pomp_process(*arguments, stdin=None):
    """The command in a process of its own."""
    command = [sys.executable, "-m", "pomp", *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=PATIENCE, check=False)


@pytest.fixture
def pomp(capsysbinary, monkeypatch):
    """A function that calls the command in this process, which takes a hundredth of the time."""

    def call(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        return Answer(stop.value.code or 0, *capsysbinary.readouterr())

    return call


def document(result):
    assert result.returncode == 0, result.stderr.decode()
    return json.loads(result.stdout)


def test_help_is_instant_because_it_imports_neither_torch_nor_numba():
    code = (
        "import sys\n"
        "from pomp.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as stop:\n    assert not stop.code\n"
        "print(sorted({'torch', 'numba', 'gymnasium', 'PIL'} & set(sys.modules)), file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert result.stderr.decode().strip() == "[]"
    assert b"conformance" in result.stdout


def test_the_version_is_printed():
    assert pomp_process("--version").stdout.decode().strip() == f"pomp {__version__}"


def test_run_prints_the_return(pomp):
    result = pomp("run", "Harvester", SWEEP)
    assert result.returncode == 0
    assert b"mean return 1.000000" in result.stdout
    assert b"the program came to its end in 32" in result.stdout


def test_run_prints_one_json_document():
    found = document(pomp_process("run", "harvester", SWEEP, "--starts", 3, "--json"))
    assert found["returns"] == [1.0] * 3
    assert found["mean"] == 1.0
    assert found["actions"] == [90] * 3
    assert found["completed"] == [True] * 3


@pytest.mark.parametrize("name", ["Up-N-Down", "upndown", "UPNDOWN", "Inf-DoorKey"])
def test_case_and_hyphens_of_a_task_do_not_matter(pomp, name):
    assert document(pomp("run", name, PROGRAM, "--json"))["task"].lower() == (
        name.replace("-", "").lower()
    )


def test_a_program_comes_from_standard_input():
    found = document(pomp_process("run", "Seeder", "-", "--json", stdin=PROGRAM.encode()))
    assert found["actions"][0] == 5


def test_a_seed_fixes_the_result_and_threads_do_not_change_it(pomp):
    arguments = ("run", "Maze", PROGRAM, "--json", "--starts", 500, "--seed", 3)
    one = pomp(*arguments, "--threads", 1)
    assert one.stdout == pomp(*arguments, "--threads", 2).stdout
    assert one.stdout != pomp(*arguments[:-1], 4).stdout


def test_exact_weighs_every_start(pomp):
    found = document(pomp("run", "OneStroke", PROGRAM, "--exact", "--json"))
    assert len(found["returns"]) == 36
    assert sum(found["probabilities"]) == pytest.approx(1)
    # From column c the agent visits the cells up to the wall; no action follows the last move.
    assert found["mean"] == pytest.approx(sum(6 - c for c in range(1, 7)) / 6 / 36)


def test_exact_is_refused_where_starts_cannot_be_listed(pomp):
    result = pomp("run", "CleanHouse", PROGRAM, "--exact")
    assert result.returncode == 2
    assert b"10 of 68 cells" in result.stderr


def test_exact_is_refused_when_the_run_itself_draws(pomp):
    fetch = "DEF run m( turnLeft move move turnRight move move pickMarker m)"
    result = pomp("run", "Seesaw", fetch, "--exact")
    assert result.returncode == 2
    assert b"draws at random during the run" in result.stderr
    assert document(pomp("run", "Seesaw", PROGRAM, "--exact", "--json"))["exact"] is True


def test_a_gif_is_written(pomp, tmp_path):
    from PIL import Image

    target = tmp_path / "run.gif"
    assert pomp("run", "Snake", PROGRAM, "--gif", target).returncode == 0
    with Image.open(target) as picture:
        assert picture.format == "GIF"
        assert picture.n_frames >= 3  # the start and three moves; equal pictures are merged
    assert [path.name for path in tmp_path.iterdir()] == ["run.gif"]


def test_a_trace_lists_every_action(pomp):
    found = document(pomp("run", "Snake", PROGRAM, "--trace", "--json"))
    assert [row["action"] for row in found["trace"]] == ["move"] * 3
    assert [row["reward"] for row in found["trace"]] == [0.0, 0.0, 0.05]
    assert found["trace"][-1]["col"] == 6
    lines = pomp("run", "Snake", PROGRAM, "--trace").stdout.decode().splitlines()
    assert lines[2].split()[:4] == ["2", "token", "8", "move"]


def test_a_map_from_a_file_is_the_start(pomp, tmp_path):
    (tmp_path / "maze.txt").write_text("#####\n#>.m#\n#####\n")
    result = pomp("run", "Maze", PROGRAM, "--world", tmp_path / "maze.txt", "--size", "3x5")
    assert result.returncode == 2  # Maze asks for four rows
    (tmp_path / "maze.txt").write_text("#####\n#...#\n#>.m#\n#####\n")
    found = document(pomp("run", "Maze", PROGRAM, "--world", tmp_path / "maze.txt", "--json"))
    assert found["mean"] == 1.0


def test_a_variant_an_option_a_size_and_a_scale_are_taken(pomp):
    options = ("--variant", "paper", "--option", "psi=0.5", "--size", "9x9", "--scale", 4)
    found = document(pomp("run", "UpNDown", "DEF run m( move m)", *options, "--json"))
    assert (found["variant"], found["options"]["psi"]) == ("paper", 0.5)
    assert (found["size"], found["scale"]) == ([9, 9], 4)


def test_check_prints_the_program_a_statement_a_line(pomp):
    result = pomp("check", PROGRAM)
    assert result.stdout.decode().splitlines()[1] == "  WHILE c( frontIsClear c) w("


def test_check_points_at_the_first_wrong_token(pomp):
    result = pomp("check", "DEF run m( move c( m)")
    assert result.returncode == 2
    message, text, caret = result.stderr.decode().rstrip().splitlines()
    assert "got 'c('" in message
    assert text[caret.index("^") :].startswith("c(")
    found = json.loads(pomp("check", "DEF run m( move c( m)", "--json").stdout)
    assert (found["valid"], found["position"], found["found"]) == (False, 4, "c(")


def test_sampled_programs_depend_on_the_seed_alone(pomp):
    first = document(pomp("sample", "--count", 5, "--seed", 1, "--json"))["programs"]
    assert first == document(pomp("sample", "--count", 9, "--seed", 1, "--json"))["programs"][:5]
    assert all(program.startswith("DEF run m(") for program in first)


def test_tasks_lists_the_fifteen(pomp):
    tasks = document(pomp("tasks", "--json"))["tasks"]
    assert len(tasks) == 15
    assert tasks[0]["variants"]["paper"] == {"off_stairs_penalty": 1.0}
    assert pomp("tasks").stdout.decode().count("ceiling") == 15


def test_conformance_exits_1_on_a_mismatch(pomp, tmp_path):
    content = json.loads((ROOT / "tests" / "golden" / "dsl.json").read_text())
    (tmp_path / "dsl.json").write_text(json.dumps(content))
    assert document(pomp("conformance", tmp_path, "--json"))["mismatches"] == 0
    content["vocabulary"][5] = "turnAround"
    (tmp_path / "dsl.json").write_text(json.dumps(content))
    result = pomp("conformance", tmp_path)
    assert result.returncode == 1
    assert b"tokens 5: expected token 'turnAround', got 'turnRight'" in result.stdout


def test_bench_prints_the_table_as_json(pomp):
    found = document(pomp("bench", "engine", "--task", "Seeder", "--json"))["tasks"]["Seeder"]
    for what in ("engine_1_thread", "engine_all_threads", "reference"):
        assert found[f"{what}_actions_per_second"] > 0


DEEP = "DEF run m( " + "WHILE c( frontIsClear c) w( " * 10_000 + "move " + "w) " * 10_000 + "m)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "Havrester", PROGRAM), "unknown task 'Havrester'. Did you mean 'Harvester'?"),
        (("run", "Seeder", PROGRAM, "--variant", "hrpl"), "Did you mean 'hprl'?"),
        (("run", "Harvester", PROGRAM, "--option", "lug=on"), "Did you mean 'lag'?"),
        (("run", "Harvester", PROGRAM, "--option", "lag=maybe"), "lag is on or off, got 'maybe'"),
        (("run", "Harvester", PROGRAM, "--option", "lag"), "NAME=VALUE"),
        (("run", "Seeder", "DEF run m( jump m)"), "got 'jump'"),
        (("run", "Seeder", "DEF run m( m)"), "got 'm)'"),
        (("run", "Seeder", "DEF run m( move w)"), "got 'w)'"),
        (("run", "Seeder", "DEF run m( " + "move " * 5000 + "m)"), "at most 4096 tokens"),
        (("run", "Seeder", "missing.karel"), "a program's text begins with DEF"),
        (("run", "Seeder", "\0"), "a path is a text or a Path, got"),
        (("run", "StairClimber", PROGRAM, "--size", "4x4"), "at least 5x5"),
        (("run", "StairClimber", PROGRAM, "--size", "8x9"), "equal height and width"),
        (("run", "DoorKey", PROGRAM, "--size", "9x9"), "8x8, its map"),
        (("run", "Seeder", PROGRAM, "--size", "8by8"), "HEIGHTxWIDTH"),
        (("run", "Seeder", PROGRAM, "--size", "999x999"), "at most 128x128"),
        (("run", "Seeder", PROGRAM, "--seed", "-1"), "--seed must not be negative, got -1"),
        (("run", "Seeder", PROGRAM, "--starts", "0"), "--starts must be in 1.."),
        (("run", "Seeder", PROGRAM, "--threads", "0"), "--threads must be at least 1"),
        (("run", "Seeder", PROGRAM, "--scale", "2"), "Seeder has scale 1, got 2"),
        (("run", "Farmer", PROGRAM, "--scale", "3"), "has scale 1, 2, 4, 8, 16, got 3"),
        (("run", "Seeder", PROGRAM, "--cap", "steps5"), "unknown cap 'steps5'"),
        (("run", "Seeder", PROGRAM, "--cap", "actions0"), "unknown cap 'actions0'"),
        (("run", "Seeder", PROGRAM, "--gif", "no/such/folder/a.gif"), "there is no folder"),
        (("run", "Seeder", PROGRAM, "--world", "no.txt"), "cannot read file 'no.txt'"),
        (("run", "nowhere:TASK", PROGRAM), "cannot load task 'nowhere:TASK'"),
        (("run", "json:dumps", PROGRAM), "not a pomp Task"),
        (("sample", "--count", "-1"), "programs must be at least 0"),
        (("sample", "--max-tokens", "4"), "max_tokens must be a whole number from 5 to 4096"),
        (("bench", "engine", "--task", "Seedr"), "Did you mean 'Seeder'?"),
        (("conformance", "no/such/folder"), "no folder"),
    ],
)
def test_bad_input_is_refused_in_a_line_with_status_2_before_anything_compiles(
    pomp, arguments, message, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Kernel, "__call__", lambda *_: pytest.fail("a kernel ran"))
    result = pomp(*arguments)
    assert result.returncode == 2
    error = result.stderr.decode()
    assert message in error
    assert "Traceback" not in error
    assert result.stdout == b""
    assert error.count("\n") <= 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"\xff\xfe D E F", "is not UTF-8 text", id="not UTF-8"),
        pytest.param(b"DEF " * 2_000_000, "bytes: too long", id="megabytes"),
        pytest.param(DEEP.encode(), "at most 4096 tokens", id="nested 10,000 deep"),
        pytest.param(b"", "expected 'DEF', got the end", id="empty"),
    ],
)
def test_a_bad_program_file_is_refused(pomp, content, message, tmp_path):
    (tmp_path / "program.karel").write_bytes(content)
    for result in (
        pomp("check", tmp_path / "program.karel"),
        pomp("run", "Seeder", "-", stdin=content),
    ):
        assert result.returncode == 2
        assert message in result.stderr.decode()
        assert b"Traceback" not in result.stderr


def test_nothing_is_half_written_when_the_program_is_bad(pomp, tmp_path):
    target = tmp_path / "a.gif"
    target.write_bytes(b"precious")
    assert pomp("run", "Seeder", "DEF run m( m)", "--gif", target).returncode == 2
    assert target.read_bytes() == b"precious"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_reader_that_leaves_early_is_no_error():
    command = f"{sys.executable} -m pomp sample --count 20000 | head -n 1"
    result = subprocess.run(command, shell=True, capture_output=True, check=True)
    assert result.stdout.startswith(b"DEF run m(")
    assert b"Traceback" not in result.stderr


def test_a_task_from_outside_the_package_runs_by_name():
    mow = "DEF run m( WHILE c( frontIsClear c) w( pickMarker move w) pickMarker m)"
    command = [Path(sys.executable).with_name("pomp"), "run", "lawn:LAWN", mow, "--json"]
    result = subprocess.run(command, capture_output=True, cwd=ROOT / "examples", check=False)
    found = document(result)
    assert (found["task"], found["mean"], found["actions"][0]) == ("Lawn", 1.0, 15)
