"""Files, calls and kills: short trials. `make fuzz` tries thousands and prints counts."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from formats import FORMATS
from kills import RUNS
from misuses import EDITED, KINDS
from workers import BAD, OK, REFUSED, WHOLE, Workers

FILES, JUNK = 4, 25
"""In the short suite, cases of each format, and which so-manieth call with junk is tried."""
HARMLESS = {"StairClimber: large memory"}  # its numbers are compared; nothing is found by them


def try_all(trial, cases, **options):
    """Try cases, pairs of kind and case; returns what became of them."""
    with Workers(trial, **options) as workers:
        assert workers.prepare(list(dict.fromkeys(kind for kind, _ in cases))) == {}
        return list(workers.try_all(cases))


def bad_of(found):
    return [told for told in found if told.outcome in BAD]


def calls_of(kinds):
    return [(kind, name) for kind in kinds for name in KINDS[kind]]


def test_examples_are_read_and_some_changed_files_read_or_refused_in_a_line():
    found = try_all("damage", [(kind, case) for case in (WHOLE, *range(FILES)) for kind in FORMATS])
    assert [told for told in found if told.case == WHOLE and told.outcome != OK] == []
    assert bad_of(found) == []
    assert len(found) == (1 + FILES) * len(FORMATS)


def test_what_could_reach_foreign_memory_is_refused():
    found = {told.case: told.outcome for told in try_all("calls", calls_of(EDITED))}
    assert {name for name, outcome in found.items() if outcome != REFUSED} == HARMLESS
    assert all(found[name] == OK for name in HARMLESS)


def test_some_calls_with_junk_end_well():
    others = [kind for kind in KINDS if kind not in EDITED]
    assert bad_of(try_all("calls", calls_of(others)[::JUNK])) == []


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.slow) if kind in ("train", "embedding") else kind
        for kind in RUNS
    ],
)
def test_a_run_killed_at_a_random_moment_goes_on_to_the_same_bytes(kind):
    assert bad_of(try_all("kills", [(kind, 0)])) == []


@pytest.mark.slow
def test_all_misuses_end_well():
    calls = calls_of(KINDS)
    assert len(calls) >= 300
    assert bad_of(try_all("calls", calls)) == []


@pytest.mark.slow
def test_many_changed_files_are_read_or_refused_in_a_line():
    cases = [(kind, case) for case in range(200) for kind in FORMATS]
    assert bad_of(try_all("damage", cases, seconds=1800)) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", RUNS)
def test_runs_killed_at_twenty_moments_go_on_to_the_same_bytes(kind):
    assert bad_of(try_all("kills", [(kind, case) for case in range(20)])) == []
