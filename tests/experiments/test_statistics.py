"""Intervals and comparisons of few seeds, against textbooks, closed forms and simulations."""

from math import atan, cos, erf, fsum, pi, sin, sqrt

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from pomp.core.errors import ConfigError
from pomp.experiments import (
    bootstrap_interval,
    compare_seeds,
    compare_with_published,
    interquartile_mean,
    probability_of_improvement,
    student_cdf,
    student_quantile,
    summarise,
)

# Student's own data (1908): hours of sleep gained by ten patients with either of two drugs.
FIRST_DRUG = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
SECOND_DRUG = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]

returns = st.floats(-10, 10).map(lambda number: round(number, 6))
seeds = st.lists(returns, min_size=2, max_size=8)
methods = st.lists(st.lists(returns, min_size=1, max_size=5), min_size=1, max_size=4)


# Student's t


@pytest.mark.parametrize(
    ("freedom", "expected"),
    [
        (1, 12.7062047362),
        (2, 4.3026527297),
        (4, 2.7764451052),
        (9, 2.2621571628),
        (30, 2.0422724563),
        (1000, 1.9623390808),
    ],
)
def test_quantiles_are_those_of_the_tables(freedom, expected):
    assert student_quantile(0.975, freedom) == pytest.approx(expected, abs=1e-8)
    assert student_quantile(0.025, freedom) == pytest.approx(-expected, abs=1e-8)


def central_probability(t, freedom):
    """P(|T| < t) for a whole number of degrees: the finite series, Abramowitz, Stegun 26.7.3-4."""
    angle = atan(t / sqrt(freedom))
    first = 1 - freedom % 2  # even: 1 + cos^2 / 2 + ...; odd: cos + 2 cos^3 / 3 + ...
    term, terms = (1.0 if first else cos(angle)), []
    for power in range(2 if first else 3, freedom + 1, 2):
        terms.append(term)
        term *= cos(angle) ** 2 * (power - 1) / power
    series = sin(angle) * fsum(terms)
    return series if first else 2 / pi * (angle + series)


@given(st.floats(0, 100), st.integers(1, 200))
def test_the_cdf_is_that_of_the_finite_series(t, freedom):
    central = central_probability(t, freedom)
    assert student_cdf(t, freedom) == pytest.approx(0.5 + central / 2, abs=1e-11)
    assert student_cdf(-t, freedom) == pytest.approx(0.5 - central / 2, abs=1e-11)


def test_far_tails_keep_their_digits():
    # With one degree of freedom P(T < -t) is atan(1 / t) / pi; with two, near 1 / (2 t^2).
    assert student_cdf(-1e12, 1) == pytest.approx(atan(1e-12) / pi, rel=1e-10)
    assert student_cdf(-1e12, 2) == pytest.approx(0.5e-24, rel=1e-10)
    assert student_cdf(-1e200, 2) == 0.0


@pytest.mark.parametrize("t", [-3.0, -1.0, 0.1, 2.0])
def test_many_degrees_of_freedom_come_close_to_the_normal_distribution(t):
    normal = 0.5 + erf(t / sqrt(2)) / 2
    # The next term of the expansion in 1 / freedom is (t^3 + t) / 4 times the density.
    density = np.exp(-t * t / 2) / sqrt(2 * pi)
    expected = normal - density * (t**3 + t) / (4 * 100_000)
    assert student_cdf(t, 100_000) == pytest.approx(expected, abs=1e-8)


@given(st.floats(1e-6, 1 - 1e-6), st.floats(0.5, 500))
def test_quantile_and_cdf_are_inverse(probability, freedom):
    t = student_quantile(probability, freedom)
    assert student_cdf(t, freedom) == pytest.approx(probability, rel=1e-9)


def test_the_median_is_zero():
    assert student_quantile(0.5, 3) == 0.0
    assert student_cdf(0.0, 3) == 0.5


# One cell


def test_five_seeds_by_hand():
    # Mean 3, squares 4 + 1 + 0 + 1 + 4 = 10: sd sqrt(10 / 4), population sd sqrt(10 / 5), standard
    # error sqrt(2.5 / 5) = sqrt(0.5), and 2.7764451052 of these to either side.
    found = summarise([1, 2, 3, 4, 5], ceiling=5)
    assert (found.n, found.mean, found.fraction, found.solved) == (5, 3.0, 0.6, 1)
    assert found.sd == pytest.approx(sqrt(2.5))
    assert found.population_sd == pytest.approx(sqrt(2))
    half = 2.7764451052 * sqrt(0.5)
    assert found.interval == pytest.approx((3 - half, 3 + half), abs=1e-8)


