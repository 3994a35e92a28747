"""Planning against brute force: every n up to a bound beyond which the promise is proven."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

import thermoset
from thermoset import metrics
from thermoset.errors import InputError
from thermoset.levels import rows_needed


def inside(n, alpha, width):
    """P(|coverage - (1 - alpha)| <= width) for an array of n, by scipy.stats."""
    level, half = 1 - Fraction(str(alpha)), Fraction(str(width))
    k = np.array([math.ceil((int(rows) + 1) * level) for rows in n])
    law = beta(k, n + 1 - k)
    return law.cdf(float(min(level + half, Fraction(1)))) - law.cdf(float(max(level - half, Fraction(0))))


def hoeffding_rows(width, confidence):
    """Rows beyond which the promise holds: an order statistic of n uniforms leaves the window when a binomial does.

    P(U_(k) < x) = P(Bin(n, x) >= k) with k/n - x >= w, and P(U_(k) > y) = P(Bin(n, y) <= k - 1) with
    y - (k - 1)/n >= w - 1/n: Hoeffding bounds each by exp(-2 n (w - 1/n)^2), which falls with n > 1/w.
    """
    n = math.ceil(2 / width)
    while 2 * math.exp(-2 * n * (width - 1 / n) ** 2) > 1 - confidence:
        n += max(n // 50, 1)
    return n


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.1, 0.18, 0.3, 0.5, 0.7, 0.9])
@pytest.mark.parametrize("width", [0.3, 0.1, 0.052, 0.02])
@pytest.mark.parametrize("confidence", [0.51, 0.8, 0.95, 0.999])
def test_rows_are_the_smallest_from_which_on_the_promise_holds(alpha, width, confidence):
    answer = metrics.plan(alpha, width, confidence)
    minimum = rows_needed(alpha)
    n = np.arange(minimum, max(hoeffding_rows(width, confidence), minimum) + 1)
    fails = n[inside(n, alpha, width) < confidence]
    assert answer.rows_minimum == minimum
    assert answer.rows == (fails[-1] + 1 if len(fails) else minimum)


def test_the_saw_is_there():
    # The reason for "and every larger n": some n below the answer would do, and a larger one would not.
    answer = metrics.plan(0.05, 0.02)
    n = np.arange(answer.rows_minimum, answer.rows)
    holds = inside(n, 0.05, 0.02) >= 0.95
    assert holds.any()
    assert not holds[-1]


def test_rows_for_a_narrow_width_follow_the_normal_law():
    # Large n: n = alpha (1 - alpha) (1.959964 / width)^2 = 345,731 up to the saw of the order of sqrt(n) = 588.
    expected = 0.09 * (1.959963985 / 0.001) ** 2
    assert abs(metrics.plan(0.1, 0.001).rows - expected) < math.sqrt(expected)


def test_without_a_width():
    answer = metrics.plan("0.01")
    assert (answer.alpha, answer.width, answer.confidence) == (0.01, None, 0.95)
    assert answer.rows == answer.rows_minimum == 99  # 1/0.01 - 1
    assert answer.half_width == metrics.coverage_half_width(99, 0.01)


@given(
    st.integers(0, 3000), st.sampled_from([0.01, 0.1, 0.18, 0.5, 0.9]), st.sampled_from([0.1, 0.5, 0.9, 0.95, 0.999])
)
def test_half_width_holds_the_confidence_exactly(n, alpha, confidence):
    width = metrics.coverage_half_width(n, alpha, confidence)
    if n < rows_needed(alpha):
        assert width == alpha  # coverage 1 is alpha away from 1 - alpha
    else:
        assert 0 < width < 1
        assert inside(np.array([n]), alpha, Fraction(width))[0] == pytest.approx(confidence, abs=1e-9)


@pytest.mark.parametrize(("alpha", "width"), [(0.1, 0.02), (0.05, 0.01), (0.3, 0.1)])
def test_half_width_and_plan_are_inverse(alpha, width):
    answer = metrics.plan(alpha, width)
    assert answer.half_width <= width
    assert metrics.coverage_half_width(answer.rows - 1, alpha) > width
    for n in range(answer.rows, answer.rows + 200):
        assert metrics.coverage_half_width(n, alpha) <= width


def test_plan_is_at_the_top_of_the_package():
    assert thermoset.plan is metrics.plan


@pytest.mark.parametrize(
    ("call", "word"),
    [
        *((lambda width=width: metrics.plan(0.1, width), "width") for width in (0, 1, -0.1, 2, math.nan, "wide", True)),
        (lambda: metrics.plan(0.1, 1e-9), "width.*1e-05"),  # nobody has so many rows
        (lambda: metrics.plan(1.5), "alpha"),
        (lambda: metrics.plan(0.1, 0.02, confidence=1), "confidence"),
        (lambda: metrics.coverage_half_width(-1, 0.1), "n must be"),
    ],
)
def test_bad_input(call, word):
    with pytest.raises(InputError, match=word):
        call()
