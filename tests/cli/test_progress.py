"""The time left that commands show, on a clock of the test's own."""

import io

import pytest

from pomp.cli import progress
from pomp.cli.progress import ProgressLine, TimeLeft


def estimates(points):
    left = TimeLeft()
    return [left.estimate(now, done) for now, done in points]


def test_nothing_is_estimated_from_little():
    assert estimates([(0, 0.0), (40, 0.01), (41, 0.02), (42, 0.03)]) == [None] * 4
    assert estimates([(0, 0.0), *((1000, 0.0),) * 50]) == [None] * 51
    assert set(estimates([(0.01 * n, 0.001 * n) for n in range(100)])) == {None}


def test_a_steady_work_is_estimated_rightly_whatever_compiled_first():
    points = [(0, 0.0), *((60 + n, n / 100) for n in range(1, 100))]
    found = estimates(points)
    assert found[:6] == [None] * 6
    for (now, _), left in zip(points[10:], found[10:], strict=True):
        assert left == pytest.approx(160 - now)


def test_what_an_earlier_run_did_is_no_speed_of_this_one():
    found = estimates([(n, 0.9 + n / 1000) for n in range(50)])
    assert found[-1] == pytest.approx(51)


def test_an_estimate_counts_down_between_two_advances():
    left = TimeLeft()
    for n in range(10):
        left.estimate(10 * n, n / 20)
    assert left.estimate(90, 9 / 20) == pytest.approx(110)
    assert left.estimate(95, 9 / 20) == pytest.approx(105)
    assert left.estimate(1000, 9 / 20) == 0


def test_one_slow_advance_does_not_make_an_estimate_wild():
    left = TimeLeft()
    for n in range(100):
        left.estimate(n, n / 1000)
    before = left.estimate(99, 0.099)
    after = left.estimate(109, 0.1)  # ten times as slow as usual
    assert before == pytest.approx(901)
    assert before < after < 1.4 * before


def test_a_work_that_becomes_slower_is_estimated_anew():
    left = TimeLeft()
    for n in range(100):
        left.estimate(n, n / 1000)
    for n in range(100):
        found = left.estimate(99 + 10 * n, 0.099 + n / 1000)
    assert found == pytest.approx(10 * (1 - 0.198) * 1000, rel=0.2)


def test_the_line_shows_the_time_left_when_there_is_one(monkeypatch):
    clock, shown = [0.0], io.StringIO()
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(progress.sys, "stderr", shown)
    monkeypatch.setattr(progress, "QUIET_SECONDS", 2.0)
    line = ProgressLine("stage", 1)
    for minutes in range(120):
        clock[0] = 60.0 * minutes
        line.share(0, minutes / 240, str)
    lines = shown.getvalue().splitlines()
    assert lines[0] == "stage: 0/1 (0.4%)"
    assert lines[-1] == "stage: 0/1 (49.6%, 2:01:00 left)"
