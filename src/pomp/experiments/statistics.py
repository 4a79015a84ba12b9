"""Intervals and comparisons for few seeds, and what methods are worth over all tasks.

One value is what one seed earned on one task: the mean over its episodes. So `[seeds]` is the axis
of independent repetitions, usually five; episodes of a seed share what it learned and are never
counted or resampled as if they were repetitions. A method on all tasks is a list with one `[seeds]`
per task, written `[tasks][seeds]`; the numbers of seeds may differ between tasks.

Intervals of a mean are Student's. A percentile bootstrap of five values takes their spread for too
small, and its 95 % intervals hold the true mean only four times in five.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import fsum, isfinite, sqrt

import numpy as np
from numpy.typing import NDArray

from pomp.core.errors import ConfigError
from pomp.experiments.student import student_quantile, two_sided_tail

LEVEL = 0.05
"""How often an interval may miss, and a comparison of equal methods may find a difference."""
SOLVED = 0.995
"""The share of the ceiling from which on a seed counts as having solved its task."""

Floats = NDArray[np.float64]
Seeds = Sequence[float] | Floats
"""Values `[seeds]` of one method on one task."""
SeedsByTask = Sequence[Seeds] | Floats
"""Values `[tasks][seeds]` of one method, as shares of each task's ceiling where these differ."""

_NORMAL_QUANTILE = 1.959963984540054  # 97.5 % of the standard normal distribution lie below
_NEGLIGIBLE = 1e-12  # differences at most this share of the largest value come from rounding


@dataclass(frozen=True)
class Summary:
    """What one method earned on one task.

    Attributes:
        n: the number of seeds.
        mean: over seeds.
        sd: sample standard deviation (divisor n - 1), from which `interval` follows; None if n = 1.
        population_sd: with divisor n, as `numpy.std` has it; it is printed beside the paper's.
        interval: 95 % Student t interval of the mean, not cut at the ceiling; None if n = 1.
        ceiling: the most that can be earned; None if it is not known, and then so is the rest.
        fraction: the mean as a share of the ceiling.
        solved: how many seeds earned at least `SOLVED` of the ceiling.
        solved_interval: 95 % Wilson interval of the share of seeds that do.
    """

    n: int
    mean: float
    sd: float | None
    population_sd: float
    interval: tuple[float, float] | None
    ceiling: float | None = None
    fraction: float | None = None
    solved: int | None = None
    solved_interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Difference:
    """How far two methods are apart on one task.

    Attributes:
        mean: the first one's mean less the second one's.
        interval: 95 % interval of it.
        p_value: how likely a difference at least as large is between methods of equal means, in
            either direction; not corrected for how many comparisons are made.
    """

    mean: float
    interval: tuple[float, float]
    p_value: float

    @property
    def is_beyond_noise(self) -> bool:
        """Whether equal methods would differ as much in fewer than 5 % of all comparisons."""
        return self.p_value < LEVEL


def summarise(values: Seeds, ceiling: float | None = None) -> Summary:
    """Return mean, deviations and intervals of what one method earned on one task.

    Args:
        values: `[seeds]`, what each earned.
        ceiling: the most that can be earned; None: nothing is said about solving the task.

    Raises:
        ConfigError: there is no value, one is not finite, or the ceiling is not positive.
    """
    found = _check_seeds(values)
    if ceiling is not None and not (isfinite(ceiling) and ceiling > 0):
        raise ConfigError(f"ceiling must be positive and finite, got {ceiling}")
    n, mean = len(found), _mean(found)
    variance = _variance(found, _negligible(found))
    sd = sqrt(variance) if n > 1 else None
    population_sd = sqrt(variance * (n - 1) / n)
    half = None if sd is None else _critical(n - 1) * sd / sqrt(n)
    interval = None if half is None else (mean - half, mean + half)
    if ceiling is None:
        return Summary(n, mean, sd, population_sd, interval)
    solved = int(np.count_nonzero(found >= SOLVED * ceiling))
    share = _wilson_interval(solved, n)
    return Summary(n, mean, sd, population_sd, interval, ceiling, mean / ceiling, solved, share)


def compare_seeds(first: Seeds, second: Seeds, *, paired: bool) -> Difference:
    """Test whether two methods differ on one task: Student's paired test, or Welch's.

    Where nothing varies (paired: all differences are the same; else: the values of each method
    are), there is no noise: p is 1 if the means are equal and 0 if not, and the interval is the
    difference alone. Numbers that differ by rounding errors count as equal.

    Args:
        first: `[seeds]`, what one method earned.
        second: `[seeds]`, what the other earned; paired, in the same order of seeds.
        paired: whether equal seeds share their starts, so that differences are taken seed by seed;
            otherwise the two are independent and may have different numbers of seeds.

    Raises:
        ConfigError: a value is not finite, a method has fewer than two, or their numbers differ in
            a paired comparison.
    """
    ours, theirs = _check_seeds(first, "first"), _check_seeds(second, "second")
    if paired and len(ours) != len(theirs):
        raise ConfigError(
            "a paired comparison needs the same seeds of both methods, got "
            f"{len(ours)} and {len(theirs)} values"
        )
    if min(len(ours), len(theirs)) < 2:
        raise ConfigError(
            f"a comparison needs at least 2 seeds of each method, got {len(ours)} and {len(theirs)}"
        )
    negligible = _negligible(ours, theirs)
    if paired:
        apart = ours - theirs
        variance = _variance(apart, negligible) / len(apart)
        return _test(_mean(apart), variance, len(apart) - 1, negligible)
    shift = _mean(ours) - _mean(theirs)
    parts = [(_variance(values, negligible), len(values)) for values in (ours, theirs)]
    return _test(shift, *_welch(parts), negligible)


