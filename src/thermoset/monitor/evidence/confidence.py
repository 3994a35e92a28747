"""Intervals of the coverage that hold at all times; and since when coverage has changed."""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import xlogy

from thermoset.arrays import Floats, Ints
from thermoset.errors import InputError
from thermoset.metrics import Interval, Intervals
from thermoset.metrics.counts import check_counts
from thermoset.monitor.evidence.sequential import checked_delta

__all__ = ["Change", "change_point", "confidence_sequence", "coverage_since", "mean_evidence"]

_SLOPES = 4.0 * 2.0 ** -np.arange(14.0)
_SLOPES = np.concatenate([_SLOPES, -_SLOPES])
_HALVINGS = 60


def confidence_sequence(hits: ArrayLike, rows: ArrayLike, delta: float) -> Intervals:
    """Intervals that contain the mean coverage of the rows so far, at all times at once, with probability 1 - delta.

    They are valid however coverage drifts. Arrays broadcast; without rows the interval is [0, 1].

    >>> found = confidence_sequence([90, 9000], [100, 10000], delta=0.05)
    >>> bool(np.all((found.low < 0.9) & (0.9 < found.high)))
    True
    >>> bool((found.high - found.low)[1] < 0.03)
    True
    """
    h, m = np.broadcast_arrays(*check_counts(hits, rows, names=("hits", "rows")))
    centre: Floats = np.divide(h, m, out=np.full(h.shape, 0.5), where=m > 0)
    bar = -np.log(checked_delta(delta))

    def end(edge: float) -> Floats:
        inside, outside = centre.copy(), np.full(centre.shape, edge)
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            kept = mean_evidence(h, m, middle) < bar
            inside, outside = np.where(kept, middle, inside), np.where(kept, outside, middle)
        # The edge itself may be inside, and the outer side of the last step is.
        return np.where(mean_evidence(h, m, np.full(centre.shape, edge)) < bar, edge, outside)

    return Intervals(end(0.0), end(1.0))


def mean_evidence(hits: ArrayLike, rows: ArrayLike, mean: ArrayLike) -> Floats:
    """Evidence that the mean coverage of the rows so far was not `mean`, as a logarithm.

    The mean over slopes l of exp(l hits - rows log(1 - mean + mean e^l)).

    >>> float(mean_evidence(0, 0, 0.9))
    0.0
    """
    h, m, q = (np.asarray(part, dtype=np.float64)[..., None] for part in (hits, rows, mean))
    each = _SLOPES * h - m * np.log1p(q * np.expm1(_SLOPES))
    largest = each.max(axis=-1)
    found: Floats = largest + np.log(np.mean(np.exp(each - largest[..., None]), axis=-1))
    return found


class Change(NamedTuple):
    """Where coverage changed: the first batch after the change, and the coverage before it and from it on."""

    batch: int
    before: float
    after: float


def change_point(rows: ArrayLike, hits: ArrayLike, *, direction: Literal["lower", "higher"] = "lower") -> Change | None:
    """The most likely batch from which coverage was lower (or higher); None if there is none.

    >>> change_point([100, 100, 100, 100], [90, 91, 80, 79])
    Change(batch=2, before=0.905, after=0.795)
    """
    h, m = check_counts(hits, rows, names=("hits", "rows"))
    if h.ndim != 1 or h.shape != m.shape:
        raise InputError(f"rows and hits must be one number per batch; got shapes {m.shape} and {h.shape}.")
    m0, h0 = np.cumsum(m)[:-1], np.cumsum(h)[:-1]
    m1, h1 = m.sum() - m0, h.sum() - h0
    with np.errstate(invalid="ignore", divide="ignore"):
        before, after = h0 / m0, h1 / m1
        possible = (after < before) if direction == "lower" else (after > before)
    if not possible.any():
        return None
    gain = np.where(possible, _log_likelihood(h0, m0) + _log_likelihood(h1, m1), -np.inf)
    at = int(gain.argmax())
    return Change(at + 1, float(before[at]), float(after[at]))


def _log_likelihood(hits: Ints, rows: Ints) -> Floats:
    share = np.divide(hits, rows, out=np.zeros(hits.shape), where=rows > 0)
    return np.asarray(xlogy(hits, share) + xlogy(rows - hits, 1 - share), dtype=np.float64)


def coverage_since(rows: ArrayLike, hits: ArrayLike, batch: int, delta: float) -> Interval:
    """Interval of the mean coverage from a batch on, whichever batch was chosen, at all times at once.

    The interval of batch b, counted from 0, has the level delta / ((b + 1)(b + 2)), and these sum to delta.

    >>> low, high = coverage_since([100, 1000, 1000], [90, 800, 805], batch=1, delta=0.05)
    >>> low < 0.8025 < high < 0.9
    True
    """
    m, h = np.asarray(rows)[batch:].sum(), np.asarray(hits)[batch:].sum()
    found = confidence_sequence(h, m, delta / ((batch + 1) * (batch + 2)))
    return Interval(float(found.low), float(found.high))
