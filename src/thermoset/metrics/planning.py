"""How many conformal rows an alpha and a coverage half-width need, what n rows give, and how many rows an answer needs.

The coverage of a predictor fitted on n rows is itself random, Beta(k, n + 1 - k) with k = ceil((n + 1)(1 - alpha)). A
claim that answered rows have an error of at most e takes an exact binomial test: m answered rows with x errors pass if
P(Bin(m, e) <= x) is at most 1 - confidence (see `thermoset.decisions`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.special import betainc, betaincc, ndtri

from thermoset.arrays import Bools, Floats, Ints
from thermoset.bounds import MOST_ROWS, exact_number, whole_number
from thermoset.errors import InputError
from thermoset.levels import Alpha, conformal_rank, exact_level, rows_needed
from thermoset.quoting import quoted

_SMALLEST_WIDTH = Fraction(1, 10**5)  # at alpha = 0.1 three billion rows; below it, it is a slip of the keyboard
_CHUNK = 4096  # row numbers tried at once
_POWER = 0.8
_MOST_TEETH = 500  # errors that may pass
_SMALLEST_ERROR = Fraction(1, 10**5)  # it takes 300,000 rows without an error


@dataclass(frozen=True)
class Plan:
    """How many conformal rows to set aside.

    `rows_minimum` rows give a finite threshold; `rows` rows, or any larger number, keep the coverage within 1 - alpha ±
    `width` with probability `confidence` (without a width, `rows` equals `rows_minimum`). `half_width` is the
    half-width that exactly `rows` rows give.

    With an `answer`: `answered_minimum` answered rows without an error are the fewest that prove it, and with
    `answered` rows, or any larger number, a model with half the error passes with probability 0.8. These are conformal
    rows above the threshold: a model that answers a third of its rows needs three times as many.
    """

    alpha: float
    width: float | None
    confidence: float
    rows_minimum: int
    rows: int
    half_width: float
    answered_minimum: int | None = None
    answered: int | None = None


def plan(
    alpha: Alpha = 0.1, width: Alpha | None = None, confidence: float = 0.95, *, answer: str | None = None
) -> Plan:
    """Compute how many conformal rows an alpha, a coverage half-width and an answer rule ("error<=0.02") need.

    P(n) = P(| coverage - (1 - alpha) | <= width) does not rise steadily (k jumps: a saw), so `rows` is the
    smallest n >= `rows_minimum` with P(n') >= confidence for n' = n and for every larger n'.

    >>> plan(alpha=0.1).rows_minimum
    9
    >>> answer = plan(alpha=0.1, width=0.02)
    >>> coverage_half_width(answer.rows - 1, 0.1) > 0.02 >= coverage_half_width(answer.rows, 0.1)
    True
    >>> plan(answer="error<=0.02").answered_minimum  # 0.98**149 is the first power that is at most 0.05
    149
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
    error = None if answer is None else read_error(answer)
    return Plan(
        alpha=float(level),
        width=None if width is None else float(half),
        confidence=float(sure),
        rows_minimum=minimum,
        rows=rows,
        half_width=coverage_half_width(rows, level, confidence),
        answered_minimum=None if error is None else fewest_answers(error, 1 - sure),
        answered=None if error is None else answers_for(error, float(error) / 2, 1 - sure),
    )


# ---- answers ---------------------------------------------------------------------------------------------------------


def read_error(answer: object) -> Fraction:
    """The bound of an answer rule such as "error<=0.02", as it was typed."""
    name, _, number = str(answer).partition("<=")
    bound = exact_number(number.strip()) if name.strip() == "error" else None
    if bound is None or not _SMALLEST_ERROR <= bound <= Fraction(1, 2):
        raise InputError(
            f"answer must be 'error<=E', with a share of wrong answers E from {float(_SMALLEST_ERROR):g} to 0.5; got "
            f"{quoted(answer)}. Try 'error<=0.02'."
        )
    return bound


def most_errors(answered: Ints, error: Fraction, delta: Fraction) -> Ints:
    """The most errors with which so many answered rows pass the test, -1 where even none are too many."""
    m, bound, level = np.asarray(answered, dtype=np.int64), float(error), float(delta)
    none, many = np.full(m.shape, -1, dtype=np.int64), np.ceil(m * bound).astype(np.int64)
    return _bisect(none, many, lambda errors: at_most(np.maximum(errors, 0), m, bound) <= level)[0]


def at_most(errors: Ints, answered: Ints, risk: float) -> Floats:
    """P(Bin(answered, risk) <= errors)."""
    return np.asarray(np.where(errors >= answered, 1.0, betaincc(errors + 1.0, np.maximum(answered - errors, 1), risk)))


def fewest_answers(error: Fraction, delta: Fraction) -> int:
    """The fewest answered rows, all right, that pass: the smallest m with (1 - error)**m <= delta."""
    return math.ceil(math.log(delta) / math.log1p(-float(error)))


def answers_for(error: Fraction, risk: float, delta: Fraction) -> int | None:
    """Smallest number of answered rows from which on a model with this risk passes with probability 0.8.

    The power is a saw: with one row more, and no error more allowed, it falls. None where no number is enough.
    """
    bound = float(error)
    if risk >= bound:
        return None
    spread = -ndtri(float(delta)) * math.sqrt(bound * (1 - bound)) + ndtri(_POWER) * math.sqrt(risk * (1 - risk))
    about = (spread / (bound - risk)) ** 2  # by the normal law, which is enough where errors are many
    teeth = math.ceil(3 * bound * about) + 20
    if teeth > _MOST_TEETH:
        return math.ceil(about)
    first = _first_to_pass(np.arange(teeth + 1), error, delta)
    chance = at_most(np.arange(teeth), first[1:] - 1, risk)  # at the end of each tooth, where the power is least
    return int(first[np.flatnonzero(chance < _POWER).max(initial=-1) + 1])


def _first_to_pass(errors: Ints, error: Fraction, delta: Fraction) -> Ints:
    """The fewest answered rows that pass with so many errors."""
    bound, level = float(error), float(delta)
    fails, passes = errors.copy(), np.ceil((errors + 1) / bound).astype(np.int64)
    while np.any(short := at_most(errors, passes, bound) > level):
        passes = np.where(short, 2 * passes, passes)
    return _bisect(fails, passes, lambda answered: at_most(errors, answered, bound) > level)[1]


def _bisect(low: Ints, high: Ints, is_low: Callable[[Ints], Bools]) -> tuple[Ints, Ints]:
    """The last numbers that are low, and the next ones, from two ends of each search."""
    while np.any(high - low > 1):
        middle = (low + high) // 2
        below = is_low(middle)
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return low, high


# ---- coverage --------------------------------------------------------------------------------------------------------


def coverage_half_width(n: int, alpha: Alpha, confidence: float = 0.95) -> float:
    """Smallest w such that the coverage of a predictor fitted on n rows is within 1 - alpha ± w with `confidence`.

    With too few rows for a finite threshold the coverage is 1, and the half-width alpha.

    >>> coverage_half_width(8, alpha=0.1)
    0.1
    >>> round(coverage_half_width(1, alpha=0.5), 12)  # coverage is uniform on (0, 1): half of 0.95
    0.475
    """
    from scipy.optimize import brentq  # noqa: PLC0415 - answer rules do without

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