def compare_with_published(
    values: Seeds, mean: float, sd: float, n: int = 5, *, rounding: float = 0.0
) -> Difference:
    """Test by Welch's method whether values differ from a published mean and deviation.

    Paper: it does not say which standard deviation it prints. It is taken for the population's
    (divisor n), as `numpy.std` gives and as ours beside it is, and multiplied by sqrt(n / (n - 1)).
    That is the cautious reading: if it was the sample's, five seeds are taken to vary by 12 % too
    much, and a difference is missed rather than invented. As in `compare_seeds`, p is 1 or 0 where
    neither side varies.

    Args:
        values: `[seeds]`, what each of ours earned.
        mean: the published mean.
        sd: the published standard deviation over seeds.
        n: the number of seeds published.
        rounding: how far the printed numbers may be from the true ones, 0.005 for two decimals. The
            mean is moved towards ours by as much for p, the interval is extended by as much at both
            ends, and the deviation is raised by as much, so that five times 0.998 does not differ
            from a printed `1.00 ± 0.00`.

    Returns:
        The difference, ours less the published one.

    Raises:
        ConfigError: a number is not finite or negative, or there are fewer than two seeds.
    """
    ours = _check_seeds(values)
    if not isfinite(mean):
        raise ConfigError(f"the published mean must be finite, got {mean}")
    for name, number in (("published sd", sd), ("rounding", rounding)):
        if not (isfinite(number) and number >= 0):
            raise ConfigError(f"the {name} must be finite and not negative, got {number}")
    if min(len(ours), n) < 2:
        raise ConfigError(f"a comparison needs at least 2 seeds of each, got {len(ours)} and {n}")
    negligible = _negligible(ours, np.array([mean]))
    published_variance = (sd + rounding) ** 2 * n / (n - 1)
    parts = [(_variance(ours, negligible), len(ours)), (published_variance, n)]
    return _test(_mean(ours) - mean, *_welch(parts), negligible, rounding)


def interquartile_mean(values: SeedsByTask) -> float:
    """Return the mean of the middle half of all values of all tasks.

    A quarter of the values is cut off at each end. Where that is not a whole number of values, the
    last one cut counts by the part of it that is left, so the result is exact for any count.

    Args:
        values: `[tasks][seeds]`.

    Raises:
        ConfigError: a task is missing or empty, or a value is not finite.
    """
    pooled = np.sort(np.concatenate(_check_tasks(values)))
    count, places = len(pooled), np.arange(len(pooled))
    ends = np.minimum(places + 1, 0.75 * count)
    weights = np.maximum(ends - np.maximum(places, 0.25 * count), 0.0)  # sum: half the count
    return fsum(weights * pooled) / (0.5 * count)


def probability_of_improvement(first: SeedsByTask, second: SeedsByTask) -> float:
    """Return how likely a seed of one method beats a seed of another on a task drawn at random.

    Every seed of the first is held against every seed of the second; equal ones count as half.

    Args:
        first: `[tasks][seeds]` of the method that may be better.
        second: `[tasks][seeds]` of the other, the same tasks in the same order.

    Raises:
        ConfigError: the numbers of tasks differ, a task is empty, or a value is not finite.
    """
    ours, theirs = _check_methods([first, second])
    signs = [np.sign(x[:, None] - y[None, :]).mean() for x, y in zip(ours, theirs, strict=True)]
    return 0.5 + 0.5 * _mean(np.array(signs))


def bootstrap_interval(
    statistic: Callable[..., float], *methods: SeedsByTask, seed: int, repetitions: int = 2000
) -> tuple[float, float]:
    """Return a 95 % percentile bootstrap interval of a statistic over tasks.

    Seeds are drawn with replacement within every task of every method, each independently of the
    others; the tasks stay as they are. The variance of such samples is (n - 1) / n of what it
    should be. So with five seeds the interval of a mean over ten tasks holds the true one in 91 %
    of all cases, over more tasks in at most 92 %, and on a single one in 83 %: there, use
    `summarise` or `compare_seeds`.

    Args:
        statistic: takes as many methods as are given, each `[tasks][seeds]`, and returns a number,
            as `interquartile_mean` and `probability_of_improvement` do.
        methods: `[tasks][seeds]` each, with the same tasks.
        seed: decides what is drawn.
        repetitions: how often it is drawn.

    Raises:
        ConfigError: the numbers of tasks differ, a task is empty, a value is not finite, or seed or
            repetitions are out of range.
    """
    checked = _check_methods(methods)
    for name, number, least in (("seed", seed, 0), ("repetitions", repetitions, 1)):
        if number < least:
            raise ConfigError(f"{name} must be at least {least}, got {number}")
    rng = np.random.default_rng(seed)
    drawn = [
        [task[rng.integers(len(task), size=(repetitions, len(task)))] for task in tasks]
        for tasks in checked
    ]  # for every method and task [repetitions, seeds]
    found = [
        statistic(*([task[number] for task in tasks] for tasks in drawn))
        for number in range(repetitions)
    ]
    low, high = np.quantile(found, [LEVEL / 2, 1 - LEVEL / 2])
    return float(low), float(high)


