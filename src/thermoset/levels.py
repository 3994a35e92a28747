"""Exact arithmetic on the miscoverage level alpha.

The conformal threshold is the k-th smallest of n scores with k = ceil((n + 1)(1 - alpha)). In floating
point (149 + 1) * (1 - 0.18) is 123.00000000000001 and k comes out one too high, so alpha is read as the
decimal the user typed and everything after is a fraction.
"""

import math
from decimal import Decimal
from fractions import Fraction

from thermoset.bounds import MOST_DIGITS, exact_number
from thermoset.errors import InputError
from thermoset.quoting import quoted

__all__ = ["SMALLEST_LEVEL", "Alpha", "conformal_rank", "exact_level", "rows_needed"]

Alpha = float | str | Decimal | Fraction
"""A miscoverage level in (0, 1): a float is read as the decimal it prints as."""

SMALLEST_LEVEL = Fraction(1, 10**9)
"""Levels keep this distance from 0 and 1: one billionth takes a billion rows for a finite threshold."""

_LARGEST_LEVEL = 1 - SMALLEST_LEVEL


def exact_level(alpha: Alpha, name: str = "alpha", example: str = "0.1") -> Fraction:
    """Read a level as the decimal the user typed: at least 1e-9 from 0 and from 1, and at most 100 digits.

    >>> exact_level(0.1)
    Fraction(1, 10)
    >>> exact_level("0.05")
    Fraction(1, 20)
    """
    level = exact_number(alpha)
    if level is None or not SMALLEST_LEVEL <= level <= _LARGEST_LEVEL:
        raise InputError(
            f"{name} must be a number strictly between 0 and 1, at least {float(SMALLEST_LEVEL):g} from both, of at "
            f"most {MOST_DIGITS} digits; got {quoted(alpha)}. Try {name}={example}."
        )
    return level


def conformal_rank(n: int, alpha: Alpha) -> int:
    """Which order statistic of n calibration scores is the threshold: k = ceil((n + 1)(1 - alpha)).

    k > n means that no finite threshold keeps the promise.

    >>> conformal_rank(149, 0.18)
    123
    >>> conformal_rank(8, 0.1)
    9
    """
    return math.ceil((n + 1) * (1 - exact_level(alpha)))


def rows_needed(alpha: Alpha) -> int:
    """Smallest number of calibration rows with a finite threshold: n >= 1/alpha - 1.

    >>> rows_needed(0.1), rows_needed(0.01), rows_needed(0.3)
    (9, 99, 3)
    """
    return math.ceil(1 / exact_level(alpha)) - 1