@pytest.mark.parametrize(
    ("solved", "low", "high"),
    [
        # With z^2 = 3.8414588207 the bounds of 0 and 5 of 5 are z^2 / (5 + z^2) and 5 / (5 + z^2);
        # of 3 of 5 they are (3 + z^2 / 2 -+ z sqrt(3 * 2 / 5 + z^2 / 4)) / (5 + z^2).
        (0, 0.0, 0.4344824648),
        (3, 0.2307242813, 0.8823792258),
        (5, 0.5655175352, 1.0),
    ],
)
def test_wilson_intervals_by_hand(solved, low, high):
    found = summarise([2.0] * solved + [1.0] * (5 - solved), ceiling=2.0)
    assert found.solved == solved
    assert found.solved_interval == pytest.approx((low, high), abs=1e-9)


def test_a_seed_solves_its_task_from_0_995_of_the_ceiling_on():
    assert summarise([0.994999, 0.995, 1.0], ceiling=1.0).solved == 2
    assert summarise([1.989, 1.99], ceiling=2.0).solved == 1


def test_one_seed_has_no_interval():
    found = summarise([0.4])
    assert (found.n, found.mean, found.sd, found.population_sd) == (1, 0.4, None, 0.0)
    assert found.interval is None


def test_without_a_ceiling_nothing_is_said_about_solving():
    found = summarise([0.4, 0.6])
    assert (found.ceiling, found.fraction, found.solved, found.solved_interval) == (None,) * 4


def test_equal_seeds_have_an_interval_without_width():
    found = summarise([0.7] * 6)
    assert (found.sd, found.population_sd) == (0.0, 0.0)
    assert found.interval == (found.mean, found.mean)


@given(seeds)
def test_summaries_agree_with_numpy(values):
    found = summarise(np.array(values), ceiling=10)
    assert found.mean == pytest.approx(np.mean(values), abs=1e-12)
    assert found.sd == pytest.approx(np.std(values, ddof=1), abs=1e-9)
    assert found.population_sd == pytest.approx(np.std(values), abs=1e-9)
    assert found.interval[0] <= found.mean <= found.interval[1]
    low, high = found.solved_interval
    assert 0 <= low <= found.solved / found.n <= high <= 1


# Comparisons


def test_the_paired_test_of_students_data():
    # R: t.test(paired = TRUE): t = -4.0621, df = 9, p = 0.002833, -2.4598858 to -0.7001142.
    found = compare_seeds(FIRST_DRUG, SECOND_DRUG, paired=True)
    assert found.mean == pytest.approx(-1.58)
    assert found.interval == pytest.approx((-2.4598858, -0.7001142), abs=1e-7)
    assert found.p_value == pytest.approx(0.002833, abs=1e-6)
    assert found.is_beyond_noise


def test_welchs_test_of_students_data():
    # R: t.test(): t = -1.8608, df = 17.776, p = 0.07939, -3.3654832 to 0.2054832.
    found = compare_seeds(FIRST_DRUG, SECOND_DRUG, paired=False)
    assert found.mean == pytest.approx(-1.58)
    assert found.interval == pytest.approx((-3.3654832, 0.2054832), abs=1e-7)
    assert found.p_value == pytest.approx(0.07939, abs=1e-5)
    assert not found.is_beyond_noise


def test_a_side_that_does_not_vary_leaves_the_freedom_of_the_other():
    # 1, 2, 3 against 0: t = 2 / (1 / sqrt(3)) with 2 degrees of freedom, for which P(|T| > t) is
    # 1 - t / sqrt(t^2 + 2) = 1 - sqrt(12 / 14).
    found = compare_seeds([1, 2, 3], [0, 0, 0, 0], paired=False)
    assert found.p_value == pytest.approx(1 - sqrt(12 / 14))
    half = 4.3026527297 / sqrt(3)
    assert found.interval == pytest.approx((2 - half, 2 + half), abs=1e-8)


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize(
    ("first", "second", "p_value"),
    [
        pytest.param([0.7] * 5, [0.7] * 5, 1.0, id="equal"),
        pytest.param([0.1 + 0.2] * 5, [0.3] * 5, 1.0, id="equal but for rounding"),
        pytest.param([1.0] * 5, [0.999] * 5, 0.0, id="different"),
    ],
)
def test_without_variance_a_difference_is_certain(first, second, p_value, paired):
    found = compare_seeds(first, second, paired=paired)
    assert found.p_value == p_value
    assert found.is_beyond_noise == (p_value == 0)
    assert found.interval == (found.mean, found.mean)


