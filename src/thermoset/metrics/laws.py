"""The exact laws a coverage follows, intervals from them, and the noise floor of the class gaps.

With n calibration rows and k = ceil((n + 1)(1 - alpha)) the coverage of the fitted predictor is Beta(k, n + 1 - k), and
hits on m fresh rows are Beta-Binomial(m; k, n + 1 - k); where scores tie, it is at least that. With k > n the threshold
is infinite and every row is covered.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv
from scipy.stats import beta, betabinom, binom

from thermoset.arrays import Floats
from thermoset.bounds import MOST_ROWS, whole_number
from thermoset.errors import InputError
from thermoset.levels import Alpha, conformal_rank, exact_level, rows_needed
from thermoset.metrics.counts import avg_gap, check_counts, check_labels, coverage_gaps, random_generator, top_gap

if TYPE_CHECKING:
    from scipy.stats._distn_infrastructure import rv_continuous_frozen, rv_discrete_frozen

_MOST_SIMULATIONS = 10**6
_MOST_SUMMED = 10**7  # rows of a law whose mass function is summed term by term, and classes that are counted
_BLOCK = 1 << 20  # gaps that are simulated at once


class Interval(NamedTuple):
    """An interval, both ends included."""

    low: float
    high: float


class Intervals(NamedTuple):
    """Arrays of intervals, both ends included."""

    low: Floats
    high: Floats


@dataclass(frozen=True)
class NoiseFloor:
    """TopCovGap and AvgCovGap when every class has coverage exactly 1 - alpha; a gap means something above `..._95`."""

    top_mean: float
    top_95: float
    avg_mean: float
    avg_95: float


def conformal_coverage_distribution(n: int, alpha: Alpha) -> "rv_continuous_frozen":
    """Law of the true coverage of a predictor fitted on n rows: Beta(k, n + 1 - k), as a frozen scipy distribution.

    >>> law = conformal_coverage_distribution(99, alpha=0.1)  # k = 90
    >>> round(float(law.mean()), 12)
    0.9
    """
    rows = whole_number(n, "n", 0, MOST_ROWS, "Try n=1000.")
    k = conformal_rank(rows, alpha)
    if k > rows:
        raise InputError(
            f"n must be at least {rows_needed(alpha)} for a finite threshold at alpha={alpha}; got {rows}. With fewer "
            "rows the sets contain every class and coverage is 1."
        )
    return beta(k, rows + 1 - k)


def coverage_law(n_conformal: int, n_evaluation: int, alpha: Alpha) -> "rv_discrete_frozen":
    """Law of the number of hits on fresh rows: Beta-Binomial(n_evaluation; k, n_conformal + 1 - k), frozen.

    With too few conformal rows for alpha (k > n) it is the point mass at n_evaluation.

    >>> law = coverage_law(1000, 8000, alpha=0.1)  # k = 901 of 1001
    >>> round(float(law.mean()) / 8000, 12) == round(901 / 1001, 12)
    True
    >>> float(coverage_law(8, 100, alpha=0.1).pmf(100))
    1.0
    """
    rows = whole_number(n_conformal, "n_conformal", 0, MOST_ROWS, "Try n_conformal=1000.")
    fresh = whole_number(n_evaluation, "n_evaluation", 1, MOST_ROWS, "Try n_evaluation=1000.")
    k = conformal_rank(rows, alpha)
    return binom(fresh, 1.0) if k > rows else betabinom(fresh, k, rows + 1 - k)


def coverage_interval(n_conformal: int, n_evaluation: int, alpha: Alpha, confidence: float = 0.95) -> Interval:
    """Interval of the empirical coverage on n_evaluation fresh rows when the promise holds, ends included.

    Equal tails: each side outside has probability below (1 - confidence) / 2.

    >>> coverage_interval(9, 1, alpha=0.1)  # one row: covered or not, and 1/10 is above 2.5%
    Interval(low=0.0, high=1.0)
    """
    tail, fresh = _tail(confidence), _summed_rows(n_evaluation)
    law = coverage_law(n_conformal, fresh, alpha)
    # One pass over the mass function; scipy's generic ppf would sum it again at each step of a search.
    mass = law.pmf(np.arange(fresh + 1))
    low = int(np.searchsorted(np.cumsum(mass), tail))
    high = fresh - int(np.searchsorted(np.cumsum(mass[::-1]), tail))
    return Interval(low / fresh, high / fresh)


def coverage_p_value(hits: int, n_evaluation: int, n_conformal: int, alpha: Alpha) -> float:
    """Probability of this many hits or fewer when the promise holds (one-sided: excess coverage breaks no promise).

    >>> round(coverage_p_value(0, 1, n_conformal=9, alpha=0.1), 12)  # P(miss) = 1 - k/(n + 1) = 1/10
    0.1
    """
    fresh = _summed_rows(n_evaluation)
    law = coverage_law(n_conformal, fresh, alpha)
    seen = whole_number(hits, "hits", 0, fresh, "Pass the number of rows whose set contains their label.")
    # min: scipy sums the mass function, and the whole sum may exceed one in the last bits.
    return min(float(law.cdf(seen)), 1.0)


def clopper_pearson(hits: ArrayLike, n: ArrayLike, confidence: float = 0.95) -> Intervals:
    """Exact (Clopper-Pearson) intervals of a share from hits among n independent rows; arrays broadcast.

    For the coverage of a fixed predictor, overall or of each class. Without rows (n = 0) it is [0, 1].

    >>> interval = clopper_pearson([0, 10], [10, 10])
    >>> interval.low.round(4).tolist(), interval.high.round(4).tolist()  # 1 - 0.025 ** (1/10) = 0.3085
    ([0.0, 0.6915], [0.3085, 1.0])
    """
    tail = _tail(confidence)
    successes, trials = check_counts(hits, n, names=("hits", "n"))
    failures = trials - successes
    # A Beta parameter of 0 means that the end is the edge itself; the 1 put in its place is never read.
    low = betaincinv(np.maximum(successes, 1), failures + 1.0, tail)
    high = betaincinv(successes + 1.0, np.maximum(failures, 1), 1 - tail)
    return Intervals(np.where(successes == 0, 0.0, low), np.where(failures == 0, 1.0, high))


def coverage_gap_noise_floor(
    labels: ArrayLike,
    n_classes: int,
    alpha: Alpha,
    *,
    n_simulations: int = 2000,
    random_state: int | np.random.Generator = 0,
) -> NoiseFloor:
    """Simulate what TopCovGap and AvgCovGap show by chance alone on these labels; see `NoiseFloor`.

    >>> labels = [0, 1] * 40
    >>> floor = coverage_gap_noise_floor(labels, n_classes=2, alpha=0.1)
    >>> 0 < floor.avg_mean < floor.top_mean < floor.top_95
    True
    """
    classes = whole_number(n_classes, "n_classes", 1, _MOST_SUMMED, "Pass the number of columns.")
    counts = np.bincount(check_labels(labels, classes), minlength=classes)
    return noise_floor_of_counts(counts, alpha, n_simulations=n_simulations, random_state=random_state)


def noise_floor_of_counts(
    counts: ArrayLike, alpha: Alpha, *, n_simulations: int = 2000, random_state: int | np.random.Generator = 0
) -> NoiseFloor:
    """`coverage_gap_noise_floor` from the number of rows of each class, absent classes (0) included.

    >>> noise_floor_of_counts([40, 40], 0.1) == coverage_gap_noise_floor([0, 1] * 40, 2, 0.1)
    True
    """
    _, rows = check_counts(0, counts)
    if rows.ndim != 1 or not rows.any():
        raise InputError(
            f"counts must be the rows of each class, shape (classes,), with at least one row; "
            f"got shape {rows.shape} with {rows.sum()} rows."
        )
    simulations = whole_number(n_simulations, "n_simulations", 1, _MOST_SIMULATIONS, "Try 2000.")
    rng, level = random_generator(random_state), float(1 - exact_level(alpha))
    # The gaps do not ask which class is which. Sorted, equal counts are neighbours, and NumPy prepares its binomial
    # sampler once for a run of equal counts.
    present = np.sort(rows[rows > 0])
    step = max(_BLOCK // len(present), 1)
    top, avg = np.empty(simulations), np.empty(simulations)
    for start in range(0, simulations, step):
        stop = min(start + step, simulations)
        hits = rng.binomial(present[:, None], level, size=(len(present), stop - start)).T
        gaps = coverage_gaps(hits, present, alpha)
        top[start:stop], avg[start:stop] = top_gap(gaps, len(rows)), avg_gap(gaps)
    # The 95% point: the smallest simulated value that at least 95% of the simulations do not exceed.
    top_95, avg_95 = (float(np.quantile(values, 0.95, method="inverted_cdf")) for values in (top, avg))
    return NoiseFloor(top_mean=float(top.mean()), top_95=top_95, avg_mean=float(avg.mean()), avg_95=avg_95)


def _tail(confidence: float) -> float:
    return float((1 - exact_level(confidence, "confidence", "0.95")) / 2)


def _summed_rows(n_evaluation: int) -> int:
    return whole_number(n_evaluation, "n_evaluation", 1, _MOST_SUMMED, "Try n_evaluation=1000.")
