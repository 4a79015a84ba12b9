"""Public calls that are misused: none kills the process, hangs, or fails in the depths.

`python tests/fuzz/workers.py` tries all of them and prints counts.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from misuses import ALL, EDITED
from workers import BAD, try_all

SHORT = 25
"""Of the calls with junk, each so-manieth is tried in the short suite."""


HARMLESS = {"StairClimber: large memory"}  # its numbers are compared; nothing is found by them


def bad_of(names):
    return {name: told for name, told in try_all(names).items() if told[0] in BAD}


def test_what_could_reach_foreign_memory_is_refused():
    found = try_all([name for name, _ in EDITED])
    assert {name for name, told in found.items() if told[0] != "refused"} == HARMLESS
    assert all(found[name][0] == "accepted" for name in HARMLESS)


def test_some_calls_with_junk_end_well():
    assert bad_of([name for name in ALL if name not in dict(EDITED)][::SHORT]) == {}


@pytest.mark.slow
def test_all_misuses_end_well():
    assert len(ALL) >= 300
    assert bad_of(ALL) == {}