@lru_cache(maxsize=256)
def _critical(freedom: float) -> float:
    """Return the t that 95 % intervals reach to on either side."""
    return student_quantile(1 - LEVEL / 2, freedom)


def _wilson_interval(solved: int, n: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share, of which `solved` of `n` were seen."""
    square = _NORMAL_QUANTILE**2
    centre = (solved + square / 2) / (n + square)
    half = _NORMAL_QUANTILE * sqrt(solved * (n - solved) / n + square / 4) / (n + square)
    low = 0.0 if solved == 0 else centre - half
    high = 1.0 if solved == n else centre + half
    return low, high


def _mean(values: Floats) -> float:
    """Return the mean of `values` `[seeds]`, rounded once."""
    return fsum(values) / len(values)


def _negligible(*values: Floats) -> float:
    """Return how far apart numbers like `values`, each `[seeds]`, may be by rounding alone."""
    return _NEGLIGIBLE * max(float(np.abs(one).max()) for one in values)


def _variance(values: Floats, negligible: float) -> float:
    """Return the sample variance of `values` `[seeds]`; zero if they differ by rounding alone."""
    if float(np.ptp(values)) <= negligible:
        return 0.0
    return fsum((values - _mean(values)) ** 2) / (len(values) - 1)


def _welch(parts: Sequence[tuple[float, int]]) -> tuple[float, float]:
    """Return variance and degrees of freedom of a difference of two means, by Welch.

    Args:
        parts: sample variance and number of seeds of each method.
    """
    shares = [variance / n for variance, n in parts]
    total = sum(shares)
    if total == 0.0:
        return 0.0, min(n for _, n in parts) - 1
    weights = [(share / total) ** 2 / (n - 1) for share, (_, n) in zip(shares, parts, strict=True)]
    return total, 1.0 / sum(weights)


def _test(
    shift: float, variance: float, freedom: float, negligible: float, slack: float = 0.0
) -> Difference:
    """Return a difference with its interval and p value, by Student's t.

    Args:
        shift: the difference of the means.
        variance: of it.
        freedom: the degrees of freedom behind the variance.
        negligible: how large a difference may be that comes from rounding errors.
        slack: how much of the difference may come from numbers that were printed shortened.
    """
    beyond = max(0.0, abs(shift) - slack)
    if variance == 0.0:
        p_value, half = float(beyond <= negligible), slack
    else:
        p_value = two_sided_tail(beyond / sqrt(variance), freedom)
        half = _critical(freedom) * sqrt(variance) + slack
    return Difference(shift, (shift - half, shift + half), p_value)


def _check_seeds(values: Seeds, name: str = "values") -> Floats:
    """Return values as an array `[seeds]`.

    Raises:
        ConfigError: there is none, or one is not a finite number.
    """
    try:
        found = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{name} must be numbers, one per seed, got {values!r:.60}") from error
    if found.ndim != 1:
        raise ConfigError(f"{name} must be a list with one number per seed, got {values!r:.60}")
    if not len(found):
        raise ConfigError(f"{name} must hold at least one number, got none")
    if not np.isfinite(found).all():
        place = int(np.argmin(np.isfinite(found)))
        raise ConfigError(f"{name} must be finite, got {found[place]} for seed {place}")
    return found


def _check_tasks(values: SeedsByTask) -> list[Floats]:
    """Return the values of every task as an array `[seeds]`.

    Raises:
        ConfigError: there is no task, one has no value, or a value is not a finite number.
    """
    if not len(values):
        raise ConfigError("a method needs the values of at least one task, got none")
    return [_check_seeds(task, f"values of task {number}") for number, task in enumerate(values)]


def _check_methods(methods: Sequence[SeedsByTask]) -> list[list[Floats]]:
    """Return the values of every task of every method as an array `[seeds]`.

    Raises:
        ConfigError: there is no method, their numbers of tasks differ, or values are wrong.
    """
    if not methods:
        raise ConfigError("a statistic needs at least one method, got none")
    checked = [_check_tasks(tasks) for tasks in methods]
    if len({len(tasks) for tasks in checked}) > 1:
        counts = " and ".join(str(len(tasks)) for tasks in checked)
        raise ConfigError(f"methods must have the same tasks, got {counts} tasks")
    return checked