def test_a_constant_gain_is_certain_if_paired_and_noise_if_not():
    first, second = [0.3, 0.5, 0.9], [0.2, 0.4, 0.8]
    assert compare_seeds(first, second, paired=True).p_value == 0.0
    assert not compare_seeds(first, second, paired=False).is_beyond_noise


@given(seeds, seeds, st.booleans())
def test_a_difference_is_beyond_noise_where_its_interval_leaves_zero_out(first, second, paired):
    if paired:
        first, second = first[: len(second)], second[: len(first)]
    found = compare_seeds(first, second, paired=paired)
    assume(abs(found.p_value - 0.05) > 1e-9)
    low, high = found.interval
    assert 0 <= found.p_value <= 1
    assert found.is_beyond_noise == (not low - 1e-11 <= 0 <= high + 1e-11)


@given(seeds, seeds)
def test_a_difference_changes_its_sign_with_the_order(first, second):
    one = compare_seeds(first, second, paired=False)
    other = compare_seeds(second, first, paired=False)
    assert other.mean == pytest.approx(-one.mean)
    assert other.p_value == pytest.approx(one.p_value)
    assert other.interval == pytest.approx((-one.interval[1], -one.interval[0]))


@given(seeds, seeds)
def test_published_numbers_tell_as_much_as_the_values_behind_them(ours, theirs):
    assume(np.std(theirs) > 1e-6)
    found = compare_with_published(ours, np.mean(theirs), np.std(theirs), len(theirs))
    expected = compare_seeds(ours, theirs, paired=False)
    assert found.mean == pytest.approx(expected.mean, abs=1e-9)
    assert found.interval == pytest.approx(expected.interval, abs=1e-6)
    assert found.p_value == pytest.approx(expected.p_value, abs=1e-6)


def test_a_published_deviation_is_the_populations_of_five_seeds():
    # Ours do not vary; the published sample variance is 0.2^2 * 5 / 4 = 0.05, the standard error
    # sqrt(0.05 / 5) = 0.1, with 4 degrees of freedom.
    found = compare_with_published([1.0] * 5, 0.5, 0.2)
    half = 2.7764451052 * 0.1
    assert found.interval == pytest.approx((0.5 - half, 0.5 + half), abs=1e-9)
    assert found.is_beyond_noise


def test_published_numbers_that_do_not_vary_are_taken_at_their_word_unless_they_are_rounded():
    ours = [0.998] * 5
    assert compare_with_published([1.0] * 5, 1.0, 0.0).p_value == 1.0
    assert compare_with_published(ours, 1.0, 0.0).p_value == 0.0
    assert compare_with_published(ours, 1.0, 0.0, rounding=0.005).p_value == 1.0
    # 0.9 is 0.095 below what may be behind 1.00; the standard error is 0.005 / sqrt(4).
    found = compare_with_published([0.9] * 5, 1.0, 0.0, rounding=0.005)
    assert found.p_value == pytest.approx(2 * student_cdf(-0.095 / 0.0025, 4))
    half = 2.7764451052 * 0.0025 + 0.005
    assert found.interval == pytest.approx((-0.1 - half, -0.1 + half), abs=1e-9)


# Over tasks


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([[8, 1, 2, 7], [3, 6, 5, 4]], 4.5, id="eight: mean of 3, 4, 5, 6"),
        pytest.param([[0, 1, 2], [3, 4, 10]], 2.5, id="six: (1 / 2 + 2 + 3 + 4 / 2) / 3"),
        pytest.param([[9, 0, 5, 0, 1]], 1.9, id="five: (0 * 3/4 + 1 + 5 * 3/4) / 2.5"),
        pytest.param([[1], [2, 6]], 2.5, id="three: (1 / 4 + 2 + 6 / 4) / 1.5"),
        pytest.param([[7]], 7.0, id="one: itself"),
    ],
)
def test_interquartile_means_by_hand(values, expected):
    assert interquartile_mean(values) == pytest.approx(expected)


@given(methods, st.integers(1, 4))
def test_the_interquartile_mean_does_not_change_if_every_value_comes_more_often(values, times):
    assert interquartile_mean([task * times for task in values]) == pytest.approx(
        interquartile_mean(values), abs=1e-9
    )


@given(methods)
def test_the_interquartile_mean_is_the_mean_of_the_middle_half_of_four_times_as_many(values):
    pooled = sorted(4 * [value for task in values for value in task])
    quarter = len(pooled) // 4
    middle = pooled[quarter : 3 * quarter]
    assert interquartile_mean(values) == pytest.approx(np.mean(middle), abs=1e-9)


