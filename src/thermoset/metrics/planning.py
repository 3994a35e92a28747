"""How many conformal rows an alpha and a coverage half-width need, and what n rows give.

The coverage of a predictor fitted on n rows is itself random, Beta(k, n + 1 - k) with k = ceil((n + 1)(1 - alpha))
(see `thermoset.metrics.laws`). A plan requires it to lie within 1 - alpha ± width with the given confidence.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc, betaincc

from thermoset.arrays import Floats
from thermoset.bounds import MOST_ROWS, whole_number
from thermoset.errors import InputError
from thermoset.levels import Alpha, conformal_rank, exact_level, rows_needed
from thermoset.quoting import quoted

_SMALLEST_WIDTH = Fraction(1, 10**5)  # at alpha = 0.1 three billion rows; below it, it is a slip of the keyboard
_CHUNK = 4096  # row numbers tried at once


@dataclass(frozen=True)
class Plan:
    """How many conformal rows to set aside.

    `rows_minimum` rows give a finite threshold; `rows` rows, or any larger number, keep the coverage within 1 - alpha ±
    `width` with probability `confidence` (without a width, `rows` equals `rows_minimum`). `half_width` is the
    half-width that exactly `rows` rows give.
    """

    alpha: float
    width: float | None
    confidence: float
    rows_minimum: int
    rows: int
    half_width: float


def plan(alpha: Alpha, width: Alpha | None = None, confidence: float = 0.95) -> Plan:
    """Compute how many conformal rows an alpha and a coverage half-width need.

    P(n) = P(| coverage - (1 - alpha) | <= width) does not rise steadily (k jumps: a saw), so `rows` is the
    smallest n >= `rows_minimum` with P(n') >= confidence for n' = n and for every larger n'.

    >>> plan(alpha=0.1).rows_minimum
    9
    >>> answer = plan(alpha=0.1, width=0.02)
    >>> coverage_half_width(answer.rows - 1, 0.1) > 0.02 >= coverage_half_width(answer.rows, 0.1)
    True
    """
    level = exact_level(alpha)
    sure = exact_level(confidence, "confidence", "0.95")
    minimum = rows = rows_needed(level)
    if width is not None:
        half = exact_level(width, "width", "0.02")
        if half < _SMALLEST_WIDTH:
            raise InputError(
                f"width must be at least {float(_SMALLEST_WIDTH)}; got {quoted(width)}. No data set has the rows; "
                "try 0.01."
            )
        rows = _rows_for(level, half, float(1 - sure))
    return Plan(
        alpha=float(level),
        width=None if width is None else float(half),
        confidence=float(sure),
        rows_minimum=minimum,
        rows=rows,
        half_width=coverage_half_width(rows, level, confidence),
    )


def coverage_half_width(n: int, alpha: Alpha, confidence: float = 0.95) -> float:
    """Smallest w such that the coverage of a predictor fitted on n rows is within 1 - alpha ± w with `confidence`.

    With too few rows for a finite threshold the coverage is 1, and the half-width alpha.

    >>> coverage_half_width(8, alpha=0.1)
    0.1
    >>> round(coverage_half_width(1, alpha=0.5), 12)  # coverage is uniform on (0, 1): half of 0.95
    0.475
    """
    level = exact_level(alpha)
    outside = float(1 - exact_level(confidence, "confidence", "0.95"))
    rows = whole_number(n, "n", 0, MOST_ROWS, "Try n=1000.")
    k = conformal_rank(rows, level)
    if k > rows:
        return float(level)
    centre, shape = float(1 - level), (np.array(float(k)), np.array(float(rows + 1 - k)))

    def excess(w: float) -> float:
        return float(_miss(*shape, max(centre - w, 0.0), min(centre + w, 1.0))) - outside

    return float(brentq(excess, 0.0, 1.0, xtol=1e-15))


def _rows_for(alpha: Fraction, width: Fraction, outside: float) -> int:
    """Smallest n from which on the coverage is outside 1 - alpha ± width with probability at most `outside`."""
    low, high = float(max(1 - alpha - width, Fraction(0))), float(min(1 - alpha + width, Fraction(1)))
    minimum, w = rows_needed(alpha), float(width)
    # Enough rows, by a bound that falls with N = n + 1: Beta(a, b) is sub-Gaussian with variance proxy 1/(4(a + b + 1))
    # (Marchal and Arbel 2017) and its mean is within 1/N of 1 - alpha, so that
    # P(outside) <= 2 exp(-2 (N + 1)(w - 1/N)^2) <= 2 exp(-2 (N w^2 - 2 w)).
    good, bad = max(math.ceil((math.log(2 / outside) / 2 + 2 * w) / w**2), minimum), minimum - 1
    while good - bad > 1:
        middle = (good + bad) // 2
        if _worst_miss(middle + 1, alpha, low, high) <= outside:
            good = middle
        else:
            bad = middle
    # From `good` on even the worst k would do. The saw of the real k reaches about sqrt(good) rows further down.
    for top in range(good, minimum, -_CHUNK):
        totals = range(max(top - _CHUNK, minimum) + 1, top + 1)  # N = n + 1 of the rows below `top`
        above = np.array([total * alpha.numerator // alpha.denominator for total in totals], dtype=np.float64)  # N - k
        fails = np.flatnonzero(_miss(np.array(totals, dtype=np.float64) - above, above, low, high) > outside)
        if len(fails):
            return totals[int(fails[-1])]  # n + 1 of the last failure is the n after it
    return minimum


def _worst_miss(total: int, alpha: Fraction, low: float, high: float) -> float:
    """Bound of P(outside) over every k in [N(1 - alpha), N(1 - alpha) + 1), each tail at its own worst.

    Beta(k, N - k) grows stochastically with k, so the lower tail is largest at the left end and the upper at the
    right. As N grows both fall (two Betas with the same mean cross once, near it): no saw, fit for bisection.
    """
    k, rest = float(total * (1 - alpha)), float(total * alpha)
    if rest <= 1:  # the right end is a point mass at coverage 1
        return 1.0
    return float(betainc(k, rest, low) + betaincc(k + 1, rest - 1, high))


def _miss(k: Floats, rest: Floats, low: float, high: float) -> Floats:
    """P(coverage < low) + P(coverage > high) of Beta(k, rest); two tails, so that nothing is subtracted from one."""
    return np.asarray(betainc(k, rest, low), dtype=np.float64) + betaincc(k, rest, high)
