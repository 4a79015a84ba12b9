"""How many threads compiled code may use."""

import os
import time

import pytest

from pomp.core.compiling import CALLS_AT_ONCE, MOST_THREADS, launch, pieces_for, thread_count
from pomp.core.errors import ConfigError


def test_a_variable_of_the_environment_limits_the_threads(monkeypatch):
    monkeypatch.delenv(MOST_THREADS, raising=False)
    cores = thread_count()
    monkeypatch.setenv(MOST_THREADS, "1")
    assert thread_count() == 1
    monkeypatch.setenv(MOST_THREADS, str(10 * (os.cpu_count() or 1)))
    assert thread_count() == cores


@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5"])
def test_what_is_no_number_of_threads_is_refused(monkeypatch, value):
    monkeypatch.setenv(MOST_THREADS, value)
    with pytest.raises(ConfigError, match=f"POMP_THREADS must be a whole number.*'{value}'"):
        thread_count()


@pytest.mark.parametrize("threads", [1, 3])
def test_no_piece_begins_after_ctrl_c(threads):
    begun = []

    def call(piece):
        begun.append(piece)
        if piece == 0:
            raise KeyboardInterrupt
        time.sleep(0.05)

    with pytest.raises(KeyboardInterrupt):
        launch(threads, call, 3000)
    at_once = len(begun)
    time.sleep(0.2)
    assert len(begun) == at_once < 100


def test_every_piece_is_called_once():
    called = []
    launch(3, called.append, 10)
    assert sorted(called) == list(range(10))


def test_long_work_is_cut_into_as_many_pieces_for_each_thread():
    assert pieces_for(3, 10) == 3
    assert pieces_for(2, 5 * CALLS_AT_ONCE) == 6
