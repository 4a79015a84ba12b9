"""How many threads compiled code may use."""

import os

import pytest

from pomp.core.compiling import MOST_THREADS, thread_count
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
