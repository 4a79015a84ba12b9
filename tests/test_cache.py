"""The cache of compiled code: kept, keyed by the sources, and never a reason to fail."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

RUN = [sys.executable, "-m", "pomp", "run", "Seeder", "DEF run m( putMarker m)", "--json"]


def run(cache, **environment):
    return subprocess.run(
        RUN,
        capture_output=True,
        env={**os.environ, "POMP_CACHE_DIR": str(cache), **environment},
        timeout=120,
        check=True,
    )


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    """A cache after one run, and what that run printed."""
    cache = tmp_path_factory.mktemp("cache")
    return cache, run(cache)


def machine_code(cache):
    return [path for path in cache.rglob("*") if path.suffix in (".nbi", ".nbc")]


def test_the_first_run_says_that_it_compiles_and_the_second_is_silent(warm):
    cache, first = warm
    assert b"compiling run_lanes of seeder (once" in first.stderr
    second = run(cache)
    assert second.stderr == b""
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
    assert run(cache).stderr == b""


def test_a_damaged_kernel_source_is_written_again(warm):
    cache, first = warm
    for path in cache.rglob("seeder_*.py"):
        path.write_text("raise SystemExit('not this one')")
    assert run(cache).stdout == first.stdout


def test_a_cache_that_cannot_be_written_is_survived(tmp_path, warm):
    blocked = tmp_path / "file"
    blocked.write_text("a file, not a folder")
    result = run(blocked)
    assert result.stdout == warm[1].stdout
    assert b"cannot keep compiled code" in result.stderr


def test_processes_that_compile_at_once_agree(tmp_path, warm):
    environment = {**os.environ, "POMP_CACHE_DIR": str(tmp_path)}
    running = [
        subprocess.Popen(RUN, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
        for _ in range(3)
    ]
    for process in running:
        output, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors.decode()
        assert output == warm[1].stdout
    run(tmp_path)  # checksums written in between may belong to another process's files
    assert run(tmp_path).stderr == b""


def test_the_folder_is_keyed_by_the_sources(tmp_path):
    """A copy of the package with one rule edited must not use the code of the original."""
    package = Path(__file__).parents[1] / "src" / "pomp"
    copied = tmp_path / "src" / "pomp"
    subprocess.run(["cp", "-r", package, copied.parent.mkdir() or copied], check=True)
    program = ["-m", "pomp", "run", "Seeder", "DEF run m( putMarker m)", "--json"]
    environment = {
        **os.environ,
        "POMP_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": str(copied.parent),
    }

    def mean():
        result = subprocess.run(
            [sys.executable, *program], capture_output=True, env=environment, check=True
        )
        return result.stdout.split(b'"mean": ')[1].split(b",")[0]

    before = mean()
    rules = copied / "karel" / "rules.py"
    text = rules.read_text()
    changed = text.replace("min(before + 1, rules[CAP])", "min(before + 2, rules[CAP])")
    assert changed != text
    rules.write_text(changed)
    assert before == b"0.027777777777777776"
    assert mean() == b"0.0"
