"""Alpha is the decimal the user typed, and k is exact."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from thermoset.errors import InputError
from thermoset.levels import conformal_rank, exact_level, rows_needed
from tiers import examples

EXACT = settings(max_examples=examples(300))


def test_floats_would_add_one():
    # 150 * 0.82 = 123, but in float64 150 * (1 - 0.18) = 123.00000000000001
    assert math.ceil((149 + 1) * (1 - 0.18)) == 124
    assert conformal_rank(149, 0.18) == 123


@pytest.mark.parametrize(
    ("n", "alpha", "k"),
    [
        (9, 0.1, 9),  # 10 * 0.9 = 9
        (8, 0.1, 9),  # 9 * 0.9 = 8.1, rounded up: one more than there are rows
        (999, 0.05, 950),  # 1000 * 0.95
        (1000, 0.1, 901),  # 1001 * 0.9 = 900.9
        (99, 0.01, 99),  # 100 * 0.99
        (0, 0.5, 1),  # no rows: 0.5 rounded up
    ],
)
def test_rank_by_hand(n, alpha, k):
    assert conformal_rank(n, alpha) == k


@EXACT
@given(n=st.integers(0, 10**7), numerator=st.integers(1, 99_999))
@example(n=149, numerator=18_000)
def test_rank_is_the_ceiling_in_fractions(n, numerator):
    alpha = Fraction(numerator, 100_000)
    k = conformal_rank(n, float(alpha))  # five digits: the float prints as the decimal it was made from
    # k is the smallest whole number not below (n + 1)(1 - alpha)
    assert k >= (n + 1) * (1 - alpha) > k - 1


@EXACT
@given(
    alpha=st.decimals(Decimal("0.0001"), Decimal("0.9999"), places=4, allow_nan=False),
    n=st.integers(0, 10_000),
)
def test_every_spelling_of_a_level_is_the_same_level(alpha, n):
    exact = Fraction(alpha)
    for spelling in (alpha, str(alpha), float(alpha), np.float64(alpha), np.float32(alpha), exact):
        assert exact_level(spelling) == exact
        assert conformal_rank(n, spelling) == conformal_rank(n, exact)


def test_float32_is_read_as_it_prints():
    assert float(np.float32(0.1)) != 0.1
    assert exact_level(np.float32(0.1)) == Fraction(1, 10)


@pytest.mark.parametrize("alpha", ["0.5", "0.3", "0.18", "0.1", "0.07", "0.05", "0.03", "0.01", "0.007", "0.9", "0.99"])
def test_rows_needed_by_trying(alpha):
    n = 0
    while conformal_rank(n, alpha) > n:
        n += 1
    assert rows_needed(alpha) == n


@pytest.mark.parametrize(
    "alpha",
    [0, 0.0, 1, 1.0, -0.1, 1.5, math.nan, math.inf, -math.inf, "a tenth", "", None, True, False, "1/0", Fraction(1),
     [0.1], "1e-99999999", "1e-5000", "1e-10", 1e-10, "0.9999999999", Fraction(1, 10**10), 5e-324],
)  # fmt: skip
def test_what_is_no_level_is_named(alpha):
    with pytest.raises(InputError, match="alpha must be a number strictly between 0 and 1") as raised:
        exact_level(alpha)
    assert repr(alpha) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_numbers_too_long_to_print_are_refused_too():
    for alpha in (10**5000, Fraction(1, 10**5000), "0." + "1" * 5000, Decimal("0." + "1" * 5000)):
        with pytest.raises(InputError, match="of at most 100 digits; got ") as raised:
            exact_level(alpha)
        assert len(str(raised.value)) < 300


def test_the_smallest_level():
    assert exact_level("1e-9") == exact_level(1e-9) == Fraction(1, 10**9)
    assert rows_needed("1e-9") == 10**9 - 1
    assert exact_level("0.999999999") == 1 - Fraction(1, 10**9)


def test_the_message_names_the_argument():
    with pytest.raises(InputError, match="confidence must be"):
        exact_level(2, name="confidence")
