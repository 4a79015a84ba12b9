"""Random streams: one 64-bit state per world, the same on every device.

A stream is splitmix64. Its first state is a hash of what the stream is for (purpose, seed, and
any number of indices), so a draw never depends on what a world is batched with, and streams for
different purposes are disjoint even where the seed numbers are equal.
"""

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from pomp.core.compiling import kernel, scalar
from pomp.core.configs import check_count
from pomp.core.resources import slices

_DRAWN_AT_ONCE = 1 << 26  # numbers, after which Ctrl-C is heard: a fraction of a second

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_MOST = (1 << 64) - 1
_S11, _S27, _S30, _S31, _S32 = (np.uint64(bits) for bits in (11, 27, 30, 31, 32))


class Purpose(IntEnum):
    """What a stream is drawn for; streams of different purposes never meet."""

    EVALUATION, VALIDATION, TRAINING, SEARCH, DATA, PROGRAMS, ENVIRONMENT, EXTRACTION = range(8)


@scalar
def _mixed(z):
    """The hash of 64 bits."""
    z = (z ^ (z >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    return z ^ (z >> _S31)


@scalar
def draw(stream):
    """The next 64 random bits.

    Args:
        stream: `[1]` uint64, written.
    """
    stream[0] += _STEP
    return _mixed(stream[0])


@scalar
def branch_of(stream, number):
    """The first state of one stream that is numbered within another; see `branch`."""
    return _mixed(stream + _mixed(np.uint64(number) + _STEP))


@scalar
def below(stream, n):
    """A number from 0 to n - 1, each equally likely up to n / 2**32; one draw.

    Args:
        stream: `[1]` uint64, written.
        n: at least 1, below 2**31.
    """
    return np.int64(((draw(stream) >> _S32) * np.uint64(n)) >> _S32)


@scalar
def unit(stream):
    """A number from 0 up to but not including 1; one draw."""
    return (draw(stream) >> _S11) * 2.0**-53


def open_streams(
    purpose: Purpose, seed: int, *indices: int, worlds: int, first: int = 0
) -> NDArray[np.uint64]:
    """First states of the streams of worlds `first`, `first + 1`, ...; `[worlds]` uint64.

    Raises:
        ConfigError: the number of worlds is none.
    """
    check_count("the number of worlds", worlds, least=0)
    state = int(purpose)
    for part in (seed, *indices):
        state = _mix_number(state + _mix_number(int(part) + int(_STEP)))
    numbers = np.arange(first, first + worlds, dtype=np.uint64)
    return _mix(np.uint64(state) + _mix(numbers + _STEP))


def branch(streams: NDArray[np.uint64], numbers: NDArray[np.integer] | int) -> NDArray[np.uint64]:
    """Return the first states of streams that are numbered within others.

    Args:
        streams: `[...]` uint64.
        numbers: `[...]` integers; the shapes are broadcast.

    Returns:
        `[...]` uint64.
    """
    with np.errstate(over="ignore"):
        return _mix(streams + _mix(np.asarray(numbers).astype(np.uint64) + _STEP))


def seed_streams(purpose: Purpose, seeds: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the first states of one stream for each of `seeds` `[N]` int64: `[N]` uint64."""
    with np.errstate(over="ignore"):
        state = _mix(np.asarray(purpose, np.uint64) + _STEP)
        return _mix(state + _mix(seeds.astype(np.uint64) + _STEP))


def _mix_number(z: int) -> int:
    """Return the hash of one number, modulo 2**64, as `_mix` computes it."""
    z &= _MOST
    z = (z ^ (z >> 30)) * int(_MIX_1) & _MOST
    z = (z ^ (z >> 27)) * int(_MIX_2) & _MOST
    return z ^ (z >> 31)


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the hash of every element of `z` `[...]` uint64: `[...]` uint64."""
    z = (z ^ (z >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    return z ^ (z >> _S31)


def draw_normal(streams: NDArray[np.uint64], dimensions: int) -> NDArray[np.float32]:
    """Draw a vector from N(0, I) from each of `streams` `[N]` uint64, which are written.

    Returns:
        `[N, dimensions]` float32.
    """
    vectors = np.empty((len(streams), dimensions), np.float32)
    _draw_normal(streams, vectors)
    return vectors


@kernel
def _draw_normal(streams, vectors):
    """Fill the rows of `vectors` `[N, Z]` float32 with normal numbers.

    Each is drawn from its own of `streams` `[N]` uint64, which are written.
    """
    for row in range(len(vectors)):
        stream = streams[row : row + 1]
        for place in range(0, vectors.shape[1], 2):
            radius = np.sqrt(-2.0 * np.log(1.0 - unit(stream)))
            angle = 2.0 * np.pi * unit(stream)
            vectors[row, place] = radius * np.cos(angle)
            if place + 1 < vectors.shape[1]:
                vectors[row, place + 1] = radius * np.sin(angle)


def draw_units(streams: NDArray[np.uint64], count: int) -> NDArray[np.float64]:
    """Draw the next numbers from 0 to 1 from each of `streams` `[N]` uint64, which are written.

    Returns:
        `[count, N]` float64.
    """
    numbers = np.empty((count, len(streams)))
    _draw_units(streams, numbers)
    return numbers


@kernel
def _draw_units(streams, numbers):
    """Fill the columns of `numbers` `[T, N]` float64, each from one of `streams` `[N]` uint64."""
    for column in range(len(streams)):
        for row in range(len(numbers)):
            numbers[row, column] = unit(streams[column : column + 1])


def resample_means(streams: NDArray[np.uint64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Draw as many of the values as there are, with repetition, from each stream: their means.

    Args:
        streams: `[S]` uint64, written.
        values: `[N]` float64.

    Returns:
        `[S]` float64.
    """
    means, given = np.empty(len(streams)), np.ascontiguousarray(values)
    for part in slices(len(streams), _DRAWN_AT_ONCE // max(len(given), 1)):
        _resample_means(streams[part], given, means[part])
    return means


@kernel
def _resample_means(streams, values, means):
    """Write the mean of a resample of `values` `[N]` float64 from each stream.

    `streams` `[S]` uint64 and `means` `[S]` float64 are written.
    """
    for row in range(len(streams)):
        stream, total = streams[row : row + 1], 0.0
        for _ in range(len(values)):
            total += values[np.int64(unit(stream) * len(values))]
        means[row] = total / len(values)


def streams_drawing(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the states whose next draws are given `values` `[...]` uint64: `[...]` uint64.

    This is splitmix64 run backwards. Replaying a recorded trace uses it to lead a task's single
    draw to every outcome.
    """
    with np.errstate(over="ignore"):
        z = _unshift(np.asarray(values, np.uint64), 31) * _inverse(_MIX_2)
        z = _unshift(z, 27) * _inverse(_MIX_1)
        return _unshift(z, 30) - _STEP


def _unshift(z: NDArray[np.uint64], by: int) -> NDArray[np.uint64]:
    """Solve z = x ^ (x >> by) for x; `z` and x are `[...]` uint64."""
    x = z
    for _ in range(64 // by):
        x = z ^ (x >> np.uint64(by))
    return x


def _inverse(odd: np.uint64) -> np.uint64:
    return np.uint64(pow(int(odd), -1, 1 << 64))
