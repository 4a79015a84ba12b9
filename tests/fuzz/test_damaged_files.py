"""Damaged and edited files of every format: refused in a line, or read; nothing else.

`make fuzz` tries thousands and prints counts.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from damage import BAD, OK, try_files
from formats import FORMATS

SHORT = 4
"""Cases of each format in the short suite."""


def test_examples_are_read_and_some_changed_files_read_or_refused_in_a_line():
    found = list(try_files(FORMATS, [None, *range(SHORT)]))
    unchanged = [told for told in found if told[1] is None]
    assert [told for told in unchanged if told[2] != OK] == []
    assert len(unchanged) == len(FORMATS)
    assert [told for told in found if told[2] in BAD] == []
    assert len(found) == (1 + SHORT) * len(FORMATS)


@pytest.mark.slow
def test_many_changed_files_are_read_or_refused_in_a_line():
    found = list(try_files(FORMATS, range(200), seconds=1800))
    assert [told for told in found if told[2] in BAD] == []