def test_the_probability_of_improvement_by_hand():
    # The first task's pairs are 1 = 1, 1 < 3, 2 > 1, 2 < 3: 1.5 of 4; the second's one is even.
    assert probability_of_improvement([[1, 2], [0]], [[1, 3], [0]]) == (0.375 + 0.5) / 2
    assert probability_of_improvement(np.ones((3, 5)), np.zeros((3, 4))) == 1.0


@given(methods, st.data())
def test_improvement_of_one_is_loss_of_the_other(first, data):
    second = data.draw(
        st.lists(
            st.lists(returns, min_size=1, max_size=5), min_size=len(first), max_size=len(first)
        )
    )
    there = probability_of_improvement(first, second)
    assert 0 <= there <= 1
    assert there + probability_of_improvement(second, first) == pytest.approx(1)
    assert probability_of_improvement(first, first) == pytest.approx(0.5)


def mean_over_tasks(values):
    return float(np.mean([np.mean(task) for task in values]))


def test_a_bootstrap_draws_seeds_within_every_task():
    # Seeds of a task are alike here: only draws that mix tasks could move the mean.
    assert bootstrap_interval(mean_over_tasks, [[0.0] * 5, [1.0] * 5], seed=0) == (0.5, 0.5)


def test_a_bootstrap_of_two_seeds_by_hand():
    # The mean of two draws from 0 and 1 is 0, 1/2 or 1, with probability 1/4, 1/2 and 1/4.
    counts = {0.0: 0, 0.5: 0, 1.0: 0}

    def count(values):
        counts[mean_over_tasks(values)] += 1
        return mean_over_tasks(values)

    assert bootstrap_interval(count, [[0.0, 1.0]], seed=1, repetitions=4000) == (0.0, 1.0)
    assert sum(counts.values()) == 4000
    # Four standard deviations of a count: 4 sqrt(4000 / 4 * 3 / 4) is 110, and 127 for a half.
    assert counts[0.0] == pytest.approx(1000, abs=110)
    assert counts[0.5] == pytest.approx(2000, abs=127)


def test_methods_are_drawn_independently():
    pairs = set()

    def note(first, second):
        pairs.add((first[0].tolist()[0], second[0].tolist()[0]))
        return 0.0

    bootstrap_interval(note, [[0.0, 1.0]], [[0.0, 1.0]], seed=0, repetitions=100)
    assert pairs == {(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)}


@settings(max_examples=20)
@given(methods, st.integers(0, 2**32))
def test_a_seed_decides_the_bootstrap(values, seed):
    low, high = bootstrap_interval(interquartile_mean, values, seed=seed, repetitions=50)
    assert (low, high) == bootstrap_interval(interquartile_mean, values, seed=seed, repetitions=50)
    pooled = [value for task in values for value in task]
    assert min(pooled) - 1e-9 <= low <= high <= max(pooled) + 1e-9


def test_another_seed_draws_otherwise():
    values = np.random.default_rng(0).random((3, 5))
    first, second = (
        bootstrap_interval(interquartile_mean, values, seed=seed, repetitions=50) for seed in (0, 1)
    )
    assert first != second


