"""Compiled code is loaded only from where nobody else could have put it.

Only root can become another user, or mount a small disk: elsewhere these tests say that they were
skipped.
"""

import logging
import os
import shutil
import stat
import subprocess
import tempfile
import traceback
from pathlib import Path

import pytest
from test_cache import START, run

from pomp.core import code_cache

NOBODY, SOMEBODY = 65534, 12345

needs_root = pytest.mark.skipif(
    not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can become another user"
)


def folder_of_nobody(place, cache, umask=0o022):
    """Where a process of another user keeps code, and its warnings, if its cache is there."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.umask(umask)
            os.environ["POMP_CACHE_DIR"], tempfile.tempdir = str(cache), str(place / "tmp")
            lines, code_cache.LOGGER.handlers[:] = [], [logging.NullHandler()]
            code_cache.LOGGER.addFilter(lambda record: lines.append(record.getMessage()) or False)
            code_cache.cache_folder.cache_clear()
            os.write(write, "\n".join([str(code_cache.cache_folder()), *lines]).encode())
        except BaseException:
            os.write(write, traceback.format_exc().encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        folder, *lines = answer.read().splitlines()
    os.waitpid(child, 0)
    return Path(folder), lines


def make(folder, mode=0o755, owner=NOBODY):
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(mode)
    os.chown(folder, owner, owner)
    return folder


@pytest.fixture
def place():
    """A folder that all users can look into, with one for temporary files."""
    folder = Path(tempfile.mkdtemp(prefix="trust-", dir="/tmp"))
    folder.chmod(0o755)
    make(folder / "tmp", 0o1777, owner=0)
    yield folder
    shutil.rmtree(folder)


@needs_root
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_the_cache_is_for_its_user_alone_whatever_the_umask(place, umask):
    make(place / "home")
    folder, lines = folder_of_nobody(place, place / "home" / "a" / "b", umask)
    assert (folder.parents[1], lines) == (place / "home" / "a" / "b", [])
    for one in (folder, *list(folder.parents)[:3]):
        assert stat.S_IMODE(one.stat().st_mode) == 0o700, one


@needs_root
@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (lambda home: make(home, 0o777, SOMEBODY), "belongs to user 12345"),
        (lambda home: make(home, 0o777), "others can write to"),
        (lambda home: make(home, 0o775), "others can write to"),
        (lambda home: make(home / "pomp-code", 0o777), "others can write to"),
        (lambda home: make(home / "pomp-code", 0o777, SOMEBODY), "belongs to user 12345"),
        (lambda home: make(home, 0o555, owner=0), "Permission denied"),
    ],
    ids=[
        "of another",
        "open to all",
        "open to a group",
        "code open",
        "code of another",
        "read-only",
    ],
)
def test_a_folder_that_cannot_be_trusted_or_written_is_not_used(place, prepare, reason):
    make(place / "home")
    prepare(place / "home")
    folder, lines = folder_of_nobody(place, place / "home")
    assert folder.parent == place / "tmp"
    assert len(lines) == 1
    assert reason in lines[0]


@needs_root
def test_a_link_is_followed_to_what_it_means(place):
    make(make(place / "elsewhere", owner=SOMEBODY) / "cache", owner=NOBODY)
    (place / "link").symlink_to(place / "elsewhere" / "cache")
    folder, lines = folder_of_nobody(place, place / "link")
    assert folder.parent == place / "tmp"
    assert "belongs to user 12345" in lines[0]


@needs_root
def test_what_was_open_to_others_once_is_not_loaded(place):
    version = code_cache.versions()
    old = make(make(make(place / "home") / "pomp-code") / version)
    make(old / "run.kernel-0123456789abcdef", 0o777)
    folder, lines = folder_of_nobody(place, place / "home")
    assert folder.parent == place / "tmp"
    assert "others could write" in lines[0]


@needs_root
@pytest.mark.parametrize("kind", ["link", "of another", "open"])
def test_the_fallback_is_neither_a_link_nor_anybody_elses(place, kind):
    expected = place / "tmp" / f"pomp-{NOBODY}-{code_cache.versions()}"
    if kind == "link":
        expected.symlink_to(make(place / "target", 0o700))
        os.chown(expected, SOMEBODY, SOMEBODY, follow_symlinks=False)
    else:
        make(expected, 0o777 if kind == "open" else 0o755, NOBODY if kind == "open" else SOMEBODY)
    make(place / "home", 0o777)
    folder, _ = folder_of_nobody(place, place / "home")
    assert folder.parent == place / "tmp"
    assert folder != expected
    assert (
        not list((place / "target").iterdir()) if kind == "link" else not list(expected.iterdir())
    )


@pytest.fixture
def full_disk(place):
    """A disk without room."""
    disk = place / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a small disk: {mounted.stderr.decode().strip()}")
    with pytest.raises(OSError, match="No space left"):
        (disk / "filler").write_bytes(bytes(1 << 17))
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@needs_root
def test_a_full_cache_disk_stops_nothing(full_disk):
    result = run(full_disk, START)
    assert int(result.stdout) > 0
    assert result.stderr.count(b"cannot keep compiled code") == 1
