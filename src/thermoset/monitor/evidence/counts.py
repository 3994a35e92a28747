"""Evidence that needs only counts: rows and hits of each class or group, and their combined evidence."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, logsumexp

from thermoset.arrays import Floats
from thermoset.errors import InputError
from thermoset.metrics.counts import check_counts
from thermoset.monitor.evidence.coverage import lower_odds

__all__ = ["closed", "fixed_evidence", "joint_evidence", "part_evidence"]

_LARGEST = 600.0  # as a logarithm; sums of a million such values are still floats


def part_evidence(hits: ArrayLike, rows: ArrayLike, rank: ArrayLike, pool: ArrayLike) -> Floats:
    """Evidence of too few hits in each part, as logarithms, against the law Beta-Binomial(rank, pool + 1 - rank).

    Arrays broadcast. A part without a finite threshold (rank above pool) has evidence 0, as has one without rows.

    >>> kept, broken = part_evidence([90, 70], [100, 100], rank=901, pool=1000)
    >>> bool(kept < 0), bool(broken > np.log(1000))
    (True, True)
    """
    return _average(_each_bet(hits, rows, rank, pool))


def joint_evidence(hits: ArrayLike, rows: ArrayLike, rank: ArrayLike, pool: ArrayLike) -> float:
    """Evidence of too few hits in all parts together, as a logarithm, where each follows the law of `part_evidence`.

    Given which part each row comes from, the laws are independent, and evidence of the same bet multiplies. So it sees
    a loss that is too small to be seen in any one part.

    >>> each = part_evidence([85] * 50, [100] * 50, rank=901, pool=1000)
    >>> bool(each.max() < 3), joint_evidence([85] * 50, [100] * 50, rank=901, pool=1000) > 20
    (True, True)
    """
    return float(_average(_each_bet(hits, rows, rank, pool).sum(axis=0)))


def _each_bet(hits: ArrayLike, rows: ArrayLike, rank: ArrayLike, pool: ArrayLike) -> Floats:
    """Evidence of each bet in each part, as logarithms; bets are the last axis."""
    h, m = _counts(hits, rows)
    k, n = (np.asarray(part, dtype=np.float64)[..., None] for part in (rank, pool))
    if np.any(k < 1) or np.any(n < 0):
        raise InputError("rank must be at least 1, and pool at least 0, for every part.")
    finite = k <= n
    a = np.where(finite, k, 1.0)
    b = np.where(finite, n + 1 - k, 1.0)
    each = _log_rising(a * lower_odds(a[..., 0] / (a + b)[..., 0]), b, h, m) - _log_rising(a, b, h, m)
    found: Floats = np.where(finite, each, 0.0)
    return found


def fixed_evidence(hits: ArrayLike, rows: ArrayLike, level: ArrayLike) -> Floats:
    """Evidence of too few hits in each part, as logarithms, where every row is a hit with probability `level` or more.

    >>> kept, broken = fixed_evidence([90, 70], [100, 100], level=0.9)
    >>> bool(kept < 0), bool(broken > np.log(1000))
    (True, True)
    """
    h, m = _counts(hits, rows)
    p = np.asarray(level, dtype=np.float64)[..., None]
    if not np.all((p > 0) & (p < 1)):
        raise InputError("level must be between 0 and 1, exclusive, for every part. Try 0.9.")
    odds = lower_odds(p[..., 0])
    # With odds r p / (1 - p): a hit is r / (1 - p + r p) times as likely, and a miss 1 / (1 - p + r p) times.
    return _average(h * np.log(odds) - m * np.log1p(p * (odds - 1)))


def closed(log_e: ArrayLike) -> Floats:
    """Evidence of each part, as logarithms, adjusted for the number of parts: closed testing with averages.

    >>> closed(np.log([1.0, 40.0, 100.0])).round(3).tolist() == np.log([1.0, 20.5, 47.0]).round(3).tolist()
    True
    """
    given = np.asarray(log_e, dtype=np.float64)
    if not given.size:
        return given
    # Rounding down keeps evidence valid.
    values = np.exp(np.minimum(given, _LARGEST))
    rising = np.sort(values)
    below = np.concatenate([[0.0], np.cumsum(rising)])
    # The next value lowers the average of a set while it is below it: (j + 1) e_(j) - sum of the first j < e_i.
    reach = np.arange(1, len(rising) + 1) * rising - below[:-1]
    joined = np.minimum(np.searchsorted(reach, values), np.searchsorted(rising, values))
    with np.errstate(divide="ignore"):
        found: Floats = np.minimum(np.log((values + below[joined]) / (joined + 1)), given)
    return found


def _counts(hits: ArrayLike, rows: ArrayLike) -> tuple[Floats, Floats]:
    """Hits and rows with a new last axis, for the bets."""
    h, m = check_counts(hits, rows, names=("hits", "rows"))
    return h[..., None].astype(np.float64), m[..., None].astype(np.float64)


def _log_rising(a: Floats, b: Floats, hits: Floats, rows: Floats) -> Floats:
    """Logarithm of B(a + hits, b + misses) / B(a, b), but for what does not depend on a."""
    found: Floats = gammaln(a + hits) - gammaln(a) - gammaln(a + b + rows) + gammaln(a + b)
    return found


def _average(log_each: Floats) -> Floats:
    """Of all bets, the last axis."""
    found: Floats = logsumexp(log_each, axis=-1) - np.log(log_each.shape[-1])
    return found
