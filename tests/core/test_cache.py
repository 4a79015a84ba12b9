"""The cache of compiled code: kept, keyed by the sources, and never a reason to fail."""

import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pomp.core.fingerprints import fingerprint
from processes import PATIENCE

RUN = [sys.executable, "-m", "pomp", "run", "Seeder", "DEF run m( putMarker m)", "--json"]


START = [
    *(sys.executable, "-c"),
    "import pomp; print(pomp.draw_starts(pomp.find_task('Seeder').configure(), 2, 0).cells.sum())",
]  # compiles one small kernel


def run(cache, command=RUN, **environment):
    return subprocess.run(
        command,
        capture_output=True,
        env={**os.environ, "POMP_CACHE_DIR": str(cache), **environment},
        timeout=PATIENCE,
        check=True,
    )


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    """A cache after one run, and what that run printed."""
    cache = tmp_path_factory.mktemp("cache")
    return cache, run(cache)


def machine_code(cache):
    return [path for path in cache.rglob("*") if path.suffix in (".nbi", ".nbc")]


def test_the_first_run_says_that_it_compiles_and_the_second_has_no_need_to(warm):
    cache, first = warm
    assert b"compiling run_lanes of seeder (once" in first.stderr
    second = run(cache)
    assert b"compiling" not in second.stderr
    assert second.stdout == first.stdout


def test_a_damaged_cache_is_compiled_again(warm):
    cache, first = warm
    files = machine_code(cache)
    assert len(files) >= 4
    for number, path in enumerate(files):
        content = bytearray(path.read_bytes())
        flipped = content.copy()
        flipped[len(content) // 2] ^= 255
        kinds = content[: len(content) // 2], os.urandom(4096), b"", flipped
        path.write_bytes(kinds[number % len(kinds)])
    again = run(cache)
    assert again.stdout == first.stdout
    assert b"compiling" in again.stderr
    assert b"compiling" not in run(cache).stderr


def test_a_damaged_kernel_source_is_written_again(warm):
    cache, first = warm
    for path in cache.rglob("seeder_*.py"):
        path.write_text("raise SystemExit('not this one')")
    assert run(cache).stdout == first.stdout


def test_a_cache_that_cannot_be_written_is_survived(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("a file, not a folder")
    result = run(blocked, START)
    assert int(result.stdout) > 0
    assert b"cannot keep compiled code" in result.stderr


def test_processes_that_compile_at_once_agree(tmp_path):
    environment = {**os.environ, "POMP_CACHE_DIR": str(tmp_path)}
    running = [
        subprocess.Popen(START, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
        for _ in range(3)
    ]
    printed = set()
    for process in running:
        output, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, errors.decode()
        printed.add(output)
    assert len(printed) == 1
    run(tmp_path, START)  # checksums written in between may belong to another process's files
    assert b"compiling" not in run(tmp_path, START).stderr


@pytest.fixture
def copied(tmp_path):
    """A copy of the package that may be edited, and a function that runs it on its own cache."""
    package = tmp_path / "src" / "pomp"
    shutil.copytree(Path(__file__).parents[2] / "src" / "pomp", package)

    def seeded():
        result = run(tmp_path / "cache", PYTHONPATH=str(package.parent))
        compiled = re.findall(rb"compiling (\w+) of", result.stderr)
        return json.loads(result.stdout)["mean"], [name.decode() for name in compiled]

    return package, seeded


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_what_is_compiled_decides_and_nothing_else(copied):
    """A comment, a docstring or any other file compiles nothing; a constant elsewhere does."""
    package, seeded = copied
    dynamics = package / "karel" / "dynamics.py"
    mean, compiled = seeded()
    assert mean == 1 / 36
    assert "run_lanes" in compiled
    edit(package / "cli" / "plot.py", '"""', '"""Edited. ')
    edit(package / "tasks" / "catalog.py", "TASKS: ", "# a comment\nTASKS: ")
    edit(dynamics, '"""Pick or put a marker', '"""Edited: pick or put')
    edit(dynamics, "    cell = pose >> 2\n", "    cell = pose >> 2  # here\n")
    edit(package / "engine" / "kernels.py", '"""Run every unit', '"""Edited. Run every unit')
    assert seeded() == (mean, [])
    edit(dynamics, "min(before + 1, ", "min(before + 2, ")
    assert seeded()[0] == 0.0
    edit(dynamics, "min(before + 2, ", "min(before + 1, ")
    assert seeded() == (mean, [])  # the code of before is still there
    edit(dynamics, "= 15, 16, 32, 64", "= 15, 16, 64, 32")
    assert "run_lanes" in seeded()[1]  # a constant, in another file than the kernel


PAIRS = """
import numpy as np
from classes import CLASS
from pomp.core.compiling import kernel
@kernel
def difference(pair, out):
    out[0] = pair.left - pair.right
out = np.zeros(1, np.int64)
difference(CLASS(5, 3), out)
print(out[0])
"""


@pytest.fixture
def pairs(tmp_path):
    """A function that subtracts two fields of a class, 5 and 3 in the given order, compiled."""

    def difference(fields, name="Pair"):
        made = f"{name} = NamedTuple('{name}', [(one, int) for one in {fields}])"
        (tmp_path / "classes.py").write_text(f"from typing import NamedTuple\n{made}\n")
        file = tmp_path / "pairs.py"
        file.write_text(PAIRS.replace("CLASS", name))
        switches = {"POMP_CACHE_DIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
        environment = {**os.environ, **switches}
        command = [sys.executable, file]
        return int(subprocess.run(command, capture_output=True, env=environment, check=True).stdout)

    return difference


def test_the_fields_of_named_tuples_belong_to_the_key(pairs):
    """Two classes that differ in the order of their fields alone must not share machine code."""
    orders = ("left", "right"), ("right", "left"), ("left", "right")
    assert [pairs(fields) for fields in orders] == [2, -2, 2]


def test_a_named_tuple_may_get_another_name(pairs):
    assert [pairs(("left", "right"), name) for name in ("Pair", "Couple", "Pair")] == [2, 2, 2]


def test_attributes_belong_to_the_fingerprint():
    """Byte code has the numbers of names, not the names."""
    functions = [
        lambda x: math.exp(x.left),
        lambda x: math.sqrt(x.left),
        lambda x: math.exp(x.right),
    ]
    assert len({fingerprint(function) for function in functions}) == 3
    assert fingerprint(functions[0]) == fingerprint(lambda x: math.exp(x.left))