# Bad input


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: summarise([]), "values must hold at least one number, got none"),
        (lambda: summarise([0.1, float("nan")]), "values must be finite, got nan for seed 1"),
        (lambda: summarise([float("inf")]), "values must be finite, got inf for seed 0"),
        (lambda: summarise([[0.1], [0.2]]), "values must be a list with one number per seed"),
        (lambda: summarise(["high"]), r"values must be numbers, one per seed, got \['high'\]"),
        (lambda: summarise([1.0], ceiling=0.0), "ceiling must be positive and finite, got 0.0"),
        (
            lambda: compare_seeds([1, 2, 3], [1, 2], paired=True),
            "a paired comparison needs the same seeds of both methods, got 3 and 2 values",
        ),
        (
            lambda: compare_seeds([1, 2, 3], [1], paired=False),
            "a comparison needs at least 2 seeds of each method, got 3 and 1",
        ),
        (lambda: compare_seeds([], [1], paired=False), "first must hold at least one number"),
        (
            lambda: compare_with_published([1, 2], 1.0, -0.1),
            "the published sd must be finite and not negative, got -0.1",
        ),
        (
            lambda: compare_with_published([1, 2], float("nan"), 0.1),
            "the published mean must be finite, got nan",
        ),
        (
            lambda: compare_with_published([1, 2], 1.0, 0.1, rounding=float("inf")),
            "the rounding must be finite and not negative, got inf",
        ),
        (
            lambda: compare_with_published([1, 2], 1.0, 0.1, n=1),
            "a comparison needs at least 2 seeds of each, got 2 and 1",
        ),
        (lambda: interquartile_mean([]), "needs the values of at least one task, got none"),
        (lambda: interquartile_mean([[1], []]), "values of task 1 must hold at least one number"),
        (lambda: interquartile_mean([1, 2]), "values of task 0 must be a list with one number"),
        (
            lambda: probability_of_improvement([[1], [2]], [[1]]),
            "methods must have the same tasks, got 2 and 1 tasks",
        ),
        (
            lambda: bootstrap_interval(interquartile_mean, seed=0),
            "a statistic needs at least one method, got none",
        ),
        (
            lambda: bootstrap_interval(interquartile_mean, [[1]], seed=-1),
            "seed must be at least 0, got -1",
        ),
        (
            lambda: bootstrap_interval(interquartile_mean, [[1]], seed=0, repetitions=0),
            "repetitions must be at least 1, got 0",
        ),
        (lambda: student_quantile(1.0, 4), "probability must be between 0 and 1, got 1.0"),
        (lambda: student_cdf(float("nan"), 4), "t must be finite, got nan"),
        (lambda: student_cdf(0.0, 0), "degrees of freedom must be positive and finite, got 0"),
    ],
)
def test_bad_input_is_told_in_one_line(call, message):
    with pytest.raises(ConfigError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


# What intervals of five seeds hold


def draw_normal(rng, shape):
    """Values around 0."""
    return rng.normal(size=shape)


def draw_skewed(rng, shape):
    """Values up to 1, most of them close to it, around 0.8."""
    return rng.beta(4, 1, size=shape)


def student_coverage(draw, mean, simulations):
    """The share of t intervals of five values that hold the mean."""
    samples = draw(np.random.default_rng(0), (simulations, 5))
    intervals = np.array([summarise(sample).interval for sample in samples])
    return np.mean((intervals[:, 0] <= mean) & (mean <= intervals[:, 1]))


def bootstrap_coverage(draw, mean, simulations, tasks=1, repetitions=1000):
    """The same of percentile bootstraps of the mean over tasks, many samples at a time.

    Drawing five seeds with replacement is drawing how often each is taken. Samples of a block share
    these counts: that leaves the expected coverage as it is.
    """
    rng, held, block = np.random.default_rng(1), 0, 100
    for _ in range(simulations // block):
        samples = draw(rng, (block, tasks, 5))
        means = np.zeros((block, repetitions))
        for task in range(tasks):
            counts = rng.multinomial(5, [0.2] * 5, size=repetitions)  # [repetitions, seeds]
            means += samples[:, task] @ counts.T / (5 * tasks)
        low, high = np.quantile(means, [0.025, 0.975], axis=1)
        held += np.sum((low <= mean) & (mean <= high))
    return held / simulations


@pytest.mark.slow
def test_t_intervals_of_five_seeds_hold_the_mean_and_percentile_bootstraps_do_not():
    # Standard errors of these shares are 0.002 to 0.003.
    assert student_coverage(draw_normal, 0.0, 20_000) == pytest.approx(0.95, abs=0.01)
    assert bootstrap_coverage(draw_normal, 0.0, 20_000) == pytest.approx(0.835, abs=0.015)
    # Skewed values are harder for both; the bootstrap stays ten points behind.
    assert student_coverage(draw_skewed, 0.8, 20_000) == pytest.approx(0.915, abs=0.01)
    assert bootstrap_coverage(draw_skewed, 0.8, 20_000) == pytest.approx(0.815, abs=0.015)


@pytest.mark.slow
def test_percentile_bootstraps_over_ten_tasks_hold_the_mean_in_91_percent():
    assert bootstrap_coverage(draw_normal, 0.0, 20_000, tasks=10) == pytest.approx(0.91, abs=0.01)
    assert bootstrap_coverage(draw_skewed, 0.8, 20_000, tasks=10) == pytest.approx(0.91, abs=0.01)


@pytest.mark.slow
def test_the_bootstrap_of_the_package_covers_as_the_simulated_one():
    samples = np.random.default_rng(2).normal(size=(1000, 1, 5))
    held = 0
    for number, sample in enumerate(samples):
        low, high = bootstrap_interval(mean_over_tasks, sample, seed=number, repetitions=500)
        held += low <= 0 <= high
    assert held / 1000 == pytest.approx(0.835, abs=0.045)  # the standard error is 0.012
