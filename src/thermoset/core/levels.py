"""Exact arithmetic on the miscoverage level alpha.

The conformal threshold is the k-th smallest of n scores with k = ceil((n + 1)(1 - alpha)). In floating
point (149 + 1) * (1 - 0.18) is 123.00000000000001 and k comes out one too high, so alpha is read as the
decimal the user typed and everything after is a fraction.
"""

import math
from decimal import Decimal
from fractions import Fraction

from thermoset.errors import InputError

__all__ = ["Alpha", "conformal_rank", "exact_level", "rows_needed"]

Alpha = float | str | Decimal | Fraction
"""A miscoverage level in (0, 1): a float is read as the decimal it prints as."""


def exact_level(alpha: Alpha, name: str = "alpha") -> Fraction:
    """Read a level in (0, 1) as the decimal the user typed.

    >>> exact_level(0.1)
    Fraction(1, 10)
    >>> exact_level("0.05")
    Fraction(1, 20)
    """
    try:
        level = alpha if isinstance(alpha, Fraction) else Fraction(str(alpha))
    except (ValueError, ZeroDivisionError):
        level = Fraction(-1)
    if isinstance(alpha, bool) or not 0 < level < 1:
        raise InputError(f"{name} must be a number strictly between 0 and 1; got {alpha!r}. Try {name}=0.1.")
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
