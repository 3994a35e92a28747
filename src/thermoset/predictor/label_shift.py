"""Label shift in a predictor's file: class shares before and after, and the thresholds that follow from them.

With r = target share / source share, a conformal row of class y weighs r(y), and so does label y of a row to be
predicted (Podkopaev and Ramdas 2021): q_y is the smallest score with
sum_{s_i <= q_y} r(y_i) >= (1 - alpha)(sum_i r(y_i) + r(y)).
"""

import math
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from thermoset.arrays import Floats, Ints, Pairs
from thermoset.bounds import MOST_HELD
from thermoset.conformal.calibration_scores import Pools, Weights
from thermoset.levels import Alpha

__all__ = [
    "LabelShift",
    "broken_shift",
    "ratios_of",
    "share_ends",
    "shares_of",
    "shifted_thresholds",
]

_ABSENT = 0.5  # rows that a class without rows counts as
_LEAST_SHARE = 1e-10  # half a row of as many as there can be
_NORMAL = 1.959963984540054  # of a 95% interval
_NEAR = 1e-6  # of 1: what shares may add up to


class LabelShift(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """For which class shares a predictor's conformal rows are weighted.

    `source` are the class shares of the conformal rows, `target` those of the rows to be predicted: given, or estimated
    from `target_rows` rows with these standard errors (`error`). `effective_rows` is how many conformal rows of equal
    weight say as much as the weighted ones.
    """

    source: tuple[float, ...]
    target: tuple[float, ...]
    effective_rows: float
    target_rows: int | None = None
    error: tuple[float, ...] | None = None

    @property
    def estimated(self) -> bool:
        """Whether the target shares were estimated."""
        return self.target_rows is not None

    @property
    def ends(self) -> tuple[Floats, Floats] | None:
        """Lower and upper ends of the 95% intervals of the target shares, (C,), where their errors are known."""
        if self.error is None or self.target_rows is None:
            return None
        return share_ends(np.array(self.target), np.array(self.error), self.target_rows)


def share_ends(shares: Floats, error: Floats, n_rows: int) -> tuple[Floats, Floats]:
    """95% intervals of estimated shares: Wilson's for as many rows as have these standard errors.

    A plain share +- 1.96 errors would miss shares of few rows too often: their errors are too small where they are.

    >>> low, high = share_ends(np.array([0.0, 0.5]), np.array([0.01, 0.05]), 100)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.0, 0.404], [0.037, 0.596])
    """
    spread = shares * (1 - shares) + 1 / n_rows
    rows = np.minimum(spread / error**2, n_rows)
    room = _NORMAL**2 / rows
    middle = (shares + room / 2) / (1 + room)
    reach = np.sqrt(shares * (1 - shares) * room + (room / 2) ** 2) / (1 + room)
    return np.maximum(middle - reach, 0.0), np.minimum(middle + reach, 1.0)


def shares_of(counts: Ints) -> Floats:
    """Class shares from counts of rows; a class without rows counts as half a row.

    >>> shares_of(np.array([3, 1, 0])).round(3).tolist()
    [0.667, 0.222, 0.111]
    """
    rows = np.where(counts > 0, counts, _ABSENT)
    shares: Floats = rows / rows.sum()
    return shares


def ratios_of(shift: LabelShift) -> Floats:
    """Target share / source share of each class, (C,); ones where all are equal, to the last bit.

    >>> ratios_of(LabelShift(source=(0.5, 0.5), target=(0.2, 0.8), effective_rows=1.0)).tolist()
    [0.4, 1.6]
    """
    ratio: Floats = np.array(shift.target) / np.array(shift.source)
    return np.ones_like(ratio) if np.all(ratio == ratio[0]) else ratio


def shifted_thresholds(scores: Pairs, labels: Ints, shift: LabelShift, alpha: Alpha) -> Pairs:
    """The threshold of each class, (C,), from scores of rows with these labels.

    A class without conformal rows has the threshold +inf, unless the shares are those of the conformal rows: nobody
    knows by how much its share has changed.
    """
    ratio = ratios_of(shift)
    weights = Weights.of(ratio[labels])
    found = Pools.of(scores, np.zeros_like(labels), 1, weights.steps).thresholds(0, weights.rounded(ratio), alpha)
    if np.any(ratio != 1.0):
        found[np.bincount(labels, minlength=len(ratio)) == 0] = complex(np.inf, np.inf)
    return found


def broken_shift(shift: LabelShift, n_classes: int, n_rows: int) -> Iterator[tuple[str, bool]]:
    """What a shift must be, and whether it is not."""
    yield "source must be shares, one per class", not _are_shares(shift.source, n_classes, _LEAST_SHARE)
    yield "target must be shares, one per class", not _are_shares(shift.target, n_classes, 0.0)
    yield "effective_rows must be from 0 to the conformal rows", not 0 < shift.effective_rows <= n_rows * (1 + 1e-9)
    rows, error = shift.target_rows, shift.error
    yield f"target_rows must be from 1 to {MOST_HELD:,}", rows is not None and not 1 <= rows <= MOST_HELD
    yield "error must be that of estimated shares", error is not None and not shift.estimated
    if error is not None:
        outside = len(error) != n_classes or not all(0 < one <= 1 for one in error)
        yield "error must be above 0 and at most 1, one per class", outside


def _are_shares(shares: Sequence[float], n_classes: int, least: float) -> bool:
    within = len(shares) == n_classes and all(least <= share <= 1 for share in shares)
    return within and abs(math.fsum(shares) - 1) <= _NEAR
