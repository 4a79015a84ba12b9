"""Functions pasted into each other by our compiler do what Numba's own makes of them."""

import gc

import numba
import numpy as np
import pytest

from pomp.core.compiling import routine, scalar
from pomp.core.pasting import Compiler

FACTOR = 3


@scalar
def halve(number):
    """Many names in common with its callers, two ways out, and a loop."""
    total, index = 0, 0
    while index < number:
        if total > 20:
            return total
        total, index = total + index, index + 2
    return total


@scalar
def twice(number):
    total = halve(number)
    index = halve(number + FACTOR)
    return total * FACTOR + index


def fold(numbers, out):
    total = 0
    for index in range(len(numbers)):
        total += twice(numbers[index]) - halve(twice(index))
        out[index] = total


def folded(**options):
    numbers, out = np.arange(2, 40, 3), np.zeros(13, np.int64)
    numba.njit(**options)(fold)(numbers, out)
    return out.tolist()


def test_functions_pasted_again_and_again_compute_what_they_say():
    expected = np.zeros(13, np.int64)
    with pytest.MonkeyPatch.context() as patch:
        for one in (halve, twice):
            patch.setitem(globals(), one.py_func.__name__, one.py_func)
        fold(np.arange(2, 40, 3), expected)
    assert folded(pipeline_class=Compiler) == folded() == expected.tolist()


def test_another_value_of_a_global_is_another_function(monkeypatch):
    """What is kept of a function in memory must not outlive what it was made from."""
    before = folded(pipeline_class=Compiler)
    monkeypatch.setattr(f"{__name__}.FACTOR", 4)
    assert folded(pipeline_class=Compiler) == folded() != before


@routine
def bad(number):
    return number.no_such_attribute


@pytest.mark.parametrize("is_enabled", [True, False])
def test_the_garbage_collector_is_as_it_was(is_enabled):
    try:
        (gc.enable if is_enabled else gc.disable)()
        folded(pipeline_class=Compiler)
        assert gc.isenabled() == is_enabled
        with pytest.raises(numba.TypingError):
            bad(1)
        assert gc.isenabled() == is_enabled
    finally:
        gc.enable()
