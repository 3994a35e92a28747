"""Levels alpha, in exact arithmetic, and what p-values say of a row. NumPy only: no compiler is needed.

The conformal threshold is the k-th smallest of n scores with k = ceil((n + 1)(1 - alpha)). In floating
point (149 + 1) * (1 - 0.18) is 123.00000000000001 and k comes out one too high, so alpha is read as the
decimal the user typed and everything after is a fraction.
"""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.bounds import MOST_DIGITS, exact_number
from thermoset.errors import InputError
from thermoset.quoting import quoted

Alpha = float | str | Decimal | Fraction
"""A miscoverage level in (0, 1): a float is read as the decimal it prints as."""

SMALLEST_LEVEL = Fraction(1, 10**9)
"""Levels keep this distance from 0 and 1: one billionth takes a billion rows for a finite threshold."""


def exact_level(alpha: Alpha, name: str = "alpha", example: str = "0.1") -> Fraction:
    """Read a level as the decimal the user typed: at least 1e-9 from 0 and from 1, and at most 100 digits.

    >>> exact_level(0.1)
    Fraction(1, 10)
    >>> exact_level("0.05")
    Fraction(1, 20)
    """
    level = exact_number(alpha)
    if level is None or not SMALLEST_LEVEL <= level <= 1 - SMALLEST_LEVEL:
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
    """Smallest number of calibration rows with a finite threshold: n >= 1/alpha - 1."""
    return math.ceil(1 / exact_level(alpha)) - 1


class PSummary(NamedTuple):
    """What p-values say about each row, as arrays (n,).

    label : the label with the largest p-value (of equal ones, the first column).
    credibility : that p-value. A low value means that no label fits: the row is unlike the conformal rows.
    confidence : 1 - the second largest p-value. A high value means that no other label fits.
    """

    label: NDArray[np.int64]
    credibility: NDArray[np.float64]
    confidence: NDArray[np.float64]


def p_summary(p: Any) -> PSummary:
    """Label, credibility and confidence of each row (Saunders, Gammerman and Vovk 1999) from its p-values, (n, C).

    The set at alpha is empty if alpha is at least the credibility, and has more than one label if alpha is below
    1 - confidence.

    >>> p_summary([[0.6, 0.05, 0.3], [0.02, 0.04, 0.01]])  # the second row fits no label
    PSummary(label=array([0, 1]), credibility=array([0.6 , 0.04]), confidence=array([0.7 , 0.98]))
    """
    try:
        table = np.asarray(p, dtype=np.float64)
    except (TypeError, ValueError):
        table = np.empty(0)
    if table.ndim != 2 or table.shape[1] < 2 or not np.all((table >= 0) & (table <= 1)):
        raise InputError(f"p must be p-values in [0, 1], (rows, classes), at least two classes; got {quoted(p)}.")
    label = table.argmax(axis=1)
    second, first = np.partition(table, -2, axis=1)[:, -2:].T
    return PSummary(label, first.copy(), 1.0 - second)
