"""Student's t distribution: how likely a value is, and which value has a probability."""

from math import exp, isfinite, lgamma, log

from pomp.core.errors import ConfigError

_FRACTION_TERMS = 10_000  # about the root of the degrees of freedom are needed
_FRACTION_PRECISION = 1e-15


def student_cdf(t: float, freedom: float) -> float:
    """Return how likely Student's t is at most `t`.

    Args:
        t: any number.
        freedom: the degrees of freedom, positive; up to 100,000 the result is right to 1e-8.

    Raises:
        ConfigError: the degrees of freedom are not positive, or a number is not finite.
    """
    if not isfinite(t):
        raise ConfigError(f"t must be finite, got {t}")
    _check_freedom(freedom)
    tail = 0.5 * two_sided_tail(t, freedom)
    return 1.0 - tail if t > 0 else tail


def student_quantile(probability: float, freedom: float) -> float:
    """Return the number that Student's t is below with a probability: the inverse of its cdf.

    Args:
        probability: between 0 and 1, exclusive.
        freedom: the degrees of freedom, positive.

    Raises:
        ConfigError: a number is out of range.
    """
    if not 0.0 < probability < 1.0:
        raise ConfigError(f"probability must be between 0 and 1, got {probability}")
    _check_freedom(freedom)
    if probability == 0.5:
        return 0.0
    outside = 2.0 * min(probability, 1.0 - probability)
    low, high = 0.0, 1.0
    while two_sided_tail(high, freedom) > outside:
        low, high = high, 2.0 * high
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (middle, high) if two_sided_tail(middle, freedom) > outside else (low, middle)
    return high if probability > 0.5 else -high


def two_sided_tail(t: float, freedom: float) -> float:
    """Return how likely Student's t is at least as far from zero as `t`, however little that is.

    Args:
        t: any number.
        freedom: the degrees of freedom, positive.
    """
    square = t * t
    inside = freedom / (freedom + square)
    return _incomplete_beta(0.5 * freedom, 0.5, inside, square / (freedom + square))


def _incomplete_beta(a: float, b: float, x: float, rest: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b), given `rest` = 1 - x as well."""
    if x <= 0.0 or rest <= 0.0:
        return 0.0 if x <= 0.0 else 1.0
    if x > (a + 1.0) / (a + b + 2.0):  # where the fraction of the complement converges fast
        return 1.0 - _incomplete_beta(b, a, rest, x)
    logarithm = lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(rest)
    return exp(logarithm) / a * _beta_fraction(a, b, x)


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction of the incomplete beta function, by Lentz's method."""
    above, below = 1.0, 1.0 / (1.0 - (a + b) * x / (a + 1.0))
    value = below
    for m in range(1, _FRACTION_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            below = 1.0 / (1.0 + term * below)
            above = 1.0 + term / above
            value *= above * below
        if abs(above * below - 1.0) < _FRACTION_PRECISION:
            break
    return value


def _check_freedom(freedom: float) -> None:
    """Refuse degrees of freedom that are not positive and finite.

    Raises:
        ConfigError: they are not.
    """
    if not (isfinite(freedom) and freedom > 0):
        raise ConfigError(f"degrees of freedom must be positive and finite, got {freedom}")
